"""Questions to a trained run in Python: `andiron.load(folder).ask`."""

from dataclasses import dataclass, replace
from typing import Any

from andiron.wings.trained.trained_run import Run
from andiron_lab.ask import parting, recheck
from andiron_lab.ask.conditions import Side
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.sample_questions import SampleQuestions


@dataclass(frozen=True)
class Questions:
    """Questions to one run, which is only read.

    All raise a SelectionError for updates that the run has not made, or that need `from_start`;
    RunFolderError, ConfigError or DataError if the run cannot be made again here.
    """

    run: Run

    def updates(self, first: int, last: int, *instruments: Any, from_start: bool = False) -> Any:
        """Makes the updates `first` to `last` again, from the nearest checkpoint, bit for bit.

        Counted from 1; each is shown to the `instruments`, subclasses of
        `andiron_lab.ask.instruments.Instrument`. Without a checkpoint before `first`, `from_start`
        allows to begin at the start of the run. Returns a `Stretch`: `differences` from what the
        run logged and saved, none if all bits are the same.
        """
        recorded = Recorded(self.run.folder, self.run.trusted)
        return recorded.updates(first, last, *instruments, from_start=from_start)

    def samples(self, *, from_start: bool = False) -> SampleQuestions:
        """Questions about the samples of the run, with the answers of `andiron samples`.

        Methods: `of_update(number)`, `spikes(number)`, `of_sample(index or name)`,
        `hardest(number)`. `from_start` allows to make updates again from the start of the run.
        """
        return SampleQuestions(self.run.folder, self.run.trusted, from_start=from_start)

    def recheck(self, segments: int = 20, seed: int = 0, *, from_start: bool = False) -> Any:
        """Makes random stretches between checkpoints again, and compares every byte: a `Recheck`.

        Raises: RunFolderError for a run without a stretch.
        """
        path, trusted = self.run.folder.path, self.run.trusted
        return recheck.recheck(path, segments, seed, trusted, from_start=from_start)

    def bisect(self, *overrides: str, other: Run | None = None, **conditions: Any) -> Any:
        """Where the run parts from another, or from itself with `overrides`: a `Parting`.

        Conditions, as of `andiron bisect`: `threads`, `code` (the folder of a checkout), `commits`
        ("good..bad"), `tolerance`, `updates` (first and last), `from_start`.
        """
        one, two = (
            Side(str(run.folder.path), run.trusted.packages)
            for run in (self.run, other or self.run)
        )
        by_side = {name: conditions.pop(name, None) for name in ("threads", "code")}
        return parting.parted(one, replace(two, overrides=overrides, **by_side), **conditions)
