"""Texts of a run folder stand in the card without markup; the card explains its numbers."""

import dataclasses
import json
import math
import re

import pytest
import torch

from andiron.data import ArrayBatcher
from andiron.data.splitting.described import Described
from andiron.models import MLP
from andiron.shell.config.schema import Train
from andiron.tasks import Regressor
from andiron_lab.views.model_card import Card
from andiron.wings.trained.exports.checked_export import Agreement

HOSTILE = "a`|<b>\n```\n# [x](y)\x1b"


@pytest.fixture
def text():
    """The card of a small regression, with this summary."""
    facts = {"input_shape": (3,), "num_outputs": 2, "columns": [HOSTILE]}
    model = Regressor(MLP((3,), 2, hidden=[4]), target_mean=(1.5, 2.0), target_std=(0.5, 4.0))
    recorded = Train(
        lr=0.1, data={"_target_": "andiron.data.csv", "path": HOSTILE}, task={}, metrics={},
        model={"_target_": "andiron.models.MLP", "hidden": [4]}, optimizer={}, scheduler={},
    )  # fmt: skip

    def write(summary, more=None, **options):
        described = Described("table", ArrayBatcher(), facts | (more or {}), 256)
        config = dataclasses.replace(recorded, **options)
        origin = {"seed": HOSTILE, "git": None, "data": {"name": "houses"}}
        card = Card(model, "best", described, config, summary, origin)
        return card.text(
            "model.safetensors", Agreement((1, 5), 0.0, 2.0), torch.zeros(5, 3), torch.zeros(5, 2),
            axes={0: "batch"}, is_stored=False,
        )  # fmt: skip

    return write


def test_recorded_text_is_no_markup(text):
    row = {"split": HOSTILE, "metric": HOSTILE, "best": 0.5, "last": HOSTILE}
    card = text({"metrics": [row, "none"]})

    assert card.count("```") == 2 * 4 and "\x1b" not in card  # python, facts, config, provenance
    outside = re.sub(r"```.*?```", "", card, flags=re.DOTALL)
    assert not set("<>[]`") & set("".join(re.findall(r"^\| a.*", outside, flags=re.MULTILINE)))
    blocks = re.findall(r"^```json\n(.*?)^```", card, flags=re.MULTILINE | re.DOTALL)
    facts, config, provenance = map(json.loads, blocks)
    assert facts["columns"] == [HOSTILE] and config["data"]["path"] == HOSTILE
    assert provenance["seed"] == HOSTILE


@pytest.mark.parametrize("summary", [{}, {"metrics": 3}])
def test_the_card_of_an_unfinished_run_says_what_its_outputs_mean(summary, text):
    card = text(summary)
    assert "a value is [1.5, 2.0] + [0.5, 4.0] * output, for each output" in card
    assert "network = MLP(hidden=[4], input_shape=(3,), num_outputs=2)" in card
    assert "Inputs: float32 [batch, 3], preprocessed as by `ArrayBatcher" in card
    assert "has no summary" in card


def test_the_card_says_that_large_numbers_come_without_their_offset(text):
    column = {"column": "unix time", "kind": "number", "categories": [], "offset": 1.7e9}
    encoding = {"columns": [column], "missing": "refuse", "date_format": None, "decimal": "."}
    sentence = "[batch, 3], minus the `offset` of their column in the facts below, preprocessed"
    assert sentence in text({}, more={"encoding": encoding})
    assert sentence not in text({})


@pytest.mark.parametrize(("weights", "sentence"), [
    ({}, "The test values are of other weights than this file: last, not `best`."),
    ({"test": "last"}, "of other weights than this file: last, not `best`."),
    ({"test": "best, of epoch 3"}, None),
])  # fmt: skip
def test_the_card_says_if_the_test_values_are_of_other_weights(weights, sentence, text):
    row = {"split": "test", "metric": "loss", "best": 0.5, "last": 0.5, "epoch_of_best": 3}
    card = text({"metrics": [row], "weights": weights})
    assert (sentence in card) if sentence else ("other weights" not in card)


def test_weights_that_early_stopping_restored_are_the_last(text):
    row = {"split": "test", "metric": "loss", "best": 0.5, "last": 0.5, "epoch_of_best": 3}
    summary = {"metrics": [row], "weights": {"test": "best, of epoch 3"}}
    rules = {"patience": {"restores_best": True}}
    sentence = "of other weights than this file: last, as early stopping restored them"
    assert sentence in text(summary, early_stopping=rules)
    assert sentence not in text(summary, early_stopping=rules, test_weights="best")


def test_a_rate_that_is_not_on_record_is_left_out(text):
    card = text({}, lr=math.nan)
    assert "NaN" not in card and '"lr"' not in card and '"batch_size": 64' in card
    assert '"lr": 0.1' in text({})


def test_the_card_calls_the_data_as_the_run_does(text):
    card = text({})
    assert card.startswith("# MLP trained on houses\n") and "| houses (csv) |" in card
