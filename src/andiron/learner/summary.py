"""A finished run in one value: what `summary.json` holds and the summary table shows."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from andiron import files
from andiron.learner.metric_log import Journal
from andiron.optim import group_table

if TYPE_CHECKING:
    from andiron.learner.learner import Learner


def leave(learner: "Learner", run_dir: Path) -> None:
    """Writes `run_dir`/summary.json and shows it."""
    summary = of(learner, run_dir)
    files.write_json(run_dir / "summary.json", summary)
    learner.journal.show(summary)


def of(learner: "Learner", run_dir: Path) -> dict[str, Any]:
    """The summary of a learner's run."""
    groups = group_table.param_groups(learner.optimizer.groups, learner.rates)
    return summarise(learner.journal, learner.model, run_dir, groups)


def summarise(
    journal: Journal, model: nn.Module, run_dir: Path, param_groups: Mapping[str, Any]
) -> dict[str, Any]:
    """What was trained for how long and by which optimizers, and for each split and metric best, its epoch and last."""
    standings = journal.history.standings
    rows = [
        {"split": split, "metric": name, **asdict(standing)}
        for split, named in standings.items()
        for name, standing in named.items()
    ]
    return {
        "run_dir": str(run_dir),
        "model": _name(model),
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "updates": journal.progress.updates,
        "epochs": journal.progress.epoch,
        "seconds": round(journal.seconds, 3),
        "metrics": rows,
        "param_groups": dict(param_groups),
    }


def _name(model: nn.Module) -> str:
    """The class a user chose: of the network inside a task, where there is one."""
    return type(getattr(model, "network", model)).__name__
