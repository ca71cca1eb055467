"""A finished run: whether its results are whole, and why nothing is left to do."""

import logging
from contextlib import suppress
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


def may_train(folder: RunFolder, now: Train, changes: Differences) -> bool:
    """Whether a whole run may train on with these changes of its options; the learner decides.

    A run that ended before its length was reached trains on, unless it was only requeued.
    """
    is_early = status.read(folder).get("reason") is not None and now.resume != "auto"
    return is_early or any(path[0] in LENGTHENING for path in changes)


def log_end(folder: RunFolder, options: LearnerOptions) -> None:
    """Logs why nothing is left to do, and how to train on."""
    unit, planned = "epochs", options.num_epochs or 0
    if options.num_updates is not None:
        unit, planned = "updates", options.num_updates
    completed = planned
    with suppress(OSError, ValueError, TypeError, KeyError):  # the summary was removed or damaged
        completed = int(files.read_json(folder.summary)[unit])
    done = f"all {completed} {unit}" if completed == planned else f"{completed} {unit}"
    end = f"{done}: nothing is left to do; num_{unit}=... trains it for longer"
    if note := status.read(folder).get("reason"):
        end = f"{note}; {quoting.typed('resume', folder.path)} trains on"
    elif completed < planned:
        stopped = f"stopped early after {completed} of {planned} {unit}"
        end = f"{stopped}; change early_stopping to train on"
    log.info("%s is done, %s", folder.path, end)
