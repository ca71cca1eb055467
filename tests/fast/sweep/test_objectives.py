"""Objectives and their directions are known before anything is built."""

import inspect

import pytest

from andiron import errors, metrics
from andiron.shell.config.signatures import class_constant
from andiron.wings.sweep.objectives import Objective, objectives

CONFIG = {
    "objective": None,
    "checkpoint": {"split": "valid", "metric": "loss"},
    "metrics": {"loss": {"_target_": "andiron.metrics.Loss"},
                "recall": {"_target_": "andiron.metrics.Recall"},
                "size": {"_target_": "andiron.metrics.Mean", "higher_is_better": False},
                "psnr": {"_target_": "andiron_lab.scores.Torchmetrics",
                         "metric": {"_target_": "torchmetrics.image.PeakSignalNoiseRatio"}},
                "mine": {"_target_": "mine.Metric"}, "gone": None},
}  # fmt: skip


@pytest.mark.parametrize(("objective", "actual"), [
    (None, [("valid/loss", "lowest")]),
    ("valid/recall/cat", [("valid/recall/cat", "highest")]),
    ("valid-ema/recall.last", [("valid-ema/recall.last", "highest")]),
    (["train/size", "valid/psnr"], [("train/size", "lowest"), ("valid/psnr", "highest")]),
])  # fmt: skip
def test_the_direction_is_that_of_the_metric_class(objective, actual):
    expected = [Objective(*value) for value in actual]
    assert objectives(CONFIG | {"objective": objective}, None) == expected


def test_a_metric_without_a_direction_needs_one():
    config = CONFIG | {"objective": "valid/mine"}

    with pytest.raises(errors.ConfigError, match="objective=valid/mine: no metric of the config"):
        objectives(config, None)
    assert objectives(config, ["highest"]) == [Objective("valid/mine", "highest")]
    with pytest.raises(errors.ConfigError, match="there are 1 objectives"):
        objectives(config, ["highest", "lowest"])


def test_without_a_followed_metric_an_objective_is_needed():
    with pytest.raises(errors.ConfigError, match="objective=null: the checkpoints follow no"):
        objectives(CONFIG | {"checkpoint": None}, None)


def test_directions_read_from_source_equal_the_classes():
    classes = {
        name: variable for name, variable in vars(metrics).items() if inspect.isclass(variable)
    }
    said = {
        name: class_name.higher_is_better
        for name, class_name in classes.items()
        if isinstance(getattr(class_name, "higher_is_better", None), bool)
    }

    assert said and said == {
        name: class_constant(f"andiron.metrics.{name}", "higher_is_better") for name in said
    }
