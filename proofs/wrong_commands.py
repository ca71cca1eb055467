"""Wrong command lines: each ends with an error that names what is wrong, and leaves nothing behind.

`python -m proofs.wrong_commands` runs every line in a forked process, in a folder with files of
the user's, and prints what was wrong with how it ended.
"""

import argparse
import hashlib
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

from andiron.shell.training import train
from andiron.shell.training import experiment  # noqa: F401  # before the commands are forked
from andiron.wings.runs import plan
from proofs.lab_parts import find_lr
from proofs.attempt import CONF, Outcome, attempt, made_run

COMMANDS = {"train": partial(train.main, CONF), "plan": plan.main, "find_lr": find_lr.main}
PAGE = CONF.parent / "docs" / "wrong_input.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)
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
    for make in (
        _documented, _tested, _words, _ranges, _sizes, _kinds, _groups, _fits, _schedules,
        _own_code, _yaml, _sweeps, _folders, _resuming, _files, _commands,
    ):  # fmt: skip
        yield from ((make.__name__.strip("_"), case) for case in make())


def _documented() -> Iterator[Case]:
    for table in documented():
        yield from (Case(line, messages[0]) for line, messages in table.items())


def _tested() -> Iterator[Case]:
    yield from (Case(line, words) for line, words in (UNTRAINABLE | FAILING).items())


def _words() -> Iterator[Case]:
    for arguments, words in {
        "=3": "=3",
        "lr==3": "lr==3",
        "lr=0.1=0.2": "lr=0.1=0.2",
        "lr=": "lr=",
        "num_epochs=": "num_epochs=",
        "lr=''": "lr=",
        "lr=null": "lr",
        "lr=[0.1]": "lr=",
        "lr={a:1}": "lr=",
        "lr=nan": "lr",
        "lr=0": "lr=0",
        "lr=1e400": "lr=inf",
        "lr=${lr}": "lr",
        "lr=${oc.env:NONE_SUCH}": "lr",
        "lr=${oc.nothing:x}": "lr",
        "lr=${": "lr=${",
        "lr=${data}": "lr",
        "model=${optimizer}": "model",
        "model=${seed}": "model",
        "seed=${seed}": "seed",
        "data.valid=${data.test": "data.valid",
        "optimizer=": "optimizer=",
        "optimizer=[adam,sgd]": "optimizer",
        "optimizer=Adam": "optimizer=Adam: no such optimizer",
        "optimizer=adam/x": "optimizer=adam/x",
        "optimizer/extra=adam": "optimizer/extra",
        "+optimizer=adam": "optimizer",
        "+nothing/at=all": "nothing",
        "++nothing=1": "nothing: no such option",
        "+nothing=1": "nothing: no such option",
        "nothing.at.all=1": "nothing",
        "~nothing": "nothing",
        "~lr": "lr",
        "~lr=7": "lr",
        "~optimizer": "optimizer: no value",
        "~data": "data: no value",
        "~task": "task: no value",
        "~metrics": "metrics: no value",
        "~scheduler": "scheduler: no value",
        "model@other=mlp": "other",
        "experiment=none_such": "experiment=none_such: no such experiment",
        "experiment=[digits,diabetes_]": "experiment",
        "writers=[tensorboard,tensorboard]": "writers",
        "gradients=[noise,noise]": "gradients",
        "early_stopping=[patience,patience]": "early_stopping",
        "averages=[ema,ema]": "averages",
        "augmentation=[shift,]": "augmentation",
        "augmentation=[[shift]]": "augmentation",
        "writers=tensorboards": "writers=tensorboards: no such writers",
        "metrics.loss=1": "metrics.loss=1",
        "+metrics.mine={name:x}": "metrics.mine",
        "+metrics.mine=[]": "metrics.mine",
        "model.hidden=7": "model.hidden=7",
        "model.hidden=[a]": "model.hidden",
        "model.dropout=true": "model.dropout=True",
        "model.0=7": "model.0",
        "compile=yes": "compile=yes",
        "compile=1": "compile=1",
        "seed=1.0": "seed=1.0",
        "seed='1'": "seed=1",
        "precision=fp8": "precision=fp8",
        "on_nonfinite=explode": "on_nonfinite=explode",
        "log_every=0": "log_every=0",
        "log_every=2weeks": "log_every=2weeks",
        "log_every=-1epochs": "log_every=-1epochs",
        "validate_every=0epochs": "validate_every=0epochs",
        "validate_every={updates:0}": "validate_every",
        "validate_every={weeks:1}": "validate_every",
        "checkpoint.every=abc": "checkpoint.every=abc",
        "checkpoint.last=-1": "checkpoint.last=-1",
        "checkpoint.split=other": "checkpoint.split=other",
        "checkpoint.store=mine": "checkpoint.store",
        "clip=-1": "clip=-1",
        "clip={norm:1,value:2}": "clip",
        "clip={}": "clip",
        "sam=0": "sam=0",
        "activation_checkpointing='('": "activation_checkpointing",
        "activation_checkpointing=nothing_such": "activation_checkpointing=nothing_such",
        "trust=7": "trust",
        "trust=[7]": "trust",
        "overwrite=perhaps": "overwrite=perhaps",
        "restart=never": "restart=never: no such restart",
        "interrupted_exit_code=0": "interrupted_exit_code=0",
        "interrupted_exit_code=256": "interrupted_exit_code=256",
        "--nonsense": "--nonsense",
        "--config-name=other": "--config-name",
        "--config-path=elsewhere": "--config-path",
        "--config-dir=nowhere": "--config-dir",
        "--config-dir=file": "--config-dir",
        "--config-dir": "--config-dir",
        "--cfg=nonsense": "--cfg",
        "--info=nonsense": "--info",
        "--experimental-rerun=nowhere.pickle": "--experimental-rerun",
        "hydra/launcher=joblib": "hydra/launcher",
        "hydra/sweeper=ax": "hydra/sweeper",
        "hydra.mode=OTHER": "hydra.mode",
        "hydra.nothing=1": "hydra.nothing",
        "device=cuda:-1": "device=cuda:-1",
        "device=tpu": "device=tpu",
        "device=[cpu]": "device",
    }.items():  # fmt: skip
        yield Case(arguments, words)


