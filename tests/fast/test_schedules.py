"""Schedules against tables worked out by hand, against torch's own, and against their laws."""

import json
import math
import pickle
import random
import warnings
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from andiron import schedules
from andiron.schedules import (
    Composed, Constant, Cosine, CosineRestarts, Exponential, Linear, Noam, OneCycle, Plateau,
    Polynomial, Schedule, Sequential, Step, Warmup, WarmupStableDecay,
)  # fmt: skip
from refusals import message_of

# Fractions of powers of two come out exact. Elsewhere pi, a root or a decimal fraction is rounded,
# and at most eight
# operations after it, each by 2**-53 of the largest value in the table: together by less than 1e-15
# of it.
ROUNDING = 1e-15

TABLES: dict[str, tuple[Schedule, dict[int, float]]] = {
    "constant": (Constant(0.3), {0: 0.3, 1: 0.3, 1_000_000: 0.3}),
    "linear down": (Linear(1.0, 0.25, 4),
                    {0: 1.0, 1: 0.8125, 2: 0.625, 3: 0.4375, 4: 0.25, 5: 0.25, 99: 0.25}),
    "linear up": (Linear(0.0, 0.75, 3), {0: 0.0, 1: 0.25, 2: 0.5, 3: 0.75, 4: 0.75}),
    # the cosine of 0, 30, 60, 90, 120, 150, 180 degrees is 1, sqrt(3)/2, 1/2, 0, -1/2, -sqrt(3)/2,
    # -1
    "cosine": (Cosine(1.0, 6),
               {0: 1.0, 1: 0.9330127018922193, 2: 0.75, 3: 0.5, 4: 0.25, 5: 0.0669872981077807,
                6: 0.0, 7: 0.0, 99: 0.0}),
    "cosine with a floor": (Cosine(0.9, 4, min_lr=0.1),
                            {0: 0.9, 2: 0.5, 4: 0.1, 5: 0.1, 1_000: 0.1}),
    "exponential": (Exponential(0.8, 0.5),
                    {0: 0.8, 1: 0.4, 2: 0.2, 3: 0.1, 4: 0.05, 10: 0.00078125}),
    # d = 4, w = 4: 1/2 * s / 8 up to s = 4, where 1/2 * 1/2 is the peak; then 1/2 / sqrt(s) at s =
    # 9, 16, 25, 100
    "noam": (Noam(1.0, warmup_updates=4, model_size=4),
             {0: 0.0625, 1: 0.125, 2: 0.1875, 3: 0.25, 8: 1 / 6, 15: 0.125, 24: 0.1, 99: 0.05}),
    # d = 512, w = 4000: 1 / (sqrt(512) * 4000 * sqrt(4000)) at s = 1, and at the peak 1 / sqrt(512
    # * 4000); by `bc -l`
    "noam by default": (Noam(1.0), {0: 1.746928107421710711e-07, 3999: 0.00069877124296868428}),
    "step": (Step(1.0, step_size=3, gamma=0.5),
             {0: 1, 2: 1, 3: 0.5, 5: 0.5, 6: 0.25, 8: 0.25, 9: 0.125, 30: 2**-10}),
    "step by tenths": (Step(0.5, step_size=2),
                       {0: 0.5, 1: 0.5, 2: 0.05, 3: 0.05, 4: 0.005, 5: 0.005, 6: 0.0005}),
    "polynomial": (Polynomial(1.0, 4, power=2.0, final_lr=0.5),
                   {0: 1.0, 1: 0.78125, 2: 0.625, 3: 0.53125, 4: 0.5, 9: 0.5}),
    "polynomial by default": (Polynomial(1.0, 4),
                              {0: 1.0, 1: 0.75, 2: 0.5, 3: 0.25, 4: 0.0, 5: 0.0}),
    # the peak is at 0.5 * 6 - 1 = 2, the end at 5
    "one cycle, linear": (
        OneCycle(1.0, 6, warmup_fraction=0.5, initial_divisor=2, final_divisor=2, shape="linear"),
        {0: 0.5, 1: 0.75, 2: 1.0, 3: 0.75, 4: 0.5, 5: 0.25, 6: 0.25, 99: 0.25},
    ),
    "one cycle, cosine": (OneCycle(1.0, 6, warmup_fraction=0.5, initial_divisor=2, final_divisor=2),
                          {0: 0.5, 1: 0.75, 2: 1.0, 3: 0.8125, 4: 0.4375, 5: 0.25, 6: 0.25}),
    "cosine restarts": (CosineRestarts(1.0, 2, multiplier=2),
                        {0: 1.0, 1: 0.5, 2: 1.0, 4: 0.5, 6: 1.0, 8: 0.8535533905932737, 10: 0.5,
                         14: 1.0, 22: 0.5, 30: 1.0}),
    "warm-up, stable, linear decay": (WarmupStableDecay(1.0, 2, 4, 8, min_lr=0.5),
                                      {0: 0.5, 1: 1.0, 2: 1.0, 4: 1.0, 5: 0.875, 6: 0.75, 7: 0.625,
                                       8: 0.5, 9: 0.5, 99: 0.5}),
    # the square roots of 1/4, 2/4, 3/4 are 1/2, sqrt(2)/2, sqrt(3)/2
    "warm-up, stable, square root decay": (WarmupStableDecay(1.0, 2, 4, 8, shape="sqrt"),
                                           {0: 0.5, 1: 1.0, 4: 1.0, 5: 0.5, 6: 0.2928932188134525,
                                            7: 0.1339745962155614, 8: 0.0, 99: 0.0}),
    "sequential": (
        Sequential([Linear(0.0, 1.0, 2), Constant(1.0), Step(1.0, step_size=2, gamma=0.5)], [2, 4]),
        {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 0.5, 7: 0.5, 8: 0.25},
    ),
    "product": (Composed([Linear(1.0, 0.0, 4), Constant(0.5)]),
                {0: 0.5, 1: 0.375, 2: 0.25, 3: 0.125, 4: 0.0}),
    "sum": (Composed([Linear(1.0, 0.0, 4), Constant(0.5)], "sum"),
            {0: 1.5, 1: 1.25, 2: 1.0, 3: 0.75, 4: 0.5}),
    "mean": (Composed([Linear(1.0, 0.0, 4), Constant(0.5)], "mean"),
             {0: 0.75, 1: 0.625, 2: 0.5, 3: 0.375, 4: 0.25}),
    "warm-up": (Warmup(Linear(1.0, 0.0, 8), 4),
                {0: 0.25, 1: 0.4375, 2: 0.5625, 3: 0.625, 4: 0.5, 8: 0.0, 9: 0.0}),
    "plateau": (Plateau(0.3), {0: 0.3, 1: 0.3, 1_000_000: 0.3}),
}  # fmt: skip
NAMES = list(TABLES)


