"""Command lines that are wrong: an error in one line that names what is wrong, and nothing lost."""

import json

import pytest
from conftest import status
from in_process import called

from andiron import __version__
from andiron.shell.config import arguments as command_arguments
from andiron.shell.training import train

OWN = """
from torch import nn, tensor

class NoSteps(nn.Module):
    def __init__(self, network):
        super().__init__()

def loss_without_graph(output, targets):
    return tensor(1.0)

class TextMetric:
    name, higher_is_better = "mine", True
    def __call__(self, item):
        return "text", 1

class Raises(TextMetric):
    def __call__(self, item):
        raise ZeroDivisionError("the user's own")

def schedule():
    return lambda updates: "fast"

def three():
    return 3

def none(gradients):
    return None
"""
SCHEDULE = "_target_:andiron.schedules.Constant,lr:0.1"
NOT_STARTED = {  # with the exit code 2, and nothing left
    "a number beyond all use": (["num_updates=100000000000000000000000"], "num_updates=1000"),
    "a cadence beyond all use": (["log_every=1000000000000000000000epochs"], "log_every=1000"),
    "a size beyond 64 bits": (["batch_size=9223372036854775808"], "batch_size=9223372036854775808"),
    "more layers than memory": (["model.hidden=[1000000,1000000]"], "model._target_=andiron.mod"),
    "more samples than memory": (
        ["data=synthetic", "data.num_samples=100000000000"],
        "data.num_samples=100000000000: takes ",
    ),
    "a table for convolutions": (["data=diabetes", "model=convnet"], "model.input_shape=(10,): "),
    "a schedule as model": (["~model", f"+model={{{SCHEDULE}}}"], "model._target_=andiron.sched"),
    "a module as schedule": (
        ["~scheduler", "+scheduler={_target_:torch.nn.Identity}"],
        "scheduler._target_=torch.nn.Identity: gives an object of Identity; scheduler takes a ",
    ),
    "a rate that is text": (
        ["~scheduler", "+scheduler={_target_:own.schedule}"],
        "scheduler._target_=own.schedule: gives 'fast' for the first update; ",
    ),
    "a task without steps": (["~task", "+task={_target_:own.NoSteps}"], "task._target_=own.NoSt"),
    "three as average": (["+averages.a={_target_:own.three}"], "averages.a._target_=own.three: "),
    "an average named as a path": (
        ["+averages={../a:{_target_:andiron.optim.Ema,decay:0.9}}"],
        "averages.../a: is part of a file name and cannot contain a slash; rename it",
    ),
    "three as rule": (["+early_stopping.a={_target_:own.three}"], "early_stopping.a._target_=own"),
    "three as augmentation": (["+augmentation.a={_target_:own.three}"], "augmentation.a._target_="),
    "three as groups": (["+param_groups.a={_target_:own.three}"], "param_groups.a._target_=own.t"),
    "a plateau of nothing": (
        ["scheduler=plateau", "scheduler.metric=f1"],
        "scheduler.metric=f1: not measured on valid; available: loss, accuracy",
    ),
    "a group's plateau of nothing": (
        ["+param_groups.a={match:{tag:last},schedule:{_target_:andiron.schedules.Plateau,"
         "initial_lr:0.1,metric:f1}}"],
        "param_groups.a.schedule.metric=f1: not measured on valid",
    ),
    "nothing trained at first": (
        ["+param_groups.a={match:{name:''},frozen:5}"],
        "param_groups.a.frozen=5: no parameter is trained in the first update",
    ),
    "nothing ever due": (
        ["+param_groups.a={match:{name:''},every:5000}"],
        "param_groups.a.every=5000: no parameter is trained in the 21 updates of this run",
    ),
    "a choice twice": (["augmentation=[shift,shift]"], "augmentation=[shift,shift]: names a ch"),
    "an interval": (["lr=interval(0,1)"], "lr=interval(0,1): an interval needs a sweeper"),
    "a list of folders": (["-m", "lr=1,2", "sweep_name=a,b"], "sweep_name=a,b: is one value"),
    "a grid of metrics": (
        ["-m", "lr=1,2", "objective=valid/loss,valid/accuracy"],
        "objective=valid/loss,valid/accuracy: is one value for all jobs; several metrics are a",
    ),
    "a folder named twice": (
        ["-m", "lr=1,2", "sweep_name=a", "hydra.sweep.dir=b"],
        "sweep_name and hydra.sweep.dir: both name",
    ),
    "what is wrong in every job": (["-m", "seed=1,2", "name=a/b"], "name=a/b: should be"),
    "an empty range": (["-m", "lr=range(1,0)"], "lr=range(1,0): no combination of values"),
    "an empty glob": (["-m", "lr=glob(x*)"], "lr=glob(x*): no combination of values"),
    "an empty glob of a halving": (
        ["-m", "hydra/sweeper=asha", "optimizer=glob(x*)"],
        "optimizer=glob(x*): no combination of values",
    ),
    "an endless sweep": (["-m", "seed=range(0,inf)"], "seed=range(0,inf): should have at most"),
    "no YAML": (["--config-dir=mine", "model=bracket"], "/model/bracket.yaml: no YAML: line "),
    "no folder": (["hydra.run.dir="], "hydra.run.dir=: no folder; give one, or leave it out"),
    "an unknown flag": (["--confg-dir=x"], "--confg-dir=x: no such flag; did you mean '--config-"),
    "a pickle": (["--experimental-rerun=x.pickle"], "--experimental-rerun=x.pickle: would read a"),
}  # fmt: skip
FAILED = {  # with the exit code 1, and the status saying so
    "a network of other inputs": (
        ["~model", "+model={_target_:torch.nn.Linear,in_features:3,out_features:10}"],
        "task Classifier with model Linear cannot be computed for inputs [64, 1, 8, 8] of torch.fl",
    ),
    "a generator as classifier": (["model=gan"], "task Classifier with model GAN cannot be comput"),
    "a loss without a graph": (
        ["~loss", "+loss={_target_:own.loss_without_graph}"],
        "task Classifier with model MLP cannot be computed",
    ),
    "a metric that gives text": (
        ["+metrics.mine={_target_:own.TextMetric}"],
        "metrics.mine: gives ('text', 1) for a batch: ",
    ),
    "gradients that are gone": (["+gradients.a={_target_:own.none}"], "gradients: the last one "),
    "a picture's change of a table": (
        ["data=diabetes", "augmentation=torchvision"],
        "augmentation: ",
    ),
}  # fmt: skip


