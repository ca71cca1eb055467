"""The checkpoint options of a config become rules, or are refused."""

import math

import pytest

from andiron.checkpoint import (
    Cadence, Checkpointing, AnyOf, KeepBest, KeepEvery, KeepLast, checkpointing,
)  # fmt: skip
from andiron.shell.config import former_options
from refusals import message_of


def test_what_is_left_out_is_the_last_two_and_the_best_after_every_epoch():
    assert checkpointing() == Checkpointing(
        AnyOf((KeepLast(2), KeepBest("loss"))), Cadence(None, 1, None)
    )


def test_every_argument_reaches_its_rule():
    made = checkpointing(
        last=3, metric="accuracy", split="train", direction="highest", keep_every_updates=50,
        every={"updates": 7, "minutes": 2.5},
    )  # fmt: skip
    assert made.strategy == AnyOf(
        (KeepLast(3), KeepBest("accuracy", "train", "highest"), KeepEvery(50))
    )
    assert made.cadence == Cadence(updates=7, epochs=None, minutes=2.5)


def test_further_metrics_keep_as_many_of_their_best():
    made = checkpointing(best=3, also_best={"accuracy": "highest"})
    assert made.strategy == AnyOf(
        (
            KeepLast(2),
            KeepBest("loss", number=3),
            KeepBest("accuracy", direction="highest", number=3),
        )
    )


def test_a_rule_that_is_null_is_left_out():
    assert checkpointing(metric=None).strategy == AnyOf((KeepLast(2),))
    assert checkpointing(metric=None, keep_every_updates=5).strategy == AnyOf(
        (KeepLast(2), KeepEvery(5))
    )


@pytest.mark.parametrize("arguments, said", [
    ({"last": 0}, "number=0: should be greater than or equal to 1 (KeepLast)"),
    ({"keep_every_updates": 0}, "updates=0: should be greater than or equal to 1 (KeepEvery)"),
    ({"best": 0}, "number=0: should be greater than or equal to 1 (KeepBest)"),
    ({"metric": None, "also_best": {"accuracy": "highest"}},
     "also_best={'accuracy': 'highest'}: metric is null; move one of these there"),
    ({"every": {"updates": 0}}, "updates=0: should be a finite number above 0"),
    ({"every": {"epochs": -1}}, "epochs=-1: should be a finite number above 0"),
    ({"every": {"minutes": math.inf}}, "minutes=inf: should be a finite number above 0"),
    ({"every": {"minutes": math.nan}}, "minutes=nan: should be a finite number above 0"),
    ({"every": {}}, "nothing is ever due; give updates, epochs or minutes"),
    ({"every": "1hour"}, "1hour: should be like 500 (updates), 2epochs or 10minutes"),
])  # fmt: skip
def test_what_could_keep_or_make_no_checkpoint_is_refused(arguments, said):
    assert message_of(ValueError, checkpointing, **arguments).startswith(said)


@pytest.mark.parametrize("every, cadence", [
    (500, Cadence(updates=500)),
    ("2epochs", Cadence(epochs=2.0)),
    ({"updates": 7, "epochs": None, "minutes": 2.5}, Cadence(updates=7, minutes=2.5)),
])  # fmt: skip
def test_every_is_one_interval_or_the_first_of_several(every, cadence):
    assert checkpointing(every=every).cadence == cadence


@pytest.mark.parametrize("former, every", [
    ({"every": None, "every_updates": None, "every_epochs": 1, "every_minutes": None}, "1epochs"),
    ({"every": None, "every_updates": 50, "every_epochs": None, "every_minutes": None}, 50),
    ({"every_updates": 50, "every_epochs": 1}, {"updates": 50, "epochs": 1}),
    ({"every": "2epochs", "every_updates": None, "every_epochs": 1}, "2epochs"),
    ({"every_minutes": 2.5}, "2.5minutes"),
    ({"every": 3}, 3),
])  # fmt: skip
def test_a_record_of_an_earlier_version_has_the_same_cadence(former, every):
    node = {"last": 2, **former}
    assert former_options.current({"checkpoint": node}) == {
        "checkpoint": {"last": 2, "every": every}
    }
    assert former_options.current({"checkpoint": None}) == {"checkpoint": None}


def test_the_store_is_a_local_folder_unless_one_is_named(tmp_path):
    assert checkpointing().store(tmp_path).names() == []
    assert checkpointing(store=lambda folder: [folder]).store(tmp_path) == [tmp_path]
