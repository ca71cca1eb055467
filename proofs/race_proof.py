"""Races 27 configurations of the digits, then trains the rest of the grid: same winner, at 40 %.

    python -m proofs.race_proof --repetitions 5 --seeds 10

Updates are those that the runs have logged when the race ends. The winner is the best mean of
what the race left. It counts as the grid's if it is the grid's best mean over all seeds, or if the
grid's own test, paired by seed, does not tell the two apart.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from andiron_lab.seeds import differences
from andiron.wings.sweep import ledger

PROGRAM = "import sys; from andiron.shell.training import train; sys.exit(train.script())"
GRID = (
    "-m", "optimizer=sgd,adam,adagrad", "lr=1e-3,1e-2,1e-1", "model.hidden=[16],[64],[256]",
    "num_epochs=9", "data.valid=0.3", "objective=valid/accuracy.last", "writers=json_lines",
    "render=plain", "device=cpu",
)  # fmt: skip
UPDATES_OF_A_RUN = 9 * 16  # 1,005 samples in batches of 64
MOST_OF_THE_GRID = 0.4


def trained(folder: Path, seeds: range, *more: str) -> dict[tuple[str, ...], dict[str, float]]:
    """The objective of each configuration by seed, of the runs that are done."""
    command = [sys.executable, "-c", PROGRAM, *GRID, f"seed=range({seeds.start},{seeds.stop})"]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    arguments = [f"hydra.sweep.dir={folder}", *more]
    subprocess.run([*command, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    values: dict[tuple[str, ...], dict[str, float]] = {}
    for job in ledger.read(folder).jobs.values():
        if job.status == "done" and job.objective is not None:
            (seed,) = set(job.overrides) - set(ledger.configuration(job))
            values.setdefault(ledger.configuration(job), {})[seed] = job.objective
    return values


def logged_updates(folder: Path) -> int:
    """The updates that the runs of a sweep have made."""
    numbers = []
    for path in folder.glob("*/metrics.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines()
        numbers.append(max(json.loads(line)["updates"] for line in lines))
    return sum(numbers)


def best(values: dict[tuple[str, ...], dict[str, float]]) -> tuple[str, ...]:
    """The configuration with the best mean, of those with the most seeds."""
    return max(values, key=lambda key: (len(values[key]), fmean(values[key].values())))


def repetition(folder: Path, seeds: range, more: list[str]) -> bool:
    """Whether a race has the winner of its grid at no more than `MOST_OF_THE_GRID`; prints it."""
    winner = best(trained(folder, seeds, "hydra/sweeper=race", *more))
    share = logged_updates(folder) / (27 * len(seeds) * UPDATES_OF_A_RUN)
    whole = trained(folder, seeds, *more)
    grid = best(whole)
    difference = differences.by_seed(whole[winner], whole[grid])
    is_same = winner == grid
    behind = f"behind by {difference.value:.4f}, p = {difference.p:.2g}"
    verdict = "the same winner" if is_same else behind
    place = 1 + sum(
        fmean(values.values()) > fmean(whole[winner].values()) for values in whole.values()
    )
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {share:.1%} of the updates, {verdict}, "
          f"rank {place} of the grid: {' '.join(winner)}", flush=True)  # fmt: skip
    return share <= MOST_OF_THE_GRID and (is_same or difference.p > differences.ALPHA)


def main() -> int:
    """Runs the repetitions; 0 if every one holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--also", nargs="*", default=[], help="arguments to add to the sweeps")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="race-"))
    sound = 0
    for number in range(options.repetitions):
        seeds = range(number * options.seeds, (number + 1) * options.seeds)
        sound += repetition(folder / str(number), seeds, options.also)
        shutil.rmtree(folder / str(number))
    print(f"{sound} of {options.repetitions} sound")
    return 0 if sound == options.repetitions else 1


if __name__ == "__main__":
    sys.exit(main())
