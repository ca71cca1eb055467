"""Nested plain values as a flat sequence of paths and values, and the differences of two.

>>> dict(leaves({"model": {"hidden": [7, 5], "dropout": 0.0}}))
{('model', 'hidden'): [7, 5], ('model', 'dropout'): 0.0}
>>> by_name(differences({"lr": 0.1, "seed": 1}, {"lr": 0.2, "seed": 1, "clip": 1.0}))
{'lr': [0.1, 0.2], 'clip': [None, 1.0]}
>>> nested({("model", "dropout"): 0.0, ("model", "hidden"): [7]})
{'model': {'dropout': 0.0, 'hidden': [7]}}
"""

from collections.abc import Iterator, Mapping
from typing import Any

from andiron.plain.plain_values import Named, Plain

Path = tuple[str, ...]
Differences = Mapping[Path, tuple[Any, Any]]  # both values, or MISSING
Changes = dict[str, list[Any]]  # both values by dotted name
MISSING = object()


def leaves(
    value: object, path: Path = (), *, opens_lists: bool = False
) -> Iterator[tuple[Path, Any]]:
    """Every value that is not a mapping, by its path, and every empty mapping.

    With `opens_lists`, the items of lists too, by their position.
    """
    items = dict(enumerate(value)) if opens_lists and isinstance(value, list) else value
    if isinstance(items, Mapping) and items:
        for name, inner in items.items():
            yield from leaves(inner, (*path, str(name)), opens_lists=opens_lists)
    elif path:
        yield path, value


def nested(flat: Mapping[Path, object]) -> Plain:
    """The nested value with these leaves; a later leaf replaces a conflicting one."""
    root: Plain = {}
    for (*above, name), value in flat.items():
        node = root
        for outer in above:
            if not (isinstance(node.get(outer), dict) and node[outer]):  # a leaf, such as {}
                node[outer] = {}
            node = node[outer]
        node[name] = value
    return root


def differences(before: Named, now: Named) -> Differences:
    """The leaves that differ or that only one side has, by path."""
    return flat_differences(dict(leaves(before)), dict(leaves(now)))


def flat_differences(was: Mapping[Path, object], is_now: Mapping[Path, object]) -> Differences:
    """The differences of leaves by path."""
    paths = {**was, **is_now}
    sides = {path: (was.get(path, MISSING), is_now.get(path, MISSING)) for path in paths}
    return {path: (one, other) for path, (one, other) in sides.items() if one != other}


def by_dotted_name(plain: Named) -> Plain:
    """Every option by its dotted name; the name of a node has its class, without the module.

    A schedule's copy of `lr`, which the user did not set, is left out.
    """
    flat: Plain = {}
    for path, value in leaves(plain):
        if path[-1] == "_target_" and len(path) > 1:
            flat[".".join(path[:-1])] = str(value).rpartition(".")[2]
        elif not (len(path) == 2 and path[0] == "scheduler" and value == plain.get("lr")):
            flat[".".join(path)] = value
    return flat


def by_name(changes: Differences) -> Changes:
    """The differences as JSON: both values by dotted name, null if missing."""
    return {
        ".".join(path): [None if side is MISSING else side for side in sides]
        for path, sides in changes.items()
    }
