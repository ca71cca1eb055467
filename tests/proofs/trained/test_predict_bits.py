"""`run.predict` and `evaluate` on the data of a pass give the bits of that pass: for every task, on
every data set that has targets for it.
"""

import os
from pathlib import Path

import pytest
import small_files
import torch
from in_process import called

import andiron
from andiron.learner import evaluation
from andiron.shell.training import train
from andiron.wings.trained import evaluating

CONF = Path(__file__).resolve().parents[3] / "conf"
SHORT = ("num_updates=2", "batch_size=16", "render=plain", "writers=[json_lines]")
FOLDER = "hydra.run.dir=run"


@pytest.fixture
def passes(monkeypatch):
    """The outputs of every evaluation, in order: validation last but one, test last."""
    actual, measure = [], evaluation.measure

    def spied(model, loader, tally, **options):
        add, outputs = tally.add, []

        def adds(item, batch=None):
            outputs.append(item.output.clone())
            add(item, batch)

        monkeypatch.setattr(tally, "add", adds)
        values = measure(model, loader, tally, **options)
        actual.append(torch.cat(outputs))
        return values

    monkeypatch.setattr(evaluation, "measure", spied)
    return actual


@pytest.fixture
def files(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    small_files.write(monkeypatch)


def as_they_are(run, part):
    return part.__getitems__(range(len(part))).inputs


def as_arrays(run, part):
    return as_they_are(run, part).numpy()


def as_mappings(run, part):
    columns = run.preprocessing.facts["columns"]
    rows = as_they_are(run, part).double().tolist()
    return [dict(zip(columns, row, strict=True)) for row in rows]


def as_csv(run, part):
    small_files.table(Path("new.csv"), as_mappings(run, part))
    return "new.csv"


def as_files(run, part):
    return [part.root / name for name in part.names]


def points(targets):
    return f"{{_target_: points.Points, targets: {targets}}}"


FLOWERS = "data.path=flowers.csv"
MEASURED = ("data.target=[depth,width]", "data.exclude=[kind,colour]")
PICTURES = ("data.size=9", "data.valid=0.3")
SMALL = ("data.root=.", "data.valid=0.3")
STORED = ("data=safetensors", "data.path=points.safetensors")
NETWORK = ("model.dim=16", "model.layers=1", "model.heads=2")
POEM = ("path=poem.txt", "context_length=16", "level=characters")
INNER_CSV = ("data@data.data=csv", "data.data.path=flowers.csv", "data.data.target=kind",
             "data.data.exclude=[colour]")  # fmt: skip
INNER_TEXT = ("data@data.data=text", *(f"data.data.{value}" for value in POEM), *NETWORK)
INNER_LABELS = ("data@data.data=safetensors", "data.data.path=points.safetensors",
                "data.data.targets=labels")  # fmt: skip
# by data set and task: the options, and how the inputs are given again
CASES = {
    ("digits", "classification"): (
        ("model=convnet", "precision=bf16", "channels_last=true"), as_they_are),
    ("mnist", "classification"): (("batch_size=64",), as_arrays),
    ("fashion_mnist", "classification"): (SMALL, as_arrays),
    ("image_folder", "classification"): (("data.path=pictures", *PICTURES), as_files),
    ("image_folder", "binary"): (("data.path=pets", *PICTURES), as_files),
    ("csv", "classification"): ((FLOWERS, "data.target=colour", "data.exclude=[kind]"), as_csv),
    ("csv", "binary"): ((FLOWERS, "data.target=kind", "data.exclude=[colour]"), as_csv),
    ("csv", "regression"): ((FLOWERS, *MEASURED), as_csv),
    ("csv_regression", "regression"): ((FLOWERS, *MEASURED), as_csv),
    ("diabetes", "regression"): ((), as_mappings),
    ("text", "language_model"): ((*(f"data.{value}" for value in POEM), *NETWORK), as_they_are),
    ("safetensors", "classification"): ((*STORED, "data.targets=classes"), as_arrays),
    ("safetensors", "binary"): ((*STORED, "data.targets=two"), as_arrays),
    ("safetensors", "multilabel"): ((*STORED, "data.targets=labels"), as_they_are),
    ("safetensors", "regression"): (
        (*STORED, "data.targets=numbers", "data.in_memory=false"), as_they_are),
    ("torch_dataset", "classification"): (
        (f"data.train={points('classes')}", "data.num_classes=3"), as_they_are),
    ("torch_dataset", "binary"): (
        (f"data.train={points('two')}", "data.num_classes=2"), as_they_are),
    ("torch_dataset", "multilabel"): (
        (f"data.train={points('labels')}", "data.num_outputs=2"), as_they_are),
    ("torch_dataset", "regression"): ((f"data.train={points('numbers')}",), as_they_are),
    ("balanced", "classification"): ((), as_arrays),
    ("balanced", "binary"): (INNER_CSV, as_csv),
    ("kfold", "classification"): ((), as_arrays),
    ("kfold", "binary"): (INNER_CSV, as_csv),
    ("kfold", "regression"): (("data@data.data=diabetes",), as_arrays),
    ("kfold", "multilabel"): (INNER_LABELS, as_arrays),
    ("kfold", "language_model"): (INNER_TEXT, as_they_are),
    ("partial", "classification"): ((), as_arrays),
    ("partial", "binary"): (INNER_CSV, as_csv),
    ("partial", "multilabel"): (INNER_LABELS, as_they_are),
    ("partial", "regression"): (("data@data.data=diabetes",), as_mappings),
    ("partial", "language_model"): (INNER_TEXT, as_they_are),
}  # fmt: skip
CHOSEN = [*CASES]
if "ANDIRON_ALL_PREDICTIONS" not in os.environ:  # else the last task of each data set
    CHOSEN = [*{data: (data, task) for data, task in CASES}.values()]
TARGETS = {  # by task
    "classification": "classes", "binary": "two classes", "multilabel": "labels",
    "regression": "numbers", "language_model": "tokens",
}  # fmt: skip
OF_ANY_OTHER = {*TARGETS.values()}
OFFERED = {  # by data set: the targets that it has; there are no cases of tasks for others
    "balanced": {"classes", "two classes"},
    "csv": {"classes", "two classes", "numbers"},
    "csv_regression": {"numbers"},
    "diabetes": {"numbers"},
    "digits": {"classes"},
    "fashion_mnist": {"classes"},
    "image_folder": {"classes", "two classes"},
    "kfold": OF_ANY_OTHER,
    "mnist": {"classes"},
    "partial": OF_ANY_OTHER,
    "safetensors": OF_ANY_OTHER - {"tokens"},
    "text": {"tokens"},
    "torch_dataset": OF_ANY_OTHER - {"tokens"},
}


def test_there_is_a_case_for_every_data_set_and_every_task_that_predicts():
    assert {*OFFERED} == choices("data")
    # predictions of task=forward: tests/proofs/data/test_own_batch_runs.py
    assert {*TARGETS, "forward"} == choices("task")
    assert CASES.keys() == {
        (data, task)
        for data, offered in OFFERED.items()
        for task, targets in TARGETS.items()
        if targets in offered
    }


def choices(group):
    return {path.stem for path in (CONF / group).glob("*.yaml")}


@pytest.mark.parametrize(("data", "task"), CHOSEN)
def test_predictions_and_metrics_are_the_bits_of_the_run(data, task, passes, request, here):
    options, given = CASES[data, task]
    if data == "mnist":  # the genuine one
        options += (f"data.root={request.getfixturevalue('mnist_root')}",)
    else:
        request.getfixturevalue("files")
    ended = called(train.main, f"data={data}", f"task={task}", *options, *SHORT, FOLDER, cwd=here)
    assert ended.code == 0, ended.errors
    valid, test = passes[-2:]
    run = andiron.load("run", trust=["points"])

    for part, expected in ((run.data.valid, valid), (run.data.test, test)):
        result = run.predict(given(run, part))
        assert torch.equal(torch.stack([value.output for value in result]), expected)
    measured = evaluating.evaluate(run, run.data, "test", worst=3)
    rows = [row for row in run.summary["metrics"] if row["split"] == "test"]
    assert measured.values == {row["metric"]: row["last"] for row in rows}
    assert len(measured.worst) == 3
    assert {value.true for value in measured.worst} != {""}