def _ranges() -> Iterator[Case]:
    """Numbers at and beyond 64 bits, and of other kinds."""
    huge = (2**31, 2**63, 10**23, 10**400)
    for option in ("num_epochs", "batch_size", "grads_accumulation", "num_workers", "num_updates"):
        for value in (0 if option != "num_workers" else -1, -1, *huge[1:], 1.5, "1e3x"):
            yield Case(f"{option}={value}", f"{option}=")
    for option in ("log_every", "validate_every", "seed", "checkpoint.last", "num_workers"):
        yield Case(f"{option}={10**23}", f"{option}=")
    for option in ("log_every", "validate_every", "checkpoint.every"):
        yield Case(f"{option}={10**30}epochs", f"{option}=")
    option = "checkpoint.keep_every_updates"
    yield Case(f"{option}={10**23}", option)
    yield Case(f"{option}=0", f"{option}=0")
    yield Case("num_epochs=10 num_updates=1000 num_epochs=5", "num_epochs")
    yield Case("num_epochs=null", "num_epochs")
    yield Case("num_epochs=7 num_updates=3", "num_epochs=7")
    yield Case("data.split_seed=-1", "data.split_seed=-1")
    yield Case(f"data.split_seed={10**23}", "data.split_seed=")
    yield Case("data.valid=0", "data.valid=0")
    yield Case("data.valid=1", "data.valid=1")
    yield Case("data.valid=0.00001", "data.valid")
    yield Case("data.valid=0.99999", "data.valid")
    yield Case("data.valid=train", "data.valid=train")
    yield Case("optimizer.betas=[1.0,0.9]", "optimizer.betas")
    yield Case("optimizer.betas=[0.9,0.9,0.9]", "optimizer.betas")
    yield Case("optimizer.eps=-1", "optimizer.eps=-1")
    yield Case("optimizer.eps=nan", "optimizer.eps")
    yield Case("optimizer=sgd optimizer.momentum=-1", "optimizer.momentum=-1")
    yield Case("optimizer=sgd optimizer.nesterov=true optimizer.momentum=0", "optimizer")
    yield Case("model.dropout=1", "model.dropout=1")
    yield Case("early_stopping=patience early_stopping.patience.patience=0", "patience=0")
    yield Case("early_stopping=goal early_stopping.goal.goal=nan", "early_stopping.goal.goal")
    yield Case("averages=ema averages.ema.decay=2", "averages.ema.decay=2")
    yield Case("averages=swa averages.swa.start=1000000", "averages.swa")
    yield Case("gradients=noise gradients.noise.eta=-1", "gradients.noise")
    yield Case("augmentation=shift augmentation.shift.pixels=-1", "augmentation.shift")
    yield Case(f"augmentation=shift augmentation.shift.pixels={10**23}", "augmentation.shift")
    yield Case("augmentation=mixup augmentation.mixup.alpha=0", "augmentation.mixup")


