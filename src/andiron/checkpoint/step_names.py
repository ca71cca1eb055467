"""The names of checkpoints: step-<updates>, and step-<updates>.2, .3 ... for further ones at the same number of updates."""

import re

_STEP = re.compile(r"step-(0|[1-9][0-9]*)(?:\.([2-9]|[1-9][0-9]+))?")

Place = tuple[
    int, int
]  # updates, and the how-manieth at that number of them: the greater, the newer


def name_of(updates: int, number: int = 1) -> str:
    """The name of the checkpoint with that number among those made after so many updates, counted from 1."""
    return f"step-{updates}" if number == 1 else f"step-{updates}.{number}"


def place_of(name: str) -> Place | None:
    """Updates and number, if it is a checkpoint's name."""
    match = _STEP.fullmatch(name)
    return (int(match[1]), int(match[2] or 1)) if match else None
