"""A run that a script built is a run: other processes list, watch, load, measure and export it."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from in_process import called
from PIL import Image

import andiron
from andiron import data, errors, metrics, models, tasks
from andiron.learner import LearnerBuilder
from andiron.optim import Optimizer
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron.shell.training import train
from andiron_lab.ask import replay
from andiron.wings.runs import command as runs, plan
from andiron_lab.ask import rerun
from andiron.wings.screen import watch
from andiron.wings.trained import evaluate, predict
from andiron.wings.trained.exports import export
from refusals import message_of

pytestmark = pytest.mark.usefixtures("preloaded_processes")

SCRIPT = """
import os, signal, sys

import torch
from andiron import data, metrics, models, tasks
from andiron.learner import LearnerBuilder
from andiron.optim import Optimizer

splits = data.digits(valid=0.1, split_seed=0)
train = data.DataLoaderBuilder(splits.batcher).batch_size(64).shuffle(42).build(splits.train)
loaders = data.DataLoaderBuilder(splits.batcher).batch_size(256)  # as in evaluations
valid = loaders.build(splits.valid)


class Own(tasks.Classifier):
    pass


folder, kind, kill_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
network = models.MLP((1, 8, 8), 10, hidden=[16])
model = Own(network) if kind == "own" else tasks.Classifier(network)
builder = LearnerBuilder(folder, num_epochs=2, resume=kind == "resumed").with_file_checkpointer()
builder.metric_valid_numeric(metrics.Loss(), metrics.Accuracy())
builder.valid_set("night")
lr, more = 1e30 if kind == "nan" else 1e-3, {"night": loaders.build(splits.test)}
if kind != "own":
    builder.data(splits)
