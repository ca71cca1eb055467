"""A finished run: whether its results are whole, and why nothing is left to do."""

import logging
from fnmatch import fnmatch
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.options import LearnerOptions
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.config import quoting
from andiron.shell.config.leaves import Differences
from andiron.shell.config.schema import Train
from andiron.shell.run import run_record, status

# can lengthen a finished run
LENGTHENING = ("num_epochs", "num_updates", "max_time", "early_stopping")
log = logging.getLogger("andiron.resume")  # also printed by a run from Python


def is_whole(folder: RunFolder) -> bool:
    """Whether the run is done, with its results; lost results are logged."""
    if status.read(folder).get("status") != State.DONE:
        return False
    lost = [
        name
        for name in run_record.changed(folder)
        if name == folder.summary.name or fnmatch(name, "model*.safetensors")
    ]
    if lost:
        log.warning(
            "%s: missing or changed since the run ended: %s; written again from its newest "
            "checkpoint",
            folder.path,
            ", ".join(lost),
        )
    return not lost


def plain(folder: RunFolder) -> dict[str, Any]:
    """The status and the results of a run, as the answer to a program.

    Raises: DataError for a summary that cannot be read.
    """
    try:
        summary = files.read_json(folder.summary) if folder.summary.is_file() else None
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{folder.summary}: {files.reason(error)}; restore it") from error
    return {"run": str(folder.path), "status": None, **status.read(folder), "summary": summary}


def may_train(folder: RunFolder, before: Train, now: Train, changes: Differences) -> bool:
    """Whether a whole run may train on with these changes of its options.

    A run that stopped early may if the rules have changed; only the learner knows whether it does.
    """
    if status.read(folder).get("reason") is not None:  # it ended before its length was reached
        return now.resume != "auto" or any(path[0] in LENGTHENING for path in changes)
    (unit, before_planned), (new_unit, planned) = map(_length, (before, now))
    completed = _completed(folder, unit, before_planned)
    is_stopped = completed < before_planned and before.early_stopping == now.early_stopping
    return unit != new_unit or (completed != planned and not is_stopped)


def _length(options: LearnerOptions) -> tuple[str, int]:
    """The unit and the number of a run's length."""
    if options.num_updates is not None:
        return "updates", options.num_updates
    return "epochs", options.num_epochs or 0


def log_end(folder: RunFolder, options: LearnerOptions) -> None:
    """Logs why nothing is left to do, and how to train on."""
    unit, planned = _length(options)
    completed = _completed(folder, unit, planned)
    done = f"all {completed} {unit}" if completed == planned else f"{completed} {unit}"
    end = f"{done}: nothing is left to do; num_{unit}=... trains it for longer"
    if note := status.read(folder).get("reason"):
        end = f"{note}; {quoting.typed('resume', folder.path)} trains on"
    elif completed < planned:
        stopped = f"stopped early after {completed} of {planned} {unit}"
        end = f"{stopped}; change early_stopping to train on"
    log.info("%s is done, %s", folder.path, end)


def _completed(folder: RunFolder, unit: str, planned: int) -> int:
    """The epochs or updates that a done run has completed."""
    try:
        return int(files.read_json(folder.summary)[unit])
    except (OSError, ValueError, TypeError, KeyError):  # removed, or damaged
        return planned
