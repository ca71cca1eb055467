"""The best and the last of every metric on every split."""

import json
import math

import pytest

from andiron import errors
from andiron.metrics import Accuracy, History, Loss, Mean
from andiron.metrics.direction import check_measured
from andiron.metrics.history import Standing
from andiron.protocols import Point
from andiron.render.text import summary_lines


def history(losses, *, accuracies=None, split="valid"):
    """After an epoch for each loss, with an accuracy each where there are any."""
    made = History([Loss(), Accuracy()])
    for number, loss in enumerate(losses):
        values = {"loss": loss, **({"accuracy": accuracies[number]} if accuracies else {})}
        made.add(
            Point(
                split, updates=7 * (number + 1), epoch=number + 1, values=values, whole_epoch=True
            )
        )
    return made


def test_the_best_loss_is_the_lowest_and_the_best_accuracy_the_highest():
    standings = history([0.5, 0.2, 0.9], accuracies=[0.1, 0.8, 0.3]).standings["valid"]
    assert standings["loss"] == Standing(best=0.2, epoch_of_best=2, last=0.9, last_epoch=3)
    assert standings["accuracy"] == Standing(best=0.8, epoch_of_best=2, last=0.3, last_epoch=3)


def test_a_value_from_before_the_first_update_is_of_epoch_0():
    made = History([Loss()])
    for updates, loss in enumerate([0.1, 0.3]):
        made.add(Point("valid", updates, epoch=1, values={"loss": loss}, whole_epoch=True))
    assert made.standings["valid"]["loss"] == Standing(0.1, 0, 0.3, 1)


def test_the_directions_differ_on_the_same_values():
    standings = history([0.5, 0.2, 0.9], accuracies=[0.5, 0.2, 0.9]).standings["valid"]
    assert (standings["loss"].epoch_of_best, standings["accuracy"].epoch_of_best) == (2, 3)


def test_the_earliest_of_equal_values_is_best():
    standings = history([0.5, 0.2, 0.2, 0.2], accuracies=[0.3, 0.8, 0.8, 0.1]).standings["valid"]
    assert (standings["loss"].epoch_of_best, standings["accuracy"].epoch_of_best) == (2, 2)
    assert (standings["loss"].last_epoch, standings["accuracy"].last_epoch) == (4, 4)


def test_a_value_that_is_not_finite_is_best_only_until_one_is():
    for first in (math.nan, math.inf, -math.inf):
        standings = history([first, 0.5, math.nan, 0.7], accuracies=[first, 0.3, math.inf, 0.2])
        for standing in standings.standings["valid"].values():
            assert (standing.epoch_of_best, standing.last_epoch) == (2, 4)


def test_a_quantity_without_a_direction_has_no_best_value():
    beta = Mean(lambda item: item.loss, higher_is_better=None, name="beta")
    made = History([Loss(), beta])
    for epoch, value in enumerate([0.5, 0.2, 0.9], 1):
        values = {"loss": value, "beta": value}
        made.add(Point("valid", updates=epoch, epoch=epoch, values=values, whole_epoch=True))
    assert made.directions == {"loss": "lowest"}
    rows = [{"split": "valid", "metric": name, **vars(standing)}
            for name, standing in made.standings["valid"].items()]  # fmt: skip
    summary = {"model": "", "num_parameters": 1, "updates": 3, "seconds": 1.0, "metrics": rows}
    assert summary_lines(summary).metrics == [
        ["valid", "loss", "0.2000", "2", "0.9000"], ["valid", "beta", "-", "-", "0.9000"],
    ]  # fmt: skip
    with pytest.raises(errors.ConfigError, match="early.metric=beta: no value of it is best; "):
        check_measured({"early": ("beta", "valid", "lowest")}, {"valid": [Loss(), beta]})


def test_only_whole_epochs_count():
    made = history([0.5])
    made.add(Point("valid", updates=9, epoch=2, values={"loss": 0.1}))
    assert made.standings == history([0.5]).standings


def test_each_split_stands_alone():
    made = history([0.5, 0.7])
    made.add(Point("train", updates=14, epoch=2, values={"loss": 0.1}, whole_epoch=True))
    assert made.standings["valid"] == history([0.5, 0.7]).standings["valid"]
    assert made.standings["train"] == {
        "loss": Standing(best=0.1, epoch_of_best=2, last=0.1, last_epoch=2)
    }


def test_a_restored_history_continues_as_if_never_saved():
    losses, accuracies = [0.5, 0.2, 0.9, 0.2, 0.1], [0.1, 0.8, 0.3, 0.8, 0.2]
    straight = history(losses, accuracies=accuracies)
    resumed = History([Loss(), Accuracy()])
    resumed.load_state_dict(
        json.loads(json.dumps(history(losses[:3], accuracies=accuracies[:3]).state_dict()))
    )
    for number in (3, 4):
        values = {"loss": losses[number], "accuracy": accuracies[number]}
        resumed.add(
            Point(
                "valid", updates=7 * (number + 1), epoch=number + 1, values=values, whole_epoch=True
            )
        )
    assert resumed.standings == straight.standings
    assert resumed.state_dict() == straight.state_dict()
