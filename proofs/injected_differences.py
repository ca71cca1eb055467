"""Twelve injected differences, each found by `andiron bisect`: its update, its tensor, its commit.

    python -m proofs.injected_differences [NAME ...]

Every row is an argument of a small project's own parts. Between two runs it is another option; in
the project's history it is another default, in one of three commits.
"""

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from andiron.shell.training import train
from andiron_lab.ask import bisect

PARTS = '''
import torch
from torch import nn
from andiron import data

class Op(torch.autograd.Function):
    @staticmethod
    def forward(context, inputs, wrong):
        context.wrong = wrong
        return inputs * 2

    @staticmethod
    def backward(context, gradients):
        return gradients * (2.000001 if context.wrong else 2), None

class Scaled(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale

    def forward(self, inputs):
        return inputs * self.scale

class Summed(nn.Module):
    """Adds a sum that cancels, of enough numbers for several threads."""

    def __init__(self, order="straight"):
        super().__init__()
        self.order = order

    def forward(self, inputs):
        many = torch.linspace(-1, 1, 10**5).mul(inputs[0, 0]).sin()
        return inputs + (many.flip(0) if self.order == "flipped" else many).sum()

class Own(nn.Module):
    def __init__(self, wrong=False):
        super().__init__()
        self.wrong = wrong

    def forward(self, inputs):
        return Op.apply(inputs, self.wrong)

class Counted(nn.Module):
    """Counts its calls; `lost` by a resume."""

    def __init__(self, lost=False):
        super().__init__()
        self.lost = lost
        self.register_buffer("seen", torch.zeros(()))

    def _load_from_state_dict(self, *given):
        super()._load_from_state_dict(*given)
        if self.lost:
            self.seen.zero_()

    def forward(self, inputs):
        if self.training:
            self.seen += 1
        return inputs + self.seen * 1e-3

class Net(nn.Module):
    def __init__(self, input_shape, num_classes, scale=1.0, order="straight", wrong=False,
                 lost=False, low=False, net_seed=0, threads=1):
        super().__init__()
        torch.set_num_threads(threads)
        self.low, stream = low, torch.Generator().manual_seed(net_seed)
        self.first = nn.Sequential(nn.Flatten(), nn.Linear(36, 8))
        self.first[1].weight.data += torch.randn(8, 36, generator=stream) * 0.1
        self.scaled, self.summed, self.own = Scaled(scale), Summed(order), Own(wrong)
        self.counted, self.last = Counted(lost), nn.Linear(8, num_classes)

    def forward(self, inputs):
        hidden = self.counted(self.own(self.summed(self.scaled(self.first(inputs)))))
        if not self.low:
            return self.last(hidden)
        with torch.autocast("cpu", torch.bfloat16):
            return self.last(hidden).float()

class Normed(torch.optim.Optimizer):
    """Gradients of norm one; leaves one step out."""

    def __init__(self, params, lr, eps=1e-08, skipped=0):
        super().__init__(params, {"lr": lr, "eps": eps, "skipped": skipped})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                state = self.state[each]
                state["steps"] = state.get("steps", torch.zeros(())) + 1
                if each.grad is not None and state["steps"] != group["skipped"]:
                    each -= group["lr"] * each.grad / (each.grad.norm() + group["eps"])

class Halved:
    def __init__(self, initial_lr, step_size=12):
        self.initial_lr, self.step_size = initial_lr, step_size

    def __call__(self, updates):
        return self.initial_lr * 0.5 ** (updates // self.step_size)

class Shifted:
    def __init__(self, pixels=1):
        self.pixels = pixels

    def __call__(self, raw, draws):
        return raw._replace(inputs=raw.inputs.roll(self.pixels, -1))

def images(swap=(0, 0)):
    stream = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (140, 1, 6, 6), generator=stream, dtype=torch.uint8)
    targets = torch.randint(0, 4, (140,), generator=stream)
    train, valid, test = torch.arange(140).split([100, 20, 20])
    train[[*swap]] = train[[*reversed(swap)]]
    everything = data.ArrayDataset(inputs, targets)
    return data.Splits(
        name="images", train=everything.subset(train), valid=everything.subset(valid),
        test=everything.subset(test), batcher=data.ImageBatcher(mean=0.5, std=0.3),
        facts={"input_shape": (1, 6, 6), "num_classes": 4},
        fingerprint=data.fingerprint.of_tensors(inputs, targets),
    )
'''
FILES = {
    "parts.py": PARTS,
    "pyproject.toml": '[tool.andiron]\nconf = "conf"\ntrust = ["parts"]\n',
    ".gitignore": "runs\n__pycache__\n",
    "conf/model/net.yaml": "_target_: parts.Net\n",
    "conf/data/images.yaml": "_target_: parts.images\n",
    "conf/optimizer/normed.yaml": (
        "# @package _global_\nlr: 0.1\noptimizer:\n  _target_: parts.Normed\n"
    ),
    "conf/scheduler/halved.yaml": "_target_: parts.Halved\ninitial_lr: ${lr}\n",
    "conf/augmentation/shifted.yaml": "shifted:\n  _target_: parts.Shifted\n",
}
OPTIONS = (
    "model=net", "data=images", "optimizer=normed", "scheduler=halved", "augmentation=shifted",
    "batch_size=20", "num_epochs=4", "log_every=2", "checkpoint.last=20", "render=plain",
    "device=cpu",
)  # fmt: skip
LAYER = "output of layer"


