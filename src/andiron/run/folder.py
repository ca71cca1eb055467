"""A run's folder: claimed by one run alone, with a status and a log that tell the truth however the run ends."""

import fnmatch
import json
import logging
import os
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from andiron import errors, files
from andiron.run.log_file import LogFile, is_held

STATUS, LOG = "status.json", "experiment.log"
OWN_FILES = (STATUS, "config.json", "provenance.json", "dirty.patch", "data.json", "param_groups.json", "metrics.jsonl",
             LOG, "model.safetensors", "summary.json")  # fmt: skip
SEVERAL = (
    "model-*.safetensors",
    "dirty-*.patch",
)  # of averages; of the times it was taken up again
OWN_FOLDERS = (".hydra", "tensorboard", "checkpoints", "nonfinite")
log = logging.getLogger("andiron")


@contextmanager
def claimed(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """`path`, this run's alone, with `status.json` and `experiment.log` kept; `path` itself may exist.

    The status is `running` meanwhile; then `done`, `interrupted` or `failed` with the reason. After a ConfigError the
    folder is as it was found.
    Raises: RunFolderError if the folder cannot be written, or holds a run and `overwrite` does not allow removing it.
    """
    started = _now()
    _claim(path, {"status": "running", "pid": os.getpid(), "started": started}, overwrite=overwrite)
    try:
        with _logged(path / LOG), _told(path, started):
            yield path
    except (
        errors.ConfigError
    ):  # found while building: nothing was trained, so there is no run to keep a record of
        _remove_run(path)
        if not any(path.iterdir()):
            path.rmdir()
        raise


@contextmanager
def resumed(path: Path) -> Iterator[Callable[[], None]]:
    """The folder of a run that goes on in it, with its status and its log kept as `claimed` keeps them.

    What comes is to be called when the run goes on indeed: after an error before that, the status is as it was found.
    Raises: RunFolderError if the folder cannot be written, or another process is at the run.
    """
    begun: list[bool] = []
    started = _now()
    before = (path / STATUS).read_bytes() if (path / STATUS).is_file() else None
    with _logged(path / LOG):
        try:
            _remove_partials(path)
            _set_status(path, "running", None, started)
            with _told(path, started):
                yield lambda: begun.append(True)
        except BaseException:
            if before is not None and not begun:
                with suppress(
                    OSError
                ):  # of a full disk, which the error that comes through tells of
                    files.write(path / STATUS, before)
            raise


def contents(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the files that are there."""
    return {name: (path / name).read_bytes() for name in names if (path / name).is_file()}


@contextmanager
def put_back(
    path: Path, before: Mapping[str, bytes], *, unless: Callable[[], bool]
) -> Iterator[None]:
    """After an error within, the files are as they were, so that the run can go on as before; unless it has gone on since."""
    try:
        yield
    except Exception:
        if not unless():
            with suppress(OSError):  # of a full disk, which the error that comes through tells of
                for name, content in before.items():
                    files.write(path / name, content)
        raise


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Tells what of a run's folder could not be written within, and how to go on.

    Raises: RunFolderError in place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise errors.RunFolderError(
            f"{error.filename or path} could not be written ({error.strerror or error}); free space there, or make it writable: "
            f"resume={path} then goes on from the newest checkpoint"
        ) from error


def status(path: Path) -> dict[str, Any]:
    """What a run's folder says of how it went; empty if it does not say."""
    try:
        found = files.read_json(path / STATUS)
    except (OSError, ValueError, RecursionError):  # no run, or one that was cut off
        return {}
    return found if isinstance(found, dict) else {}


def holds_run(path: Path) -> bool:
    """Whether the folder holds a run, however it went."""
    return (path / STATUS).exists() or (path / "config.json").exists()


def left_at_once(path: Path, reason: str) -> None:
    """The last words of a run whose process ends without another step."""
    _set_status(path, "interrupted", reason, status(path).get("started", _now()))


def write_all(path: Path, contents: dict[str, str]) -> None:
    """Text files in a folder of their own, each whole or not at all."""
    path.mkdir(exist_ok=True)
    for name, content in contents.items():
        files.write(path / name, content.encode())


@contextmanager
def _told(path: Path, started: str) -> Iterator[None]:
    """Has the folder tell how what is within ends."""
    try:
        yield
    except BaseException as error:
        _set_status(path, _verdict(error), _reason(error), started)
        log.error("%s: %s", _verdict(error), _reason(error))
        log.debug("%s", "".join(traceback.format_exception(error)))
        raise
    _set_status(path, "done", None, started)


def _claim(path: Path, status: dict[str, Any], *, overwrite: bool) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if overwrite:
            _refuse_if_running(path)
            _remove_run(path)
        with (path / STATUS).open(
            "x", encoding="utf-8"
        ) as file:  # "x": of two runs that try, one gets it
            json.dump(status, file, indent=2)
    except FileExistsError as error:
        raise errors.RunFolderError(
            f"{path} already holds a run; go on with it by resume={path}, choose another hydra.run.dir, or say overwrite=true "
            "to remove what that run wrote"
        ) from error
    except OSError as error:
        raise errors.RunFolderError(
            f"{path} cannot be written ({error.strerror}); choose another place with hydra.run.dir=..."
        ) from error


def _refuse_if_running(path: Path) -> None:
    pid = status(path).get("pid")
    if pid != os.getpid() and is_held(
        path / LOG
    ):  # the number of a process may be another's by now, its lock is not
        raise errors.RunFolderError(
            f"{path} holds a run that process {pid} is still at; end it first, or choose another hydra.run.dir"
        )


def _remove_run(path: Path) -> None:
    """Removes what a run writes, by name, and nothing else that may lie there."""
    for name in OWN_FOLDERS:
        shutil.rmtree(path / name, ignore_errors=True)
    for name in (*OWN_FILES, *(found.name for pattern in SEVERAL for found in path.glob(pattern))):
        (path / name).unlink(missing_ok=True)


def _remove_partials(path: Path) -> None:
    """Removes what a killed process had half written of the run's own files."""
    for partial, name in files.partials(path).items():
        if name in OWN_FILES or any(fnmatch.fnmatch(name, pattern) for pattern in SEVERAL):
            files.remove_partial(partial, [])


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Everything said to the logger `andiron` goes to the file at `path` as well, which no other process has meanwhile."""
    handler = LogFile(path)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def _verdict(error: BaseException) -> str:
    return "failed" if isinstance(error, Exception) else "interrupted"


def _reason(error: BaseException) -> str:
    if isinstance(error, errors.AndironError | errors.Interrupted):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _set_status(path: Path, status: str, reason: str | None, started: str) -> None:
    told = {"status": status, "reason": reason, "pid": os.getpid(), "started": started}
    try:
        files.write_json(path / STATUS, told if status == "running" else {**told, "ended": _now()})
    except OSError as error:  # a full disk must not hide how the run ended
        log.warning(
            "%s could not be written (%s): %s, %s", path / STATUS, error.strerror, status, reason
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
