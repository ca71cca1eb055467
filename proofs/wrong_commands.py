"""Wrong command lines: each ends with an error that names what is wrong, and leaves nothing behind.

`python -m proofs.wrong_commands` runs every line in a forked process, in a folder with files of
the user's, and prints what was wrong with how it ended.
"""

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torchmetrics  # noqa: F401  # which imports transformers where it can: 300 MB

from andiron.shell.training import experiment  # noqa: F401  # before the commands are forked
from andiron.wings.runs import plan
from proofs.lab_parts import find_lr
from proofs.attempt import CONF, Outcome, attempt, forks, made_run, trained

COMMANDS = {"train": trained, "plan": plan.main, "find_lr": find_lr.main}
TABLE = Path(__file__).with_suffix(".txt")
PAGE = CONF.parent / "docs" / "wrong_input.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)
POWER = re.compile(r"(\d+)\^(\d+)")
OF_THE_USER = "of the user"  # an error of the user's own code
SECONDS = 180  # for a command that takes two, on a machine that is busy
QUICK = ("num_epochs=1", "render=plain")
RUN = "hydra.run.dir=run"
SAVED = {"checkpoints", "nonfinite"}  # folders of a run with states of training
# where matplotlib keeps its settings and the fonts that it has found; its import makes the folders
OF_MATPLOTLIB = re.compile(r"(; |os\.mkdir \('[^']*/\.(config|cache)/matplotlib', \d+\))+")


class Case(NamedTuple):
    """A wrong command line, and the words that its error must have."""

    arguments: str
    words: str
    is_own_code: bool = False  # the user's own, whose traceback is shown
    command: str = "train"


OWN = '''
import torch
from torch import nn
from andiron.outputs import ClassificationOutput

class NoSteps(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

class NothingBack(NoSteps):
    def train_step(self, batch):
        return None
    def valid_step(self, batch):
        return None

class Raises(NoSteps):
    def train_step(self, batch):
        raise ZeroDivisionError("of the user")
    valid_step = train_step

class LossIsText(nn.Module):
    def forward(self, output, targets):
        return "a loss"

def loss_of_each(output, targets):
    return nn.functional.cross_entropy(output, targets, reduction="none")

def loss_without_graph(output, targets):
    return torch.tensor(1.0)

def loss_is_a_number(output, targets):
    return 1.0

def loss_is_none(output, targets):
    return None

def loss_of_three(output, targets, more):
    return output.sum()

def loss_raises(output, targets):
    raise ZeroDivisionError("of the user")

class MetricIsText:
    name = "mine"
    higher_is_better = True
    def __call__(self, item):
        return "text", 1

class MetricRaises(MetricIsText):
    def __call__(self, item):
        raise ZeroDivisionError("of the user")

class NotCallable:
    name = "mine"
    higher_is_better = True

class OddNetwork(nn.Linear):
    def __init__(self):
        super().__init__(1, 1)

class NetworkRaises(nn.Module):
    def __init__(self):
        raise ZeroDivisionError("of the user")

    def forward(self, inputs):
        return inputs

class ForwardIsNone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)
    def forward(self, inputs):
        return None

class ForwardIsTuple(ForwardIsNone):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
    def forward(self, inputs):
        return self.layer(inputs.flatten(1)), 1

class ForwardRaises(ForwardIsNone):
    def forward(self, inputs):
        raise ZeroDivisionError("of the user")

class Schedule:
    def __call__(self, updates):
        return "fast"

class NegativeSchedule:
    def __call__(self, updates):
        return -1.0

def no_splits():
    return [1, 2, 3]

def data_raises():
    raise ZeroDivisionError("of the user")

def groups(model):
    return ["a", "b"]

def writer(run_dir):
    return None

def augmentation():
    return 3

def gradients(gradients):
    return None

def average():
    return 3

def stopping():
    return 3

def renderer():
    return 3

def strategy():
    return 3

number = 3
'''

