"""What a config says of checkpoints becomes rules, or is refused."""

import math

import pytest

from andiron.checkpoint import (
    Cadence,
    Checkpointing,
    Composed,
    KeepBest,
    KeepEvery,
    KeepLast,
    checkpointing,
)


def test_what_is_left_out_is_the_last_two_and_the_best_after_every_epoch():
    assert checkpointing() == Checkpointing(
        Composed((KeepLast(2), KeepBest("loss"))), Cadence(None, 1, None)
    )


def test_every_argument_reaches_its_rule():
    made = checkpointing(
        last=3, metric="accuracy", split="train", direction="highest", keep_every_updates=50, every_updates=7,
        every_epochs=None, every_minutes=2.5,
    )  # fmt: skip
    assert made.strategy == Composed(
        (KeepLast(3), KeepBest("accuracy", "train", "highest"), KeepEvery(50))
    )
    assert made.cadence == Cadence(updates=7, epochs=None, minutes=2.5)


def test_a_rule_that_is_null_is_left_out():
    assert checkpointing(metric=None).strategy == Composed((KeepLast(2),))
    assert checkpointing(metric=None, keep_every_updates=5).strategy == Composed(
        (KeepLast(2), KeepEvery(5))
    )


@pytest.mark.parametrize("arguments, said", [
    ({"last": 0}, "last=0: should be 1 or more"),
    ({"keep_every_updates": 0}, "keep_every_updates=0: should be 1 or more"),
    ({"every_updates": 0}, "every_updates=0: should be 1 or more; give a whole number, or null for no such cadence"),
    ({"every_epochs": -1}, "every_epochs=-1: should be 1 or more; give a whole number, or null for no such cadence"),
    ({"every_minutes": 0}, "every_minutes=0: should be a finite number above 0; or null for no such cadence"),
    ({"every_minutes": math.inf}, "every_minutes=inf: should be a finite number above 0"),
    ({"every_minutes": math.nan}, "every_minutes=nan: should be a finite number above 0"),
    ({"every_epochs": None}, "no checkpoint is ever due; give every_updates, every_epochs or every_minutes"),
])  # fmt: skip
def test_what_could_keep_or_make_no_checkpoint_is_refused(arguments, said):
    with pytest.raises(ValueError) as raised:
        checkpointing(**arguments)
    assert str(raised.value).startswith(said)
