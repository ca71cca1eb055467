"""Successive halving beside the full grid of 27 runs: compute, and the run that it chooses.

    python benchmarks/halving.py [--data digits mnist] [--seeds 3] [--epochs 27]

Both are commands `python train.py -m ...`, one run at a time, so that they decide the same on every
machine. MNIST is a tenth of its training images, from the folder that ANDIRON_DATA_DIR names
(default: data). Compute is the number of epochs that were trained, not a time.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GRID = ("optimizer=adamw,sgd,rmsprop", "lr=1e-3,1e-2,1e-1", "model.dropout=0,0.25,0.5")
SHARED = ("objective=valid/loss", "render=plain", "writers=json_lines")
DATA = {
    "digits": ("data.valid=0.3",),
    "mnist": ("data=partial", "data@data.data=mnist", "data.fraction=0.1", "model.hidden=[128]"),
}


@dataclass(frozen=True)
class Swept:
    """What a sweep trained: epochs in all, and the lowest validation loss of each finished run."""

    epochs: int
    losses: dict[str, float]  # by the identity of the job, the best first


def main() -> None:
    """Runs both sweeps for each data set and seed, and prints a table."""
    parser = argparse.ArgumentParser(description="Successive halving beside the full grid.")
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=27)
    given = parser.parse_args()
    print("| data | seed | epochs, grid | halving | share | chosen run | its loss | best loss |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for data in given.data:
        for seed in range(given.seeds):
            run = (*GRID, *DATA[data], *SHARED, f"seed={seed}", f"num_epochs={given.epochs}")
            grid, halved = swept(*run), swept(*run, "hydra/sweeper=asha")
            chosen = next(iter(halved.losses))
            place = list(grid.losses).index(chosen) + 1
            best = next(iter(grid.losses.values()))
            print(
                f"| {data} | {seed} | {grid.epochs} | {halved.epochs} "
                f"| {halved.epochs / grid.epochs:.3f} | {place} of 27 "
                f"| {grid.losses[chosen]:.4f} | {best:.4f} |",
                flush=True,
            )


def swept(*arguments: str) -> Swept:
    """The sweep of a command."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "sweep")
        command = [sys.executable, "train.py", "-m", *arguments, f"hydra.sweep.dir={folder}"]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        ended = [each for each in lines(folder / "sweep.jsonl") if each["event"] == "ended"]
        losses = {
            each["job"]: each.get("objective", math.inf)
            for each in ended
            if each["status"] == "done"
        }
        epochs = sum(trained(path) for path in folder.glob("*/metrics.jsonl"))
    return Swept(epochs, dict(sorted(losses.items(), key=lambda each: each[1])))


def trained(metrics: Path) -> int:
    """The epochs of a run that were trained whole."""
    return max((each["epoch"] for each in lines(metrics) if each["over"] == "epoch"), default=0)


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file that has one on each line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
