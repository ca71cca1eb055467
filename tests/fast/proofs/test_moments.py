"""The words that choose where a run is stopped, on a run of two epochs of three updates written out
here.
"""

import pytest

from andiron import errors
from proofs.exact_resume import stop_points
from proofs.exact_resume.stop_points import Moment, Stop

RUN = [
    Moment("train", 0, 0),
    Moment("train", 1, 2),
    Moment("train", 2, 4),
    Moment("train", 3, 5),
    Moment("valid", 3, 0),
    Moment("valid", 3, 1),
    Moment("valid-ema", 3, 0),
    Moment("valid-ema", 3, 1),
    Moment("train", 3, 0),
    Moment("train", 4, 2),
    Moment("train", 4, 4),
    Moment("train", 5, 5),
    Moment("valid", 5, 0),
    Moment("valid", 5, 1),
    Moment("valid-ema", 5, 0),
    Moment("valid-ema", 5, 1),
    Moment("test", 5, 0),
]


@pytest.mark.parametrize(
    ("point", "moment"),
    [
        ("0", ("train", 0, 0)),
        ("1", ("train", 1, 2)),
        ("3", ("train", 3, 5)),  # before the validation: what comes first
        ("4", ("train", 4, 2)),  # of two batches without an update between them the first
        ("mid", ("train", 1, 2)),
        ("edge", ("train", 3, 5)),
        ("validation", ("valid", 3, 1)),
        ("validation:2", ("valid", 5, 1)),
        ("epoch", ("train", 3, 0)),
        ("epoch:1", ("train", 3, 0)),
        ("end", ("train", 5, 5)),
        ("test", ("test", 5, 0)),  # there is only one batch of it
    ],
)
def test_a_word_chooses_its_moment(point, moment):
    assert stop_points.chosen([point], RUN) == [Stop(point, Moment(*moment))]


def test_stops_come_in_the_order_of_the_run_and_each_moment_once():
    found = stop_points.chosen(["end", "validation", "edge", "0", "3", "epoch"], RUN)

    assert [stop.point for stop in found] == ["0", "edge", "validation", "epoch", "end"]


def test_random_stops_are_moments_of_the_run_apart_from_the_others_and_a_function_of_the_seed():
    drawn = {
        seed: stop_points.chosen(["0", "end"], RUN, at_random=4, seed=seed) for seed in range(200)
    }

    for found in drawn.values():
        places = [RUN.index(stop.moment) for stop in found]
        assert places == sorted(set(places)) and len(places) == 6
        assert [stop.point for stop in found].count("random") == 4
    assert stop_points.chosen(["0", "end"], RUN, at_random=4, seed=7) == drawn[7] != drawn[8]
    assert {stop.moment for found in drawn.values() for stop in found} == {
        *RUN
    }  # validation and test too


def test_more_random_stops_than_there_are_moments_are_all_of_them():
    assert [stop.moment for stop in stop_points.chosen(["0"], RUN, at_random=99)] == RUN


def test_a_signal_has_a_moment_after_which_it_is_sent():
    (found,) = stop_points.chosen(["signal"], RUN, seed=3)

    assert found.by_signal and found.moment in RUN
    assert str(found).startswith("signal (about update ")


def test_a_stop_says_where_it_is():
    assert (
        str(stop_points.chosen(["validation"], RUN)[0])
        == "validation (update 3, after 1 batch of valid)"
    )


def test_all_points_that_the_run_does_not_come_by_are_told_at_once():
    with pytest.raises(errors.ConfigError) as refused:
        stop_points.chosen(["6", "validation:3", "epoch:2", "test"], RUN[:-1])

    assert refused.value.problems == (
        "--at 6: this run makes 5 updates; choose a number up to that",
        "--at validation:3: this run has 2 epochs; choose one up to 2, or more num_epochs",
        "--at epoch:2: this run has 2 epochs; choose one up to 1, or more num_epochs",
        "--at test: this run measures no test set; leave it out",
    )


def test_words_that_choose_nothing_in_any_run_are_refused():
    with pytest.raises(errors.ConfigError) as refused:
        stop_points.check(["12", "middle", "validation:0", "data=mnist", "-1"])

    assert [problem.partition(":")[0] for problem in refused.value.problems] == [
        "--at middle",
        "--at validation",
        "--at data=mnist",
        "--at -1",
    ]
    assert refused.value.problems[0] == (
        "--at middle: no point to stop at; should be a number of updates, mid, edge, validation, "
        "epoch (of "
        "epoch n: validation:2), end, test or signal"
    )
    assert refused.value.problems[2].endswith("(overrides come before the options)")