class Injected(NamedTuple):
    """An argument and its values, and what is named; `update` None: that of the sample."""

    group: str
    before: str
    after: str
    update: int | None
    kind: str
    tensor: str

    @property
    def override(self) -> str:
        """The option of the run with the difference."""
        return f"+{self.group}.{self.after}"


INJECTED = {
    "a constant in one layer": Injected(
        "model", "scale=1.0", "scale=1.0001", 1, LAYER, "network.scaled"
    ),
    "another order of summation": Injected(
        "model", 'order="straight"', 'order="flipped"', 1, LAYER, "network.summed"
    ),
    "one sample swapped": Injected("data", "swap=(0, 0)", "swap=[3, 50]", None, "input", "inputs"),
    "a schedule off by one": Injected(
        "scheduler", "step_size=12", "step_size=13", 13, "learning rate of group", "base"
    ),
    "eps": Injected("optimizer", "eps=1e-08", "eps=1e-06", 1, "weight", "network.first.1.weight"),
    "an augmentation": Injected(
        "augmentation.shifted", "pixels=1", "pixels=2", 1, "input", "inputs"
    ),
    "a seed": Injected(
        "model", "net_seed=0", "net_seed=1", 1, "before the update",
        "weight: network.first.1.weight",
    ),
    "the number of threads": Injected(
        "model", "threads=1", "threads=2", 1, LAYER, "network.summed"
    ),
    "the dtype of one layer": Injected("model", "low=False", "low=True", 1, LAYER, "network.last"),
    "a skipped update": Injected(
        "optimizer", "skipped=0", "skipped=14", 14, "weight", "network.first.1.weight"
    ),
    "a resumed run that lost a buffer": Injected(
        "model", "lost=False", "lost=True", 11, "before the update", "buffer: network.counted.seen"
    ),
    "an own operation": Injected(
        "model", "wrong=False", "wrong=True", 1, "gradient", "network.first.1.bias"
    ),
}  # fmt: skip
RESUMED = "a resumed run that lost a buffer"


def git(*arguments: str) -> str:
    """The output of git in the working folder."""
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", *person, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def begin(folder: Path) -> None:
    """Writes the project into the folder, as one commit."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with contextlib.chdir(folder):
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "first")


def called(main: object, *arguments: object) -> tuple[int, str]:
    """The exit code and the standard output of a command in this process."""
    output = io.StringIO()
    words = ["command", *map(str, arguments)]
    with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(output):
        code = main()  # type: ignore[operator]
    return code, output.getvalue()


def run_of(name: str, *options: str) -> str:
    """The folder of a run, which is trained once."""
    folder = f"runs/{name.replace(' ', '-')}"
    if not os.path.exists(folder):
        is_resumed = name == RESUMED
        shorter = ("num_epochs=2",) if is_resumed else ()
        code, _ = called(train.main, *OPTIONS, *options, *shorter, f"hydra.run.dir={folder}")
        if is_resumed:
            code, _ = called(train.main, f"resume={folder}", "num_epochs=4", "render=plain")
        if code:
            raise SystemExit(code)
    return folder


def parting(*arguments: object) -> dict[str, object]:
    """The answer of `bisect`, with `named`: the update, the kind and the tensor."""
    _, output = called(bisect.main, *arguments, "--json")
    answer: dict[str, object] = json.loads(output)
    match answer:
        case {"first": {"updates": update, "where": kind, "what": what}}:
            answer["named"] = update, kind, what.partition("[")[0]
    return answer


@functools.cache
def named_between_runs(name: str) -> dict[str, object]:
    """How the difference between two runs is named."""
    return parting(run_of("plain"), run_of(name, INJECTED[name].override))


def named_in_history(name: str) -> tuple[str, dict[str, object]]:
    """The commit that has the difference, and how the history is searched for it."""
    injected, parts, run = INJECTED[name], Path("parts.py"), run_of("plain")
    start, text = git("rev-parse", "HEAD"), parts.read_text()
    changed = text.replace(injected.before, injected.after)
    for subject, content in {
        "a comment": f"{text}# more\n", name: changed, "another": f"{changed}# more\n",
    }.items():  # fmt: skip
        parts.write_text(content)
        git("commit", "-qam", subject)
    try:
        last = injected.update or 5
        updates = ("--updates", last, last)
        result = parting(run, "--commits", f"{start}..HEAD", *updates)
        return git("show", "-s", "--format=%H %s", "HEAD~1"), result
    finally:
        git("reset", "-q", "--hard", start)


def main() -> int:
    """Prints a line for each difference; 1 if one is not named."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        begin(Path(folder))
        sys.path.insert(0, folder)
        for name in sys.argv[1:] or INJECTED:
            expected, between = INJECTED[name], named_between_runs(name)
            commit, actual = named_in_history(name)
            is_named = between.get("named") == actual.get("named") and actual["commit"] == commit
            missed += not is_named
            print(f"{name}: {between.get('named')}, {actual.get('named')}, {actual['commit']}"
                  f"{'' if is_named else f' NOT {expected}'}", flush=True)  # fmt: skip
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
