"""A finished run in one value: what `summary.json` holds and the summary table shows."""

from pathlib import Path
from typing import Any

from torch import nn

from andiron.learner.journal import Journal
from andiron.protocols import Metric


def summarise(journal: Journal, model: nn.Module, run_dir: Path) -> dict[str, Any]:
    """What was trained for how long, and for each split and metric the best value, its epoch and the last value."""
    train, valid = journal.train_tally.metrics, journal.valid_tally.metrics
    measured = [(split, metric) for split, metrics in [("train", train), ("valid", valid), ("test", valid)] for metric in metrics]
    rows = [_row(journal, split, metric) for split, metric in measured]
    return {
        "run_dir": str(run_dir),
        "model": _name(model),
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "updates": journal.progress.updates,
        "epochs": journal.progress.epoch,
        "seconds": round(journal.seconds, 3),
        "metrics": [row for row in rows if row],
    }


def _row(journal: Journal, split: str, metric: Metric) -> dict[str, Any] | None:
    best = journal.history.best(split, metric.name, higher_is_better=metric.higher_is_better)
    last = journal.history.last(split, metric.name)
    if best is None or last is None:
        return None
    return {
        "split": split,
        "metric": metric.name,
        "best": best.values[metric.name],
        "epoch_of_best": best.epoch,
        "last": last.values[metric.name],
    }


def _name(model: nn.Module) -> str:
    """The class a user chose: of the network inside a task, where there is one."""
    inner = getattr(model, "network", model)
    return type(inner).__name__
