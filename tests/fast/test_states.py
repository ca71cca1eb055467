"""Every state of a run or a job is decided: whether it is final, a failure or a bad trial."""

from andiron.plain.states import State

FAILURES = {"interrupted", "failed", "killed", "timed out", "missing", "damaged"}
BAD_TRIALS = {"diverged", "pruned"}
GOING_WELL = {"running", "paused", "done"}
FINAL = {"done", "paused", "interrupted", *BAD_TRIALS}


def test_every_state_is_a_failure_a_bad_trial_or_going_well():
    assert {*State} == FAILURES | BAD_TRIALS | GOING_WELL
    assert {state for state in State if state.is_failure} == FAILURES
    assert {state for state in State if state.is_bad_trial} == BAD_TRIALS
    assert {state for state in State if state.is_final} == FINAL
