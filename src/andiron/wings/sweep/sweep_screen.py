"""Shows a sweep: a live table on a terminal, elsewhere a line for each job that ends."""

import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from andiron.plain import improvement, readable
from andiron.plain.states import State
from andiron.shell.cli import answers
from andiron.wings.runs import run_list
from andiron.wings.screen.watch import WatchedRun
from andiron.wings.sweep import ledger
from andiron.wings.sweep.ledger import Job
from andiron.wings.sweep.scheduling import RunningJob

SECONDS_BETWEEN_DRAWINGS = 0.5
WAITING = "waiting"  # the state of a job that is not started, or tried again
MOST_ROWS = 30  # of running jobs
MOST_OF_A_REASON = 80  # characters; the job's log and summary.csv have all


class SweepScreen:
    """Shows jobs as they run and end.

    `planned` are all jobs of the sweep, also done ones; a search proposes `proposed` more later,
    which all have the overrides `shared`. What all jobs share is not shown.
    """

    def __init__(
        self,
        planned: Sequence[Job],
        metric: str | None,
        folder: str,
        *,
        shared: Collection[str] = (),
        proposed: int = 0,
    ):
        self._shared = {*shared, *ledger.shared_overrides(planned)}
        self._metric = metric or run_list.DEFAULT_METRIC
        self._folder = folder
        self._planned = {job.identity: str(job.status or WAITING) for job in planned}
        self._states = Counter(self._planned.values())
        self._states[WAITING] += proposed
        self._watched: dict[str, WatchedRun] = {}
        self._decisions: set[tuple[Sequence[str], str | None]] = set()  # printed
        self._drawn_at = 0.0
        self._live = Live(console=Console(), auto_refresh=False, transient=True)

    def __enter__(self) -> "SweepScreen":
        if sys.stdout.isatty() and not answers.are_asked():
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def update(self, running: Sequence[RunningJob]) -> None:
        """Redraws the table at most every `SECONDS_BETWEEN_DRAWINGS`."""
        if self._live.is_started and time.monotonic() - self._drawn_at > SECONDS_BETWEEN_DRAWINGS:
            self._drawn_at = time.monotonic()
            self._live.update(self._table(running), refresh=True)

    def job_ended(self, job: Job, retried: bool) -> None:
        """Prints a line about the job."""
        state = WAITING if retried else str(job.status)
        self._states[self._planned.get(job.identity, WAITING)] -= 1
        self._states[state] += 1
        if job.identity in self._planned:
            self._planned[job.identity] = state
        answers.give({"job": job.plain(self._folder) | {"retried": retried}})
        decision = (ledger.configuration(job), job.reason)
        if job.status == State.PRUNED and job.reason and decision in self._decisions:
            return  # one line for all seeds
        self._decisions.add(decision)
        number = self._states.total()
        words = [
            f"[{number - self._states[WAITING]}/{number}]",
            self._differing(job),
            str(job.status),
            f"{self._metric} {readable.number(job.objective)}" if job.objective is not None else "",
            f"in {readable.duration(job.seconds or 0)}," if job.status == State.DONE else "",
            f"({readable.shortened(job.reason, MOST_OF_A_REASON)})" if job.reason else "",
            f"{self._folder}/{job.folder}" if job.folder else f"job {job.number}",
            "; tried again" if retried else "",
        ]
        print(readable.printable_line(" ".join(filter(None, words))), flush=True)  # seen if killed

    def _differing(self, job: Job) -> str:
        return " ".join(text for text in job.overrides if text not in self._shared)

    def _job_row(self, running: RunningJob) -> list[str]:
        job, folder = running.job, running.run_folder
        row = [str(job.number), self._differing(job)]
        if folder is None:
            return row
        view = self._watched.setdefault(job.identity, WatchedRun(folder)).view()
        split, metric = improvement.split_and_metric(self._metric)
        value = view.curves.latest.get(split, {}).get(metric)
        return [
            *row,
            f"{view.epoch}/{view.num_epochs}" if view.num_epochs else f"{view.updates:,}",
            "" if value is None else readable.number(value),
            "" if view.left is None else readable.duration(view.left),
        ]

    def _table(self, running: Sequence[RunningJob]) -> Table:
        ended = self._states.total() - self._states[WAITING]
        title = f"{self._folder}: {ended} of {self._states.total()}, {len(running)} running"
        headers = "job", "differs in", "epoch", self._metric, "left"
        table = Table(*headers, title=Text(readable.printable(title)), title_justify="left")
        for row in map(self._job_row, running[:MOST_ROWS]):
            table.add_row(*(Text(readable.printable(cell), overflow="ellipsis") for cell in row))
        return table
