"""Random updates of runs of ten kinds, each made again: the bits of the run, or what differs.

    python -m proofs.asked_again FOLDER [KIND ...] [--updates 100] [--seed 7]

Each update is made in a stretch between two checkpoints of its run, and shown to an instrument;
the stretch's logged values and the state at its end are compared. Updates of one stretch share it.
"""

import argparse
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from andiron.run_folder import RunFolder
from andiron.shell.config import trust
from andiron.shell.training import train
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.instruments import Instrument, Update

ROOT = Path(__file__).resolve().parents[1]
ALL = (
    "num_epochs=null", "log_every=3", "render=plain", "device=cpu",
    "checkpoint.every=5", "checkpoint.keep_every_updates=5", "checkpoint.last=2",
    "validate_every=10", "trust=[asked_own]",
)  # fmt: skip
OWN = """
    import torch

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 180

        def __getitem__(self, index):
            value = torch.linspace(-1, 1, 6) * (index % 7 - 3)
            return {"x": value, "y": torch.tensor(index % 3)}

    class Net(torch.nn.Sequential):
        def __init__(self):
            super().__init__(torch.nn.Linear(6, 9), torch.nn.Dropout(0.2), torch.nn.Linear(9, 3))

        def forward(self, x):
            return super().forward(x)
"""
MLP, CONVNET = ("batch_size=130", "model.hidden=[16]"), ("model=convnet", "batch_size=130")
KINDS: dict[str, Sequence[str]] = {
    "mlp": MLP,
    "convnet, dropout, augmentation": (
        *CONVNET, "model.dropout=0.3", "augmentation=shift", "scheduler=cosine",
    ),
    "text": (
        "data=text", "data.path={here}/text.txt", "data.level=characters", "batch_size=20",
        "data.context_length=8", "task=language_model", "task.sample_length=4",
        "metrics=language", "model=gpt", "model.layers=1", "model.dim=12", "model.heads=2",
    ),
    "gan": ("experiment=gan_digits", "num_epochs=null"),
    "accumulation 3": (*MLP, "grads_accumulation=3"),
    "ema": (*MLP, "averages=ema", "scheduler=plateau"),
    "sam": (*MLP, "sam=0.05", "gradients=clip_norm"),
    "fp16": (*MLP, "precision=fp16"),
    "own mappings, workers": (
        "--config-dir", "{here}/conf", "experiment=own", "batch_size=25", "num_workers=2",
    ),
    "two processes, slices": (*CONVNET, "slices=4", "model.dropout=0.2"),
}  # fmt: skip
EXPERIMENT = """
    # @package _global_
    defaults:
      - override /data: torch_dataset
      - override /task: forward
      - override /loss: cross_entropy
      - override /metrics: classification
      - override /model: null
    data: {train: {_target_: asked_own.Samples}, num_classes: 3}
    task: {inputs: {x: x}, targets: y}
    model: {_target_: asked_own.Net}
"""


class Shown(Instrument):
    """The numbers of the updates that are shown, with gradients that are there."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def computed(self, update: Update) -> None:
        """Notes the update."""
        assert update.gradients and update.items
        self.numbers.append(update.number)


def trained(kind: str, here: Path, length: int) -> RunFolder:
    """The folder of a new run of this kind below `here`, where its own classes are written."""
    (here / "conf" / "experiment").mkdir(parents=True, exist_ok=True)
    (here / "asked_own.py").write_text(textwrap.dedent(OWN))
    (here / "conf" / "experiment" / "own.yaml").write_text(textwrap.dedent(EXPERIMENT))
    (here / "text.txt").write_text("".join(f"{n * n} is {n} times {n}\n" for n in range(300)))
    folder = here / "-".join(kind.replace(",", "").split())
    options = [option.replace("{here}", str(here)) for option in KINDS[kind]]
    arguments = [*options, *ALL, f"num_updates={length}", f"hydra.run.dir={folder}"]
    if "processes" in kind:
        torchrun = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"
        command = [sys.executable, *torchrun, str(ROOT / "train.py"), *arguments]
        code = subprocess.run(command, check=False).returncode
    else:
        with mock.patch.object(sys, "argv", ["train.py", *arguments]):
            code = train.main()
    assert code == 0, f"{kind}: exit code {code}"
    return RunFolder(folder)


def asked_again(
    kind: str, here: Path, number: int = 100, seed: int = 7, length: int = 130
) -> tuple[int, int, int, int, int]:
    """Updates, stretches, tensors, values and differences of `number` random updates of a run."""
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    run = Recorded(trained(kind, here, length), trust.of_user([], ["asked_own"]))
    places = sorted({0, *run.saved})
    chosen = {*random.Random(f"{kind} {seed}").sample(range(1, run.last + 1), number)}
    updates = stretches = tensors = values = differences = 0
    for start, last in zip(places, places[1:], strict=False):
        if wanted := chosen & {*range(start + 1, last + 1)}:
            shown = Shown()
            stretch = run.updates(min(wanted), last, shown, start=start)
            assert wanted <= {*shown.numbers}
            updates, stretches = updates + len(wanted), stretches + 1
            tensors, values = tensors + stretch.tensors, values + stretch.values
            differences += len(stretch.differences)
            if stretch.differences:
                print(f"{kind}: {stretch}")
    assert updates == number
    return updates, stretches, tensors, values, differences


def main() -> int:
    """Prints a row for each kind; returns 1 if any bit differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    here = options.folder.absolute()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])
    rows = {
        kind: asked_again(kind, here, options.updates, options.seed)
        for kind in options.kinds or KINDS
    }
    print("| kind | updates | stretches | tensors | logged values | differences |")
    for kind, row in rows.items():
        print(f"| {kind} | {' | '.join(f'{value:,}' for value in row)} |")
    return int(any(row[-1] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
