"""A record says what happened: changed options stand in it with the updates they applied to.

Each change is made from Python, alone, and on the command line, beside others, to a finished, an
interrupted and a killed run.
"""

import functools
import json
import os
import re
import shutil
from dataclasses import dataclass
from unittest import mock

import pytest
import torch

from andiron import errors, serialization
from andiron.data import ArrayDataset, DataLoader, digits
from andiron.learner import EarlyStopping, LearnerBuilder
from andiron.learner.update import Updater
from andiron.metrics import Accuracy, Loss
from andiron.models import MLP
from andiron.optim import Optimizer
from andiron.optim.transformations import centralise
from andiron.run_folder import RunFolder
from andiron.schedules import Exponential
from andiron.shell.training import train, train_run
from andiron.tasks import Classifier, CrossEntropy
from andiron.wings.runs import run_details
from andiron.wings.runs.run_reader import RunReader
from in_process import called
from stops_at import stops_at
from proofs.lab_parts import rerun

RUN = (
    "num_epochs=2", "data=partial", "data.fraction=0.1", "model.hidden=[8]", "batch_size=32",
    "render=plain",
)  # fmt: skip
STOPPED = 2  # updates, of 5 in an epoch


@dataclass(frozen=True)
class Change:
    """A changed option: `words` on the command line, `arguments` of `built` from Python."""

    option: str
    words: tuple[str, ...]
    arguments: dict
    allow: str | None = None  # None: it may change freely
    trains: bool = True  # whether the weights depend on it


def ask(option, word, *, trains=True, more=(), **arguments):
    return Change(option, (word, *more), arguments, option.partition(".")[0], trains)


CHANGES = [
    ask("lr", "lr=0.05", lr=0.05),
    ask("seed", "seed=7", seed=7),
    ask("batch_size", "batch_size=25", batch_size=25),
    ask("grads_accumulation", "grads_accumulation=2", grads_accumulation=2),
    ask("clip", "clip=0.01", clip=0.01),
    ask("sam", "sam=0.05", sam=0.05),
    ask("precision", "precision=bf16", precision="bf16"),
    ask("on_nonfinite", "on_nonfinite=skip", trains=False, on_nonfinite="skip"),
    ask("validate_every", "validate_every=1", trains=False, validate_every=1),
    ask("optimizer.weight_decay", "optimizer.weight_decay=0.3", weight_decay=0.3),
    ask("optimizer.betas", "optimizer.betas=[0.5,0.6]", betas=[0.5, 0.6]),
    ask("optimizer.eps", "optimizer.eps=0.1", eps=0.1),
    ask("loss.label_smoothing", "loss.label_smoothing=0.5", label_smoothing=0.5),
    ask("scheduler", "scheduler=exponential", schedule=Exponential(1e-3, 0.5)),
    ask("gradients", "gradients=[centralise]", transforms=[centralise()]),
    Change("log_every", ("log_every=1",), {"log_every": 1}, trains=False),
    Change("validate_first", ("validate_first=true",), {"validate_first": True}, trains=False),
    Change("histograms", ("histograms=true",), {"histograms": True}, trains=False),
    Change("num_epochs", ("num_epochs=3",), {"num_epochs": 3}),
    Change(
        "early_stopping", ("early_stopping=[goal]",),
        {"rules": {"goal": EarlyStopping("loss", goal=0.1)}}, trains=False,
    ),
]  # fmt: skip
ALONE = [[change] for change in CHANGES]
if "ANDIRON_ALL_CHANGES" not in os.environ:  # else every third; the command line has all
    ALONE = ALONE[::3]
TOGETHER = [[entry for entry in CHANGES if entry.trains is trains] for trains in (True, False)]
NEVER = [
    ask("model.hidden", "model.hidden=[9]", hidden=[9]),
    ask("optimizer._target_", "optimizer=adamax", kind=torch.optim.Adamax),
    ask("metrics", "~metrics.accuracy", metrics=[Loss()]),
]
WRITTEN_ONLY_BY_UPDATES = (
    "config.json", "provenance.json", "param_groups.json", "data.json", "code.py", "summary.json",
    "model.safetensors",
)  # fmt: skip