# refused before a run starts, with the exit code 2; a part of the message for each
UNTRAINABLE = {
    f"num_updates={10**23}": "num_updates=1000",
    f"log_every={10**21}epochs": "log_every=1000",
    f"batch_size={2**63}": f"batch_size={2**63}",
    "model.hidden=[1000000,1000000]": "model._target_=andiron.mod",
    "data=synthetic data.num_samples=100000000000": "data.num_samples=100000000000: takes ",
    "data=diabetes model=convnet": "model.input_shape=(10,): ",
    "~model +model={_target_:andiron.schedules.Constant,lr:0.1}": "model._target_=andiron.sched",
    "~scheduler +scheduler={_target_:torch.nn.Identity}":
        "scheduler._target_=torch.nn.Identity: gives an object of Identity; scheduler takes a ",
    "~scheduler +scheduler={_target_:own.Schedule}":
        "scheduler._target_=own.Schedule: gives 'fast' for the first update; ",
    "~task +task={_target_:own.NoSteps}": "task._target_=own.NoSt",
    "+averages.a={_target_:own.average}": "averages.a._target_=own.average: ",
    "+averages={../a:{_target_:andiron.optim.Ema,decay:0.9}}":
        "averages.../a: is part of a file name and cannot contain a slash; rename it",
    "+early_stopping.a={_target_:own.stopping}": "early_stopping.a._target_=own",
    "+augmentation.a={_target_:own.augmentation}": "augmentation.a._target_=",
    "+param_groups.a={_target_:own.average}": "param_groups.a._target_=own.a",
    "scheduler=plateau scheduler.metric=f1":
        "scheduler.metric=f1: not measured on valid; available: loss, accuracy",
    "+param_groups.a={match:{tag:last},schedule:{_target_:andiron.schedules.Plateau,"
    "initial_lr:0.1,metric:f1}}": "param_groups.a.schedule.metric=f1: not measured on valid",
    "+param_groups.a={match:{name:''},frozen:5}":
        "param_groups.a.frozen=5: no parameter is trained in the first update",
    "+param_groups.a={match:{name:''},every:5000}":
        "param_groups.a.every=5000: no parameter is trained in the 21 updates of this run",
    "augmentation=[shift,shift]": "augmentation=[shift,shift]: names a ch",
    "lr=interval(0,1)": "lr=interval(0,1): several values, of which -m",
    "-m lr=1,2 sweep_name=a,b": "sweep_name=a,b: is one value",
    "-m lr=1,2 objective=valid/loss,valid/accuracy":
        "objective=valid/loss,valid/accuracy: is one value for all jobs; several metrics are a",
    "-m lr=1,2 sweep_name=a hydra.sweep.dir=b": "sweep_name and hydra.sweep.dir: both name",
    "-m seed=1,2 name=a/b": "name=a/b: should be",
    "-m lr=range(1,0)": "lr=range(1,0): no combination of values",
    "-m lr=glob(x*)": "lr=glob(x*): no combination of values",
    "-m hydra/sweeper=race optimizer=glob(x*)": "optimizer=glob(x*): no combination of values",
    "-m seed=range(0,inf)": "seed=range(0,inf): should have at most",
    "--config-dir=mine model=bracket": "/model/bracket.yaml: no YAML: line ",
    "hydra.run.dir=": "hydra.run.dir=: no folder; give one, or leave it out",
    "--confg-dir=x": "--confg-dir=x: no such flag; did you mean '--config-",
    "--experimental-rerun=x.pickle": "--experimental-rerun=x.pickle: would read a",
    # parts that do not fit each other
    "data=csv data.path=table.csv data.target=price":
        "task: Classifier is for num_classes, and table.csv has num_outputs; set task=regression, "
        "or task=multilabel, or data.kind=classification to read its target so",
    "task=regression":
        "task: Regressor is for num_outputs, and digits has num_classes; set task=classif",
    "data=diabetes loss=cross_entropy":
        "task: loss: CrossEntropy is of classes; choose one of values",
    "task=adversarial loss=cross_entropy":
        "loss=cross_entropy: andiron_lab.adversarial.Adversarial takes no loss, ",
    "+metrics.odd={_target_:torch.nn.Identity}":
        "metrics.odd._target_=torch.nn.Identity: gives an object of Identity; metrics.odd takes an "
        "object with name, higher_is_better and a call with the item; ",
    "model._target_=torch.nn.Module":
        "model._target_=torch.nn.Module: has no method forward(inputs); choose one that has",
    "~model +model={_target_:torch.nn.ModuleList,modules:[{_target_:torch.nn.Linear,"
    "in_features:64,out_features:10}]}":
        "model._target_=torch.nn.ModuleList: has no method forward(inputs); choose one that has",
    "loss._target_=torch.nn.Module":
        "loss._target_=torch.nn.Module: has no method forward(inputs); choose one that has",
    "~loss +loss._target_=torch.nn.functional.cross_entropy +loss.reduction=none":
        "task: loss.reduction=none: should be mean, so that batches of any size weigh alike",
    "early_stopping=patience early_stopping.patience.metric=accuracy "
    "early_stopping.patience.direction=lowest":
        "early_stopping.patience.direction=lowest: accuracy is better the other way; leave it "
        "null, or give highest",
    "checkpoint.metric=accuracy checkpoint.direction=lowest":
        "checkpoint.direction=lowest: accuracy is better the other way; leave it null, or give "
        "highest",
}  # fmt: skip
# found at the first batch, with the exit code 1
FAILING = {
    "~model +model={_target_:torch.nn.Linear,in_features:3,out_features:10}":
        "task Classifier with model Linear cannot be computed for inputs [64, 1, 8, 8] of torch.fl",
    "model=gan": "task Classifier with model GAN cannot be comput",
    "~loss +loss={_target_:own.loss_without_graph}":
        "task Classifier with model MLP cannot be computed",
    "+metrics.mine={_target_:own.MetricIsText}": "metrics.mine: gives ('text', 1) for a batch: ",
    "+gradients.a={_target_:own.gradients}": "gradients: the last one ",
    "data=diabetes augmentation=torchvision": "augmentation: ",
    "metrics=regression": "mae: measures a value against each target, but has ",
    "augmentation=cutout": "augmentation.cutout.size=16: should be below 8, as images are 8x8",
    "start_from=images": "/images: holds cat, and no weights by a usual name; name a file",
}  # fmt: skip


