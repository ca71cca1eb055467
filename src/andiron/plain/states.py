"""The states of runs and jobs, as status.json and a sweep's ledger record them.

>>> State.TIMED_OUT.is_failure, State.PRUNED.is_failure, f"{State.TIMED_OUT}"
(True, False, 'timed out')

`shell/run/status.py` sets the state of a run, `wings/sweep/scheduling.py` that of a job;
`wings/sweep/ledger.py` and `wings/runs/run_reader.py` find missing, killed and damaged runs. Hydra
gets it in `_job_return` of `wings/sweep/launching.py`, a search in `job_ended` of `searching.py` in
the lab.
"""

from enum import StrEnum


class State(StrEnum):
    """The state of a run, or of a job of a sweep."""

    RUNNING = "running"
    PAUSED = "paused"  # at a rung of a race
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    KILLED = "killed"
    TIMED_OUT = "timed out"
    DIVERGED = "diverged"  # non-finite
    PRUNED = "pruned"  # stopped by a search or a race, because others were better
    MISSING = "missing"  # was done, but its results are gone
    DAMAGED = "damaged"

    @property
    def is_bad_trial(self) -> bool:
        """Whether a job ended without a result, which is no failure of its sweep."""
        return self in (State.DIVERGED, State.PRUNED)

    @property
    def is_failure(self) -> bool:
        """Whether the job has not done its work, and may do it when repeated."""
        return self not in (State.RUNNING, State.PAUSED, State.DONE) and not self.is_bad_trial
