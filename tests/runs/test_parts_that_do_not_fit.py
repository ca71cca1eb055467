"""Parts that do not fit each other: found before the first step where they can be, never trained to
a meaningless number.
"""

import pytest
import safetensors.torch
import torch
from conftest import status

TABLE = "size,price\n" + "".join(f"{number},{number * 7 % 13 + 0.5}\n" for number in range(40))
PRICES = ["data=csv", "data.path=table.csv", "data.target=price"]
REFUSED = {  # with the exit code 2, and nothing left
    "values as classes": (
        PRICES,
        "task: Classifier is for num_classes, and table.csv has num_outputs; set task=regression, "
        "or task=multilabel, or data.kind=classification to read its target so",
    ),
    "classes as values": (
        ["task=regression"],
        "task: Regressor is for num_outputs, and digits has num_classes; set task=classif",
    ),
    "a loss of classes": (
        ["data=diabetes", "loss=cross_entropy"],
        "task: loss: CrossEntropy is of classes; choose one of values",
    ),
    "a loss that none uses": (
        ["task=adversarial", "loss=cross_entropy"],
        "loss=andiron.tasks.CrossEntropy: Adversarial has its own two losses",
    ),
    "no metric": (
        ["+metrics.odd={_target_:torch.nn.Identity}"],
        "metrics.odd._target_=torch.nn.Identity: gives an object of Identity; metrics.odd takes "
        "an object with name, higher_is_better and a call with the item; ",
    ),
    "a function that takes its argument by position": (
        ["+metrics.odd={_target_:builtins.len}"],
        "metrics.odd: len takes 'obj' by position, and arguments go by name here; name a class or "
        "function that makes what metrics.odd takes",
    ),
    "a module without forward": (
        ["model._target_=torch.nn.Module"],
        "model._target_=torch.nn.Module: has no method forward(inputs); choose one that has",
    ),
    "a list of modules": (
        [
            "~model",
            "+model={_target_:torch.nn.ModuleList,modules:[{_target_:torch.nn.Linear,"
            "in_features:64,out_features:10}]}",
        ],
        "model._target_=torch.nn.ModuleList: has no method forward(inputs); choose one that has",
    ),
    "a loss without forward": (
        ["loss._target_=torch.nn.Module"],
        "loss._target_=torch.nn.Module: has no method forward(inputs); choose one that has",
    ),
    "a loss that is no mean": (
        ["~loss", "+loss._target_=torch.nn.functional.cross_entropy", "+loss.reduction=none"],
        "task: loss.reduction=none: should be mean, so that batches of any size weigh alike",
    ),
    "waiting for worse": (
        [
            "early_stopping=patience",
            "early_stopping.patience.metric=accuracy",
            "early_stopping.patience.direction=lowest",
        ],
        "early_stopping.patience.direction=lowest: accuracy is better the other way; leave it "
        "null, or give highest",
    ),
    "keeping the worst": (
        ["checkpoint.metric=accuracy", "checkpoint.direction=lowest"],
        "checkpoint.direction=lowest: accuracy is better the other way; leave it null, or give "
        "highest",
    ),
}
ENDED = {  # with the exit code 1, and the status saying so
    "a metric of another task": (
        ["metrics=regression"],
        "mae: measures a value against each target, but has ",
    ),
    "a square that covers all": (
        ["augmentation=cutout"],
        "augmentation.cutout.size=16: should be below 8, as images are 8x8",
    ),
    "a folder without weights": (["start_from=empty"], "/empty/model.safetensors: no such file"),
}


@pytest.fixture
def files(here):
    (here / "table.csv").write_text(TABLE)
    (here / "empty").mkdir()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_mean_anything_is_refused(name, command, here, files):
    arguments, words = REFUSED[name]

    said = command("hydra.run.dir=run", *arguments)

    assert said.problems[0].startswith(words)
    assert (said.code, (here / "run").exists()) == (2, False)


@pytest.mark.parametrize("name", ENDED)
def test_a_misfit_at_the_first_batch_is_reported_without_a_traceback(name, command, here, files):
    arguments, words = ENDED[name]

    said = command("hydra.run.dir=run", *arguments)

    assert words in said.errors and said.errors.count("\n") == 1, said.errors
    assert said.code == 1 and not (here / "run").exists()


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