@pytest.fixture
def files(here, monkeypatch):
    (here / "own.py").write_text(OWN)
    (here / "mine" / "model").mkdir(parents=True)
    (here / "mine" / "model" / "bracket.yaml").write_text("_target_: x\nhidden: [3\n")
    monkeypatch.syspath_prepend(str(here))


@pytest.mark.parametrize("name", NOT_STARTED)
def test_an_untrainable_configuration_is_refused_by_name(name, command, here, files):
    arguments, words = NOT_STARTED[name]
    defaults = {"hydra.run.dir": "run", "num_epochs": "1"}
    if "-m" in arguments:
        del defaults["hydra.run.dir"]

    said = command(*(f"{name}={value}" for name, value in defaults.items()), *arguments)

    assert any(words in problem for problem in said.problems), said.errors
    assert (said.code, (here / "run").exists()) == (2, False)


AFTER_UPDATES = ["a metric that gives text"]  # its values are read at a log point


@pytest.mark.parametrize("name", FAILED)
def test_a_part_that_does_not_fit_the_first_batch_is_named(name, command, here, files):
    arguments, words = FAILED[name]

    said = command("hydra.run.dir=run", *arguments)

    assert words in said.errors and "Traceback" not in said.errors, said.errors
    left = status(here / "run")["status"] if (here / "run").exists() else None
    assert (said.code, left) == (1, "failed" if name in AFTER_UPDATES else None)


def test_an_error_of_the_users_own_code_is_not_rewritten(command, here, files):
    with pytest.raises(ZeroDivisionError, match="the user's own"):
        command("hydra.run.dir=run", "+metrics.mine={_target_:own.Raises}")


def test_a_run_is_restored_if_its_replacement_fails_at_the_first_batch(command, here):
    assert command("hydra.run.dir=run", "num_epochs=1").code == 0
    before = {path: path.read_bytes() for path in (here / "run").rglob("*") if path.is_file()}

    said = command("hydra.run.dir=run", "overwrite=true", "loss=huber")

    after = {path: path.read_bytes() for path in (here / "run").rglob("*") if path.is_file()}
    assert said.code == 1 and "HuberLoss cannot compare" in said.errors
    assert (after, sorted(path.name for path in here.iterdir())) == (before, ["run"])


def test_flags_stand_anywhere_among_the_overrides(command, here):
    overrides = ["num_epochs=1", "seed=1,2", "hydra.sweep.dir=jobs", "hydra/launcher=basic"]
    placed = [[*overrides[:place], "-m", *overrides[place:]] for place in range(4)]
    assert [*map(command_arguments.in_order, placed)] == 4 * [[*overrides, "-m"]]

    assert command(*placed[1]).code == 0
    configs = [json.loads((here / "jobs" / job / "config.json").read_text()) for job in "01"]
    assert [config["seed"] for config in configs] == [1, 2]


@pytest.mark.parametrize("arguments", [["--version"], ["lr=1", "-m", "--version"], ["--vers"]])
def test_the_version_is_andirons(arguments, command, here):
    assert command(*arguments).output == f"andiron {__version__}\n"


def test_a_step_that_never_comes_is_reported(command, here):
    said = command("hydra.run.dir=run", "num_epochs=1", "scheduler=step")

    assert "scheduler.step_size=1000: the first step comes after all 21 updates" in said.output


def test_the_table_names_the_epoch_whose_weights_were_tested(command, here):
    called(
        train.main, "hydra.run.dir=run", "num_epochs=9", "lr=0.3", "early_stopping=patience",
        "early_stopping.patience.patience=1", cwd=here,
    )  # fmt: skip

    rows = json.loads((here / "run" / "summary.json").read_text())["metrics"]
    of_loss = {row["split"]: row for row in rows if row["metric"] == "loss"}
    assert of_loss["valid"]["epoch_of_best"] < of_loss["valid"]["last_epoch"]
    assert of_loss["test"]["epoch_of_best"] == of_loss["valid"]["epoch_of_best"]


def test_a_groups_lr_applies_beside_another_rate_of_the_schedule(command, here):
    group = "{match:{tag:last},lr:0.1}"
    command("hydra.run.dir=run", "num_epochs=1", "scheduler=cosine", "scheduler.initial_lr=0.02",
            f"+param_groups.head={group}")  # fmt: skip

    groups = json.loads((here / "run" / "param_groups.json").read_text())
    assert [groups[name]["lr"] for name in ("head", "base")] == [pytest.approx(0.1), 0.02]
    assert groups["base"]["schedule"].startswith("Cosine(initial_lr=0.02, ")
