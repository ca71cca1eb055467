"""Schedules against tables worked out by hand."""

import random

import pytest

from andiron import schedules
from andiron.schedules import Constant, Cosine, Exponential, Linear, Noam, Schedule, Step

# Fractions of powers of two come out exact. Elsewhere pi, a root or a decimal fraction is rounded, and at most eight
# operations after it, each by 2**-53 of the largest value in the table: together by less than 1e-15 of it.
ROUNDING = 1e-15

TABLES: dict[str, tuple[Schedule, dict[int, float]]] = {
    "constant": (Constant(0.3), {0: 0.3, 1: 0.3, 1_000_000: 0.3}),
    "linear down": (Linear(1.0, 0.25, 4), {0: 1.0, 1: 0.8125, 2: 0.625, 3: 0.4375, 4: 0.25, 5: 0.25, 99: 0.25}),
    "linear up": (Linear(0.0, 0.75, 3), {0: 0.0, 1: 0.25, 2: 0.5, 3: 0.75, 4: 0.75}),
    # the cosine of 0, 30, 60, 90, 120, 150, 180 degrees is 1, sqrt(3)/2, 1/2, 0, -1/2, -sqrt(3)/2, -1
    "cosine": (
        Cosine(1.0, 6),
        {0: 1.0, 1: 0.9330127018922193, 2: 0.75, 3: 0.5, 4: 0.25, 5: 0.0669872981077807, 6: 0.0, 7: 0.0, 99: 0.0},
    ),
    "cosine with a floor": (Cosine(0.9, 4, min_lr=0.1), {0: 0.9, 2: 0.5, 4: 0.1, 5: 0.1, 1_000: 0.1}),
    "exponential": (Exponential(0.8, 0.5), {0: 0.8, 1: 0.4, 2: 0.2, 3: 0.1, 4: 0.05, 10: 0.00078125}),
    # d = 4, w = 4: 1/2 * s / 8 up to s = 4, where 1/2 * 1/2 is the peak; then 1/2 / sqrt(s) at s = 9, 16, 25, 100
    "noam": (
        Noam(1.0, warmup_updates=4, model_size=4),
        {0: 0.0625, 1: 0.125, 2: 0.1875, 3: 0.25, 8: 1 / 6, 15: 0.125, 24: 0.1, 99: 0.05},
    ),
    # d = 512, w = 4000: 1 / (sqrt(512) * 4000 * sqrt(4000)) at s = 1, and at the peak 1 / sqrt(512 * 4000); by `bc -l`
    "noam by default": (Noam(1.0), {0: 1.746928107421710711e-07, 3999: 0.00069877124296868428}),
    "step": (Step(1.0, step_size=3, gamma=0.5), {0: 1, 2: 1, 3: 0.5, 5: 0.5, 6: 0.25, 8: 0.25, 9: 0.125, 30: 2**-10}),
    "step by tenths": (Step(0.5, step_size=2), {0: 0.5, 1: 0.5, 2: 0.05, 3: 0.05, 4: 0.005, 5: 0.005, 6: 0.0005}),
}
NAMES = list(TABLES)


@pytest.mark.parametrize("name", NAMES)
def test_schedule_is_the_table_worked_out_by_hand(name: str) -> None:
    schedule, table = TABLES[name]
    assert {t: schedule(t) for t in table} == pytest.approx(table, rel=0, abs=ROUNDING * max(table.values()))


@pytest.mark.parametrize("name", ["constant", "linear down", "linear up", "exponential", "step"])
def test_schedule_of_exact_fractions_is_exact(name: str) -> None:
    schedule, table = TABLES[name]
    assert {t: schedule(t) for t in table} == table


@pytest.mark.parametrize(
    "schedule", [Linear(0.3, 0.1, 7), Linear(0.001, 0.0, 7), Cosine(0.3, 7), Cosine(0.3, 7, min_lr=0.1)], ids=repr
)
def test_last_value_is_held_after_the_horizon(schedule: Schedule) -> None:
    assert schedule(6) != schedule(7)
    assert {schedule(t) for t in (7, 8, 13, 10_000, 10**12)} == {schedule(7)}


@pytest.mark.parametrize("name", NAMES)
def test_value_depends_on_the_count_alone_whatever_was_asked_before(name: str) -> None:
    schedule, _ = TABLES[name]
    counts = list(range(40))
    in_order = {t: schedule(t) for t in counts}
    random.Random(0).shuffle(counts)
    assert {t: schedule(t) for t in counts} == in_order


def test_noam_rises_to_its_warmup_and_falls_after_it() -> None:
    values = [Noam(2.0, warmup_updates=50, model_size=16)(t) for t in range(200)]
    assert values[:50] == sorted(values[:50])
    assert values[49:] == sorted(values[49:], reverse=True)
    assert max(values) == values[49]


def test_schedules_with_the_same_arguments_are_equal_values() -> None:
    assert Cosine(0.1, 100) == Cosine(0.1, 100, min_lr=0.0)
    assert Cosine(0.1, 100) != Cosine(0.1, 101)


def test_a_plain_number_is_the_constant_schedule() -> None:
    assert schedules.from_value(0.25) == Constant(0.25)


def test_a_schedule_stays_itself() -> None:
    schedule = Linear(0.3, 0.1, 7)
    assert schedules.from_value(schedule) is schedule


def test_any_function_of_the_count_is_a_schedule() -> None:
    schedule = schedules.from_value(lambda updates: 1 / (1 + updates))
    assert [schedule(t) for t in range(4)] == [1, 1 / 2, 1 / 3, 1 / 4]
