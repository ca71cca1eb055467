"""Values of runs by name: facts, options and metrics; options that differ; sorted runs."""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from andiron import errors
from andiron.plain import improvement, readable
from andiron.plain.improvement import LAST
from andiron.plain.plain_values import as_text, is_number
from andiron.wings.runs.run_reader import FACTS, RunReader, directions

MOST_COLUMNS = 30  # an untrusted run may have thousands of options
TEXT = r"\s*([^=<>!]*[^=<>!\s])\s*"
COMPARISON = re.compile(f"{TEXT}(==|!=|<=|>=|[=<>]){TEXT}")
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Names:
    """The names of all values that any of the runs has."""

    def __init__(self, runs: Sequence[RunReader]):
        self.options = list(dict.fromkeys(name for run in runs for name in run.options))
        self.metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
        with_last = [f"{name}{LAST}" for name in self.metrics]
        self._all = [*self.options, *self.metrics, *FACTS, *with_last]

    def resolved(self, name: str) -> str:
        """The full name for an unambiguous suffix.

        Raises: SelectionError if no name, or several names, end with it.
        """
        return _match(name, self._all)

    def metric(self, name: str) -> str:
        """The full name of a metric; raises as `resolved`."""
        return _match(name, [full for full in self._all if full.removesuffix(LAST) in self.metrics])


def _match(name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    matches = [full for full in names if full.endswith((f".{name}", f"/{name}"))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise errors.SelectionError(f"{name}: ambiguous; give one of {readable.joined(matches)}")
    leaves = {full.replace("/", ".").rpartition(".")[2]: full for full in names}
    close = errors.closest(name, [*names, *leaves])
    available = readable.joined(names, readable.MOST_LISTED) or "nothing"
    remedy = f"did you mean {leaves.get(close, close)}?" if close else f"available: {available}"
    raise errors.SelectionError(f"{name}: no run here has it; {remedy}")


def differing(runs: Sequence[RunReader]) -> list[str]:
    """The options that differ between runs, in the order of their configurations; at most 30.

    A missing option counts as null, except arguments of a class: the run may use another class.
    """
    names = []
    for name in Names(runs).options:
        with_option = [run for run in runs if name in run.options]
        values = {comparable(run.options[name]) for run in with_option}
        if len(with_option) < len(runs) and not _is_argument(name, with_option[0]):
            values.add(None)
        if len(values) > 1:
            names.append(name)
    return names[:MOST_COLUMNS]


def _is_argument(name: str, run: RunReader) -> bool:
    """Whether the option is an argument of a class, whose name has an option too."""
    parts = name.split(".")
    return any(".".join(parts[:number]) in run.options for number in range(1, len(parts)))


def comparable(value: object) -> Any:
    """The value in hashable form: lists and mappings as text."""
    return as_text(value) if isinstance(value, list | dict) else value


def best_first(
    runs: Sequence[RunReader], name: str, direction: str | None = None
) -> list[RunReader]:
    """The runs sorted by the value `name`: best metric first, otherwise lowest value first.

    Runs with NaN or without a value come last, in their previous order.
    Raises: SelectionError for a metric without a recorded direction.
    """
    if name.removesuffix(LAST) in Names(runs).metrics:
        direction = direction or direction_of(name, runs)
    sign = -1 if direction == "highest" else 1

    def rank(run: RunReader) -> tuple[int, Any]:
        value = run.value(name)
        if isinstance(value, str):
            return 1, value
        is_number = isinstance(value, int | float) and value == value  # NaN is not equal to itself
        return (0, sign * value) if is_number else (2, 0)

    return sorted(runs, key=rank)


def direction_of(name: str, runs: Iterable[RunReader]) -> str:
    """Whether the lowest or highest value of a metric such as `valid/loss` is best.

    Raises: SelectionError if no run has recorded it.
    """
    direction = known_direction(name, runs)
    if direction is None:
        raise errors.SelectionError(
            f"{name}: no run has recorded whether higher or lower is better; give "
            "--direction highest or lowest"
        )
    return direction


def known_direction(name: str, runs: Iterable[RunReader]) -> str | None:
    """`direction_of`, or None if no run has recorded it."""
    return improvement.direction_of(improvement.split_and_metric(name)[1], directions(runs))


def chosen(runs: Sequence[RunReader], comparisons: Iterable[str]) -> list[RunReader]:
    """The runs for which all comparisons hold.

    Raises: SelectionError for a comparison that cannot be read, or a name that no run has.
    """
    remaining = list(runs)
    for text in comparisons if runs else ():
        match = COMPARISON.fullmatch(text)
        if match is None:
            raise _comparison_error(text, "is not one comparison")
        name, sign, value = match.groups()
        name = Names(runs).resolved(name)
        run_values = [own for run in runs if (own := run.value(name)) is not None]
        is_text = number_in(value) is None and value != "null"
        if is_text and run_values and all(map(is_number, run_values)):
            raise _comparison_error(text, f"{name} is a number, but {value[:200]!r} is not")
        remaining = [run for run in remaining if _holds(run.value(name), sign, value)]
    return remaining


def _comparison_error(text: str, problem: str) -> errors.SelectionError:
    remedy = f"write a name, {', '.join(SIGNS)}, and a value: --where 'lr<1e-2'"
    return errors.SelectionError(f"--where {text[:200]!r}: {problem}; {remedy}; repeat it for more")


def _holds(value: object, sign: str, text: str) -> bool:
    """Numbers by value; text without regard to case and underscores: `sgd` is the class SGD.

    A value that is missing, or of another kind, is neither smaller nor larger.
    """
    number = number_in(text)
    if is_number(value) and number is not None:
        return SIGNS[sign](value, number)
    if sign in ("=", "==", "!="):
        return SIGNS[sign](_normalized(as_text(value)), _normalized(text))
    return isinstance(value, str) and number is None and SIGNS[sign](value, text)


def _normalized(text: str) -> str:
    return text.casefold().replace("_", "").replace(" ", "")


def number_in(text: str) -> float | None:
    """The number that a text stands for; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None
