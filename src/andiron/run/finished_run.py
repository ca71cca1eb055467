"""A finished run: whether its results are whole, and why nothing is left to do."""

import logging
from fnmatch import fnmatch

from andiron.config.options import LearnerOptions
from andiron.disk import files
from andiron.plain.states import State
from andiron.run import run_record, status
from andiron.run_folder import RunFolder

RULES = "early_stopping"

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


def has_more_to_do(folder: RunFolder, before: LearnerOptions, now: LearnerOptions) -> bool:
    """Whether a whole run can train on if its options `before` are changed to `now`.

    A run that stopped early can if the rules have changed; only the learner knows whether it does.
    """
    if length(before)[0] != length(now)[0]:
        return True
    completed, planned = _completed(folder, before), length(now)[1]
    stopped_early = completed < length(before)[1]
    has_same_rules = getattr(before, RULES, None) == getattr(now, RULES, None)
    return completed != planned and not (stopped_early and has_same_rules)


def length(options: LearnerOptions) -> tuple[str, int]:
    """The unit and the number of a run's length."""
    unit = "epochs" if options.num_updates is None else "updates"
    return unit, getattr(options, f"num_{unit}")


def log_end(folder: RunFolder, options: LearnerOptions) -> None:
    """Logs why nothing is left to do, and how to train on."""
    log.info("%s is done, %s", folder.path, _described_end(folder, options))


def _described_end(folder: RunFolder, options: LearnerOptions) -> str:
    if note := status.read(folder).get("reason"):
        return f"{note}; resume={folder.path} trains on"
    unit, planned = length(options)
    completed = _completed(folder, options)
    if completed != planned:
        return (
            f"stopped early after {completed} of {planned} {unit}; change early_stopping to train "
            "on"
        )
    return f"all {planned} {unit}: nothing is left to do; num_{unit}=... trains it for longer"


def _completed(folder: RunFolder, options: LearnerOptions) -> int:
    """The epochs or updates that a done run has completed."""
    unit, planned = length(options)
    try:
        return int(files.read_json(folder.summary)[unit])
    except (OSError, ValueError, TypeError, KeyError):  # removed, or damaged
        return planned