def _sizes() -> Iterator[Case]:
    """Networks, pictures and batches that no memory holds."""
    yield Case(f"model.hidden=[{10**9},{10**9}]", "model")
    yield Case(f"model.hidden=[{10**12}]", "model")
    yield Case(f"model.hidden=[{2**62},{2**62}]", "model")
    yield Case(f"model.hidden=[{10**23}]", "model.hidden")
    yield Case("model.hidden=[200000,200000]", "model")
    yield Case(f"model=convnet model.channels=[{10**9},{10**9}]", "model")
    yield Case(f"model=resnet model.width={10**9}", "model")
    yield Case(f"model=resnet model.depth={6 * 10**12 + 2}", "model")
    yield Case(f"model=vit model.width={4 * 10**9}", "model")
    yield Case(f"model=vit model.depth={10**9}", "model")
    yield Case(f"data=text data.path=words.txt model.width={4 * 10**8}", "model")
    yield Case(f"data=text data.path=words.txt model.depth={10**10}", "model")
    synthetic = "data=synthetic data.num_samples"
    yield Case(f"{synthetic}={10**13}", "data")
    yield Case(f"{synthetic}={10**23}", "data.num_samples")
    yield Case(f"{synthetic}=100 data.input_shape=[1,1000000,1000000]", "data")
    yield Case(f"{synthetic}=100 data.input_shape=[{2**40},{2**40}]", "data")
    yield Case(f"{synthetic}=100 data.num_classes={10**15}", "data")
    yield Case(f"{synthetic}=100 data.num_classes=0", "data.num_classes=0")
    yield Case("data=image_folder data.path=images data.size=1000000", "images")
    yield Case(f"data=image_folder data.path=images data.size={10**23}", "data.size")
    yield Case("data=image_folder data.path=images data.size=0", "data.size=0")
    yield Case(f"+model._target_=torch.nn.Linear ~model.hidden ~model.dropout "
               f"+model.in_features={10**9} +model.out_features={10**9}", "model")  # fmt: skip
    yield Case(f"augmentation=crop augmentation.crop.padding={10**9}", "augmentation.crop")


def _kinds() -> Iterator[Case]:
    """Nodes that give another kind of object than their place takes."""
    linear = "_target_:torch.nn.Linear,in_features:1,out_features:1"
    constant = "_target_:andiron.schedules.Constant,lr:0.1"
    metric = "_target_:andiron.metrics.Loss"
    for place, node in {
        "model": constant, "task": linear, "loss": constant, "optimizer": linear,
        "scheduler": linear, "data": constant, "checkpoint": constant, "render": constant,
    }.items():  # fmt: skip
        yield Case(f"~{place} +{place}={{{node}}} lr=0.1", place)
    for place, node in {
        "metrics.mine": linear, "augmentation.mine": metric, "gradients.mine": metric,
        "averages.mine": metric, "early_stopping.mine": metric, "writers.mine": metric,
        "param_groups.mine": metric,
    }.items():  # fmt: skip
        is_called = place in ("augmentation.mine", "gradients.mine")  # with one argument, as a Loss
        yield Case(f"++{place}={{{node}}}", "cannot change" if is_called else place)
    places = "model", "task", "data", "scheduler", "optimizer", "checkpoint", "render", "loss"
    for place in places:
        yield Case(f"{place}._target_=own.number", place)
        yield Case(f"{place}._target_=own", place)
        yield Case(f"{place}._target_=7", place)
        yield Case(f"{place}._target_=", place)
        yield Case(f"{place}._target_=builtins.dict", place)
    for target in ("torch", "torch.nn", "torch.nn.", ".torch", "no such", "torch.nn.Lniear",
                   "os.system", "builtins.print", "torch.manual_seed"):  # fmt: skip
        yield Case(f"~model '+model={{_target_:\"{target}\"}}'", "model")
    yield Case("~model +model={_target_:torch.nn.Linear,_args_:[1,1]}", "model")
    yield Case("+model._recursive_=false", "model._recursive_")
    yield Case("+model._partial_=true", "model")
    yield Case("+optimizer._partial_=true", "optimizer")
    yield Case("+data._partial_=true", "data")
    yield Case("~model +model={_target_:torch.optim.Adam,params:[]}", "model")
    yield Case("loss._target_=torch.nn.functional.relu", "loss")
    yield Case("loss._target_=torch.nn.functional.nothing", "loss")
    yield Case("+metrics.mine={_target_:andiron.metrics.Mean,of:os.system}", "metrics.mine")
    yield Case("+metrics.mine={_target_:andiron.metrics.Mean,of:nothing}", "metrics.mine")
    yield Case("+metrics.mine={_target_:torchmetrics.Nothing}", "metrics.mine")
    yield Case("scheduler._target_=torch.optim.lr_scheduler.StepLR", "scheduler")


