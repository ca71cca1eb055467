"""All optimizers and some groups on MNIST: the guide's convnet, the same number of updates.

    python benchmarks/optimizers.py [--seeds N] [--epochs E] [--jobs J] [--only NAME ...] [--record
    FILE]

Each run is `python train.py` in its own process with one thread and the learning rate of its
optimizer's file in conf/: default rates are compared, not tuned ones. Finished runs are added to
the record and not repeated. MNIST is read from the folder that ANDIRON_DATA_DIR names (default:
data).
"""

import argparse
import json
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import accuracy
import rounds

SETUPS = {
    **{
        name: [f"optimizer={name}"]
        for name in (
            "sgd",
            "adam",
            "adamw",
            "nadam",
            "radam",
            "adamax",
            "rmsprop",
            "adagrad",
            "adadelta",
            "adafactor",
            "asgd",
            "adan",
            "lamb",
            "lion",
            "soap",
            "kron",
            "schedule_free_adamw",
        )
    },
    "adam, sam=0.05": ["optimizer=adam", "sam=0.05"],
    "adam, averages=ema": ["optimizer=adam", "averages=ema"],
    "adamw, param_groups=no_decay": ["optimizer=adamw", "param_groups=no_decay"],
    "adam, param_groups=layerwise": ["optimizer=adam", "param_groups=layerwise"],
    "param_groups=muon": ["param_groups=muon"],
}
SPLIT = {"adam, averages=ema": "test-ema"}  # the split whose accuracy counts; else `test`
COMPARED = ("param_groups=muon", "adam")


def run(name: str, seed: int, epochs: int) -> dict[str, object]:
    """The accuracy and CPU seconds of one run."""
    overrides = [
        "data=mnist",
        "model=convnet",
        f"num_epochs={epochs}",
        "render=plain",
        *SETUPS[name],
    ]
    outcome = accuracy.andiron_run(seed, overrides, split=SPLIT.get(name, "test"))
    result = {"setup": name, "seed": seed, "epochs": epochs}
    return {**result, "accuracy": outcome.test_accuracy, "seconds": outcome.cpu_seconds}


def table(results: list[dict[str, object]]) -> str:
    """A row a setup, the most accurate first; then whether the first of COMPARED beats the second.
    """
    by_setup: dict[str, list[dict[str, object]]] = {}
    for result in results:
        by_setup.setdefault(str(result["setup"]), []).append(result)
    percents = {
        name: [100 * float(run["accuracy"]) for run in runs] for name, runs in by_setup.items()
    }  # type: ignore[arg-type]
    rows = [
        (
            name,
            _spread(percents[name], " %"),
            _spread([float(run["seconds"]) for run in by_setup[name]], ""),
        )  # type: ignore[arg-type]
        for name in sorted(percents, key=lambda name: -statistics.mean(percents[name]))
    ]
    written = rounds.table(("setup", "test accuracy", "CPU seconds, all of the process"), rows)
    if all(len(percents.get(name, [])) > 1 for name in COMPARED):
        first, second = (percents[name] for name in COMPARED)
        error = sum(statistics.variance(side) / len(side) for side in (first, second)) ** 0.5
        gain = statistics.mean(first) - statistics.mean(second)
        says = (
            "beats"
            if gain > 2 * error
            else "does not beat"
            if gain <= 0
            else "is not clearly ahead of"
        )
        numbers = f"{gain:+.2f} points, standard error {error:.2f}"
        written += f"\n\n{COMPARED[0]} {says} {COMPARED[1]} at equal updates: {numbers}"
    return written


def _spread(values: list[float], unit: str) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f}{unit}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to N - 1 (default: 3)")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs at a time, each with one thread (default: 1)"
    )
    parser.add_argument("--only", nargs="+", choices=SETUPS, default=list(SETUPS), metavar="NAME")
    parser.add_argument(
        "--record", type=Path, help="JSON lines of the runs done, kept from one call to the next"
    )
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    done = (
        [json.loads(line) for line in arguments.record.read_text().splitlines()]
        if _is_there(arguments.record)
        else []
    )
    wanted = [
        (name, seed, arguments.epochs) for seed in range(arguments.seeds) for name in arguments.only
    ]
    known = {(result["setup"], result["seed"], result["epochs"]) for result in done}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(
            lambda value: run(*value), [value for value in wanted if value not in known]
        ):
            done.append(result)
            print(result, file=sys.stderr)
            if arguments.record:
                with arguments.record.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    results = [
        result for result in done if (result["setup"], result["seed"], result["epochs"]) in wanted
    ]
    seeds = f"seeds 0 to {arguments.seeds - 1}, {arguments.jobs} runs at a time"
    print(
        f"{arguments.epochs} epochs of batches of 64, "
        f"{seeds}\n{rounds.machine()}\n\n{table(results)}"
    )


def _is_there(record: Path | None) -> bool:
    return record is not None and record.is_file()


if __name__ == "__main__":
    main()