class Python:
    """Runs built in Python."""

    changes = ALONE

    @staticmethod
    def train(folder, interrupter=None, allow=(), **changed):
        with built(folder, allow, interrupter, **changed) as (learner, loader, valid):
            learner.fit(loader, valid)

    def start(self, folder, interrupter=None):
        self.train(folder, interrupter)

    def resume(self, folder, changes=(), *, allow=False, interrupter=None):
        arguments = {
            name: argument for change in changes for name, argument in change.arguments.items()
        }
        self.train(folder, interrupter, allowed(changes) if allow else [], **arguments)


class CommandLine:
    """Runs of `train.py`."""

    changes = TOGETHER

    @staticmethod
    def train(*words, interrupter=None):
        def stopping(config, run_dir, record, _, trusted=None, share=None):
            return train_whole(config, run_dir, record, interrupter, trusted)

        train_whole = train_run.train
        with mock.patch.object(train_run, "train", stopping if interrupter else train_whole):
            ended = called(train.main, *words)
        if ended.code == 130:
            raise errors.Interrupted(ended.errors)
        if ended.code:
            raise errors.ConfigError([ended.errors])

    def start(self, folder, interrupter=None):
        self.train(f"hydra.run.dir={folder}", *RUN, interrupter=interrupter)

    def resume(self, folder, changes=(), *, allow=False, interrupter=None):
        words = [word for change in changes for word in change.words]
        if allow and allowed(changes):
            words.append(f"resume_allow=[{','.join(allowed(changes))}]")
        self.train(f"resume={folder}", *words, interrupter=interrupter)


def allowed(changes):
    return sorted({change.allow for change in changes} - {None})


SPLITS = digits(valid=0.1, split_seed=0)


class built:
    """A learner and its loaders, as a script makes them."""

    def __init__(
        self, folder, allow=(), interrupter=None, *, lr=1e-3, seed=42, batch_size=32, hidden=(8,),
        label_smoothing=0.0, schedule=None, transforms=(), rules=None, kind=torch.optim.Adam,
        metrics=None, weight_decay=0.0, betas=(0.9, 0.999), eps=1e-8, num_epochs=2, **options,
    ):  # fmt: skip
        torch.manual_seed(seed)
        network = MLP(SPLITS.input_shape, SPLITS.num_classes, hidden=list(hidden))
        model = Classifier(network, CrossEntropy(label_smoothing=label_smoothing))
        few = ArrayDataset(SPLITS.train.inputs[:150], SPLITS.train.targets[:150])
        self.loader = DataLoader(few, SPLITS.batcher, batch_size=batch_size, shuffle_seed=seed)
        self.valid = DataLoader(SPLITS.valid, SPLITS.batcher, batch_size=100)
        builder = LearnerBuilder(
            folder, resume=True, resume_allow=allow, num_epochs=num_epochs, seed=seed, **options
        )
        builder.with_file_checkpointer().gradient_transforms(*transforms)
        builder.metric_valid_numeric(*(metrics or [Loss(), Accuracy()]))
        builder.early_stopping(**(rules or {})).renderer(None)
        if interrupter is not None:
            builder.interrupter(interrupter)
        optimizer = Optimizer(kind, model, weight_decay=weight_decay, betas=betas, eps=eps)
        self.learner = builder.build(model, optimizer, schedule or lr)

    def __enter__(self):
        return self.learner, self.loader, self.valid

    def __exit__(self, *error):
        self.learner.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """By door: a finished, an interrupted and an unchanged resumed run to copy."""

    @functools.cache
    def by_door(kind):
        door, folder = kind(), tmp_path_factory.mktemp("runs")
        door.start(folder / "finished")
        with pytest.raises(errors.Interrupted):
            door.start(folder / "stopped", stops_at("train", STOPPED))
        door.resume(shutil.copytree(folder / "stopped", folder / "unchanged"))
        return door, folder

    return by_door


@pytest.fixture(params=[Python, CommandLine])
def runs(request, made):
    return made(request.param)


def record_of(folder):
    """The content of the files that only an update may change, and of the writers' files."""
    paths = [folder / name for name in (*WRITTEN_ONLY_BY_UPDATES, "status.json", "metrics.jsonl")]
    paths += sorted((folder / "tensorboard").rglob("events*"))
    return {path.relative_to(folder): path.read_bytes() for path in paths if path.exists()}


def weights(folder):
    return serialization.load_tensors(folder / "model.safetensors")


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one | other)


def value(folder, option):
    run = RunReader(RunFolder(folder))
    return {name: run.options[name] for name in run.options if name.startswith(option)}


