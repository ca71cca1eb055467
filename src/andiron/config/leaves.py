"""Nested plain values as a flat sequence of paths and values.

>>> dict(leaves({"model": {"hidden": [7, 5], "dropout": 0.0}}))
{('model', 'hidden'): [7, 5], ('model', 'dropout'): 0.0}
"""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]


def leaves(value: Any, path: Path = (), *, opens_lists: bool = False) -> Iterator[tuple[Path, Any]]:
    """Every value that is not a mapping, by its path, and every empty mapping.

    With `opens_lists`, the items of lists too, by their position.
    """
    if isinstance(value, Mapping) and value:
        items = value.items()
    elif opens_lists and isinstance(value, list) and value:
        items = dict(enumerate(value)).items()
    else:
        if path:
            yield path, value
        return
    for name, inner in items:
        yield from leaves(inner, (*path, str(name)), opens_lists=opens_lists)
