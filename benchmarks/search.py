"""What a search by TPE finds, beside one at random with as many trials, on the embedded digits.

    python benchmarks/search.py [--seeds 5] [--trials 30] [--samplers tpe random]

Each search is the command `python train.py -m hydra/sweeper=optuna ...`, one run at a time, so that
it gives the same trials on every machine. What counts is the lowest validation loss after so many
trials; the first ten of TPE are random ones, by default the same as those of the other side.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPACE = (
    "lr=tag(log,interval(1e-4,1))",
    "optimizer=adamw,sgd",
    "batch_size=16,32,64,128,256",
    "model.hidden=[32],[128],[64,64],[256,128]",
    "model.dropout=interval(0,0.6)",
    "optimizer.weight_decay=tag(log,interval(1e-5,1e-1))",
)
SHARED = ("data.valid=0.3", "num_epochs=4", "objective=valid/loss", "render=plain")


def main() -> None:
    """Runs the searches of each sampler and prints a table of their best losses."""
    parser = argparse.ArgumentParser(description="A search by TPE beside one at random.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--samplers", nargs="+", default=["tpe", "random"])
    given = parser.parse_args()
    budgets = sorted({max(1, given.trials // 3), max(1, 2 * given.trials // 3), given.trials})
    print(f"| sampler | {' | '.join(f'best of {value} trials' for value in budgets)} |", flush=True)
    print("|---|" + "--:|" * len(budgets))
    best: dict[str, list[list[float]]] = {}
    for sampler in given.samplers:
        searches = [losses(sampler, seed, given.trials) for seed in range(given.seeds)]
        best[sampler] = [[min(search[:budget]) for search in searches] for budget in budgets]
        print(f"| {sampler} | {' | '.join(map(described, best[sampler]))} |", flush=True)
    first, *others = given.samplers
    for other in others:
        pairs = list(zip(best[first][-1], best[other][-1], strict=True))
        won = sum(one < two for one, two in pairs)
        print(f"{first} is better than {other} with {won} of {len(pairs)} seeds")


def losses(sampler: str, seed: int, trials: int) -> list[float]:
    """The lowest validation loss of each trial of a search, in their order; inf of a diverged one.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "train.py", "-m", "hydra/sweeper=optuna", *SPACE, *SHARED,
            f"hydra.sweeper.sampler={sampler}", f"hydra.sweeper.seed={seed}",
            f"hydra.sweeper.n_trials={trials}", f"hydra.sweep.dir={folder}/sweep",
        ]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        lines = Path(folder, "sweep", "sweep.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [event.get("objective", math.inf) for event in events if event["event"] == "ended"]


def described(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


if __name__ == "__main__":
    main()
