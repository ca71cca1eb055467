"""What accuracy `python train.py` comes to over seeds, and in what time.

    python benchmarks/accuracy.py --data digits --seeds 5 [--epochs N]
    python benchmarks/accuracy.py --data mnist --seeds 2 [--epochs N]

Every run of Andiron is a process of its own, as it is for whoever types the command. On MNIST a
bare loop does the same: the same images to train on, network, hyperparameters and epochs, with
torch's DataLoader, dropout and Adam. Nothing is chosen by the test set: what is given is the
accuracy of the last weights. MNIST is read from the folder that ANDIRON_DATA_DIR names (default:
data).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1] / "src")
)  # a plain checkout needs no install of its own

import torch  # noqa: E402

import bare  # noqa: E402
import rounds  # noqa: E402
from andiron import data  # noqa: E402
from andiron.data import RawBatch  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
LR, BATCH_SIZE = 1e-4, 64  # of the guide's run
GUIDE = ("data=mnist", "model=convnet", "optimizer=adam", f"lr={LR}", f"batch_size={BATCH_SIZE}")


@dataclass(frozen=True)
class Outcome:
    """What one run came to. `training_seconds` leaves out validation; the others are the process's,
    None if it has none.
    """

    test_accuracy: float
    training_seconds: float
    wall_seconds: float | None = None
    cpu_seconds: float | None = None


def andiron_run(seed: int, overrides: Sequence[str], split: str = "test") -> Outcome:
    """The outcome of `python train.py seed=<seed> <overrides>`, its accuracy as measured on
    `split`.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        command = [
            sys.executable,
            "train.py",
            f"seed={seed}",
            f"hydra.run.dir={folder}/run",
            *overrides,
        ]
        with rounds.stopwatch() as elapsed:
            process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{said.read()}")
        summary = json.loads(Path(folder, "run", "summary.json").read_text(encoding="utf-8"))
    last = {(row["split"], row["metric"]): row["last"] for row in summary["metrics"]}
    return Outcome(
        last[split, "accuracy"], summary["seconds"], elapsed(), usage.ru_utime + usage.ru_stime
    )


def bare_run(seed: int, epochs: int) -> Outcome:
    """The outcome of the bare loop on MNIST."""
    splits = data.mnist(root=os.environ.get("ANDIRON_DATA_DIR", "data"), valid=0.1, split_seed=0)
    cpu = torch.device("cpu")
    train, test = (
        splits.batcher(RawBatch(part.inputs, part.targets), cpu)
        for part in (splits.train, splits.test)
    )
    torch.manual_seed(seed)
    model = bare.convnet()
    with rounds.stopwatch() as elapsed:
        bare.with_loader(
            model, train.inputs, train.targets, lr=LR, batch_size=BATCH_SIZE, epochs=epochs
        )
    return Outcome(bare.accuracy(model, test.inputs, test.targets), elapsed())


def digits(seeds: int, epochs: int | None) -> str:
    """A row a seed, and the mean over them, with everything at its default but the seed."""
    overrides = [f"num_epochs={epochs}"] if epochs else []
    outcomes = [andiron_run(seed, overrides) for seed in range(seeds)]
    rows = [
        (
            f"{seed}",
            f"{100 * run.test_accuracy:.2f} %",
            f"{run.wall_seconds:.2f}",
            f"{run.cpu_seconds:.2f}",
        )
        for seed, run in enumerate(outcomes)
    ]
    walls, cpus = [run.wall_seconds for run in outcomes], [run.cpu_seconds for run in outcomes]
    rows.append(("mean ± sd", _accuracy(outcomes), _mean(walls), _mean(cpus)))
    return rounds.table(("seed", "test accuracy", "wall seconds", "CPU seconds"), rows)


def mnist(seeds: int, epochs: int | None) -> str:
    """A row for Andiron, a row for the bare loop, their runs taken by turns."""
    epochs = epochs or 10  # of the guide's run
    andiron, plain = [], []
    for seed in range(seeds):
        andiron.append(andiron_run(seed, [*GUIDE, f"num_epochs={epochs}"]))
        plain.append(bare_run(seed, epochs))
        print(f"seed {seed}: Andiron {andiron[-1]}, bare loop {plain[-1]}", file=sys.stderr)
    sides = {
        "`python train.py`, 54,000 images": andiron,
        "bare DataLoader loop, the same images": plain,
    }
    rows = [
        (side, _accuracy(runs), _mean([run.training_seconds for run in runs]))
        for side, runs in sides.items()
    ]
    return rounds.table(("side", "test accuracy", "training seconds"), rows)


def _accuracy(runs: Sequence[Outcome]) -> str:
    percents = [100 * run.test_accuracy for run in runs]
    return f"{statistics.mean(percents):.2f} ± {_deviation(percents):.2f} %"


def _mean(seconds: Sequence[float]) -> str:
    return f"{statistics.mean(seconds):.2f} ± {_deviation(seconds):.2f}"


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=("digits", "mnist"), default="digits")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to N - 1 (default: 5)")
    parser.add_argument(
        "--epochs",
        type=int,
        help="by default 10 of MNIST, and of the digits what conf/train.yaml says",
    )
    arguments = parser.parse_args()
    table = {"digits": digits, "mnist": mnist}[arguments.data](arguments.seeds, arguments.epochs)
    print(f"{arguments.data}, seeds 0 to {arguments.seeds - 1}\n{rounds.machine()}\n\n{table}")


if __name__ == "__main__":
    main()
