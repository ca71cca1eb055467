"""Every mistake a user can make at the border: the exit code, the words, and what is left behind.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

from conftest import status
from in_process import Ended

from andiron.run import run_record
from andiron.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
OPTIMIZERS = (
    "adadelta, adafactor, adagrad, adam, adamax, adamw, adan, asgd, kron, lamb, lbfgs, lion, "
    "muon, nadam, radam, rmsprop, schedule_free_adamw, sgd, soap"
)
BLAS = {"OMP_NUM_THREADS": "1"}

# what is said on the command line, and how each line about it begins
CONFIG_MISTAKES = {
    "unknown choice": (
        ["optimizer=adamm"],
        [f"optimizer=adamm: no such optimizer; did you mean 'adam'?; available: {OPTIMIZERS}"],
    ),
    "no choice at all": (
        ["render=null"],
        [
            "render=null: no such render; available: auto, dashboard, live, plain; ~render leaves "
            "it out"
        ],
    ),
    "a number for a choice": (
        ["render=3"],
        ["render=3: no such render; available: auto, dashboard, live, plain"],
    ),
    "unknown experiment": (
        ["experiment=convnet"],
        ["experiment=convnet: no such experiment; did you mean 'convnet_mnist'?"],
    ),
    "unknown option": (
        ["bacth_size=3"],
        ["bacth_size: no such option; did you mean 'batch_size'?"],
    ),
    "unknown nested option": (
        ["optimizer.beta1=0.9"],
        ["optimizer.beta1: no such option; did you mean 'betas'?"],
    ),
    "unknown option added": (
        ["+model.activation=relu"],
        ["model.activation: no such option; allowed here: hidden, dropout"],
    ),
    "unknown group": (["optimiser=adam"], ["optimiser: no such option; did you mean 'optimizer'?"]),
    "option of another choice": (
        ["optimizer=sgd", "optimizer.betas=[0.9,0.99]"],
        [
            "optimizer.betas: no such option; allowed here: momentum, dampening, weight_decay, "
            "nesterov"
        ],
    ),
    "wrong type": (["lr=abc"], ["lr=abc: should be a valid number"]),
    "float for integer": (["batch_size=3.5"], ["batch_size=3.5: should be a valid integer"]),
    "bool for integer": (["seed=true"], ["seed=True: should be a valid integer"]),
    "out of range": (["lr=-1"], ["lr=-1: should be greater than 0"]),
    "infinite": (["lr=inf"], ["lr=inf: should be a finite number"]),
    "negative workers": (
        ["num_workers=-1"],
        ["num_workers=-1: should be greater than or equal to 0"],
    ),
    "item out of range": (
        ["model.hidden=[7,0]"],
        ["model.hidden=[7, 0]: should be greater than or equal to 1 (item 1)"],
    ),
    "half a pair": (["optimizer.betas=[0.9]"], ["optimizer.betas=[0.9]: item 1 is missing"]),
    "one of few words": (
        ["checkpoint.direction=up"],
        ["checkpoint.direction=up: should be 'lowest' or 'highest'"],
    ),
    "missing value": (["lr=???"], ["lr: no value; give one as lr=..."]),
    "group left out": (["~model"], ["model: no value; give one as model=..."]),
    "unresolvable interpolation": (
        ["lr=${learning_rate}"],
        ["lr: Interpolation key 'learning_rate' not found"],
    ),
    "unresolvable folder": (
        ["hydra.run.dir=${nothing}"],
        ["hydra.run.dir: Interpolation key 'nothing' not found"],
    ),
    "unset environment variable": (
        ["data.valid=${oc.env:NO_SUCH_NAME}"],
        ["data.valid: KeyError raised while resolving"],
    ),
    "unreadable override": (
        ["lr=[1,"],
        ["lr=[1,: cannot be read as option=value: no viable alternative"],
    ),
    "no equals sign": (["lr"], ["lr: cannot be read as option=value: missing EQUAL"]),
    "two values without -m": (["lr=1e-3,1e-4"], ["lr=1e-3,1e-4: several values, of which -m"]),
    "nonsense device": (
        ["device=gpu"],
        ["device=gpu: should be auto, cpu, mps, cuda or cuda:<index>"],
    ),
    "several at once": (
        ["optimizer=adamm", "lr=abc", "num_epoch=3", "seed=["],
        [
            f"optimizer=adamm: no such optimizer; did you mean 'adam'?; available: {OPTIMIZERS}",
            "seed=[: cannot be read as option=value: no viable alternative",
            "lr=abc: should be a valid number",
            "num_epoch: no such option; did you mean 'num_epochs'?",
        ],
    ),
    # from here on: found when the parts are built
    "split that is not measured": (
        ["checkpoint.split=test"],
        ["checkpoint.split=test: nothing is measured on it; available: train, valid"],
    ),
    "target not there": (
        ["model._target_=no_such.Net"],
        ["model._target_=no_such.Net: cannot be used: Error loading 'no_such.Net'"],
    ),
    "target of the wrong name": (
        ["model._target_=andiron.models.MPL"],
        ["model._target_=andiron.models.MPL: cannot be used: Error loading 'andiron.models.MPL'"],
    ),
    "forbidden target": (
        ["model._target_=os.system"],
        ["model._target_=os.system: cannot be used: "],
    ),
    "wrong argument of a foreign target": (
        ["optimizer._target_=torch.optim.Rprop"],
        ["optimizer: Rprop refuses its options: "],
    ),
    "nothing to train": (
        ["model._target_=torch.nn.Identity"],
        ["model._target_=torch.nn.Identity: no parameter to train: choose a model that has some"],
    ),
    "everything frozen": (
        ["+param_groups.all={match:{name:network},frozen:true}"],
        [
            "model._target_=andiron.models.MLP: no parameter to train: the groups freeze all of "
            "it; leave "
            "something to train"
        ],
    ),
    "two owners": (
        [
            "param_groups=no_decay",
            "optimizer=adamw",
            "+param_groups.head={match:{tag:last},lr_scale:10}",
        ],
        [
            "param_groups: parameter 'network.layers.5.bias' is claimed by groups 'no_decay' and "
            "'head'; a "
            "parameter has one owner: "
        ],
    ),
    "a rule that claims nothing": (
        ["+param_groups.norms={match:{module:LayerNorm},weight_decay:0.0}"],
        [
            "param_groups.norms: claims no trainable parameter (match module: ['LayerNorm']; "
            "modules: Linear); remove the group, or match some of: "
        ],
    ),
    "a parameter that is not there": (
        ["+param_groups.head={match:{parameters:[network.layers.5.wieght]},lr_scale:10}"],
        [
            "param_groups.head: no parameter is named 'network.layers.5.wieght'; did you mean "
            "'network.layers.5.weight'?",
            "param_groups.head: claims no trainable parameter (match parameters: "
            "['network.layers.5.wieght'])",
        ],
    ),
    "an optimizer that cannot take a parameter": (
        ["optimizer=muon"],
        [
            "optimizer: torch.optim.Muon does not take 'network.layers.1.bias' [512], "
            "'network.layers.3.bias' [256], "
            "'network.layers.5.bias' [10]; give them to another group (Muon only supports 2D "
            "parameters"
        ],
    ),
    "an option that the group's optimizer has not": (
        ["+param_groups.head={match:{tag:last},weigth_decay:0.1}"],
        ["param_groups.head.weigth_decay: no such option; did you mean 'weight_decay'?"],
    ),
    "an unknown criterion": (
        ["+param_groups.head={match:{nam:head}}"],
        ["param_groups.head.match.nam: no such option; did you mean 'name'?"],
    ),
    "no criterion at all": (
        ["+param_groups.head={match:{}}"],
        [
            "param_groups.head.match={}: names no criterion, and would claim every parameter; "
            "give one of "
            "name, parameters, "
        ],
    ),
    "no regular expression": (
        ["+param_groups.head={match:'('}"],
        [
            "param_groups.head.match.name='(' is not a valid regex: missing ), unterminated "
            "subpattern at position 0"
        ],
    ),
    "two learning rates": (
        ["+param_groups.head={match:{tag:last},lr:0.1,lr_scale:2.0}"],
        ["param_groups.head.lr=0.1: lr_scale=2.0 is given too; give one of the two"],
    ),
    "an average that never starts": (
        ["averages=swa", "averages.swa.start=50epochs"],
        ["averages.swa: no weights enter it in the "],
    ),
    "no module to compute again": (
        ["activation_checkpointing=featurs", "model=convnet"],
        [
            "activation_checkpointing=featurs: no submodule of ConvNet has 'featurs' in its name; "
            "did you "
            "mean 'features'?"
        ],
    ),
    "a horizon that is none": (
        ["scheduler=linear", "scheduler.num_updates=2weeks"],
        [
            "scheduler.num_updates=2weeks: should be a number of updates (100) or of epochs "
            "(2epochs, "
            "0.5epochs)"
        ],
    ),
    "no such way to clip": (["clip={nrom:1.0}"], ["clip={'nrom': 1.0}: should be "]),
    "missing argument of a foreign target": (
        ["model._target_=torch.nn.Linear"],
        [
            "model.hidden: Linear has no such argument; it takes: in_features, out_features, "
            "bias, device, "
            "dtype",
            "model.dropout: Linear has no such argument; it takes: in_features, out_features, "
            "bias, device, "
            "dtype",
            "model.in_features: Linear needs it; give one as +model.in_features=...",
            "model.out_features: Linear needs it; give one as +model.out_features=...",
        ],
    ),
    "no optimizer": (
        ["optimizer._target_=torch.nn.Linear"],
        ["optimizer._target_=torch.nn.Linear: not a torch.optim.Optimizer class"],
    ),
    "metric nobody measures": (
        ["checkpoint.metric=f1"],
        ["checkpoint.metric=f1: not measured on valid; available: loss, accuracy"],
    ),
    "nothing to read": (
        ["data=csv"],
        [
            "data.path: no value; give one as data.path=...",
            "data.target: no value; give one as data.target=...",
        ],
    ),
    "no images": (
        ["data=diabetes", "channels_last=true"],
        ["channels_last=True: diabetes gives no images (ArrayBatcher); leave it out"],
    ),
    "patches that do not fit": (
        ["model=vit", "model.patch=3"],
        [
            "model.patch=3: an image of 8x8 is not divisible into patches of 3x3; choose a "
            "divisor of both "
            "sides"
        ],
    ),
    "no such depth": (
        ["model=resnet", "model.depth=9"],
        ["model.depth=9: a ResNet has 6n + 2 layers: "],
    ),
    "no such torchvision network": (
        ["model=torchvision", "model.name=resnet19"],
        [
            "model.name=resnet19: torchvision has no classification network of that name; did you "
            "mean "
            "'resnet18'?"
        ],
    ),
    "more than the classes": (
        ["metrics=classification_full", "metrics.top_k_accuracy.k=11"],
        ["metrics.top_k_accuracy.k=11: should be at most 10, the number of classes"],
    ),
    "a fold there is not": (
        ["data=kfold", "data.fold=7"],
        ["data.fold=7: should be from 0 to 4, as num_folds=5"],
    ),
    "waiting for what nobody measures": (
        ["early_stopping=patience", "early_stopping.patience.metric=f1"],
        ["early_stopping.patience.metric=f1: not measured on valid; available: loss, accuracy"],
    ),
    "negative padding": (
        ["augmentation=crop", "augmentation.crop.padding=-1"],
        ["augmentation.crop.padding=-1: should be greater than or equal to 0"],
    ),
    "no such loss": (["loss=hubber"], ["loss=hubber: no such loss; did you mean 'huber'?"]),
    "a task of other data": (
        ["task=regression"],
        ["task: Regressor is for num_outputs, and digits has num_classes; set task=classification"],
    ),
}
FAILURES = {
    "a loss of another task": (
        ["loss=huber"],
        "loss: HuberLoss cannot compare output [64, 10] with targets [64] (torch.int64): "
        "should be of one shape; choose a loss of classes",
    ),
    "images wanted": (
        ["data=diabetes", "augmentation=flip"],
        "augmentation.flip: is for images of [channels, height, width], and a sample here is "
        "[10]; leave it "
        "out",
    ),
    "no such GPU": (
        ["device=cuda:99"],
        "device=cuda:99: this machine has no such device; it has: cpu",
    ),
    "nothing left to validate on": (
        ["data.valid=0.0001"],
        "data.valid=0.0001: divides 1438 samples into 1438 and 0; "
        "choose a fraction that leaves samples on both sides",
    ),
    "divergence": (["optimizer=sgd", "lr=1e9"], "update 3 (epoch 1, batch 3, samples "),
}
IN_REAL = ("several at once", "unresolvable folder", "no optimizer")


def process(*arguments):
    """A real `python train.py` in the current directory."""
    line = [sys.executable, str(ROOT / "train.py"), *arguments, "num_epochs=1", "render=plain"]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=120, env={**os.environ, **BLAS}
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def files_below(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def assert_begin(lines, beginnings):
    assert len(lines) == len(beginnings), lines
    for line, beginning in zip(lines, beginnings, strict=True):
        assert line.startswith(beginning)


@pytest.mark.parametrize("name", CONFIG_MISTAKES)
def test_configuration_mistakes_are_listed_by_line_and_leave_no_files(
    name, command, here
):
    arguments, lines = CONFIG_MISTAKES[name]

    said = command("hydra.run.dir=run", *arguments)

    assert_begin(said.problems, lines)
    assert said.code == 2
    assert files_below(here) == [] and not (here / "run").exists()


@pytest.mark.parametrize("name", IN_REAL)
def test_a_real_process_reports_configuration_mistakes_without_a_traceback(name, here):
    arguments, lines = CONFIG_MISTAKES[name]

    said = process(*arguments)

    assert_begin(said.problems, lines)
    assert said.code == 2
    assert files_below(here) == []


@pytest.mark.parametrize("name", FAILURES)
def test_a_run_that_cannot_go_on_says_why_and_leaves_a_folder_if_it_trained(name, command, here):
    arguments, words = FAILURES[name]

    said = command("hydra.run.dir=run", *arguments)

    assert said.errors.startswith(f"error: {words}")
    assert said.code == 1
    if name == "divergence":
        ended = status(here / "run")
        assert (ended["status"], said.errors) == ("failed", f"error: {ended['reason']}\n")
        assert not (here / "run" / "summary.json").exists()
        assert not (here / "run" / "model.safetensors").exists()
    else:
        assert not (here / "run").exists()
        assert command("hydra.run.dir=run", *arguments).errors == said.errors


@pytest.mark.parametrize("name", ["no such GPU", "divergence"])
def test_a_real_process_that_cannot_go_on_says_why_without_a_traceback(name, here):
    arguments, words = FAILURES[name]

    said = process("hydra.run.dir=run", *arguments)

    assert said.errors.startswith("error: ") and said.errors.count("\n") == 1
    assert words in said.errors
    assert said.code == 1
    assert (here / "run").exists() == (name == "divergence")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_refused_with_the_available_devices(command, here):
    said = command("hydra.run.dir=run", "device=cuda")

    assert said.errors.startswith(
        "error: device=cuda: this machine has no such device; it has: cpu"
    )
    assert said.errors.endswith("; device=auto takes the best\n")
    assert said.code == 1 and not (here / "run").exists()


def test_missing_mnist_offline_names_its_place_and_an_alternative(
    command, here, monkeypatch
):
    mnist = importlib.import_module("torchvision.datasets.mnist")

    def refuse(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr(mnist, "download_and_extract_archive", refuse)
    said = command("hydra.run.dir=run", "data=mnist", "data.root=empty")

    assert said.errors.startswith(
        f"error: MNIST is not in {here}/empty/MNIST/raw and could not be downloaded ("
    )
    assert "no route to host" in said.errors and said.errors.count("\n") == 1
    assert "ANDIRON_DATA_DIR" in said.errors and said.errors.endswith(
        "or use data=digits, which needs no download\n"
    )
    assert said.code == 1 and not (here / "run").exists()


def test_a_corrupt_mnist_file_is_named_by_its_folder_with_the_remedy(command, here):
    raw = here / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ):
        (raw / name).write_bytes(b"\x00\x00\x08\x01\x00\x00\x00\x09abc")

    said = command("hydra.run.dir=run", "data=mnist", "data.root=data")

    assert said.errors.startswith(f"error: {raw}: a file there is damaged (")
    assert said.errors.endswith("; remove the folder to download it again\n")
    assert said.code == 1 and not (here / "run").exists()


def test_a_damaged_digits_file_is_named_with_both_checksums(command, here, monkeypatch):
    digits = importlib.import_module("andiron.data.sources.digits")
    content = bytearray(digits.FILE.read_bytes())
    content[-1] ^= 1
    (here / "digits.safetensors").write_bytes(content)
    monkeypatch.setattr(digits, "FILE", here / "digits.safetensors")

    said = command("hydra.run.dir=run")

    assert said.errors.startswith(f"error: {here}/digits.safetensors: SHA-256 is ")
    assert (
        f"not {digits.SHA256}: the file is damaged; restore it from the repository" in said.errors
    )
    assert said.code == 1 and not (here / "run").exists()


@pytest.mark.parametrize(
    "run", ["command", "process"], ids=["in this process", "in a real process"]
)
@pytest.mark.parametrize("sweep", [[], ["-m"]], ids=["run", "sweep"])
def test_a_run_folder_that_cannot_be_made_is_named_with_the_way_out(run, sweep, here, request):
    (here / "file").touch()
    run = process if run == "process" else request.getfixturevalue("command")
    option = "hydra.sweep.dir" if sweep else "hydra.run.dir"

    said = run(*sweep, f"{option}=file/run")

    assert said.errors == (
        f"error: {here}/file/run cannot be made (Not a directory); choose another place with "
        f"{option}=...\n"
    )
    assert said.code == 1
    assert files_below(here) == ["file"]


def test_a_folder_that_holds_a_run_is_refused_and_left_as_it_is(command, here):
    (here / "run").mkdir()
    run_record.begin(RunFolder(here / "run"))
    for name in ("status.json", "notes.txt"):
        (here / "run" / name).write_text(f"{name} of another run")
    before = {name: (here / name).read_text() for name in files_below(here)}

    said = command("hydra.run.dir=run")

    assert said.errors == (
        f"error: {here}/run already holds a run; resume it with resume={here}/run, choose another "
        "hydra.run.dir, or give overwrite=true to remove what that run wrote\n"
    )
    assert said.code == 1
    assert {name: (here / name).read_text() for name in files_below(here)} == before


def test_a_configuration_mistake_keeps_other_files_in_its_folder(command, here):
    (here / "run").mkdir()
    (here / "run" / "notes.txt").write_text("keep me")

    for mistake, code in (("lr=-1", 2), ("model._target_=no_such.Net", 1)):
        assert command("hydra.run.dir=run", mistake).code == code  # the folder is refused by then
        assert files_below(here) == ["run/notes.txt"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("lr=-1", "lr=-1: should be greater than 0"),
        ("lr=1e9", "update 3 (epoch 1, batch 3, samples "),
        ("lr=abc", "lr=abc: should be"),
    ],
)
def test_a_sweep_names_its_one_bad_job_and_runs_the_others(bad, words, command, here):
    values = f"lr=0.05,{bad.removeprefix('lr=')},0.025"

    said = command(
        "-m", "optimizer=sgd", values, "hydra.sweep.dir=sweep", "hydra/launcher=basic"
    )

    assert said.code != 0
    assert f"{here}/sweep/1 (" in said.errors and words in said.errors
    assert "sweep/0" not in said.errors and "sweep/2" not in said.errors
    assert [status(here / "sweep" / job)["status"] for job in "02"] == ["done", "done"]
    assert (
        not (here / "sweep" / "1" / "status.json").exists()
        or status(here / "sweep" / "1")["status"] == "failed"
    )


def test_a_sweep_over_a_choice_that_is_not_there_starts_no_job(command, here):
    said = command("-m", "optimizer=adam,adamm", "hydra.sweep.dir=sweep")

    assert said.problems == [
        f"optimizer=adamm: no such optimizer; did you mean 'adam'?; available: {OPTIMIZERS}"
    ]
    assert said.code == 2
    assert list(here.rglob("status.json")) == []


def test_every_mistake_tested_here_stands_in_the_table_for_readers():
    table = (ROOT / "docs" / "wrong_input.md").read_text(encoding="utf-8")

    for arguments, told in (*CONFIG_MISTAKES.values(), *FAILURES.values()):
        lines = [told] if isinstance(told, str) else told
        assert (
            f"| `{' '.join(arguments)}` | {'<br>'.join(f'`{line}`' for line in lines)} |" in table
        )