with builder.build(model, Optimizer(torch.optim.Adam, model), lr) as learner:
    for step in learner.steps(train, valid, loaders.build(splits.test), more=more):
        if step.updates == kill_at:
            learner.checkpointer.wait()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def ran(folder, kind="whole", kill_at=-1):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    (folder.parent / "digits.py").write_text(SCRIPT)
    command = [sys.executable, folder.parent / "digits.py", folder, kind, str(kill_at)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run whose script's components can all be made again."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    ended = ran(folder)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A finished run of a class that the script itself defines."""
    folder = tmp_path_factory.mktemp("own") / "run"
    ended = ran(folder, "own")
    assert ended.returncode == 0, ended.stderr
    return folder


def test_the_folder_has_the_files_of_a_run_and_the_code(whole):
    names = {path.name for path in whole.iterdir()}
    expected = {"config.json", "data.json", "provenance.json", "param_groups.json", "code.py",
                "status.json", "summary.json", "manifest.json", "model.safetensors"}  # fmt: skip
    assert expected <= names and (whole / "code.py").read_text() == SCRIPT
    config = json.loads((whole / "config.json").read_text())
    assert config["from_python"]["not_recorded"] == {}
    assert config["model"]["hidden"] == [16] and config["optimizer"]["_target_"].endswith("Adam")
    origin = json.loads((whole / "provenance.json").read_text())
    assert origin["data"]["sha256"] and origin["data"]["sizes"]["valid"] == 143
    assert origin["command"][0].endswith("digits.py") and origin["packages"]["torch"]


def test_the_commands_know_the_folder(whole, tmp_path):
    ended = called(runs.main, "list", whole.parent, "--json")
    (row,) = json.loads(ended.output)["runs"]
    assert row["status"] == "done" and row["options"]["model"] == "MLP"
    ended = called(runs.main, "show", whole)
    assert ended.code == 0 and "data                            digits" in ended.output
    ended = called(watch.main, whole, "--once")
    assert ended.code == 0 and "done" in ended.output and "epoch 2/2" in ended.output

    summary = json.loads((whole / "summary.json").read_text())["metrics"]
    tested = {row["metric"]: row["last"] for row in summary if row["split"] == "test"}
    ended = called(evaluate.main, whole, "--json")
    assert json.loads(ended.output)["metrics"] == tested
    ended = called(evaluate.main, whole, "data=digits", "weights=best", "split=valid")
    assert ended.code == 0, ended.errors

    ended = called(export.main, whole, "--format", "safetensors", "--output", tmp_path / "out")
    assert ended.code == 0, ended.errors
    card = (tmp_path / "out" / "README.md").read_text()
    assert "MLP(input_shape=[1, 8, 8], num_outputs=10, hidden=[16])" in card


def test_load_makes_the_model_and_the_data_again(whole):
    run = andiron.load(whole)
    assert type(run.model) is tasks.Classifier and len(run.data.test) == 359
    best = andiron.load(whole, weights="best")
    inputs = run.data.test.inputs[:7]
    labels = [prediction.label for prediction in run.predict(inputs)]
    assert len(labels) == 7 and type(best.model.network) is models.MLP


def test_what_cannot_be_made_again_is_passed_and_the_error_says_so(own):
    error = message_of(errors.RunFolderError, andiron.load, own)
    assert "Own is defined in a script or notebook" in error
    assert f"andiron.load({str(own)!r}, model=...)" in error
    ended = called(evaluate.main, own)
    assert ended.code == 1 and "model=..." in ended.errors
    (row,) = json.loads(called(runs.main, "list", own.parent, "--json").output)["runs"]
    assert row["options"]["task"] == "Own" and row["options"]["model"] == "MLP"

    task = tasks.Classifier(models.MLP((1, 8, 8), 10, hidden=[16]))
    run = andiron.load(own, model=task)
    inputs = data.digits(valid=0.1, split_seed=0).test.inputs[:3]
    assert run.model is task and len(run.predict(inputs)) == 3
    with pytest.raises(errors.DataError, match=r"LearnerBuilder\(...\).data\(splits\)"):
        _ = run.data
    with pytest.raises(errors.MismatchError):
        andiron.load(own, model=tasks.Classifier(models.MLP((1, 8, 8), 10, hidden=[17])))


def test_a_network_alone_is_put_into_the_recorded_task(whole):
    network = models.MLP((1, 8, 8), 10, hidden=[16])
    run = andiron.load(whole, model=network)
    assert run.model.network is network
    expected = andiron.load(whole).model.state_dict()
    assert all(torch.equal(expected[name], value) for name, value in run.model.state_dict().items())


def test_a_killed_run_is_shown_as_killed_and_resumes(tmp_path):
    folder = tmp_path / "run"
    assert ran(folder, kill_at=30).returncode == -signal.SIGKILL
    before = json.loads((folder / "status.json").read_text())
    assert before["status"] == "running"
    (row,) = json.loads(called(runs.main, "list", folder, "--json").output)["runs"]
    assert row["status"] == "killed" and row["updates"] == 21
    assert andiron.load(folder).model is not None
    assert ran(folder, "resumed").returncode == 0
    shown = called(runs.main, "show", folder).output.splitlines()
    assert shown[1].startswith("done, last started ")


def test_every_command_gives_an_answer_or_the_remedy(whole, own, tmp_path):
    line = SCRIPT[: SCRIPT.index("with builder.build")].count("\n") + 1
    code = f"run its code again ({whole.parent / 'digits.py'}:{line})"
    picture = tmp_path / "digit.png"
    Image.new("L", (8, 8)).save(picture)
    refused = "Own is defined in a script or notebook; move it to a module to record it"
    for main, arguments, answer, of_own in (
        (predict.main, (whole, picture), f"{picture},", refused),
        (evaluate.main, (whole, "split=night"), "split=night: should be one of", refused),
        (evaluate.main, (whole, "split=all"), "1,797 samples", refused),
        (export.main, (whole, "--format", "safetensors", "--output", tmp_path / "out"),
         "largest difference 0,", refused),
        (runs.main, ("list", whole, "--columns", "model,task"), "Classifier", "Own"),
        (runs.main, ("show", whole), "valid_sets_every.night", "valid_sets_every.night"),
        (runs.main, ("compare", whole, "--metric", "night/accuracy"), "accuracy", "accuracy"),
        (runs.main, ("best", whole), str(whole), str(own)),
        (watch.main, (whole, "--once"), "done", "done"),
        (plan.main, (whole,), f"a run's folder, resume={whole} resumes it", f"resume={own}"),
        (plan.main, (f"resume={whole}",), "this command trains nothing", "trains nothing"),
        (rerun.main, (whole,), f"{code}, with resume=True to resume it", "in another run_dir"),
        (train.main, (f"resume={whole}",), code, f"run its code again ({own.parent}"),
    ):  # fmt: skip
        for run, expected in ((whole, answer), (own, of_own)):
            named = [str(argument).replace(str(whole), str(run)) for argument in arguments]
            ended = called(main, *named, cwd=tmp_path)
            assert expected in ended.output + ended.errors, (named, ended)
            assert (ended.code == 0) == (not ended.errors), (named, ended)
            shutil.rmtree(tmp_path / "out", ignore_errors=True)


def test_the_step_of_a_nan_is_repeated_by_the_code(tmp_path):
    assert "`learner.load(andiron.checkpoint.load(" in ran(tmp_path / "run", "nan").stderr
    (step,) = (tmp_path / "run" / "nonfinite").iterdir()
    ended = called(replay.main, step)
    load = f"`learner.load(andiron.checkpoint.load(Path({str(step)!r})))`"
    assert ended.code == 2 and f"a run started from Python; {load}" in ended.errors


def test_a_run_can_be_removed(tmp_path):
    assert ran(tmp_path / "run", "own").returncode == 0
    (tmp_path / "run" / "notes.txt").write_text("mine")
    ended = called(runs.main, "rm", tmp_path / "run", "--yes")
    assert ended.code == 0 and [*(tmp_path / "run").iterdir()] == [tmp_path / "run" / "notes.txt"]


def test_a_set_of_the_data_on_record_is_evaluated(tmp_path):
    for name in ("day", "night"):
        rows = [f"{row * len(name) % 10},{row % 3},{'ab'[row % 2]}" for row in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["area,rooms,kind", *rows]) + "\n")
    csv = data.csv(
        path=str(tmp_path / "day.csv"), target="kind", valid=0.2, split_seed=0,
        valid_sets={"night": str(tmp_path / "night.csv")},
    )  # fmt: skip
    model = tasks.Classifier(models.MLP(csv.input_shape, csv.num_classes, hidden=[8]))
    builder = LearnerBuilder(tmp_path / "run", num_epochs=1).renderer(None).data(csv)
    builder.metric_valid_numeric(metrics.Loss()).valid_set("night")
    loaders = {name: data.DataLoader(part, csv.batcher, batch_size=9) for name, part in
               csv.by_name.items()}  # fmt: skip
    night = loaders.pop("night")
    with builder.build(model, Optimizer(torch.optim.Adam, model), 1e-3) as learner:
        learner.fit(*loaders.values(), more={"night": night})
        expected = learner.metric_log.latest["night"]
    ended = called(evaluate.main, tmp_path / "run", "split=night", "--json")
    assert ended.code == 0, ended.errors
    assert json.loads(ended.output)["metrics"] == expected


def test_a_record_is_data_and_names_only_what_is_listed(whole, tmp_path):
    copied = shutil.copytree(whole, tmp_path / "run")
    config = json.loads((copied / "config.json").read_text())
    for option, target in {"model": "os.system", "data": "subprocess.run"}.items():
        changed = {**config, option: {"_target_": target}}
        (copied / "config.json").write_text(json.dumps(changed))
        with pytest.raises(errors.DataError, match="was changed since the run wrote it"):
            andiron.load(copied)
        run_record.accept(RunFolder(copied))
        with pytest.raises(errors.ConfigError, match="only listed classes are built"):
            andiron.load(copied)


def test_the_command_line_says_that_the_code_resumes_a_run_from_python(whole):
    ended = called(train.main, f"resume={whole}", "num_epochs=3")
    assert ended.code == 2 and "a run started from Python; run its code again" in ended.errors