@pytest.mark.parametrize("name", NAMES)
def test_schedule_is_the_table_worked_out_by_hand(name: str) -> None:
    schedule, table = TABLES[name]
    assert {t: schedule(t) for t in table} == pytest.approx(
        table, rel=0, abs=ROUNDING * max(table.values())
    )


def test_schedules_with_the_same_arguments_are_equal_values() -> None:
    assert Cosine(0.1, 100) == Cosine(0.1, 100, min_lr=0.0)
    assert Cosine(0.1, 100) != Cosine(0.1, 101)


def test_a_schedule_survives_pickling_and_shows_its_arguments() -> None:
    schedule = Warmup(Cosine(1, 100), 5)  # an int is a number

    assert pickle.loads(pickle.dumps(schedule)) == schedule
    shown = "Cosine(initial_lr=1.0, num_updates=100, min_lr=0.0)"
    assert repr(schedule) == f"Warmup(schedule={shown}, warmup_updates=5)"


def test_an_argument_that_is_missing_or_unknown_is_reported_with_the_class() -> None:
    with pytest.raises(TypeError, match="^Cosine: missing a required argument: 'num_updates'$"):
        Cosine(0.1)
    with pytest.raises(TypeError, match="^Cosine: got an unexpected keyword argument 'max_lr'$"):
        Cosine(0.1, 10, max_lr=1.0)


