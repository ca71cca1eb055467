"""Differences between groups of runs: which runs count, and what is corrected."""

import math
import statistics

import pytest

from andiron.wings.runs.seed_groups import compared
from andiron_lab.seeds.seed_differences import from_first, values
from seed_runs import METRIC, runs


def test_each_seed_counts_once_a_diverged_run_is_nan_and_others_are_named():
    notes = []
    group = [
        *runs(0.5, 0.6), *runs(0.7, first=1), *runs(0.9, status="diverged", first=2),
        *runs(0.8, status="running", first=3), *runs(None, first=4),
    ]  # fmt: skip

    result = values(group, METRIC, notes)

    assert result == pytest.approx({0: 0.5, 1: 0.6, 2: math.nan}, nan_ok=True)
    assert [note.partition("done: ")[2] or note.rpartition(": ")[2] for note in notes] == [
        "has seed 1 again", "is running", f"has no {METRIC}",
    ]  # fmt: skip


def test_no_mean_describes_seeds_of_which_one_diverged():
    groups = runs(0.5, 0.6, lr=1), runs(0.9, lr=2) + runs(0.9, lr=2, status="diverged", first=1)
    first, last = compared([*groups[0], *groups[1]], METRIC, "highest")
    assert first.options == {"lr": 1} and first.metrics[METRIC].mean == 0.55
    assert math.isnan(last.metrics[METRIC].mean) and last.metrics[METRIC].number == 2


def test_several_differences_are_corrected_for_their_number():
    groups = [dict(enumerate(group)) for group in ([1, 1.1, 0.9], [1.3, 1.35, 1.3], [1.0, 1.2, 1])]
    single = [from_first([groups[0], group])[0].p for group in groups[1:]]

    assert [value.p for value in from_first(groups)] == [2 * single[0], single[1]]


def test_the_noise_of_all_groups_counts_each_group_once():
    groups = [dict(enumerate(group)) for group in ([0.5], [0.6, 0.64, 0.61], [0.7], [0.8, 0.83])]

    noises = [(value.deviation, value.degrees) for value in from_first(groups)]

    squares = statistics.variance([0.6, 0.64, 0.61]) * 2 + statistics.variance([0.8, 0.83])
    assert noises == [pytest.approx((math.sqrt(squares / 3), 3))] * 3