def _groups() -> Iterator[Case]:
    g = "+param_groups.mine="
    for node, words in {
        "{}": "param_groups.mine", "7": "param_groups.mine=7", "[]": "param_groups.mine",
        "null": "param_groups.mine", "{lr:0.1}": "param_groups.mine.match",
        "{match:null}": "param_groups.mine.match", "{match:[]}": "param_groups.mine.match",
        "{match:{name:nothing}}": "param_groups.mine", "{match:{rank:9}}": "param_groups.mine",
        "{match:{rank:-1}}": "param_groups.mine", "{match:{rank:two}}": "param_groups.mine",
        "{match:{module:Conv9d}}": "param_groups.mine", "{match:{tag:lats}}": "param_groups.mine",
        "{match:'*'}": "param_groups.mine.match", "{match:7}": "param_groups.mine.match",
        "{match:{tag:last},lr:-1}": "param_groups.mine.lr=-1",
        "{match:{tag:last},lr:null,lr_scale:0}": "param_groups.mine.lr_scale=0",
        "{match:{tag:last},every:0}": "param_groups.mine.every=0",
        "{match:{tag:last},every:100000000000000000000000}": "param_groups.mine.every",
        "{match:{tag:last},frozen:-3}": "param_groups.mine.frozen",
        "{match:{tag:last},frozen:maybe}": "param_groups.mine.frozen=maybe",
        "{match:{tag:last},clip:0}": "param_groups.mine.clip=0",
        "{match:{tag:last},schedule:7}": "param_groups.mine.schedule=7",
        "{match:{tag:last},optimizer:sgd}": "param_groups.mine.optimizer=sgd",
        "{match:{tag:last},optimizer:{_target_:torch.nn.Linear}}": "param_groups.mine.optimizer",
        "{match:{tag:last},weight_decay:-1}": "param_groups.mine.weight_decay=-1",
        "{match:{tag:last},params:[]}": "param_groups.mine.params",
        "{match:{tag:last},gradients:{a:{_target_:own.augmentation}}}": "param_groups.mine",
        "{match:{name:''},frozen:true}": "nothing",
        "{match:{name:''},frozen:1000000}": "param_groups.mine",
        "{match:{name:''},every:1000000}": "param_groups.mine",
        "{_target_:andiron_lab.optim.layerwise,decay:2}": "param_groups.mine",
        "{_target_:andiron_lab.optim.layerwise,decay:0.5,pattern:nothing}": "pattern=nothing",
        "{_target_:andiron_lab.optim.layerwise,decay:0.5,pattern:'('}": "pattern='('",
        "{_target_:own.groups}": "param_groups.mine",
    }.items():  # fmt: skip
        yield Case(f"{g}{node}", words)
    yield Case("param_groups=head_only +param_groups.more={match:{tag:last},frozen:true}", "groups")
    yield Case("+param_groups.base={match:{tag:last}}", "param_groups.base")
    yield Case("optimizer@param_groups.none=sgd", "param_groups.none")