def documented() -> list[dict[str, list[str]]]:
    """Command lines of each table of the page of wrong input, with the beginnings of its messages.
    """
    tables = PAGE.read_text(encoding="utf-8").split("| input | message |")[1:]
    return [
        {line: re.findall("`([^`]+)`", messages) for line, messages in ROW.findall(table)}
        for table in tables
    ]


def cases() -> Iterator[tuple[str, Case]]:
    """All wrong command lines by kind; each has `run` as its folder unless it says another."""
    for table in documented():
        yield from (("documented", Case(line, told[0])) for line, told in table.items())
    yield from (("tested", Case(*row)) for row in (UNTRAINABLE | FAILING).items())
    yield from _listed()
    for make in (_ranges, _kinds, _folders, _commands):
        yield from ((make.__name__.strip("_"), case) for case in make())


def _listed() -> Iterator[tuple[str, Case]]:
    kind = ""
    for line in TABLE.read_text(encoding="utf-8").partition("\n\n")[2].splitlines():
        written = POWER.sub(lambda power: str(int(power[1]) ** int(power[2])), line)
        arguments, _, words = written.partition(" -> ")
        if line.startswith("# "):
            kind = line[2:]
        elif line:
            yield kind, Case(arguments, words or words_of(arguments)[-1], words == OF_THE_USER)


def _ranges() -> Iterator[Case]:
    """Numbers at and beyond 64 bits, and of other kinds."""
    for option in ("num_epochs", "batch_size", "grads_accumulation", "num_workers", "num_updates"):
        least = -1 if option == "num_workers" else 0
        for value in (least, 2**63, 10**23, 10**400, 1.5, "1e3x"):
            yield Case(f"{option}={value}", f"{option}=")
    for option in ("log_every", "validate_every", "seed", "checkpoint.last"):
        yield Case(f"{option}={10**23}", f"{option}=")
    for option in ("log_every", "validate_every", "checkpoint.every"):
        yield Case(f"{option}={10**30}epochs", f"{option}=")