def test_a_step_may_raise_the_rate() -> None:
    assert [Step(0.5, 2, gamma=2)(t) for t in range(4)] == [0.5, 0.5, 1.0, 1.0]


def test_a_plain_number_is_the_constant_schedule() -> None:
    assert schedules.from_value(0.25) == Constant(0.25)


def test_a_schedule_stays_itself() -> None:
    schedule = Linear(0.3, 0.1, 7)
    assert schedules.from_value(schedule) is schedule


def test_any_function_of_the_count_is_a_schedule() -> None:
    schedule = schedules.from_value(lambda updates: 1 / (1 + updates))
    assert [schedule(t) for t in range(4)] == [1, 1 / 2, 1 / 3, 1 / 4]


def rates(make, *, lr, number):
    """The learning rates that a scheduler of torch's, made by `make(optimizer)`, gives to `number`
    updates."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    scheduler = make(optimizer)
    result = []
    with warnings.catch_warnings():
        # SequentialLR passes an epoch to its own parts, and warns of it
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(number):
            result.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    return result


# A formula of torch's own, in the same order of operations: equal to the last bit.
@pytest.mark.parametrize("number", [1, 2, 3, 10, 311])
@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.3, 0.77])
def test_one_cycle_with_a_cosine_is_torchs(number, fraction):
    ours = OneCycle(0.3, number, fraction, initial_divisor=10.0, final_divisor=300.0)

    theirs = rates(
        lambda optimizer: lr_scheduler.OneCycleLR(
            optimizer, 0.3, number, pct_start=fraction, div_factor=10.0, final_div_factor=300.0,
            cycle_momentum=False,
        ),
        lr=0.1,
        number=number,
    )  # fmt: skip
    assert [ours(t) for t in range(number)] == theirs


def test_one_cycle_with_straight_lines_is_torchs():
    ours = OneCycle(0.3, 311, shape="linear")

    theirs = rates(
        lambda optimizer: lr_scheduler.OneCycleLR(
            optimizer, 0.3, 311, anneal_strategy="linear", cycle_momentum=False
        ),
        lr=0.1,
        number=311,
    )
    # torch walks from the start, we from the end: each of three roundings is 2**-53 of at most 0.3
    assert [ours(t) for t in range(311)] == pytest.approx(theirs, rel=0, abs=ROUNDING)


def test_a_one_cycle_with_one_warmup_update_begins_at_its_peak():
    assert OneCycle(0.3, 10, warmup_fraction=0.1)(0) == 0.3


def test_a_one_cycle_of_one_update_is_warned_of(caplog):
    for num_updates in (1, 2):
        schedules.warn_of_length("scheduler", OneCycle(0.3, num_updates), num_updates)
    (said,) = caplog.messages
    assert said.startswith("scheduler.num_updates=1: its one learning rate is 1.2e-06, the end of")


@pytest.mark.parametrize(("first", "multiplier"), [(1, 1), (7, 1), (1, 2), (5, 2), (4, 3)])
def test_cosine_restarts_are_torchs(first, multiplier):
    ours = CosineRestarts(0.3, first, multiplier, min_lr=0.01)

    theirs = rates(
        lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(
            optimizer, first, multiplier, eta_min=0.01
        ),
        lr=0.3,
        number=400,
    )
    assert [ours(t) for t in range(400)] == theirs


# torch multiplies the last learning rate by a factor at every update, so its roundings add up:
# three an update, each by
# 2**-53 of the value, 4e-13 of it in all over 400; and near the end of a polynomial 1 - t / T is
# itself a difference.
RECURSION = 4e-12


@pytest.mark.parametrize("power", [0.5, 0.9, 1.0, 3.0])
def test_polynomial_is_torchs(power):
    ours = Polynomial(0.3, 350, power)

    theirs = rates(
        lambda optimizer: lr_scheduler.PolynomialLR(optimizer, 350, power), lr=0.3, number=400
    )
    assert [ours(t) for t in range(400)] == pytest.approx(theirs, rel=RECURSION, abs=0)


@pytest.mark.parametrize("direction", ["lowest", "highest"])
@pytest.mark.parametrize("seed", range(5))
def test_plateau_is_torchs(direction, seed):
    stream = random.Random(seed)
    values = [math.exp(stream.gauss(0, 1) - t / 200) for t in range(400)]
    ours = Plateau(
        0.3, 0.7, patience=3, threshold=0.01, min_lr=0.002, metric="score", split="train",
        direction=direction,
    )  # fmt: skip
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    theirs = lr_scheduler.ReduceLROnPlateau(
        optimizer,
        {"lowest": "min", "highest": "max"}[direction],
        0.7,
        patience=3,
        threshold=0.01,
        min_lr=0.002,
        eps=0,
    )

    for t, value in enumerate(values):
        ours.observe({"valid": {"score": 1.0}, "train": {"loss": 2.0, "score": value}})
        theirs.step(value)
        assert ours(t) == optimizer.param_groups[0]["lr"]
    assert ours(0) == 0.002


def observed(plateau, *losses):
    """The learning rate after each loss."""
    result = []
    for loss in losses:
        plateau.observe({"valid": {"loss": loss}})
        result.append(plateau(0))
    return result


@pytest.mark.parametrize(("direction", "sign"), [("lowest", 1), ("highest", -1)])
def test_the_same_negative_value_again_is_no_gain(direction, sign):
    plateau = Plateau(1.0, 0.5, patience=0, threshold=0.1, direction=direction)

    assert observed(plateau, -1.0, -1.0, -1.0 - sign * 0.05, -1.0 - sign * 0.2) == [
        1, 0.5, 0.25, 0.25,
    ]  # fmt: skip


def test_a_non_finite_value_is_no_gain():
    assert observed(Plateau(1.0, 0.5, patience=0), math.nan, 1.0, math.nan) == [0.5, 0.5, 0.25]


def test_a_metric_that_was_not_measured_is_named_with_those_that_were():
    with pytest.raises(KeyError) as caught:
        Plateau(1.0, metric="accuracy").observe(
            {"train": {"loss": 1.0}, "valid": {"loss": 1.0, "f1": 0.0}}
        )
    assert caught.value.args == (
        "the learning rate needs valid/accuracy, which is not measured; "
        "available: train/loss, valid/loss, valid/f1; name one of these as split and metric",
    )


@given(st.lists(st.floats(-5, 5), max_size=20), st.lists(st.floats(-5, 5), max_size=20))
def test_a_resumed_plateau_equals_one_that_never_stopped(before, after):
    whole, stopped, resumed = (Plateau(1.0, 0.5, patience=2) for _ in range(3))
    observed(whole, *before)
    observed(stopped, *before)

    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))

    assert observed(resumed, *after) == observed(whole, *after)
    assert resumed.state_dict() == whole.state_dict()


@pytest.mark.parametrize("lr", [0.5, 2.0])
def test_a_plateau_resumed_with_another_rate_keeps_its_reductions(lr):
    before, changed = Plateau(1.0, 0.5, patience=0), Plateau(lr, 0.5, patience=0, min_lr=0.2)
    observed(before, 1.0, 2.0)
    state = before.state_dict()
    changed.load_state_dict(state)
    assert changed(0) == max(lr * 0.5, 0.2)

    del state["initial_lr"]  # as an earlier version saved it
    old = Plateau(1.0)
    old.load_state_dict(state)
    assert old(0) == 0.5


LEARNING_RATES = st.floats(1e-100, 10)  # of less, parts underflow
COUNTS = st.integers(1, 60)
REDUCTIONS = st.sampled_from(["product", "sum", "mean"])


def made(drawn):
    """The schedule of a drawn (class, argument, ...): type checks in constructors draw random
    numbers, strategies may not."""
    if isinstance(drawn, list):
        return [made(value) for value in drawn]
    return drawn[0](*map(made, drawn[1:])) if isinstance(drawn, tuple) else drawn


@st.composite
def falling(draw):
    """A schedule that falls to a horizon, and the horizon."""
    top, length = draw(LEARNING_RATES), draw(COUNTS)
    low, power = draw(st.floats(0, top)), draw(st.floats(0.1, 5))
    kinds = [
        (Linear, top, low, length),
        (Cosine, top, length, low),
        (Polynomial, top, length, power, low),
    ]
    kinds += [
        (WarmupStableDecay, top, 1, length, length + 1, shape, low) for shape in ("linear", "sqrt")
    ]
    return draw(st.sampled_from(kinds)), length + 1


@st.composite
def simple(draw):
    """A schedule with none inside."""
    schedule, length = draw(falling())
    top, width, share = draw(LEARNING_RATES), draw(COUNTS), draw(st.floats(0, 1, exclude_min=True))
    kinds = [
        schedule, (Constant, top), (Plateau, top), (Noam, top, width), (Exponential, top, share),
    ]  # fmt: skip
    kinds += [(OneCycle, top, length, share, 25.0, 1e4, shape) for shape in ("cosine", "linear")]
    kinds += [(CosineRestarts, top, width, multiplier) for multiplier in (1, 2, 3)]
    return draw(st.sampled_from(kinds))


ANY = st.recursive(
    simple(),
    lambda inner: st.one_of(
        st.tuples(st.just(Warmup), inner, COUNTS),
        st.tuples(st.just(Composed), st.lists(inner, min_size=1, max_size=3), REDUCTIONS),
        st.tuples(
            st.just(Sequential),
            st.lists(inner, min_size=2, max_size=2),
            st.lists(COUNTS, min_size=1, max_size=1),
        ),
    ),
    max_leaves=4,
)


@given(ANY, st.integers(0, 200))
def test_a_learning_rate_is_a_finite_number_and_never_negative(drawn, updates):
    assert 0 <= made(drawn)(updates) < math.inf


@given(falling())
def test_falling_schedules_never_rise_and_end_at_their_horizon(drawn):
    schedule, horizon = made(drawn[0]), drawn[1]
    values = [schedule(t) for t in range(horizon + 5)]

    # one rounding of the largest value may lift what should be level
    assert all(later <= earlier + 2**-52 * values[0] for earlier, later in pairwise(values))
    assert {*values[horizon:], schedule(10**9)} == {values[-1]}


@given(ANY, REDUCTIONS, st.integers(0, 200))
def test_composed_of_one_is_that_one(drawn, reduction, updates):
    schedule = made(drawn)

    assert Composed([schedule], reduction)(updates) == schedule(updates)


def test_three_schedules_are_reduced_together() -> None:
    schedules = [Constant(0.5), Linear(0.25, 1.0, 6), Step(1.0, 3, gamma=0.5)]
    for t in range(8):
        a, b, c = (schedule(t) for schedule in schedules)
        assert Composed(schedules)(t) == a * b * c
        assert Composed(schedules, "sum")(t) == a + b + c
        assert Composed(schedules, "mean")(t) == (a + b + c) / 3


@given(ANY, ANY, COUNTS, st.integers(0, 200))
def test_sequential_is_the_first_and_then_the_second_shifted(first, second, milestone, updates):
    first, second = made(first), made(second)
    both = Sequential([first, second], [milestone])

    assert both(updates) == (first(updates) if updates < milestone else second(updates - milestone))
    assert both(milestone) == second(0)


@given(ANY, COUNTS, st.integers(0, 200))
def test_a_warmup_ends_at_its_schedule_and_stays_below_it_before(drawn, width, updates):
    schedule = made(drawn)
    warm = Warmup(schedule, width)

    assert warm(width - 1) == schedule(width - 1)
    assert warm(width + updates) == schedule(width + updates)
    assert warm(updates) <= schedule(updates)


@given(ANY, st.integers(0, 200))
def test_a_phase_of_no_updates_is_left_out(drawn, updates):
    schedule, stable = made(drawn), Constant(0.5)
    falls = WarmupStableDecay(0.5, 1, 4, 9)

    assert Warmup(schedule, 0)(updates) == schedule(updates)
    assert Sequential([stable, schedule], [0])(updates) == schedule(updates)
    assert WarmupStableDecay(0.5, 0, 4, 9)(updates) == falls(updates)
    assert WarmupStableDecay(0.5, 0, 0, 9)(updates) == 0.5
    assert Noam(0.5, 0, 4)(updates) == 0.25 / math.sqrt(updates + 1)


@given(simple(), st.integers(1, 200))
def test_no_rate_is_above_the_peak_which_a_long_run_reaches(drawn, length):
    schedule = made(drawn)
    peak, warm = (
        schedules.peak_rate(value, 4_000) for value in (schedule, Warmup(schedule, length))
    )
    rates = [schedule(updates) for updates in range(4_000)]

    assert warm == peak >= max(rates) * (1 - ROUNDING)
    # a cycle of few updates may step over its peak
    assert isinstance(schedule, OneCycle) or peak == pytest.approx(max(rates), rel=0.02)
    assert schedules.peak_rate(Composed([schedule], "sum"), 4_000) == max(rates)


def test_a_peak_is_asked_without_a_change_of_state():
    class Counted:
        """A rate that grows at each call."""

        calls = 0

        def __call__(self, updates):
            self.calls += 1
            return self.calls / 4

        def state_dict(self):
            return {"calls": self.calls}

        def load_state_dict(self, state):
            self.calls = state["calls"]

    schedule = Counted()
    assert (schedules.peak_rate(schedule, 8), schedule.calls) == (2.0, 0)
    for flat, words in ((lambda t: 0.0, "is 0.0; sh"), (lambda t: math.inf, "is inf; sh")):
        with pytest.raises(ValueError, match=words):
            schedules.peak_rate(flat, 3)
    with pytest.raises(ValueError, match="unknown above 10,000,000 updates: give it a property"):
        schedules.peak_rate(lambda t: 0.1, 10**12)


def test_stateful_schedules_are_found_at_any_depth_once():
    a, b, c = Plateau(0.1), Plateau(0.1), Plateau(0.1)
    tree = Sequential(
        [Warmup(Composed([Constant(1.0), b, a]), 3), c, Cosine(0.1, 5), a], [5, 10, 15]
    )

    assert schedules.stateful(a) == [a]
    assert schedules.stateful(tree) == [b, a, c]
    assert (
        schedules.stateful(Warmup(Cosine(0.1, 5), 3))
        == schedules.stateful(lambda updates: 0.1)
        == []
    )


def test_a_plateau_lowers_the_schedule_that_it_is_within():
    plateau = Plateau(1.0, 0.5, patience=0)
    schedule = Warmup(Composed([Constant(0.25), plateau]), 2)

    observed(schedules.stateful(schedule)[0], 1.0, 2.0)

    assert [schedule(t) for t in range(3)] == [0.0625, 0.125, 0.125]


def test_a_list_given_is_not_kept_and_equal_parts_make_equal_schedules():
    parts, milestones = [Constant(0.1), Constant(0.2)], [3]
    schedule = Sequential(parts, milestones)
    parts.clear()
    milestones.append(1)

    assert schedule == Sequential((Constant(0.1), Constant(0.2)), (3,))
    assert Composed([Constant(0.1)]) == Composed((Constant(0.1),))


TWO = [Constant(0.1), Constant(0.2)]


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Cosine(0.1, 0),
     "num_updates=0: should be 1 or more; give it as a whole number of updates"),
    (lambda: Constant(0.0), "lr=0.0: should be greater than 0 (Constant)"),
    (lambda: Constant(-0.1), "lr=-0.1: should be greater than 0 (Constant)"),
    (lambda: Constant(math.nan), "lr=nan: should be a finite number (Constant)"),
    (lambda: Exponential(0.1, 1.5), "gamma=1.5: should be less than or equal to 1 (Exp"),
    (lambda: Cosine(0.1, 5, 0.2), "min_lr=0.2: should be at most initial_lr=0.1; lower"),
    (lambda: Cosine(0.1, "2epochs"),
     "num_updates=2epochs: should be 1 or more; give it as a whole number of updates, as epochs "
     "only in a configuration (Cosine)"),
    (lambda: Warmup(0.1, 5), "schedule=0.1: should be callable (Warmup)"),
    (lambda: Linear(0.1, 0.0, -1), "num_updates=-1: should be 1 or more"),
    (lambda: Noam(0.1, -1), "warmup_updates=-1: should be 0 or more"),
    (lambda: Step(0.1, 0), "step_size=0: should be 1 or more"),
    (lambda: Polynomial(0.1, 0), "num_updates=0: should be 1 or more"),
    (lambda: Polynomial(0.1, 5, 0.0), "power=0.0: should be greater than 0 (Polynomial)"),
    (lambda: Polynomial(-0.1, 5), "initial_lr=-0.1: should be greater than 0 (Polynomial)"),
    (lambda: OneCycle(math.nan, 5), "max_lr=nan: should be a finite number (OneCycle)"),
    (lambda: OneCycle(0.1, 5, 1.5),
     "warmup_fraction=1.5: should be less than or equal to 1 (OneCycle)"),
    (lambda: OneCycle(0.1, 5, final_divisor=0.0), "final_divisor=0.0: should be greater than 0"),
    (lambda: CosineRestarts(0.1, 0), "first_cycle_updates=0: should be 1 or more"),
    (lambda: CosineRestarts(0.1, 5, 0),
     "multiplier=0: should be greater than or equal to 1 (CosineRestarts)"),
    (lambda: CosineRestarts(0.1, 5, min_lr=0.2),
     "min_lr=0.2: should be at most initial_lr=0.1; lower min_lr, or raise"),
    (lambda: WarmupStableDecay(0.1, 1, -1, 9), "decay_updates=-1: should be 0 or more"),
    (lambda: WarmupStableDecay(0.1, 1, 1, 9, min_lr=0.2), "min_lr=0.2: should be at most lr=0.1"),
    (lambda: WarmupStableDecay(0.1, 4, 6, 9),
     "warmup_updates=4 and decay_updates=6: together should be at most num_updates=9; shorten "
     "one of them, or train"),
    (lambda: Plateau(0.1, 1.0), "factor=1.0: should be less than 1 (Plateau)"),
    (lambda: Plateau(0.1, threshold=1.0), "threshold=1.0: should be less than 1 (Plateau)"),
    (lambda: Plateau(0.1, patience=-1),
     "patience=-1: should be greater than or equal to 0 (Plateau)"),
    (lambda: Plateau(0.1, min_lr=0.2), "min_lr=0.2: should be at most initial_lr=0.1"),
    (lambda: Plateau(0.1, direction="min"),
     "direction=min: should be 'lowest' or 'highest' (Plateau)"),
    (lambda: Sequential([], []),
     "schedules=[]: should hold at least one schedule; Constant(lr) is the simplest"),
    (lambda: Sequential(TWO, [1, 2]),
     "milestones=[1, 2]: 2 for 2 schedules, should be 1; give the update at which each schedule "
     "but the first begins"),
    (lambda: Sequential(TWO, []), "milestones=[]: 0 for 2 schedules, should be 1"),
    (lambda: Sequential([*TWO, Constant(0.3)], [5, 5]),
     "milestones=[5, 5]: should increase, from 0 on; sort them, and"),
    (lambda: Sequential(TWO, [-1]),
     "milestones=[-1]: should be 0 or more; give it as a whole number"),
    (lambda: Composed([]), "schedules=[]: should hold at least one schedule"),
    (lambda: Warmup(Constant(0.1), -1), "warmup_updates=-1: should be 0 or more"),
])  # fmt: skip
def test_an_impossible_argument_is_refused_with_what_is_allowed(make, words):
    assert message_of(ValueError, make).startswith(words)
