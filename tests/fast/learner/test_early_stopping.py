"""When a run ends: tables, a naive reference over random series, and the same after a resume at any
epoch.
"""

import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron.learner.extras.early_stopping import EarlyStopping

SERIES = st.lists(
    st.sampled_from([*range(-6, 7), math.nan, math.inf, -math.inf]), min_size=1, max_size=14
)


def shown(rule, values, first_epoch=1):
    """The decision and whether it was the best, after each epoch; the rule sees all of them, as it
    would if others waited.
    """
    return [
        (rule.observe({"valid": {rule.metric: float(value)}}, epoch), rule.observed.is_best)
        for epoch, value in enumerate(values, first_epoch)
    ]


def stops_after(rule, values):
    """The first epoch after which the run ends, and why; None if it continues."""
    reasons = [
        (epoch, stop) for epoch, (stop, _) in enumerate(shown(rule, values), start=1) if stop
    ]
    return reasons[0] if reasons else None


@pytest.mark.parametrize(
    "mode, direction, values, epoch",
    [
        # from the last gain, not from the epoch before: 3.5 is not below 3.5
        ("absolute", "lowest", (4, 3.75, 3.5, 3.25), 3),
        ("absolute", "lowest", (4, 3.75, 3.25, 3, 2.5), None),
        ("absolute", "highest", (1, 1.5, 1.5), 3),
        ("relative", "lowest", (8, 6, 4, 3.9, 2), 3),  # half of 8 is the limit
        ("relative", "lowest", (8, 6, 3, 2, 1), None),
        ("relative", "lowest", (-8, -10, -12, -13), 3),
        ("relative", "highest", (2, 2.5, 3, 4), 3),
    ],
)
def test_a_gain_is_more_than_min_delta_since_the_last_gain(mode, direction, values, epoch):
    rule = EarlyStopping(
        "loss", direction=direction, patience=2, min_delta=0.5, min_delta_mode=mode
    )

    stopped = stops_after(rule, values)
    assert (stopped and stopped[0]) == epoch


@pytest.mark.parametrize("direction, values, epoch", [
    ("lowest", (4, 3, 2, 1), 3), ("lowest", (4, 3, 2.5), None), ("highest", (0, 1, 2, 1), 3),
    ("highest", (3,), 1),
])  # fmt: skip
def test_the_run_ends_where_the_goal_is_reached_or_passed(direction, values, epoch):
    stopped = stops_after(EarlyStopping("loss", direction=direction, goal=2), values)

    assert stopped == (epoch and (epoch, f"valid loss is {values[epoch - 1]}: goal=2 is reached"))


