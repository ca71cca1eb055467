"""Options that only earlier versions had: how their records are read, and what replaces them.

>>> current({"checkpoint": {"last": 2, "every": None, "every_updates": 50, "every_epochs": 1}})
{'checkpoint': {'last': 2, 'every': {'updates': 50, 'epochs': 1}}}
>>> remedy("checkpoint.every_minutes", {"checkpoint": {"every_minutes": 10}})
'give checkpoint.every=10minutes'
"""

from collections.abc import Mapping
from typing import Any

UNITS = {"every_updates": "updates", "every_epochs": "epochs", "every_minutes": "minutes"}
NAMES = [f"checkpoint.{name}" for name in UNITS]


def current(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a record, with checkpoint.every in place of its former spellings."""
    node = plain.get("checkpoint")
    if not isinstance(node, dict) or node.keys().isdisjoint(UNITS):
        return plain
    given = {unit: node[name] for name, unit in UNITS.items() if node.get(name) is not None}
    every = given if len(given) > 1 else _every(*next(iter(given.items()), ("epochs", 1)))
    known = {name: value for name, value in node.items() if name not in UNITS}
    return {**plain, "checkpoint": {**known, "every": known.get("every") or every}}


def remedy(option: str, plain: Mapping[str, Any]) -> str | None:
    """The replacement of an option of an earlier version; None for any other option."""
    if option not in NAMES:
        return None
    name = option.removeprefix("checkpoint.")
    return f"give checkpoint.every={_every(UNITS[name], plain['checkpoint'][name] or 1)}"


def _every(unit: str, number: Any) -> Any:
    return number if unit == "updates" else f"{number}{unit}"
