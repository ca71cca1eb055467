"""The plain values of a learner's state: what each may be, and older formats brought to this one.
"""

from typing import Any

from andiron import errors
from andiron.checkpoint import contents
from andiron.checkpoint.checkpointer import KEPT_WITH_IT
from andiron.learner import plain_checks
from andiron.learner.plain_checks import (
    COUNT, FLAG, LAST, LAST_UPDATE, MEASURED, NUMBER, PLAIN, RANDOM, SCALE, SECONDS, SEED, TEXT,
    Each, optional,
)  # fmt: skip

FORMAT = 2  # 1: before states had named parts
TEXTS = Each(TEXT, list)
VALUES = Each(Each(MEASURED, dict), dict)  # by split and metric
STANDING = {"best": MEASURED, "epoch_of_best": COUNT, "last": MEASURED, "last_epoch": COUNT}
OBSERVED = {
    "of": TEXTS, "best": optional(NUMBER), "epoch_of_best": COUNT, "update_of_best": COUNT,
    "is_best": FLAG, "value_at_gain": optional(NUMBER), "since_gain": COUNT, "last": LAST,
    "last_update": COUNT,
}  # fmt: skip
STEP = {
    "update": COUNT, "epoch": COUNT, "first_batch": COUNT, "num_batches": COUNT,
    "samples": optional(PLAIN),
    "gradients": {"loss": optional(TEXT), "norms": Each(TEXT, dict), "sha256": TEXT},
}  # fmt: skip
STATE = {
    "format": COUNT,
    "seed": SEED,
    "updates": COUNT,
    "epoch": COUNT,
    "batch": COUNT,
    "owners": Each({"optimizer": optional(TEXT), "parameters": TEXTS}, dict),
    "frozen": TEXTS,
    "?stateless": TEXTS,
    "schedules": Each(PLAIN, list),
    "early_stopping": Each(OBSERVED, dict),
    "averages": Each(COUNT, dict),
    "random": RANDOM,
    "metric_log": {
        "tally": {
            "metrics": TEXTS,
            "window": Each(PLAIN, list),
            "epoch": Each(optional(PLAIN), list),
        },
        "window": [COUNT, COUNT],
        "seconds": SECONDS,
        "history": Each(Each(STANDING, dict), dict),
        "latest": VALUES,
        "writers": PLAIN,
    },
    "parts": {
        "?nonfinite": {"skipped": COUNT, "precision": {"scale": SCALE, "updates_since": COUNT}},
        "?validation": {"last_update": LAST_UPDATE},
    },
    f"?{KEPT_WITH_IT}": Each({"name": TEXT, "updates": COUNT, "values": VALUES}, list),
    "?step": STEP,
}  # fmt: skip


def checked(state: Any, file: str = contents.STATE) -> dict[str, Any]:
    """A state in the present format, its values of the types and in the ranges that a run gives.

    Raises: DataError naming the file, the key, the value and what is allowed.
    """
    found = _upgraded(state, file)
    plain_checks.check(STATE, found, file)
    parts = found["parts"]
    made = found["updates"] + parts.get("nonfinite", {}).get("skipped", 0)
    if found["epoch"] > made:
        allowed = f"at most {made}, the updates that were made or left out"
        raise plain_checks.wrong(file, "epoch", found["epoch"], allowed)
    last = parts.get("validation", {}).get("last_update", -1)
    if last > found["updates"]:
        allowed = f"at most {found['updates']}, the completed updates"
        raise plain_checks.wrong(file, "parts.validation.last_update", last, allowed)
    return found


def _upgraded(state: Any, file: str) -> dict[str, Any]:
    """A state in the present format; format 1 counted epochs and had other names."""
    if not isinstance(state, dict):
        raise plain_checks.wrong(file, "", state, "an object")
    if state.get("format") == FORMAT:
        return state
    if state.get("format", 1) != 1:
        raise plain_checks.wrong(file, "format", state["format"], f"1 or {FORMAT}")
    try:
        validated = state["updates"] if state["batch"] == 0 else -1
        return {
            **{key: state[key] for key in STATE.keys() & state.keys()},
            "format": FORMAT,
            "metric_log": state["journal"],
            "early_stopping": {name: _rule(rule) for name, rule in state["stopping"].items()},
            "parts": {"nonfinite": state["guard"], "validation": {"last_update": validated}},
        }
    except (LookupError, TypeError, AttributeError) as error:
        raise errors.DataError(f"{file}: no state of a learner ({error!r})") from error


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    """The state of an early stopping rule that counted epochs."""
    return {
        **{key: rule[key] for key in OBSERVED.keys() & rule.keys()},
        "update_of_best": 0,
        "is_best": 0 < rule["last_epoch"] == rule["epoch_of_best"],
        "since_gain": rule["last_epoch"] - rule["epoch_of_gain"],
        "last_update": 0,
    }
