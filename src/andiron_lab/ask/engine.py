"""Makes updates of a run again, from its nearest checkpoint, in a scratch folder.

The run is only read. What it logged and saved meanwhile is compared with what is computed now.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from statistics import median

import torch

from andiron import errors
from andiron.checkpoint import LocalStore, contents, directory
from andiron.plain import readable
from andiron.plain.states import State
from andiron.randomness import global_generators_restored
from andiron.run_folder import RunFolder
from andiron.shell.assembly import resume_point
from andiron.shell.assembly.resume_point import Saved
from andiron.shell.config.leaves import Differences
from andiron.shell.config.trust import Trust
from andiron.shell.run import log_file, status
from andiron_lab.ask import bit_comparison, rerun, scratch
from andiron_lab.ask.bit_comparison import Difference
from andiron_lab.ask.following import Follows
from andiron_lab.ask.instruments import Instrument, Watch
from andiron_lab.ask.past_sessions import PastSessions
from andiron_lab.ask.stretch import Stretch
from andiron.wings.runs import logged_lines

NONFINITE = re.compile(r"update-(\d{1,15})$")  # the folder of such an update
SECONDS_UNASKED = 5.0  # of updates that are made again from the start of a run, without a question


class Recorded:
    """A run that can be asked; `trusted` says what its configuration may name.

    `given` replace recorded options: what is made again is then no longer the run.
    Raises: RunFolderError if a process trains it; DataError or ConfigError for a damaged or
    changed record.
    """

    def __init__(
        self, folder: RunFolder, trusted: Trust, given: Differences | None = None
    ):
        if log_file.is_held(folder.log):
            raise errors.RunFolderError(
                f"{folder.path}: a process still trains this run; ask it once it has ended"
            )
        self.folder, self.trusted = folder, trusted
        self._past = PastSessions(folder, trusted, given or {})
        self.config = self._past.config
        self._is_done = status.read(folder).get("status") == State.DONE
        self.store, self.saved = self._past.store, self._past.saved
        self.beginning, self.state_at = self._past.beginning, self._past.state_at
        self.together, self.processes_at = self._past.together, self._past.processes_at
        self.threads: int | None = None  # by default as many as the run had, if they are here

    @cached_property
    def logged(self) -> Counter[tuple[int, str, str]]:
        """The number of logged lines by completed updates, split, and window or epoch."""
        lines = logged_lines.read(self.folder.metrics)
        return Counter((line.updates, line.split, line.over) for line in lines)

    @property
    def known(self) -> set[int]:
        """The updates that the run logged or saved."""
        return {*self.saved, *(updates for updates, *_ in self.logged)}

    @property
    def last(self) -> int:
        """The last of them."""
        return max(self.known, default=0)

    @cached_property
    def nonfinite(self) -> list[int]:
        """Updates that the run saved as not finite, but for those that it has made since."""
        names = map(str, self.folder.nonfinite.glob("*"))
        numbers = [int(match[1]) for match in map(NONFINITE.search, names) if match]
        return [number for number in numbers if number > self.last]

    def next_record(self, number: int, *more: int) -> int:
        """The first update from `number` on that the run logged or saved, or of `more`."""
        later = (update for update in {*self.known, *more} if update >= number)
        return min(later, default=number)

    def start_of(self, first: int) -> int:
        """The completed updates at which a stretch begins that makes update `first` again."""
        return max((n for n in self.saved if n < first), default=self.beginning)

    def updates(
        self,
        first: int,
        last: int,
        *instruments: Instrument,
        start: int | None = None,
        from_start: bool = False,
    ) -> Stretch:
        """Makes the updates `first` to `last` again, counted from 1; shows them to instruments.

        It begins at the checkpoint of `start` updates, 0 for the beginning of the run; by default
        at the nearest; where there is none before `first`, at the beginning of the run, if that
        takes seconds or `from_start` allows it, which also compares the state there.
        The updates between it and `first` are not shown.
        Raises: SelectionError for updates that the run has not made, or that need the beginning;
        RunFolderError, ConfigError or DataError if the run cannot be made again here.
        """
        is_allowed = from_start or start is not None
        start = self.start_of(first) if start is None else max(start, self.beginning)
        self._check(first, last, start, is_allowed)
        stops = sorted(updates for updates in self._past.resumed if start < updates < last)
        is_fresh = from_start and start == self.beginning
        state = None if is_fresh else self._past.state_at(start)
        pieces, shown = list[Stretch](), range(first, last + 1)
        world = self._past.world
        is_begun = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        gpus = [torch.cuda.current_device()] if is_begun else []
        with torch.random.fork_rng(gpus), global_generators_restored(), ExitStack() as at_end:
            made = world.decided(lambda: at_end.enter_context(scratch.folder()))
            for begin, end in itertools.pairwise([start, *stops, last]):
                again = RunFolder(Path(made, str(end)))
                again.path.mkdir(exist_ok=True)
                pieces.append(self._again(begin, end, state, again, shown, instruments))
                if pieces[-1].last < end or end == last:
                    break
                state = resume_point.newest(LocalStore(again.checkpoints))
            world.any(False)  # every process has read the folder
        return Stretch(
            start, pieces[-1].last, sum(piece.tensors for piece in pieces),
            sum(piece.values for piece in pieces),
            [difference for piece in pieces for difference in piece.differences],
            next((piece.changed for piece in pieces if piece.changed), ()),
        )  # fmt: skip

    def _check(self, first: int, last: int, start: int, is_allowed: bool) -> None:
        """Refuses updates that are not the run's, and a beginning that nobody allowed."""
        run, begin = self.folder.path, self.beginning
        is_place = start in {*self.saved, begin} and begin < first <= last
        if not is_place or last > self.last and last not in self.nonfinite:
            raise errors.SelectionError(
                f"{run}: updates {first} to {last}: it begins after update {begin} and ends after "
                f"update {self.last}; name updates of it, the first one first"
            )
        if start not in self.saved and not is_allowed:
            self.check_start(f"no checkpoint before update {first}", first - 1 - begin)

    def check_start(self, why: str, number: int) -> None:
        """Refuses a question that needs updates from the start of the run, if that takes long.

        Raises: SelectionError with the time that this number of updates takes.
        """
        steps = [line.values.get("time/step") for line in logged_lines.read(self.folder.metrics)]
        known = [*filter(None, steps)]
        seconds = number * median(known or [SECONDS_UNASKED])
        if seconds <= SECONDS_UNASKED:
            return
        time = readable.duration(seconds) if known else "an unknown time"
        raise errors.SelectionError(
            f"{self.folder.path}: {why}: {number:,} updates have to be made again from the start, "
            f"about {time}; allow it with --from-start (from_start=True); a run keeps more "
            "checkpoints with checkpoint.keep_every_updates=500"
        )

    def _again(
        self,
        begin: int,
        end: int,
        state: Saved | None,
        again: RunFolder,
        shown: range,
        instruments: Sequence[Instrument],
    ) -> Stretch:
        """The updates of one session of the run, from its `state`, and how they compare."""
        goal = self._past.state_at(end)
        follows = Follows(
            end, self.logged, goal and goal[1].state, self._past.why_saved(end),
            may_end=end in self._past.resumed or self._is_done and end == self.last,
            is_left=end == self.last and not self._is_done,
        )  # fmt: skip
        made = self._past.learner(begin, state, again, follows.interrupter)
        with self._past.threads(begin, self.threads), made as (learner, built):
            watch = Watch(shown, instruments, learner, built)
            is_early = follows.follow(learner, built, watch.saw)
            reached, bad = learner.updates, follows.nonfinite
            saved = goal[0] if goal and reached == end else None
            mine = contents.step_name(end, 1) if is_early else ""
            compare = partial(self._compared, begin, reached, again, saved, mine, is_anew=not state)
            compared = built.world.decided(compare)  # by rank 0, which has saved
            if bad and bad not in self.nonfinite:
                what = "loss or gradient", "finite", "NaN or infinite"
                compared[2].append(Difference("the run", *what, bad))
            elif reached < end and not bad:
                ends = "the last update", str(end), str(reached)
                compared[2].append(Difference("the run", *ends, reached))
            since = self._past.record_at(begin, is_begun=state is not None)
            changed = [*rerun.changes_since([since], built)] if compared[2] else ()
            return Stretch(begin, reached, *compared, changed)

    def _compared(
        self,
        begin: int,
        end: int,
        again: RunFolder,
        saved: Path | None,
        mine: str,
        *,
        is_anew: bool,
    ) -> tuple[int, int, list[Difference]]:
        """Tensors, values and differences of what was made; its checkpoint is `mine` or the newest.
        """
        names = directory.names(again.checkpoints)
        files = (saved, again.checkpoints / (mine or names[-1])) if saved else None
        made = range(begin + (begin > 0), end + 1)
        compared = bit_comparison.of_stretch(self.folder, again, made, files)
        first = contents.step_name(begin, 1)
        if is_anew and begin in self.saved and first in names:
            begun = self.store.fetch(self.saved[begin]), again.checkpoints / first
            compared[2][:0] = bit_comparison.of_checkpoints(*begun)
        return compared
