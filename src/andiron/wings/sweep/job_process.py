"""The process of one job of a sweep: forked from a clean process, and ended with the sweep.

The clean process (multiprocessing's fork server) has imported torch, started no thread and not
touched a GPU. A job leads a session of its own, so that Ctrl-C reaches it once, through the sweep.
"""

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from andiron.shell.cli.signals import STOPPING
from andiron.wings.sweep import shares

PRELOADED = ["__main__", "andiron.wings.sweep.clean_process"]
OVERRIDES = ("hydra/launcher", "hydra.launcher.jobs")  # of the launcher, of the number of jobs
JOBS = re.compile(r"jobs=(\d{1,6})")
SECONDS_TO_SAVE = 60  # for a job, once its sweep was killed
_clean_process_variables: dict[str, str | None] = {}  # set once it has started
Work = Callable[[Any, Callable[[object], None]], int]  # request, reply -> exit code


class JobProcess:
    """A process that runs `work(request, reply)`; `replies` are the facts that it has sent.

    The file `output` receives its stdout and stderr.
    """

    def __init__(self, work: Work, request: object, output: Path, environment: Mapping[str, str]):
        context = multiprocessing.get_context("forkserver")
        self._receiver, sender = context.Pipe(duplex=False)
        arguments = (work, request, output, environment, sender)
        self._process = context.Process(target=_run_work, args=arguments)
        with _from_clean_process():
            self._process.start()
        sender.close()
        self.replies: dict[str, Any] = {}
        self.pid = self._process.pid or 0  # never 0 once it has started
        self.sentinel: int = self._process.sentinel

    def poll(self) -> int | None:
        """Adds new messages to `replies`; returns the exit code, or None while the process runs.

        The code is negative if a signal killed the process.
        """
        code: int | None = self._process.exitcode
        with suppress(EOFError, OSError):
            while self._receiver.poll():
                self.replies |= self._receiver.recv()
        if code is not None:
            self._receiver.close()
            self._process.close()
        return code

    def send(self, number: int) -> bool:
        """Sends a signal; False if the process is gone. Signal 0 only checks."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def kill(self) -> None:
        """Kills the process and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.send(signal.SIGKILL)


def start_clean_process(threads: str | None) -> str | None:
    """Starts the process that jobs are forked from, which imports while this one continues.

    Returns the threads of its jobs, for `OMP_NUM_THREADS`; None leaves the number to torch. If the
    process is already running, its first `threads` apply.
    """
    _clean_process_variables.setdefault(shares.THREADS, threads)
    forkserver.set_forkserver_preload(PRELOADED)
    with _from_clean_process():
        forkserver.ensure_running()
    return _clean_process_variables[shares.THREADS]


def start_early(arguments: list[str]) -> None:
    """Starts the clean process, while Hydra is imported and composes, if the command needs it.

    Its number of threads has to be clear from the arguments.
    """
    jobs = [match for argument in arguments if (match := JOBS.fullmatch(argument))]
    is_known = shares.THREADS in os.environ or len(jobs) == 1
    is_overridden = any(text in argument for argument in arguments for text in OVERRIDES)
    if is_known and not is_overridden:
        side_by_side = max(1, int(jobs[0][1])) if jobs else 1
        start_clean_process(shares.threads(side_by_side, os.environ))


@contextmanager
def _from_clean_process() -> Iterator[None]:
    """Within it, the clean process starts with this process's `sys.path` and blocks signals.

    Signals are for the sweep and its jobs: the clean process must survive to report how jobs end.
    """
    resource_tracker.ensure_running()  # starting it later would unblock the signals here
    before, old_mask = dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    own = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_clean_process_variables}
    try:
        os.environ.update((name, value) for name, value in own.items() if value is not None)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def _run_work(
    work: Work, request: object, output: Path, environment: Mapping[str, str], sender: Connection
) -> None:
    """Runs in the job's process: redirects output to its file, and ends with the sweep."""

    def reply(message: object) -> None:  # of any thread
        with sending, suppress(OSError):  # the sweep was killed
            sender.send(message)

    sending = threading.RLock()

    os.setsid()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("ab") as file:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
    except OSError as error:
        reply({"reason": f"{output} cannot be written ({error.strerror})"})
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_with_sweep, name="sweep", daemon=True).start()
    sys.exit(work(request, reply))


def _end_with_sweep() -> None:
    """Once the sweep is gone, interrupts the job, which saves its state."""
    sweep = multiprocessing.parent_process()
    if sweep is not None:
        sweep.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS_TO_SAVE)
        os.killpg(0, signal.SIGKILL)