@pytest.mark.parametrize("direction, values, epoch, best", [
    ("lowest", (4, 3, 8, 9, 1), 4, "3 at epoch 2"), ("highest", (9, 8, 7), 3, "9 at epoch 1"),
])  # fmt: skip
def test_the_run_ends_where_the_value_is_worse_than_divergence(direction, values, epoch, best):
    stopped = stops_after(EarlyStopping("loss", direction=direction, divergence=8), values)

    assert stopped == (
        epoch,
        f"valid loss is {values[epoch - 1]}, worse than divergence=8 (best {best})",
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("direction", ["lowest", "highest"])
def test_a_value_that_is_no_finite_number_ends_the_run_whatever_the_limits(value, direction):
    far = 9 if direction == "highest" else -9
    for limits in ({"patience": 9}, {"goal": far}, {"divergence": -far}, {"restores_best": True}):
        rule = EarlyStopping("loss", direction=direction, **limits)

        assert stops_after(rule, [3, float(value), 2]) == (
            2, f"valid loss is {value} (best 3 at epoch 1)",
        )  # fmt: skip
    assert stops_after(EarlyStopping("loss", direction=direction, patience=1), [float(value)]) == (
        1, f"valid loss is {value}",
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments, values, reason",
    [
        (
            {"patience": 3, "min_delta": 0.001},
            [0.9, 0.5, 0.3, 0.12345, 0.5, 0.1233, 0.5],
            # a gain too small, yet the best
            "valid loss has not improved by 0.001 for 3 validations (best 0.1233 at epoch 6)",
        ),
        ({"patience": 1, "min_delta": 0.25, "min_delta_mode": "relative"}, [0.5, 0.5],
         "valid loss has not improved by 0.25 of itself for 1 validation (best 0.5 at epoch 1)"),
        ({"patience": 2}, [2, 3, 3],
         "valid loss has not improved for 2 validations (best 2 at epoch 1)"),
    ],
)  # fmt: skip
def test_the_reason_tells_what_was_waited_for_and_what_there_was(arguments, values, reason):
    assert stops_after(EarlyStopping("loss", **arguments), values) == (len(values), reason)


def test_the_metric_is_read_from_the_split_that_is_named():
    rule = EarlyStopping("auroc", "valid-ema", direction="highest", patience=1)

    assert rule.observe({"valid": {"auroc": 1.0}, "valid-ema": {"auroc": 2.0}}, 1) is None
    stop = rule.observe({"valid": {"auroc": 3.0}, "valid-ema": {"auroc": 2.0}}, 2)
    assert stop == "valid-ema auroc has not improved for 1 validation (best 2 at epoch 1)"
    with pytest.raises(
        KeyError,
        match="early stopping needs valid-ema/auroc, which is not measured; "
        "available: valid/auroc",
    ):
        rule.observe({"valid": {"auroc": 3.0}}, 3)


def naive(values, *, patience, min_delta, goal, divergence, direction):
    """Whether the run ends after each epoch, and whether it is the best: everything counted anew
    from the beginning.
    """
    worse = 1 if direction == "lowest" else -1
    result = []
    for number, value in enumerate(values, start=1):
        finite = [
            (worse * seen, epoch)
            for epoch, seen in enumerate(values[:number])
            if math.isfinite(seen)
        ]
        gains: list[tuple[float, int]] = []
        for merit, epoch in finite:
            if not gains or merit < gains[-1][0] - min_delta:
                gains.append((merit, epoch))
        waited = number - 1 - (gains[-1][1] if gains else -1)
        is_out = not math.isfinite(value) or worse * value > worse * divergence
        stops = is_out or waited >= patience or worse * value <= worse * goal
        result.append((stops, bool(finite) and min(finite)[1] == number - 1))
    return result


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    values=SERIES,
    patience=st.integers(1, 5),
    min_delta=st.integers(0, 3),
    goal=st.integers(-9, -3),
    divergence=st.integers(3, 9),
    direction=st.sampled_from(["lowest", "highest"]),
)
def test_a_rule_decides_as_one_that_looks_at_the_whole_past(
    values, direction, goal, divergence, **arguments
):
    if direction == "highest":
        goal, divergence = divergence, goal
    arguments |= {"goal": goal, "divergence": divergence, "direction": direction}

    result = [
        (stop is not None, is_best)
        for stop, is_best in shown(EarlyStopping("loss", **arguments), values)
    ]

    assert result == naive(values, **arguments)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    values=SERIES, data=st.data(), patience=st.integers(1, 4),
    min_delta=st.sampled_from([0, 0.5, 2]),
)  # fmt: skip
def test_a_resume_at_any_epoch_is_exact(values, data, patience, min_delta):
    def rule():
        return EarlyStopping("loss", patience=patience, min_delta=min_delta, goal=-5, divergence=5)

    straight, first, resumed = rule(), rule(), rule()
    expected = shown(straight, values)
    epoch = data.draw(st.integers(0, len(values)))

    before = shown(first, values[:epoch])
    text = json.dumps(first.state_dict(), allow_nan=False)
    resumed.load_state_dict(json.loads(text))
    assert (resumed.decision, resumed.observed.is_best) == (first.decision, first.observed.is_best)
    assert before + shown(resumed, values[epoch:], epoch + 1) == expected
    assert resumed.state_dict() == straight.state_dict()


def test_a_stopped_rule_that_is_given_more_patience_continues():
    stopped, patient = EarlyStopping("loss", patience=1), EarlyStopping("loss", patience=3)
    assert shown(stopped, [1, 2])[-1][0] is not None

    patient.load_state_dict(stopped.state_dict())

    assert patient.decision is None
    assert [stop is not None for stop, _ in shown(patient, [2, 2], 3)] == [False, True]


@pytest.mark.parametrize("arguments, message", [
    ({}, "nothing to stop for; give patience, goal, divergence or restores_best"),
    ({"patience": 0}, "patience=0: should be 1 or more validations, or null"),
    ({"patience": 1, "min_delta": -1}, "min_delta=-1: should be from 0 to below inf"),
    ({"patience": 1, "min_delta": math.inf}, "min_delta=inf: should be from 0 to below inf"),
    ({"patience": 1, "min_delta": math.nan}, "min_delta=nan: should be from 0 to below inf"),
    ({"patience": 1, "min_delta": 1, "min_delta_mode": "relative"},
     "min_delta=1: should be from 0 to below 1"),
    ({"goal": 2, "divergence": 1},
     "divergence=1: should be above goal=2, for direction=lowest; swap the two"),
    ({"goal": 1, "divergence": 1, "direction": "highest"},
     "divergence=1: should be below goal=1, for direction=highest; swap the two"),
])  # fmt: skip
def test_what_no_run_could_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EarlyStopping("loss", **arguments)