def _fits() -> Iterator[Case]:
    """Networks, tasks, losses, metrics and augmentations that do not fit the data."""
    table = "data=csv data.path=table.csv data.target=price"
    yield Case("data=diabetes model=convnet", "model")
    yield Case("data=diabetes model=lenet", "model")
    yield Case("data=diabetes model=resnet", "model")
    yield Case("data=diabetes model=vit", "model")
    yield Case("data=diabetes model=torchvision model.name=resnet18", "model")
    yield Case("data=diabetes model=gpt", "model")
    yield Case(f"{table} model=convnet", "task")
    yield Case("data=digits model=gpt", "model")
    yield Case("data=digits task=language_model", "model")
    yield Case("data=digits task=regression", "task")
    yield Case("data=digits task=binary", "sample 1")
    yield Case("data=digits task=multilabel", "MultiLabelClassifier")
    yield Case("data=diabetes task=classification", "task")
    yield Case("data=diabetes task=adversarial", "model")
    yield Case("data=diabetes task=binary", "task")
    yield Case("data=text data.path=words.txt task=classification", "model")
    yield Case("data=text data.path=words.txt model=mlp", "model")
    yield Case("experiment=gan_digits data=diabetes", "data.size")
    yield Case("task=adversarial data=diabetes", "model")
    yield Case("experiment=gan_digits model=mlp", "MLP has no generator")
    yield Case("task=adversarial model=mlp", "MLP has no generator")
    yield Case("task=adversarial data=synthetic data.num_samples=100 "
               "data.input_shape=[1,9,9,9]", "model")  # fmt: skip
    synthetic = "data=synthetic data.num_samples=100"
    yield Case(f"{synthetic} data.input_shape=[1,3,3] model=convnet", "model")
    yield Case(f"{synthetic} data.input_shape=[2,3,4,5] model=convnet", "model")
    yield Case(f"{synthetic} data.input_shape=[] model=mlp", "data.input_shape")
    yield Case(f"{synthetic} data.input_shape=[0] model=mlp", "data.input_shape")
    yield Case(f"{synthetic} data.num_classes=1", "data.num_classes")
    yield Case(f"{synthetic} data.dtype=int3", "data.dtype")
    yield Case("model=vit model.heads=5", "heads=5")
    yield Case("model=torchvision model.name=deeplabv3_resnet50", "model.name")
    yield Case("loss=binary_cross_entropy", "loss")
    yield Case("loss.weight=[1,2,3]", "loss.weight")
    yield Case("loss.label_smoothing=2", "loss.label_smoothing")
    yield Case("data=diabetes metrics=classification", "accuracy")
    yield Case("metrics=language", "bits_per_byte")
    yield Case("metrics=adversarial", "metric")
    yield Case("augmentation=cutout augmentation.cutout.size=100", "augmentation.cutout.size=100")
    yield Case("augmentation=crop augmentation.crop.size=100", "augmentation.crop")
    yield Case("model._target_=own.OddNetwork ~model.hidden ~model.dropout", "OddNetwork")
    yield Case("~model +model={_target_:torch.nn.Linear,in_features:8,out_features:10}",
               "the network gives")  # fmt: skip
    yield Case("~model +model={_target_:torch.nn.Identity}", "model")
    yield Case("~model +model={_target_:torch.nn.Flatten}", "model")
    yield Case("start_from=nowhere", "nowhere")
    yield Case("start_from=file", "file")
    yield Case("start_from=foreign", "foreign")
    yield Case("start_from=finished model.hidden=[3] data=diabetes", "start_from")
    yield Case("data=partial data.fraction=0", "data.fraction=0")
    yield Case("data=kfold data.num_folds=100000 data.fold=0", "data.num_folds")
    yield Case("data=kfold data.num_folds=1", "data.num_folds")


def _schedules() -> Iterator[Case]:
    for arguments, words in {
        "scheduler=none_such": "scheduler=none_such",
        "scheduler=step scheduler.step_size=0": "scheduler.step_size=0",
        "scheduler=step scheduler.gamma=0": "scheduler.gamma=0",
        "scheduler=step scheduler.gamma=nan": "scheduler.gamma",
        "scheduler=step scheduler.gamma=inf": "scheduler.gamma",
        "scheduler=exponential scheduler.gamma=1.5": "scheduler.gamma=1.5",
        "scheduler=exponential scheduler.gamma=0": "scheduler.gamma=0",
        "scheduler=cosine scheduler.min_lr=7": "scheduler.min_lr=7",
        "scheduler=cosine scheduler.min_lr=-1": "scheduler.min_lr=-1",
        "scheduler=cosine scheduler.initial_lr=nan": "scheduler.initial_lr",
        "scheduler=cosine scheduler.initial_lr=0": "scheduler.initial_lr",
        "scheduler=cosine scheduler.num_updates=0": "scheduler.num_updates=0",
        "scheduler=linear scheduler.initial_lr=-1": "scheduler.initial_lr=-1",
        "scheduler=warmup scheduler.warmup_updates=100000": "scheduler.warmup_updates",
        "scheduler=warmup scheduler.warmup_updates=-1": "scheduler.warmup_updates",
        "scheduler=one_cycle scheduler.warmup_fraction=2": "scheduler",
        "scheduler=sequential scheduler.milestones=[]": "scheduler",
        "scheduler=sequential scheduler.milestones=[5,3]": "scheduler",
        "scheduler=sequential scheduler.milestones=[100000]": "scheduler",
        "scheduler=sequential scheduler.schedules=[]": "scheduler.schedules",
        "scheduler=sequential scheduler.schedules=7": "scheduler.schedules=7",
        "scheduler=composed scheduler.reduction=min": "scheduler.reduction=min",
        "scheduler=composed scheduler.schedules=[7]": "scheduler.schedules",
        "scheduler=plateau scheduler.metric=none_such": "scheduler.metric=none_such",
        "scheduler=plateau scheduler.split=test": "scheduler.split=test",
        "scheduler=plateau scheduler.factor=2": "scheduler.factor=2",
        "scheduler=plateau scheduler.patience=-1": "scheduler.patience=-1",
        "scheduler=plateau scheduler.metric=accuracy": "scheduler.direction",
        "scheduler=plateau scheduler.min_lr=1000": "scheduler.min_lr",
        "scheduler=noam scheduler.warmup_updates=-1": "scheduler",
        "scheduler=warmup_stable_decay scheduler.decay_updates=100000": "scheduler",
        "scheduler=cosine_restarts scheduler.first_cycle_updates=0": "scheduler",
        "scheduler=polynomial scheduler.power=-1": "scheduler.power",
        f"scheduler=step scheduler.step_size={10**23}": "scheduler.step_size",
        f"scheduler=cosine scheduler.num_updates={10**23}": "scheduler.num_updates",
        "lr=interval(0.1,0.2)": "lr=interval(0.1,0.2)",
    }.items():  # fmt: skip
        yield Case(arguments, words)
    plateau = "{_target_:andiron.schedules.Plateau,initial_lr:0.1,metric:x}"
    group = f"{{match:{{tag:last}},schedule:{plateau}}}"
    yield Case(f"+param_groups.mine={group}", "param_groups.mine.schedule.metric=x")


