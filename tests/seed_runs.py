"""Runs of one metric, one for each seed."""

from pathlib import Path

from andiron.run_folder import RunFolder
from andiron.wings.runs.run_reader import Run, Standing

METRIC = "valid/accuracy"


def runs(*accuracies, status="done", first=0, **options):
    return [
        Run(
            RunFolder(Path(f"{options}{seed}{status}")),
            {"status": status},
            {"seed": seed, **options},
            metrics={} if value is None else {METRIC: Standing(value, 1, value, 1)},
        )
        for seed, value in enumerate(accuracies, first)
    ]
