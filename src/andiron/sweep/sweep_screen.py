"""What a sweep shows: a live table on a terminal, a line for each job that ends elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from andiron import errors
from andiron.plain import improvement, readable
from andiron.run_folder import RunFolder
from andiron.screen.watch import WatchedRun
from andiron.sweep import ledger
from andiron.sweep.ledger import Job
from andiron.sweep.scheduling import Running
from andiron.sweep.settled import differing

SECONDS_BETWEEN_DRAWINGS = 0.5
MOST_ROWS = 30  # of running jobs


class SweepScreen:
    """Shows jobs as they run and end; `planned` are all jobs of the sweep, those done included.

    `proposed` is the number of those that a search proposes later.
    """

    def __init__(
        self, planned: Sequence[Job], metric: str | None, folder: str, *, proposed: int = 0
    ):
        self.varied = differing(planned)  # the overrides that tell each job from others
        self._metric = metric
        self._folder = folder
        self._number = len(planned) + proposed
        self._states = Counter(each.status or "waiting" for each in planned)
        self._states["waiting"] += proposed
        self._paused = {each.identity for each in planned if each.status == ledger.PAUSED}
        self._watched: dict[str, WatchedRun] = {}
        self._rows: list[tuple[str, ...]] = []
        self._taken = Counter[str]()  # out of which states jobs run
        self._drawn = 0.0
        self._console = Console()
        self._live = Live(
            console=self._console, get_renderable=self._table, auto_refresh=False, transient=True
        )

    def __enter__(self) -> "SweepScreen":
        if sys.stdout.isatty():
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def look(self, running: Sequence[Running]) -> None:
        """Draws the table anew, now and then."""
        if self._live.is_started and time.monotonic() - self._drawn > SECONDS_BETWEEN_DRAWINGS:
            self._drawn = time.monotonic()
            self._taken = Counter(self._state_before(each.job) for each in running)
            self._rows = [self._row(each) for each in running[:MOST_ROWS]]
            self._live.refresh()

    def ended(self, job: Job, again: bool) -> None:
        """A line that stays."""
        self._states[self._state_before(job)] -= 1
        self._states["waiting" if again else str(job.status)] += 1
        if job.status == ledger.PAUSED:
            self._paused.add(job.identity)
        else:
            self._paused.discard(job.identity)
        waiting = self._states["waiting"]
        words = [
            f"[{self._number - waiting}/{self._number}]",
            " ".join(self.varied[job.identity]),
            str(job.status),
            self._measured(job),
            f"in {readable.duration(job.seconds or 0)}," if job.status == ledger.DONE else "",
            f"({job.reason})" if job.reason else "",
            f"{self._folder}/{job.folder}" if job.folder else f"job {job.number}",
            "; tried again" if again else "",
        ]
        print(errors.printable_line(" ".join(filter(None, words))))

    def _state_before(self, job: Job) -> str:
        return ledger.PAUSED if job.identity in self._paused else "waiting"

    def _measured(self, job: Job) -> str:
        if job.objective is None:
            return ""
        return f"{self._metric or 'objective'} {readable.number(job.objective)}"

    def _row(self, running: Running) -> tuple[str, ...]:
        job, folder = running.job, running.run_dir
        differs = " ".join(self.varied[job.identity])
        if folder is None:
            return str(job.number), differs, "", "", ""
        view = self._watched.setdefault(job.identity, WatchedRun(RunFolder(folder))).view()
        split, metric = improvement.split_and_metric(self._metric or "valid/loss")
        value = view.curves.latest.get(split, {}).get(metric)
        return (
            str(job.number),
            differs,
            f"{view.epoch}/{view.num_epochs}" if view.num_epochs else f"{view.updates:,}",
            "" if value is None else readable.number(value),
            "" if view.left is None else readable.duration(view.left),
        )

    def _table(self) -> Table:
        taken = self._taken & self._states  # some of them may have ended since
        states = self._states - taken + Counter(running=taken.total())
        counts = (f"{number} {state}" for state, number in states.items())
        title = f"{self._folder}: {', '.join(counts)}"
        metric = self._metric or "valid/loss"
        headers = ("job", "differs in", "epoch", metric, "left")
        table = Table(*headers, title=Text(errors.printable(title)), title_justify="left")
        for row in self._rows:
            table.add_row(*(Text(errors.printable(each), overflow="ellipsis") for each in row))
        return table
