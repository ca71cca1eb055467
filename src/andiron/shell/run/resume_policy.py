"""Which options a resumed run may change: freely, only if `resume_allow` names them, or never.

Each option's policy is in its field (`andiron.options.option`), but for exceptions.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from andiron import errors
from andiron.options import Resume
from andiron.plain import plain_values
from andiron.plain.plain_values import Named, Plain
from andiron.shell.config import schema
from andiron.shell.config.leaves import (
    Changes, Differences, MISSING, Path, differences, leaves, nested,
)  # fmt: skip

STATE_OPTIONS = ("amsgrad", "centered", "momentum")  # decide the content of an optimizer's state
FROM_WEIGHTS = "with start_from=<run folder> for its weights"
log = logging.getLogger("andiron.resume")  # also printed by a run from Python
Values = Sequence[tuple[int, Any]]  # with the number of completed updates from which each applied


def changes(record: Named, wanted: Named) -> Differences:
    """The options that differ between two plain configurations, instructions left out."""
    differing = differences(record, wanted)
    return {path: sides for path, sides in differing.items() if path[0] not in schema.INSTRUCTIONS}


def applied(plain: Named, changes: Differences) -> Plain:
    """A copy of `plain` with these changes."""
    flat = dict(leaves(plain)) | {path: value for path, (_, value) in changes.items()}
    return nested({path: value for path, value in flat.items() if value is not MISSING})


def policy_of(path: Path) -> Resume:
    """Whether a resumed run may change the option: free, ask or never."""
    group, name = path[0], path[-1]
    is_free = name in schema.PATH_ARGUMENTS or schema.SETS in path or schema.LATER in path
    if group == "data" and is_free:
        return "free"  # data may have moved: their checksums are compared
    is_stateful_class = group in ("optimizer", "task", "averages") and name == "_target_"
    decides_state = group == "optimizer" and name in STATE_OPTIONS
    return "never" if is_stateful_class or decides_state else schema.resume_policy()[group]


def check(
    changes: Differences,
    allowed: Sequence[str],
    other_run: str = FROM_WEIGHTS,
    *,
    policy_of: Callable[[Path], Resume] = policy_of,
    noun: str = "resumed run",
    verb: str = "resume",
) -> None:
    """Refuses changes that a run never allows, and those that `allowed` does not name.

    `other_run` is how to begin another run instead. A fork, of another `noun` and `verb`, may
    change more.
    Raises: ConfigError with all of them.
    """
    allowable = [option for option in schema.resume_policy() if policy_of((option,)) == "ask"]
    problems = [
        f"resume_allow=[{name}]: names no option that can be allowed"
        f"{errors.nearest(name, allowable)}; allowed: {', '.join(allowable)}"
        for name in allowed
        if name.partition(".")[0] not in allowable
    ]
    policy_by_path = {path: policy_of(path) for path in changes}
    for path in _decided(changes, policy_by_path):
        sides, policy = changes[path], policy_by_path[path]
        option = ".".join(path)
        before, now = ("nothing" if side is MISSING else side for side in sides)
        recorded = f"{option}={now}: the run was recorded with {before}"
        if policy == "never":
            problems.append(
                f"{recorded}, and a {noun} keeps it; start another run, {other_run}"
            )
        elif not any(f"{option}.".startswith(f"{name}.") for name in allowed):
            problems.append(
                f"{recorded}, and was trained with that so far; give resume_allow=[{path[0]}] to "
                f"{verb} with the new value"
            )
    if problems:
        raise errors.ConfigError(problems)


def _decided(changes: Differences, policies: Mapping[Path, Resume]) -> Iterator[Path]:
    """The changes that are not free, and do not only follow from others.

    A schedule repeats lr, and the options of another class follow from the class.
    """
    replaced = {
        path[0] for path in changes if path[-1] == "_target_" and policies[path] == "never"
    }
    for path, sides in changes.items():
        is_copy = "lr" in path[-1] and path != ("lr",) and sides == changes.get(("lr",))
        follows = path[0] in replaced and path[-1] != "_target_"
        if not (policies[path] == "free" or is_copy or follows):
            yield path


def check_applied(changes: Mapping[str, Sequence[object]]) -> None:
    """Refuses changes, by name, of a run that has made all its updates: they would apply to none.

    Raises: ConfigError.
    """
    idle = [name for name in changes if policy_of(tuple(name.split("."))) != "free"]
    if idle:
        raise errors.ConfigError(
            f"{name}={changes[name][1]}: all updates of the run were made with {changes[name][0]}, "
            "and only its results are missing; leave it out, or give a larger num_epochs too"
            for name in idle
        )


def log_start(start: str, changes: Changes, batch: int) -> None:
    """Logs where a run resumes or a fork starts, after `batch` batches, with which changes.

    Warns if they change the order of samples within the epoch.
    """
    log.info("%s", start)
    for name, sides in changes.items():
        before, now = ("nothing" if side is None else side for side in sides)
        if before != now:
            log.info("changed: %s: %s -> %s", name, before, now)
    names = [name for name in changes if name.partition(".")[0] == "seed"]
    if names and batch:
        log.warning(
            "%s: changes the order of samples within an epoch, so that some of this epoch are seen "
            "twice or never; resume at the end of an epoch to see each once",
            ", ".join(names),
        )


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
