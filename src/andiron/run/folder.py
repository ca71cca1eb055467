"""A run's folder: claimed by one run alone, with a status and a log that tell the truth however the run ends."""

import json
import logging
import os
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from andiron import errors, files

STATUS = "status.json"
OWN_FILES = (STATUS, "config.json", "provenance.json", "dirty.patch", "data.json", "param_groups.json", "metrics.jsonl",
             "experiment.log", "model.safetensors", "summary.json")  # fmt: skip
AVERAGES = "model-*.safetensors"
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
        with _logged(path / "experiment.log"):
            try:
                yield path
            except BaseException as error:
                _set_status(path, _verdict(error), _reason(error), started)
                log.error("%s: %s", _verdict(error), _reason(error))
                log.debug("%s", "".join(traceback.format_exception(error)))
                raise
            _set_status(path, "done", None, started)
    except errors.ConfigError:  # found while building: nothing was trained, so there is no run to keep a record of
        _remove_run(path)
        if not any(path.iterdir()):
            path.rmdir()
        raise


def write_all(path: Path, contents: dict[str, str]) -> None:
    """Text files in a folder of their own."""
    path.mkdir(exist_ok=True)
    for name, content in contents.items():
        (path / name).write_text(content, encoding="utf-8")


def _claim(path: Path, status: dict[str, Any], *, overwrite: bool) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if overwrite:
            _refuse_if_running(path)
            _remove_run(path)
        with (path / STATUS).open("x", encoding="utf-8") as file:  # "x": of two runs that try, one gets it
            json.dump(status, file, indent=2)
    except FileExistsError as error:
        raise errors.RunFolderError(
            f"{path} already holds a run; choose another hydra.run.dir, or say overwrite=true to remove what that run wrote"
        ) from error
    except OSError as error:
        raise errors.RunFolderError(
            f"{path} cannot be written ({error.strerror}); choose another place with hydra.run.dir=..."
        ) from error


def _refuse_if_running(path: Path) -> None:
    try:
        status = files.read_json(path / STATUS)
        pid = status["pid"] if status["status"] == "running" else None
    except (OSError, ValueError, TypeError, KeyError):  # no run, or one that left no whole status: it is not running
        return
    if pid not in (None, os.getpid()) and _is_alive(pid):
        raise errors.RunFolderError(
            f"{path} holds a run that process {pid} is still at; end it first, choose another hydra.run.dir, "
            f"or remove its {STATUS} if that process is something else"
        )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's process
        return True
    return True


def _remove_run(path: Path) -> None:
    """Removes what a run writes, by name, and nothing else that may lie there."""
    for name in OWN_FOLDERS:
        shutil.rmtree(path / name, ignore_errors=True)
    for name in (*OWN_FILES, *(average.name for average in path.glob(AVERAGES))):
        (path / name).unlink(missing_ok=True)


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Everything said to the logger `andiron` goes to the file at `path` as well."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
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
    if isinstance(error, errors.AndironError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _set_status(path: Path, status: str, reason: str | None, started: str) -> None:
    ended = {"status": status, "reason": reason, "pid": os.getpid(), "started": started, "ended": _now()}
    files.write_json(path / STATUS, ended)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
