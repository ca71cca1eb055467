"""Parts that do not fit each other: found before the first step where they can be, never trained to
a meaningless number.
"""

import pytest
import safetensors.torch
import torch
from conftest import status
from in_process import called

from andiron.wings.runs import check


@pytest.mark.parametrize(
    "row", [[1.0], [0.7, 0.7], [-0.5, 1.5]], ids=["one column", "no sum of 1", "negative"]
)
def test_targets_that_are_no_probabilities_are_no_classes(row):
    from andiron import errors
    from andiron.data import Batch
    from andiron.tasks import Classifier

    targets = torch.tensor([[1.0] + [0.0] * (len(row) - 1), row])
    model = Classifier(torch.nn.Linear(3, len(row)))
    with pytest.raises(
        errors.SampleError,
        match=r"^sample [01] of the batch has targets \[.*; should be probabilities of two",
    ):
        model.predict(Batch(torch.zeros(2, 3), targets))


@pytest.mark.parametrize("metric, epochs", [("loss", "1"), ("accuracy", "1")])
def test_what_waits_takes_the_metrics_own_direction(metric, epochs, command, here):
    goal = {"loss": 100.0, "accuracy": 0.01}[metric]  # reached at once, if one looks the right way

    command(
        "hydra.run.dir=run", "early_stopping=goal", f"early_stopping.goal.metric={metric}",
        f"early_stopping.goal.goal={goal}", f"checkpoint.metric={metric}",
    )  # fmt: skip

    assert f"goal={goal} is reached" in (here / "run" / "experiment.log").read_text()


def test_an_own_class_as_a_stopping_rule_is_refused_for_an_observer(command, here):
    attributes = "metric: loss, split: valid, observe: 1, decision: null"
    rule = f"{{_target_: argparse.Namespace, {attributes}}}"
    ended = command("early_stopping=patience", f"+early_stopping.mine={rule}")

    assert ended.code == 2 and "a rule of your own is an observer: docs/observers" in ended.errors


def test_labels_that_are_booleans_are_classes_of_two(command, here):
    targets = torch.arange(60) % 2 == 0
    content = {
        "inputs": torch.randn(60, 4, generator=torch.Generator().manual_seed(0)),
        "targets": targets,
    }
    safetensors.torch.save_file(content, here / "arrays.safetensors")

    said = command(
        "hydra.run.dir=run", "data=safetensors", "data.path=arrays.safetensors", "task=binary"
    )

    assert (said.code, status(here / "run")["status"]) == (0, "done"), said.errors


def test_three_classes_are_refused_for_a_task_of_two(command, here):
    ended = command("task=binary", "hydra.run.dir=run")

    words = "BinaryClassifier is for 2 classes, and digits has 10; set task=classi"
    assert ended.code == 2 and words in ended.errors and not (here / "run").exists()


TORCH = "+loss={_target_: torch.nn."


@pytest.mark.parametrize(("arguments", "words"), [
    (["~loss", TORCH + "CrossEntropyLoss, weight: a}"],
     "loss._target_=torch.nn.CrossEntropyLoss: cannot assign 'str' object to buffer 'weight'"),
    (["~model", "+model={_target_: torch.nn.Conv2d, in_channels: 3, out_channels: 4, "
      "kernel_size: 3, groups: 2}"], "model._target_=torch.nn.Conv2d: in_channels must be divisib"),
    (["model=timm", "model.name=test_resnet", "model.settings={pretrained: true}"],
     "test_resnet: nothing is downloaded; start_from=FILE has pretrained weights"),
    (["~scheduler", "+scheduler={_target_: transformers.get_linear_schedule_with_warmup}"],
     "schedules an optimizer of torch, in Python; name a choice of scheduler"),
])  # fmt: skip
def test_what_a_library_refuses_is_named_in_one_line(arguments, words, command, here):
    ended = command(*arguments, "hydra.run.dir=run")
    assert ended.code == 2 and words in ended.errors and "Traceback" not in ended.errors


def test_a_weight_of_positives_is_a_number_or_several(command, here):
    targets = (torch.arange(60)[:, None] % torch.tensor([2, 3]) == 0).float()
    arrays = {"inputs": torch.rand(60, 4), "targets": targets}
    safetensors.torch.save_file(arrays, here / "a.safetensors")
    for number, weight in enumerate(["2.0", "[2.0, 3.0]"]):
        ended = command(
            f"hydra.run.dir=run{number}", "data=safetensors", "data.path=a.safetensors",
            "task=multilabel",
            "~loss", f"{TORCH}BCEWithLogitsLoss, pos_weight: {weight}}}",
        )  # fmt: skip
        assert ended.code == 0, ended.errors


OWN_PARTS = """from andiron.tasks import Classifier

class NoItem(Classifier):
    def valid_step(self, batch):
        super().valid_step(batch)

class LossAlone(Classifier):
    def train_step(self, batch):
        return self.predict(batch).loss

class Listed:
    name, higher_is_better = "mine", True

    def __call__(self, item):
        return (item.loss,)

    def value(self, losses):
        return [float(losses)]
"""


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("task._target_=own_parts.NoItem", "return an item from train_step and valid_step"),
        ("task._target_=own_parts.LossAlone", "train_step returns a TrainOutput"),
        ("+metrics.mine._target_=own_parts.Listed", "metrics.mine: its value is ["),
    ],
)
def test_check_measures_a_batch_of_validation_too(option, words, here, monkeypatch):
    (here / "own_parts.py").write_text(OWN_PARTS)
    monkeypatch.syspath_prepend(here)
    ended = called(check.main, option, cwd=here)
    assert ended.code == 1 and words in ended.errors
    assert "Traceback" not in ended.errors


def test_a_network_that_cannot_compute_the_data_is_named_once(command, here):
    """The writer that draws the graph of the model does not fail before the training does."""
    wrong = "model={_target_: torch.nn.Linear, in_features: 3, out_features: 10}"
    ended = command("hydra.run.dir=run", wrong)
    assert ended.code == 1 and "mat1 and mat2 shapes cannot be multiplied" in ended.errors
    assert "writer" not in ended.output