def _own_code() -> Iterator[Case]:
    """Own tasks, losses, metrics and other parts that return what their place does not take."""
    bare = "~model.hidden ~model.dropout"
    for arguments, words, own in (
        ("task._target_=own.NoSteps", "train_step", False),
        ("task._target_=own.NothingBack", "train_step", False),
        ("task._target_=own.Raises", "of the user", True),
        ("loss._target_=own.LossIsText", "loss", False),
        ("loss._target_=own.loss_of_each", "loss", False),
        ("loss._target_=own.loss_without_graph", "loss", False),
        ("loss._target_=own.loss_is_a_number", "loss", False),
        ("loss._target_=own.loss_is_none", "loss", False),
        ("loss._target_=own.loss_of_three", "loss", False),
        ("loss._target_=own.loss_raises", "of the user", True),
        ("+metrics.mine._target_=own.MetricIsText", "mine", False),
        ("+metrics.mine._target_=own.MetricRaises", "of the user", True),
        ("+metrics.mine._target_=own.NotCallable", "metrics.mine", False),
        (f"model._target_=own.NetworkRaises {bare}", "of the user", True),
        (f"model._target_=own.ForwardIsNone {bare}", "ForwardIsNone", False),
        (f"model._target_=own.ForwardIsTuple {bare}", "ForwardIsTuple", False),
        (f"model._target_=own.ForwardRaises {bare}", "of the user", True),
        ("~scheduler +scheduler._target_=own.Schedule", "scheduler", False),
        ("~scheduler +scheduler._target_=own.NegativeSchedule", "scheduler", False),
        ("~data +data._target_=own.no_splits", "data", False),
        ("~data +data._target_=own.data_raises", "of the user", True),
        ("+writers.mine._target_=own.writer", "writers.mine", False),
        ("++augmentation.mine._target_=own.augmentation", "augmentation.mine", False),
        ("++gradients.mine._target_=own.gradients", "gradients: ", False),
        ("++averages.mine._target_=own.average", "averages.mine", False),
        ("++early_stopping.mine._target_=own.stopping", "early_stopping.mine", False),
        ("~render +render._target_=own.renderer", "render", False),
        ("~checkpoint +checkpoint._target_=own.strategy", "checkpoint", False),
    ):
        words = words if arguments.partition("=")[0] != "loss._target_" or own else "loss"
        if arguments.startswith("loss."):
            arguments = arguments.replace("loss._target_", "~loss +loss._target_")
        yield Case(arguments, words, own)


def _yaml() -> Iterator[Case]:
    """Files of the user's own in a folder of configurations."""
    for choice, words in {
        "model=tab": "tab.yaml", "model=bracket": "bracket.yaml", "model=text": "model",
        "model=list": "model", "model=empty": "model", "model=twice": "twice.yaml",
        "model=binary": "binary.yaml", "model=alias": "alias.yaml", "model=python": "python.yaml",
        "model=folder": "model/folder", "model=loop": "includes itself",
        "experiment=unknown": "no such option", "experiment=absent": "absent",
        "experiment=selfish": "selfish", "experiment=late": "model",
    }.items():  # fmt: skip
        yield Case(f"--config-dir=mine {choice}", words)
    yield Case("--config-dir=harmful model=deep", "deep.yaml")
    yield Case("--config-dir=mine -m model=mlp,bracket", "bracket.yaml")
    yield Case("-cd mine model=bracket", "bracket.yaml")
    yield Case("'hydra.searchpath=[file://mine]' model=bracket", "bracket.yaml")


