"""The cost of everything the Learner does: the same training, beside bare PyTorch loops.

    python benchmarks/overhead.py --case a|b|both|observer [--rounds N]

Training is timed from before the first update until everything is on the disk; a DataLoader's work
is included, building the model is not. Only the Learner validates: after every epoch, on the
validation part of the digits, or on a tenth as many images as it trains on. Case b reads MNIST from
the folder that ANDIRON_DATA_DIR names (default: data). Case observer is the Learner of case a
alone, without and with an observer of every update that does nothing.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# a plain checkout needs no install
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import bare  # noqa: E402
import rounds  # noqa: E402
import whole  # noqa: E402
from andiron import data, models  # noqa: E402
from andiron.data import RawBatch, Splits  # noqa: E402
from andiron.learner.extras.observers import Observer  # noqa: E402

# 200 batches: seconds, not minutes, a side; costs of an epoch weigh more than in a whole one
MNIST_IMAGES = 12_800
Sides = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Work:
    """The training that every side of a case does: epochs over the training images of `splits`."""

    splits: Splits
    batch_size: int
    lr: float
    epochs: int

    def bare(self, loop: Callable[..., None], model: nn.Module) -> float:
        """The seconds of a bare loop, over images normalised beforehand."""
        raw = RawBatch(self.splits.train.inputs, self.splits.train.targets)
        images, targets = self.splits.batcher(raw, torch.device("cpu"))
        with rounds.stopwatch() as elapsed:
            loop(model, images, targets, lr=self.lr, batch_size=self.batch_size, epochs=self.epochs)
        return elapsed()

    def andiron(self, network: nn.Module, **observers: Observer) -> float:
        """The seconds of the whole Learner, over images as they are stored."""
        return whole.seconds(
            network, self.splits, lr=self.lr, batch_size=self.batch_size, epochs=self.epochs,
            observers=observers,
        )  # fmt: skip


class Idle:
    """An observer of every update that does nothing."""

    def after_update(self, learner: object, step: object) -> None:
        """Does nothing."""


def digits(epochs: int = 50) -> tuple[Work, Sides]:
    """Case a, a tiny step: everything around the arithmetic shows most."""
    work = Work(data.digits(valid=0.1, split_seed=0), batch_size=32, lr=1e-3, epochs=epochs)
    return work, {
        "bare DataLoader loop": lambda: work.bare(bare.with_loader, bare.mlp()),
        "bare in-memory loop, fused optimizer": lambda: work.bare(bare.in_memory, bare.mlp()),
        "Andiron, everything on": lambda: work.andiron(models.MLP((1, 8, 8), 10, hidden=(64,))),
    }


def observed() -> tuple[Work, Sides]:
    """Case a's Learner, and the same with an idle observer."""
    work, sides = digits()
    plain = "Andiron, everything on"
    return work, {
        plain: sides[plain],
        "the same with an idle observer": lambda: work.andiron(
            models.MLP((1, 8, 8), 10, hidden=(64,)), idle=Idle()
        ),
    }


def mnist() -> tuple[Work, Sides]:
    """Case b, a real network, with torch's and with Andiron's dropout on both sides."""
    splits = _shortened(
        data.mnist(root=os.environ.get("ANDIRON_DATA_DIR", "data"), valid=0.1, split_seed=0)
    )
    work = Work(splits, batch_size=64, lr=1e-4, epochs=1)
    return work, {
        "bare DataLoader loop": lambda: work.bare(bare.with_loader, bare.convnet()),
        "bare in-memory loop, fused optimizer": lambda: work.bare(bare.in_memory, bare.convnet()),
        "the same with andiron.models.Dropout": lambda: work.bare(
            bare.in_memory, bare.convnet(models.Dropout)
        ),
        "Andiron with nn.Dropout": lambda: work.andiron(bare.convnet()),
        "Andiron, everything on": lambda: work.andiron(models.ConvNet((1, 28, 28), 10)),
    }


@dataclass(frozen=True)
class Case:
    """Sides to compare, and how."""

    title: str
    sides: Callable[[], tuple[Work, Sides]]
    threads: int
    rounds: int

    def measure(self, number: int | None) -> str:
        """The work, the machine and the table; `number` of rounds is the case's own by default."""
        torch.set_num_threads(self.threads)
        work, sides = self.sides()
        sizes = f"{len(work.splits.train):,} training and {len(work.splits.valid):,} validation"
        epochs = f"{work.epochs} epoch{'s' * (work.epochs > 1)} of batches of {work.batch_size}"
        number = number or self.rounds
        table = rounds.compared(rounds.interleaved(sides, number))
        work_done = f"{sizes} images, {epochs}, Adam {work.lr:g}; {number} rounds"
        return f"{self.title}: {work_done}\n{rounds.machine(self.threads)}\n\n{table}\n"


CASES = {
    # one thread: a second does not help so small a step, and waits for cores that others hold
    "a": Case("MLP 64-64-10 on the digits", digits, threads=1, rounds=11),
    "observer": Case("MLP 64-64-10 on the digits", observed, threads=1, rounds=11),
    "b": Case("the guide's convnet on MNIST", mnist, threads=2, rounds=5),
}


def _shortened(splits: Splits) -> Splits:
    parts = {"train": MNIST_IMAGES, "valid": MNIST_IMAGES // 10}
    return dataclasses.replace(
        splits, **{part: getattr(splits, part).subset(range(size)) for part, size in parts.items()}
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", choices=(*CASES, "both"), default="both")
    parser.add_argument(
        "--rounds", type=int, help="measured rounds; by default 11 of case a, 5 of case b"
    )
    arguments = parser.parse_args()
    if arguments.case != "both":
        print(CASES[arguments.case].measure(arguments.rounds), flush=True)
        return
    for case in ("a", "b"):  # a process each: no threads or memory of one case are left in the next
        asked = ["--rounds", str(arguments.rounds)] if arguments.rounds else []
        subprocess.run([sys.executable, __file__, "--case", case, *asked], check=True)


if __name__ == "__main__":
    main()
