"""Shows the progress of a sweep: a line for each job that ends."""

from collections import Counter
from collections.abc import Collection, Sequence

from andiron.plain import readable
from andiron.plain.states import State
from andiron.shell.cli import answers
from andiron.wings.runs import run_list
from andiron.wings.sweep import ledger
from andiron.wings.sweep.ledger import Job

WAITING = "waiting"  # the state of a job that has not ended
MOST_OF_A_REASON = 80  # characters; the job's log has all


class JobLines:
    """Prints jobs as they end.

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
        self._decisions: set[tuple[Sequence[str], str | None]] = set()  # printed

    def job_ended(self, job: Job) -> None:
        """Prints a line about the job."""
        self._states[self._planned.get(job.identity, WAITING)] -= 1
        self._states[str(job.status)] += 1
        if job.identity in self._planned:
            self._planned[job.identity] = str(job.status)
        answers.give({"job": job.plain(self._folder)})
        decision = (ledger.configuration(job), job.reason)
        if job.status == State.PRUNED and job.reason and decision in self._decisions:
            return  # one line for all seeds
        self._decisions.add(decision)
        number = self._states.total()
        words = [
            f"[{number - self._states[WAITING]}/{number}]",
            " ".join(text for text in job.overrides if text not in self._shared),
            str(job.status),
            f"{self._metric} {readable.number(job.objective)}" if job.objective is not None else "",
            f"in {readable.duration(job.seconds or 0)}," if job.status == State.DONE else "",
            f"({readable.shortened(job.reason, MOST_OF_A_REASON)})" if job.reason else "",
            f"{self._folder}/{job.folder}" if job.folder else f"job {job.number}",
        ]
        print(readable.printable_line(" ".join(filter(None, words))), flush=True)  # seen if killed
