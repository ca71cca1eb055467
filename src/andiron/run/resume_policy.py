"""Options of a resumed run beside its record: what may change, what must be allowed, what cannot."""

from collections.abc import Mapping, Sequence
from typing import Any

from andiron import errors
from andiron.config import schema
from andiron.config.leaves import Path, leaves

INSTRUCTIONS = ("resume", "resume_allow", "overwrite")  # about a run, and no part of it
LENGTHENING = ("num_epochs", "num_updates", "early_stopping")  # could let a finished run continue
OF_STATE = ("amsgrad", "centered", "momentum")  # they decide what an optimizer remembers
MISSING = object()


def changes(record: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[Path, tuple[Any, Any]]:
    """The options that differ, instructions left out: what each was and is now, MISSING where it is not there."""
    before, now = dict(leaves(record)), dict(leaves(asked))
    return {
        path: (before.get(path, MISSING), now.get(path, MISSING))
        for path in {**before, **now}
        if path[0] not in INSTRUCTIONS and before.get(path, MISSING) != now.get(path, MISSING)
    }


def applied(plain: Mapping[str, Any], found: Mapping[Path, tuple[Any, Any]]) -> dict[str, Any]:
    """`plain` with these changes made to it."""
    made: dict[str, Any] = _copied(plain)
    for path, (_, value) in found.items():
        if value is MISSING:
            _remove(made, path)
        else:
            _put(made, path, value)
    return made


def check(found: Mapping[Path, tuple[Any, Any]], allowed: Sequence[str]) -> None:
    """Refuses changes that would make another run of it, and those that were not allowed.

    Raises: ConfigError with all of them.
    """
    guarded = _names("ask")
    problems = [
        _unknown(name, guarded) for name in allowed if name.partition(".")[0] not in guarded
    ]
    other_classes = {
        path[0]
        for path in found
        if path[-1] == "_target_" and not _is_free(path) and not _is_guarded(path)
    }
    for path, sides in found.items():
        option, (before, now) = (
            ".".join(path),
            ("nothing" if side is MISSING else side for side in sides),
        )
        recorded = f"{option}={now}: the run was recorded with {before}"
        repeats = (
            "lr" in path[-1] and path != ("lr",) and sides == found.get(("lr",))
        )  # as a schedule does
        if _is_free(path) or repeats or (path[0] in other_classes and path[-1] != "_target_"):
            continue
        if not _is_guarded(path):
            remedy = "start another one, with start_from=<run folder> for its weights"
            problems.append(f"{recorded}, and a resumed run keeps it; {remedy}")
        elif not any(option == name or option.startswith(f"{name}.") for name in allowed):
            remedy = f"say resume_allow=[{path[0]}] to go on with the new value"
            problems.append(f"{recorded}, and it has learned with that so far; {remedy}")
    if problems:
        raise errors.ConfigError(problems)


def has_more_to_do(found: Mapping[Path, tuple[Any, Any]]) -> bool:
    """Whether these changes could have a finished run go on."""
    return any(path[0] in LENGTHENING or not _is_free(path) for path in found)


def in_words(found: Mapping[Path, tuple[Any, Any]]) -> list[str]:
    """A line for each change."""
    sides = {
        ".".join(path): ["nothing" if side is MISSING else side for side in both]
        for path, both in found.items()
    }
    return [f"{option}: {before} -> {now}" for option, (before, now) in sides.items()]


def as_plain(found: Mapping[Path, tuple[Any, Any]]) -> dict[str, list[Any]]:
    """The changes for a record: by option, what it was and what it is, null for nothing."""
    return {
        ".".join(path): [None if side is MISSING else side for side in both]
        for path, both in found.items()
    }


def _names(policy: str) -> list[str]:
    return [name for name, kind in schema.resume_policy().items() if kind == policy]


def _is_free(path: Path) -> bool:
    is_moved = path[0] == "data" and path[-1] in schema.PATH_ARGUMENTS  # its checksum is compared
    return path[0] in _names("free") or is_moved


def _is_guarded(path: Path) -> bool:
    is_class = path[-1] == "_target_"  # whose state is another's
    has_state = path[0] in ("optimizer", "task", "averages")
    return (
        path[0] in _names("ask")
        and not (has_state and is_class)
        and not (path[0] == "optimizer" and path[-1] in OF_STATE)
    )


def _unknown(name: str, guarded: list[str]) -> str:
    hint = errors.nearest(name, guarded)
    return (
        f"resume_allow=[{name}]: names no option that can be allowed{hint}; "
        f"there is: {', '.join(guarded)}"
    )


def _put(node: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        if not isinstance(node.get(name), dict):
            node[name] = {}
        node = node[name]
    node[path[-1]] = value


def _remove(node: dict[str, Any], path: Path) -> None:
    """Removes a value, and the objects that it leaves empty."""
    name, *rest = path
    inner = node.get(name)
    if rest and isinstance(inner, dict):
        _remove(inner, tuple(rest))
    if not rest or not inner:
        node.pop(name, None)


def _copied(value: Any) -> Any:
    return (
        {name: _copied(inner) for name, inner in value.items()}
        if isinstance(value, Mapping)
        else value
    )
