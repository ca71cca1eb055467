"""Where two runs part: the first update whose bits differ, and the first tensor in it."""

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

from andiron import errors
from andiron.checkpoint import contents
from andiron.plain import wings
from andiron.shell.run import provenance
from andiron_lab.ask import bit_comparison, conditions, traced
from andiron_lab.ask.bit_comparison import MISSING, Difference
from andiron_lab.ask.conditions import Side
from andiron_lab.ask.engine import Recorded
from andiron.wings.runs import run_details
from andiron.wings.runs.run_reader import RunReader

AT_ONCE = 32  # states of one pass with a tolerance, kept on the disk
UNSEEN = (
    "their records differ up to update {}, and the updates made again here do not: the code was "
    "other (--commits), or a resume lost state that no checkpoint has (--from-start)"
)


@dataclass(frozen=True)
class Parting:
    """Where two sides part.

    `start`: both began with the run's checkpoint of this update; nothing before is compared.
    """

    agreed: int  # both have the same state after so many updates
    first: Difference | None = None  # None if no update that was made again differs
    commit: str | None = None  # the first with other bits
    notes: Sequence[str] = ()
    equal: bool = False
    start: int = 0


@dataclass(frozen=True)
class Search:
    """Which updates to make again: after `agreed`, up to each of the `ends` in turn.

    `places` are those where both can begin, by completed updates. `is_recorded`: the records
    differ before the last end.
    """

    agreed: int
    ends: Sequence[int]
    places: Sequence[int]
    tolerance: float | None
    is_recorded: bool = False
    # for this question alone: a run's folder or code may be another at the next
    made: Any = field(default_factory=lambda: lru_cache(4)(conditions.made))

    def after(self, number: int) -> "Search":
        """The search after this number of the ends, up to which both agree."""
        agreed = [self.agreed, *self.ends][number]
        return replace(self, agreed=agreed, ends=self.ends[number:])

    def parting(self, *sides: Side) -> Parting:
        """Where two sides part."""
        agreed, notes = self.agreed, list[str]()

        def apart(*given: object) -> list[Difference]:
            tensors = []
            start = max((place for place in self.places if place <= agreed), default=0)
            for side in sides:
                again, said = self.made(side, start, *given)
                tensors.append(again)
                is_own = side == Side(side.run, side.packages)
                if said and is_own and side.run not in str(notes):
                    notes.append(f"{side.run}: made again here, it is not the run: {said[0]}")
            return traced.differences(tensors, self.tolerance)

        for end in self.ends:
            step, apart_there = 0, []
            while step != 1:
                step = max(1, (end - agreed) // AT_ONCE) if self.tolerance else 1
                numbers = range(end - (end - agreed - 1) // step * step, end + 1, step)
                if not (apart_there := apart(numbers, not self.tolerance)):
                    break
                end = int(apart_there[0].what.partition(" ")[0])
                agreed = max(agreed, end - step)
            if apart_there:
                first = (apart(range(end, end + 1)) or apart_there)[0]
                kind, _, name = first.what.partition(": ")
                first = replace(first, where=kind, what=name, updates=end)
                return Parting(agreed, first, notes=notes)
            agreed = end
        if self.is_recorded:
            return Parting(self.agreed, notes=[*notes, UNSEEN.format(agreed)])
        return Parting(agreed, notes=notes, equal=True)


def parted(
    one: Side,
    other: Side,
    commits: str | None = None,
    tolerance: float | None = None,
    updates: Sequence[int] | None = None,
    *,
    from_start: bool = False,
) -> Parting:
    """Where two runs part, or a run and itself under other conditions, or two `commits`.

    Raises: SelectionError for a question that cannot be asked; as `search` and `Recorded`.
    """
    if not 0 < (tolerance or 0.5) < 1:
        raise errors.SelectionError(f"--tolerance {tolerance}: give one from 0 to 1")
    is_one = bool(commits) or other != Side(other.run, other.packages)
    if is_one and one.run != other.run:
        raise errors.SelectionError(
            f"{other.run}: options, threads, code and commits are of one run alone; leave them out "
            "or the other run"
        )
    runs = [one.recorded()] if is_one else [one.recorded(), other.recorded()]
    plan = search(runs, tolerance, updates, from_start=from_start)
    if commits:
        ends = plan.ends if updates else plan.ends[:1]
        outcome = of_commits(replace(plan, ends=ends), other, commits)
    else:
        outcome = plan.parting(one, other)
    if is_one:
        return replace(outcome, start=plan.agreed)
    causes = [] if outcome.equal else _causes(runs)
    return replace(outcome, notes=[*outcome.notes, *causes])


def search(
    runs: Sequence[Recorded],
    tolerance: float | None = None,
    updates: Sequence[int] | None = None,
    *,
    from_start: bool = False,
) -> Search:
    """The updates to make again of a run, or of two by what they logged and saved.

    Raises: SelectionError without a checkpoint that both have, if the start takes long and is not
    allowed.
    """
    begin, newest = max(run.beginning for run in runs), min(run.last for run in runs)
    if begin >= newest and not updates:
        late, short = max(runs, key=lambda run: run.beginning), min(runs, key=lambda run: run.last)
        raise errors.SelectionError(
            f"{late.folder.path} begins after update {begin}, and {short.folder.path} ends after "
            f"update {newest}: they have no update in common; a fork begins with the state of its "
            f"parent, and `{wings.command('runs diff')}` shows what else differs"
        )
    first, last = updates or (begin + 1, newest)
    if not begin < first <= last <= newest:
        raise errors.SelectionError(
            f"--updates {first} {last}: give two from {begin + 1} to {newest}"
        )
    common = sorted(set[int].intersection(*({*run.saved} for run in runs)))
    if not (any(common) or from_start or updates):
        why = "no checkpoint to begin at, or none that the other run has too"
        runs[0].check_start(why, last - begin)
    ends = [*(place for place in common if begin < place < last), last]
    whole = Search(begin, ends, [] if from_start else common, tolerance)
    if len(runs) == 1:
        return whole.after(bisect_left(ends, begin + 1 if from_start else first))
    return _by_records(runs, whole, common)


def _by_records(runs: Sequence[Recorded], whole: Search, common: Sequence[int]) -> Search:
    """The part of a search before which two runs saved the same, up to what they logged apart."""

    def differs(end: int) -> bool:
        if end not in common:
            return True
        saved = [_saved(run, end, whole.tolerance) for run in runs]
        return bool(traced.differences(saved, whole.tolerance))

    rest = whole.after(bisect_left(whole.ends, True, key=differs))
    nearest = [*rest.ends[:1]]
    within = range(rest.agreed + 1, max(nearest, default=0) * (whole.tolerance is None))
    folders = [run.folder for run in runs]
    logged = [
        difference.updates or 0
        for difference in bit_comparison.of_stretch(folders[0], folders[1], within, None)[2]
        if MISSING not in (difference.expected, difference.found)
    ]
    is_recorded = bool(logged or {*nearest} & {*common})
    return replace(rest, ends=logged[:1] + nearest, is_recorded=is_recorded)


def of_commits(search: Search, side: Side, span: str) -> Parting:
    """The first commit on the way of a repository's branch that gives other bits.

    Raises: SelectionError for commits that git does not know.
    """
    tree, (good, _, bad) = conditions.repository(), span.partition("..")
    names = ["rev-list", "--reverse", "--first-parent", span]
    commits = conditions.git(tree, *names).split() if bad and bad[0] != "." else []
    if not commits:
        raise errors.SelectionError(f"--commits {span}: names no commits; give GOOD..BAD")
    with ExitStack() as trees:

        @cache
        def side_of(commit: str) -> Side:
            return replace(side, code=trees.enter_context(conditions.checked_out(tree, commit)))

        def differs(commit: str) -> bool:
            return bool(search.parting(side_of(good), side_of(commit)).first)

        number = bisect_left(commits, True, key=differs)
        if number == len(commits):
            return Parting(search.ends[-1], equal=True)
        before = [good, *commits][number]
        outcome = search.parting(side_of(before), side_of(commits[number]))
    subject = conditions.git(tree, "show", "-s", "--format=%H %s", commits[number])
    return replace(outcome, commit=subject.strip())


def _saved(run: Recorded, updates: int, tolerance: float | None) -> traced.Named:
    """The tensors of a checkpoint, metrics left out; with a tolerance those that `States` keeps."""
    state = run.state_at(updates)
    if state and tolerance:
        owners = state[1].state["owners"].values()
        names = {name for owner in owners for name in owner["parameters"]}
        return {name: tensor for name, tensor in state[1].model.items() if name in names}
    files = contents.tensors_by_file(state[1]) if state else {}
    files.pop(contents.METRICS, None)
    return {f"{file} {name}": tensor for file in files for name, tensor in files[file].items()}


def _causes(runs: Sequence[Recorded]) -> list[str]:
    """The options and the origin of two runs that differ."""
    options = run_details.differences_of(*(RunReader(run.folder) for run in runs))["options"]
    origin = provenance.differences(*(provenance.read(run.folder) for run in runs))
    return [
        f"{name}: {sides[0]} in A, {sides[1]} in B"
        for name, sides in {**options, **origin}.items()
        if not name.startswith("fork_from.")  # the option names the fork's parent
    ]