def _kinds() -> Iterator[Case]:
    """Targets that are no class, or of no part."""
    places = "model", "task", "data", "scheduler", "optimizer", "checkpoint", "render", "loss"
    for place, target in itertools.product(places, ("own.number", "own", "7", "", "builtins.dict")):
        yield Case(f"{place}._target_={target}", place)


def _folders() -> Iterator[Case]:
    yield Case("hydra.run.dir='a\0b'", "hydra.run.dir")
    yield Case(f"hydra.run.dir={'a' * 300}", "aaa")
    yield Case(f"hydra.run.dir={'a/' * 3000}", "hydra.run.dir")


def _commands() -> Iterator[Case]:
    """Other commands that take a configuration."""
    for command, (arguments, words) in itertools.product(("plan", "find_lr"), {
        "lr=abc": "lr=abc", "resume=finished": "resume", "model=convnet data=diabetes": "model",
        f"model.hidden=[{10**12}]": "model", "hydra.run.dir=": "hydra.run.dir=", "-m lr=": "lr",
        "--nonsense": "--nonsense",
    }.items()):  # fmt: skip
        yield Case(arguments, words, command=command)


def prepare(work: Path, finished: Path) -> None:
    """A folder with files of a user's own, some damaged, and a copy of a finished run."""
    made = "harmful/model", "mine/model", "mine/experiment", "foreign", "images/cat", "readonly"
    for name in made:
        (work / name).mkdir(parents=True)
    (work / "own.py").write_text(OWN)
    (work / "file").write_text("somebody's")
    (work / "foreign" / "notes.txt").write_text("somebody's")
    (work / "words.txt").write_text("to be or not to be, that is the question. " * 100)
    rows = "".join(f"{number},{number * 7 % 13 + 0.5}\n" for number in range(40))
    (work / "table.csv").write_text(f"size,price\n{rows}")
    (work / "empty.csv").write_text("")
    os.mkfifo(work / "fifo")
    (work / "link").symlink_to("foreign")
    (work / "broken_link").symlink_to("nowhere")
    node = "_target_: andiron.models.MLP\n"
    for name, text in {
        "tab": f"{node}\thidden: [3]\n",
        "bracket": f"{node}hidden: [3\n",
        "text": "just words\n",
        "list": "- 1\n- 2\n",
        "empty": "",
        "twice": f"{node}{node}hidden: [3]\n",
        "alias": f"{node}hidden: *nothing\n",
        "python": f"{node}hidden: !!python/object/apply:os.system ['true']\n",
        "loop": "defaults: [loop]\n",
    }.items():
        (work / "mine" / "model" / f"{name}.yaml").write_text(text)
    (work / "mine/model/binary.yaml").write_bytes(b"\xff\xfe\x00_target_")
    (work / "mine/model/folder.yaml").mkdir()
    (work / "harmful/model/deep.yaml").write_text(f"{node}hidden: {'[' * 5000}\n")
    for name, text in {
        "unknown": "# @package _global_\nnothing: 1\n",
        "absent": "# @package _global_\ndefaults: [override /model: absent]\n",
        "selfish": "# @package _global_\ndefaults: [override /nothing: absent]\n",
        "late": "# @package _global_\ndefaults: [/model: convnet]\n",
    }.items():
        (work / "mine" / "experiment" / f"{name}.yaml").write_text(text)
    _image(work / "images" / "cat" / "a.png")
    shutil.copytree(finished, work / "finished")
    (work / "readonly").chmod(0o500)


def _image(path: Path) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return len(content).to_bytes(4, "big") + checked + zlib.crc32(checked).to_bytes(4, "big")

    header = (1).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))


def words_of(arguments: str) -> list[str]:
    """The arguments, split at spaces outside quotes that begin an argument."""
    matches = re.findall(r"'[^']*'(?=\s|$)|\S+", arguments)
    return [value[1:-1] if value[:1] == value[-1:] == "'" else value for value in matches]