def _sweeps() -> Iterator[Case]:
    for arguments, words in {
        "-m lr=": "lr=",
        "-m lr=choice()": "lr=choice()",
        "lr=choice()": "lr=choice()",
        "lr=choice(0.1,0.2)": "lr=choice(0.1,0.2)",
        "lr=0.1,0.2": "lr=0.1,0.2",
        "-m lr=0.1,": "lr=0.1,",
        "-m lr=interval(0,1)": "lr=interval(0,1)",
        "-m lr=range(0,1,0)": "lr=range(0,1,0)",
        "-m optimizer=glob(x*)": "optimizer=glob(x*)",
        "-m lr=shuffle(3)": "lr=[3]",
        "-m lr=sort(a,1)": "lr",
        "-m lr=nonsense(1,2)": "lr=nonsense(1,2)",
        "-m lr=-1,-2": "lr=-1",
        "-m lr=abc,1e-3 num_epochs=1": "lr=abc",
        "-m optimizer=adam,adamm num_epochs=1": "adamm",
        "-m ~lr=1,2": "lr",
        "-m resume=finished": "resume=finished",
        "-m resume=finished,other": "resume",
        "-m hydra.sweep.dir= lr=1,2": "hydra.sweep.dir",
        "-m hydra.sweep.subdir= lr=1,2 num_epochs=1": "hydra.sweep.subdir=",
        "-m hydra.sweep.subdir=../x lr=1,2 num_epochs=1": "hydra.sweep.subdir=../x",
        "-m hydra.sweep.subdir=same lr=1,2 num_epochs=1": "same",
        "-m hydra.sweep.dir=file lr=1,2": "file",
        f"-m seed=range({10**12})": "seed=range",
    }.items():
        yield Case(arguments, words)


def _folders() -> Iterator[Case]:
    for folder, words in {
        "''": "hydra.run.dir=", "null": "hydra.run.dir", "7/..": "hydra.run",
        ".": "hydra.run.dir", "file": "file", "file/run": "file",
        "/dev/null": "/dev/null", "/dev/null/x": "/dev/null",
        "foreign": "foreign", "finished": "finished", "link": "link", "broken_link": "broken_link",
        "fifo": "fifo", "finished/checkpoints": "finished",
        "[a]": "hydra.run.dir", "{a:1}": "hydra.run.dir",
        "a" * 300: "aaa", "'a\0b'": "hydra.run.dir", "${nothing}": "hydra.run.dir",
        "${now:}": "hydra.run.dir", "a/" * 3000: "hydra.run.dir",
    }.items():  # fmt: skip
        yield Case(f"hydra.run.dir={folder}", words)
    yield Case("hydra.output_subdir=other", "hydra.output_subdir")
    yield Case("hydra.job.chdir=true hydra.run.dir=run data=csv data.path=none.csv "
               "data.target=price", "none.csv")  # fmt: skip
    yield Case("overwrite=true hydra.run.dir=finished optimizer=muon", "optimizer")
    yield Case("overwrite=true hydra.run.dir=finished model=convnet data=diabetes", "model")
    yield Case("overwrite=true hydra.run.dir=finished loss=huber", "loss")
    yield Case("overwrite=true hydra.run.dir=finished data.valid=0.00001", "data.valid")
    yield Case("overwrite=true hydra.run.dir=finished device=cuda:9", "device")
    yield Case("overwrite=true hydra.run.dir=finished scheduler=plateau scheduler.metric=f",
               "scheduler.metric")  # fmt: skip
    yield Case(f"overwrite=true hydra.run.dir=finished model.hidden=[{10**12}]", "model")
    yield Case("overwrite=true hydra.run.dir=foreign", "foreign")
    yield Case("overwrite=true hydra.run.dir=link", "link")


def _resuming() -> Iterator[Case]:
    for arguments, words in {
        "resume=nowhere": "resume=nowhere",
        "resume=": "resume=",
        "resume=file": "resume=file",
        "resume=foreign": "resume=foreign",
        "resume=auto": "resume=auto",
        "resume=7": "resume=7",
        "resume=[finished]": "resume",
        "resume=true": "resume=True",
        "resume=finished resume=nowhere": "resume",
        "resume=finished overwrite=true": "overwrite=true",
        "resume=auto overwrite=true hydra.run.dir=finished": "overwrite=true",
        "resume=finished hydra.run.dir=elsewhere": "hydra.run.dir=elsewhere",
        "resume=finished hydra.run.dir=": "hydra.run.dir=",
        "resume=finished lr=abc": "lr=abc",
        "resume=finished lr=0.5": "lr",
        "resume=finished seed=7": "seed",
        "resume=finished model=convnet": "model",
        "resume=finished data=diabetes": "data",
        "resume=finished num_epochs=0": "num_epochs=0",
        f"resume=finished num_epochs={10**23}": "num_epochs=",
        "resume=finished nothing=1": "nothing",
        "resume=finished optimizer=none": "optimizer=none",
        "resume=finished ~optimizer": "optimizer",
        "resume=finished resume_allow=[nothing] lr=0.5": "resume_allow",
        "resume=finished resume_allow=7 lr=0.5": "resume_allow",
        "resume=finished resume_allow=[data] data=diabetes": "data",
        "resume=finished resume_allow=[optimizer] optimizer=sgd num_epochs=": "num_epochs",
        "resume=finished num_epochs=5 early_stopping=none": "early_stopping=none",
        "resume=finished num_epochs=5 checkpoint.metric=f1": "checkpoint.metric=f1",
        "resume=finished num_epochs=5 num_workers=-1": "num_workers=-1",
        "resume=finished num_epochs=5 device=cuda:7": "device=cuda:7",
        "resume=finished num_epochs=1": "num_epochs",
        "resume_allow=[lr]": "resume_allow",
        "resume=finished/config.json": "resume=finished/config.json",
        "resume=finished/checkpoints": "resume=finished/checkpoints",
        "resume=finished --cfg=nonsense": "--cfg",
        "resume=finished --nonsense": "--nonsense",
    }.items():
        yield Case(arguments, words)


