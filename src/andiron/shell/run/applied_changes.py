"""The options that changed during a run, each with the updates from which its values applied.

>>> halved = {"updates": 21, "changes": {"lr": [0.2, 0.1]}}
>>> changes = values_by_update([halved, {"updates": 42, "changes": {"lr": [0.1, 0.3]}}])
>>> changes, as_text(changes["lr"])
({'lr': [(0, 0.2), (21, 0.1), (42, 0.3)]}, '0.2, from update 21 0.1, from update 42 0.3')
"""

from collections.abc import Mapping, Sequence
from typing import Any

from andiron.plain import plain_values

Values = Sequence[tuple[int, Any]]  # with the number of completed updates from which each applied


def values_by_update(resumes: object) -> Mapping[str, Values]:
    """The values of each changed option, without a schedule's copy of `lr`; as `history`."""
    changed = history(resumes)
    return {
        name: values for name, values in changed.items()
        if not name.startswith("scheduler.") or values != changed.get("lr")
    }  # fmt: skip


def history(resumes: object) -> Mapping[str, Values]:
    """The values of each option that ever changed, from the resumes in provenance.json.

    A resume from an earlier update than the last takes the updates after it back.
    """
    by_option: dict[str, list[tuple[int, Any]]] = {}
    for resume in resumes if isinstance(resumes, list) else ():
        match resume:
            case {"updates": int(updates), "changes": dict(changes)}:
                pairs = {name: change for name, change in changes.items() if _is_pair(change)}
                for name in by_option | pairs:
                    values = by_option.get(name) or [(0, pairs[name][0])]
                    newest = pairs.get(name, values[-1])[1]
                    before = [entry for entry in values if entry[0] < updates]
                    is_same = [value for _, value in before[-1:]] == [newest]
                    by_option[name] = before if is_same else [*before, (updates, newest)]
    return {name: values for name, values in by_option.items() if len(values) > 1}


def texts(resumes: object) -> dict[str, str]:
    """The values of each changed option: `0.1, from update 63 0.02`."""
    return {name: as_text(values) for name, values in values_by_update(resumes).items()}


def as_text(values: Values) -> str:
    """The values with their updates, as `texts` has them."""
    (_, first), *later = values
    texts = [f", from update {update} {plain_values.as_text(value)}" for update, value in later]
    return plain_values.as_text(first) + "".join(texts)


def _is_pair(sides: object) -> bool:
    return isinstance(sides, list) and len(sides) == 2
