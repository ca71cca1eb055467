"""Small values: cadences, patterns of names, the states of a job."""

import threading
import time

import pytest
from hypothesis import given, strategies as st

from andiron import progress
from andiron.plain import patterns
from andiron.plain.cadence import Cadence, Ticker
from andiron.plain.states import State

from refusals import message_of


@pytest.mark.parametrize("value, cadence", [
    (500, Cadence(updates=500)),
    ("2epochs", Cadence(epochs=2)),
    ("1epoch", Cadence(epochs=1)),
    ("0.5epochs", Cadence(epochs=0.5)),
    ("10minutes", Cadence(minutes=10)),
    ({"updates": 500, "minutes": 10}, Cadence(updates=500, minutes=10)),
    (Cadence(updates=3), Cadence(updates=3)),
])  # fmt: skip
def test_a_cadence_is_read_from_its_short_forms(value, cadence):
    assert Cadence.of(value) == cadence


@pytest.mark.parametrize("value", ["2", "epochs", "0epochs", "2 epochs", {}, {"updates": 0}, -1])
def test_what_is_no_cadence_is_refused(value):
    with pytest.raises(ValueError):
        Cadence.of(value)


def test_a_part_of_an_epoch_is_a_number_of_updates():
    assert Cadence(epochs=0.5).in_updates(7) == Cadence(updates=4)
    assert Cadence(epochs=0.01).in_updates(7) == Cadence(updates=1)
    assert Cadence(epochs=0.5, updates=2).in_updates(7) == Cadence(updates=2)
    assert Cadence(epochs=2).in_updates(7) == Cadence(epochs=2)


@given(st.integers(1, 20), st.integers(1, 100))
def test_updates_are_due_at_their_multiples_and_not_before_the_first(every, last):
    ticker = Ticker(Cadence(updates=every))
    due = [update for update in range(last + 1) if ticker.due(updates=update, epochs=None)]
    assert due == list(range(every, last + 1, every))


def test_epochs_are_due_at_the_end_of_their_multiples_only():
    ticker = Ticker(Cadence(epochs=2))
    assert not ticker.due(updates=7, epochs=1)
    assert not ticker.due(updates=14, epochs=None)
    assert ticker.due(updates=14, epochs=2)


def test_minutes_count_from_the_last_time():
    now = [0.0]
    ticker = Ticker(Cadence(minutes=2), clock=lambda: now[0])
    due = []
    for update, now[0] in enumerate([60.0, 119.9, 120.0, 200.0, 240.0], start=1):
        if ticker.due(updates=update, epochs=None):
            ticker.done(update)
            due.append(update)
    assert due == [3, 5]


def test_nothing_is_due_twice_at_one_update_nor_after_a_resume():
    ticker, resumed = Ticker(Cadence(updates=3, epochs=1)), Ticker(Cadence(updates=3, epochs=1))
    assert ticker.due(updates=3, epochs=None)
    ticker.done(3)
    resumed.load_state_dict(ticker.state_dict())
    for value in (ticker, resumed):
        assert value.was_done(3) and not value.due(updates=3, epochs=1)
        assert value.due(updates=6, epochs=None)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(.*a){20}$"])
def test_an_expression_of_exponential_time_is_refused(pattern):
    started = time.process_time()
    with pytest.raises(ValueError, match="takes more than 1 second to match"):
        patterns.searched(pattern, ["a" * 60 + "!"])
    assert time.process_time() - started < 5


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 100_000])
def test_what_is_no_expression_is_refused(pattern):
    assert "is not a valid regex" in message_of(ValueError, patterns.compiled, pattern)


def test_outside_the_main_thread_matching_has_no_timer():
    result = []
    thread = threading.Thread(target=lambda: result.append(patterns.searched("b", ["abc", "d"])))
    thread.start()
    thread.join()
    assert [*result[0]] == ["abc"]


def test_names_are_replaced_as_re_does():
    assert patterns.replaced("b(.)", r"\1", ["abc", "d"]) == [("ac", 1), ("d", 0)]


FAILURES = {"interrupted", "failed", "killed", "timed out", "missing", "damaged"}
BAD_TRIALS = {"diverged", "pruned"}
GOING_WELL = {"running", "paused", "done"}


def test_every_state_is_a_failure_a_bad_trial_or_going_well():
    assert {*State} == FAILURES | BAD_TRIALS | GOING_WELL
    assert {state for state in State if state.is_failure} == FAILURES
    assert {state for state in State if state.is_bad_trial} == BAD_TRIALS


def test_a_long_loop_is_logged_ever_less_often(caplog, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    caplog.set_level("INFO", logger="andiron")

    def made():
        for seconds in range(1, 101):
            yield seconds
            now[0] += 1

    assert [*progress.watched(made(), "files", 100)] == [*range(1, 101)]
    assert caplog.messages == [f"files: {n} of 100" for n in (12, 22, 42, 82)]
    now[0] = 0.0
    assert [*progress.watched(range(9), "files")] == [*range(9)] and len(caplog.messages) == 4