def _files() -> Iterator[Case]:
    csv = "data=csv data.path"
    for arguments, words in {
        f"{csv}=none.csv data.target=price": "none.csv",
        f"{csv}=mine data.target=price": "mine",
        f"{csv}=table.csv": "data.target",
        f"{csv}=table.csv data.target=prize": "prize",
        f"{csv}=table.csv data.target=7": "data.target",
        f"{csv}=table.csv data.target=price data.decimal=abc": "data.decimal",
        f"{csv}=table.csv data.target=price data.features=[size,sise]": "sise",
        f"{csv}=table.csv data.target=price data.features=[price]": "price",
        f"{csv}=table.csv data.target=price data.kind=nothing": "data.kind=nothing",
        f"{csv}=file data.target=price": "file",
        f"{csv}=empty.csv data.target=price": "empty.csv",
        f"{csv}=fifo data.target=price": "fifo",
        f"{csv}= data.target=price": "data.path",
        f"{csv}=7 data.target=price": "data.path=7",
        "data=text": "data.path",
        "data=text data.path=none.txt": "none.txt",
        "data=text data.path=empty.csv": "empty.csv",
        "data=text data.path=words.txt data.context_length=0": "data.context_length=0",
        "data=text data.path=words.txt data.context_length=100000": "context",
        f"data=text data.path=words.txt data.context_length={10**23}": "data.context_length",
        "data=safetensors data.path=none.safetensors": "none.safetensors",
        "data=safetensors data.path=file": "file",
        "data=image_folder data.path=none": "none",
        "data=image_folder data.path=foreign": "foreign",
        "data=image_folder data.path=file": "file",
        "data=mnist data.root=file": "file",
        "data=cifar10 data.root=file": "file",
        "data=mnist data.root=7": "data.root=7",
    }.items():
        yield Case(arguments, words)


def _commands() -> Iterator[Case]:
    """Other commands that take a configuration."""
    for command in ("plan", "find_lr"):
        yield Case("lr=abc", "lr=abc", command=command)
        yield Case("resume=finished", "resume", command=command)
        yield Case("model=convnet data=diabetes", "model", command=command)
        yield Case(f"model.hidden=[{10**12}]", "model", command=command)
        yield Case("hydra.run.dir=", "hydra.run.dir=", command=command)
        yield Case("-m lr=", "lr", command=command)
        yield Case("--nonsense", "--nonsense", command=command)


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

    outcome = attempt(run, may_write=[work], forbidden=work / "none", seconds=60)
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
    parser.add_argument("--show", action="store_true", help="print what each command said")
    options = parser.parse_args()
    number, faulty = 0, 0
    with tempfile.TemporaryDirectory(prefix="andiron-wrong-") as scratch:
        work = Path(scratch) / "work"
        # to be resumed and overwritten wrongly
        finished = made_run(Path(scratch) / "finished", "num_epochs=2", "model.hidden=[7]")
        for kind, case in cases():
            if options.only not in case.arguments or kind not in (options.kinds or [kind]):
                continue
            shutil.rmtree(work, ignore_errors=True)
            prepare(work, finished)
            actual, outcome = tried(case, work)
            number += 1
            faulty += bool(actual)
            if actual or options.show:
                shown = case.arguments[:200] + "..." * (len(case.arguments) > 200)
                said = " ".join(outcome.output.split())[-400:]
                print(f"{case.command} {shown}\n    {'; '.join(actual)}\n    {said}", flush=True)
    print(f"{number} wrong command lines, {faulty} with a fault")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
