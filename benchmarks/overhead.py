"""What all that the Learner does costs: the same training, beside bare PyTorch loops.

    python benchmarks/overhead.py --case a|b|both [--rounds N]

Timed is the training itself, from before the first update until everything is on the disk; building the model is left
out on every side, what a DataLoader does is not. Only the Learner validates: after every epoch, on the validation part
of the digits, or on a tenth as many images as it trains on. Case b reads MNIST from the folder that ANDIRON_DATA_DIR
names (default: data).
"""

import argparse
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1] / "src")
)  # a plain checkout needs no install of its own

import torch  # noqa: E402
from torch import nn  # noqa: E402

import bare  # noqa: E402
import rounds  # noqa: E402
import whole  # noqa: E402
from andiron import data, models  # noqa: E402
from andiron.data import RawBatch, Splits  # noqa: E402

MNIST_IMAGES = 12_800  # 200 batches: seconds, not minutes, a side; what is paid once an epoch weighs more than in a whole one
Sides = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Work:
    """What every side of a case does: so many epochs over the training images of `splits`."""

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

    def andiron(self, network: nn.Module) -> float:
        """The seconds of the whole Learner, over images as they are stored."""
        return whole.seconds(
            network, self.splits, lr=self.lr, batch_size=self.batch_size, epochs=self.epochs
        )


def digits() -> tuple[Work, Sides]:
    """Case a, a tiny step: whatever surrounds the arithmetic shows most."""
    work = Work(data.digits(valid=0.1, split_seed=0), batch_size=32, lr=1e-3, epochs=50)
    return work, {
        "bare DataLoader loop": lambda: work.bare(bare.with_loader, bare.mlp()),
        "bare in-memory loop, fused optimizer": lambda: work.bare(bare.in_memory, bare.mlp()),
        "Andiron, everything on": lambda: work.andiron(models.MLP((1, 8, 8), 10, hidden=(64,))),
    }


def mnist() -> tuple[Work, Sides]:
    """Case b, a real network: with torch's dropout and with Andiron's on both sides, to tell where the gain is from."""
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
        """What was measured on what, and the table; `number` of rounds is the case's own by default."""
        torch.set_num_threads(self.threads)
        work, sides = self.sides()
        images = (
            f"{len(work.splits.train):,} training and {len(work.splits.valid):,} validation images"
        )
        epochs = f"{work.epochs} epoch{'s' * (work.epochs > 1)} of batches of {work.batch_size}, Adam {work.lr:g}"
        number = number or self.rounds
        table = rounds.compared(rounds.interleaved(sides, number))
        return f"{self.title}: {images}, {epochs}; {number} rounds\n{rounds.machine(self.threads)}\n\n{table}\n"


CASES = {
    # one thread: a second makes so small a step no faster, and waits long for a core that a neighbour holds
    "a": Case("MLP 64-64-10 on the digits", digits, threads=1, rounds=11),
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
    for case in (
        CASES
    ):  # a process each, so that neither threads nor memory of one case are there in the next
        asked = ["--rounds", str(arguments.rounds)] if arguments.rounds else []
        subprocess.run([sys.executable, __file__, "--case", case, *asked], check=True)


if __name__ == "__main__":
    main()
