"""Runs of one metric, one for each seed."""

from pathlib import Path

from andiron.run_folder import RunFolder
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.runs.untrusted_files import Standing

METRIC = "valid/accuracy"


def run_with(path, **parts):
    """A run whose parts are given; those that are not are empty."""
    run = RunReader(RunFolder(Path(path)))
    vars(run).update({"options": {}, "metrics": {}, "directions": {}, **parts})
    return run


def runs(*accuracies, status="done", first=0, **options):
    return [
        run_with(
            f"{options}{seed}{status}",
            facts={"status": status},
            options={"seed": seed, **options},
            metrics={} if value is None else {METRIC: Standing(value, 1, value, 1)},
        )
        for seed, value in enumerate(accuracies, first)
    ]