def tried(case: Case, work: Path) -> tuple[list[str], Outcome]:
    """Faults in how the command line ended."""
    arguments = words_of(case.arguments)
    # a folder's name is tried without quick options: the error comes before they matter
    quick = [value for value in QUICK if value.partition("=")[0] not in case.arguments]
    names_folder = any(text in case.arguments for text in ("hydra.run.dir", "-m", "resume="))
    if not names_folder:
        quick.append(RUN)
    if case.arguments.startswith("resume="):
        quick = []
    before = _contents(work)

    def run() -> int:
        os.chdir(work)
        sys.path.insert(0, str(work))
        sys.argv = [case.command, *arguments, *quick]
        return COMMANDS[case.command]()

    outcome = attempt(run, may_write=[work], forbidden=work / "none", seconds=SECONDS)
    return [*_faults(case, outcome), *_left(work, before)], outcome


def _faults(case: Case, outcome: Outcome) -> Iterator[str]:
    for fault in outcome.faults():
        if OF_MATPLOTLIB.fullmatch(fault):
            continue
        if not (case.is_own_code and fault in ("ended with a traceback", "said no error")):
            yield fault
    said = outcome.output.partition("error: ")[2] or outcome.output
    if outcome.code and case.words not in said:
        yield f"does not say {case.words!r}"


def _left(work: Path, before: dict[str, str]) -> Iterator[str]:
    """Files that are lost or changed, and folders that claim more than there is."""
    after = _contents(work)
    for path in sorted(before.keys() - after.keys()):
        yield f"lost {path}"
    for path in sorted(before.keys() & after.keys()):
        if before[path] != after[path] and Path(path).name != "experiment.log":  # added to
            yield f"changed {path}"
    for path in sorted(after.keys() - before.keys()):
        if path.startswith("multirun/"):  # the other jobs of a sweep may well be done
            continue
        name = Path(path).name
        if name == "status.json":
            if json.loads((work / path).read_text())["status"] != "failed":
                yield f"{path} claims to be {json.loads((work / path).read_text())['status']}"
        elif name == "model.safetensors" and not SAVED & {*Path(path).parts}:
            yield f"left {path}"
        elif name == "summary.json" or "/" not in path:
            yield f"left {path}"
        elif not (work / Path(path).parent / "status.json").exists() and not (
            {*SAVED, "tensorboard", ".hydra"} & {*Path(path).parts}
        ):
            yield f"left {path} without a status"


def _contents(work: Path) -> dict[str, str]:
    """A digest of every file that is not in a cache of Python's."""
    return {
        path.relative_to(work).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(work.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def main() -> int:
    """Prints every fault; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="command lines that have this text")
    parser.add_argument("--kinds", nargs="+", help="of command lines, such as sweeps")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--show", action="store_true", help="print what each command said")
    options = parser.parse_args()
    chosen = [
        case for kind, case in cases()
        if options.only in case.arguments and kind in (options.kinds or [kind])
    ]  # fmt: skip
    faulty = 0
    with (
        tempfile.TemporaryDirectory(prefix="andiron-wrong-") as scratch,
        forks(options.jobs) as pool,
    ):
        # to be resumed and overwritten wrongly
        made_run(Path(scratch) / "finished", "num_epochs=2", "model.hidden=[7]")
        ends = pool.map(partial(_tried, Path(scratch)), chosen)
        for case, (faults, output) in zip(chosen, ends, strict=True):
            faulty += bool(faults)
            if faults or options.show:
                shown = case.arguments[:200] + "..." * (len(case.arguments) > 200)
                said = " ".join(output.split())[-400:]
                print(f"{case.command} {shown}\n    {'; '.join(faults)}\n    {said}", flush=True)
    print(f"{len(chosen)} wrong command lines, {faulty} with a fault")
    return int(faulty > 0)


def _tried(scratch: Path, case: Case) -> tuple[list[str], str]:
    """The faults of a command line in a fresh folder, and its output."""
    work = scratch / f"work-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    prepare(work, scratch / "finished")
    faults, outcome = tried(case, work)
    return faults, outcome.output


if __name__ == "__main__":
    sys.exit(main())