def test_an_option_that_may_not_change_is_refused_and_changes_nothing(runs, tmp_path):
    door, folder = runs
    for state in ("finished", "stopped"):
        run = shutil.copytree(folder / state, tmp_path / state)
        before = record_of(run)
        for changes in door.changes:
            if allowed(changes):
                with pytest.raises(errors.ConfigError) as refused:
                    door.resume(run, changes)
                for name in allowed(changes):
                    assert f"give resume_allow=[{name}] to resume with" in str(refused.value)
        for change in NEVER:
            with pytest.raises(errors.ConfigError, match="a resumed run keeps it; start another"):
                door.resume(run, [change], allow=change.allow == "optimizer")
        assert record_of(run) == before


def test_a_change_of_a_finished_run_that_no_update_follows_changes_nothing(runs, tmp_path):
    door, folder = runs
    run = shutil.copytree(folder / "finished", tmp_path / "run")
    before = record_of(run)
    for changes in door.changes:
        door.resume(
            run, [change for change in changes if change.option != "num_epochs"], allow=True
        )
        assert record_of(run) == before, changes
    door.resume(run)
    assert record_of(run) == before


def test_a_finished_run_that_is_asked_for_less_has_nothing_left_to_do(made, caplog):
    door, folder = made(Python)
    before = record_of(folder / "finished")
    with caplog.at_level("INFO"):
        door.train(folder / "finished", num_epochs=1)
    assert "is done, 2 epochs: nothing is left to do; num_epochs=... trains it" in caplog.text
    assert record_of(folder / "finished") == before


@pytest.mark.parametrize(
    ("runs", "changes"),
    [
        pytest.param(door, changes, id=f"{door.__name__}-{changes[0].option}")
        for door in (Python, CommandLine)
        for changes in door.changes
    ],
    indirect=["runs"],
)
def test_a_change_stands_in_the_record_with_its_update_and_the_bits(runs, tmp_path, changes):
    door, folder = runs
    options = [change.option for change in changes]
    run = shutil.copytree(folder / "stopped", tmp_path / "run")
    before, old = record_of(run), [value(run, option) for option in options]
    with pytest.raises(errors.Interrupted):  # before the first new update
        door.resume(run, changes, allow=True, interrupter=stops_at("train", STOPPED))
    logged = record_of(run)  # a validation may be due
    assert all(logged[name].startswith(before[name]) for name in before)

    killed = snapshots(run, tmp_path, lambda: door.resume(run, changes, allow=True))
    unchanged = record_of(killed[0])
    assert all(
        unchanged[name] == before[name] for name in before if name.name in WRITTEN_ONLY_BY_UPDATES
    )
    new = [value(run, option) for option in options]
    assert all(entry != other for entry, other in zip(new, old, strict=True))
    resumes = json.loads((run / "provenance.json").read_text())["resumes"]
    assert [resume["updates"] for resume in resumes] == [STOPPED]
    summary = json.loads((run / "summary.json").read_text())
    for option in options:
        assert any(name.startswith(option) for name in resumes[0]["changes"])
        names = [name for name in summary["changes"] if name.startswith(option)]
        assert any(f", from update {STOPPED} " in summary["changes"][name] for name in names)

    # a kill after the first new update, before a checkpoint: the record has the change
    door.resume(killed[1], changes)
    assert same(weights(killed[1]), weights(run))
    assert [value(killed[1], option) for option in options] == new

    same_run = folder / "unchanged"
    assert same(weights(same_run), weights(run)) is not any(entry.trains for entry in changes)
    shown = [RunReader(RunFolder(entry)) for entry in (same_run, run)]
    differing = run_details.differences_of(*shown)["options"]
    assert any(f", from update {STOPPED} " in str(other) for _, other in differing.values())
    assert f", from update {STOPPED} " in " ".join(run_details.as_text_of(shown[1]).split())
    if isinstance(door, CommandLine):
        with pytest.raises(errors.RunFolderError) as refused:
            rerun.rerun(run, tmp_path / "again")
        for option in options:
            assert re.search(f"{option}.*, from update", str(refused.value), re.DOTALL)


def snapshots(run, folder, resume):
    """Copies of the run as kills before the first and before the second new update leave it."""
    copies, update = [], Updater.update

    def copying(*arguments):
        if len(copies) < 2:
            copies.append(shutil.copytree(run, folder / f"killed-{len(copies)}"))
        return update(*arguments)

    with mock.patch.object(Updater, "update", copying):
        resume()
    return copies
