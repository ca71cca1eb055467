"""Copies the checkpoints of a run to another place while it trains, in a thread.

    with mirrored("outputs/mine", "s3://bucket/mine"):
        learner.fit(train, valid)

Training never waits for it, and its failures are warnings. The newest checkpoint is uploaded first,
then others that the run keeps, such as the best.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.checkpoint import contents, directory
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record, status
from andiron_lab.mirror.remote_run import RemoteRun, without_user
from andiron_lab.mirror.run_copy import RefusedError, RunCopy

OPTION = "checkpoint.mirror"
SECONDS_BETWEEN_LOOKS = 0.5  # at the folder of checkpoints
SECONDS_TO_REFUSE = 20.0  # that the start of a run waits to learn whose the address is
SECONDS_AT_THE_END = 60.0
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds between two attempts; each is twice the last
log = logging.getLogger("andiron")


def accompanying(node: dict[str, Any], folder: RunFolder) -> AbstractContextManager[None]:
    """The mirror that the option `checkpoint` of a configured run names; see `mirrored`."""
    return mirrored(folder.path, node["mirror"], wait=node.get("mirror_wait", SECONDS_AT_THE_END))


@contextmanager
def mirrored(
    run_dir: str | Path, address: str, *, wait: float = SECONDS_AT_THE_END
) -> Iterator[None]:
    """Mirrors the checkpoints of the run in `run_dir` while the body trains it.

    At the end it waits `wait` seconds at most, and logs what is missing there.
    Raises: ConfigError for an address that cannot be opened or has credentials, or that has
    another run, or this one farther than here.
    """
    uploads = _Uploads(RunFolder(Path(run_dir)), RemoteRun(address, OPTION))
    uploads.begin()
    try:
        yield
    finally:
        uploads.end(wait)


class _Uploads:
    """The thread that uploads, and the account of it in status.json."""

    def __init__(self, folder: RunFolder, remote: RemoteRun):
        self._folder, self._remote = folder, remote
        self._copy = RunCopy(folder, remote, OPTION)
        self._error: str | None = None  # of the last attempt
        self._is_refused = False
        self._noted: object = None  # in status.json
        self._decided, self._ending = threading.Event(), threading.Event()
        self._lock = threading.Lock()  # guards status.json until the end
        self._has_ended = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="mirror")

    def begin(self) -> None:
        """Starts the thread; waits until the address is known, or known to be out of reach.

        Raises: ConfigError if the address is refused.
        """
        self._thread.start()
        if run_record.holds_run(self._folder):
            self._decided.wait(SECONDS_TO_REFUSE)
        if self._is_refused:
            raise errors.ConfigError(f"{OPTION}={self._remote}: {self._error}")

    def end(self, seconds: float) -> None:
        """Waits these seconds for the checkpoints of the run; logs which are not there."""
        self._ending.set()
        self._thread.join(seconds)
        with self._lock:
            self._has_ended = True
        if missing := [] if self._is_refused else self._copy.missing():
            log.warning(
                "%s: %s missing there (%s); the newest there is %s. The next session of the run "
                "uploads it",
                self._remote,
                ", ".join(missing),
                self._error or f"not uploaded within the {seconds:g} s of {OPTION}_wait",
                self._copy.newest or "none",
            )

    def _work(self) -> None:
        pause = SHORTEST_PAUSE
        while not (self._has_ended or self._is_refused):
            is_last = self._ending.is_set()
            if not run_record.holds_run(self._folder):  # a run from Python, before its start
                self._ending.wait(SECONDS_BETWEEN_LOOKS)
            elif self._is_updated():
                pause = SHORTEST_PAUSE
                if self._copy.missing():
                    continue
                if is_last:
                    return
                self._ending.wait(SECONDS_BETWEEN_LOOKS)
            else:
                # at the end every second, in the time that is left
                time.sleep(SHORTEST_PAUSE) if is_last else self._ending.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _is_updated(self) -> bool:
        """Brings the copy up to date; False after a failure, which is logged once."""
        try:
            self._copy.update()
        except RefusedError as error:
            self._error, self._is_refused = str(error), True
            if self._decided.is_set():  # the run has begun, and goes on
                log.error("%s: nothing more is mirrored: %s", self._remote, error)
        except Exception as error:  # a library may raise anything; training goes on
            reason = without_user(errors.reason(error))
            if self._error is None:
                message = "%s: cannot be written (%s); training continues, and it is tried again"
                log.warning(message, self._remote, reason)
            self._error = reason
        else:
            if self._error is not None:
                log.info("%s: can be written again, and is up to date", self._remote)
            self._error = None
        self._note()
        self._decided.set()
        return self._error is None

    def _note(self) -> None:
        """Writes the updates there, and how many those here are ahead, to status.json."""
        with suppress(errors.DataError):
            names = directory.names(self._folder.checkpoints)
            here, there = _updates(names[-1:]), _updates(filter(None, [self._copy.newest]))
            entry = {"updates": there, "behind": here - there, "error": self._error}
            with self._lock:
                if names and entry != self._noted and not self._has_ended:
                    known = status.read(self._folder)
                    status.write(self._folder, known | {status.MIRRORED: entry})
                    self._noted = entry


def _updates(names: Iterable[str]) -> int:
    """The updates of the last of these checkpoints; 0 for none."""
    return max((place[0] for place in map(contents.step_place, names) if place), default=0)
