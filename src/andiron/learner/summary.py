"""A finished run in one value: what `summary.json` holds and the summary table shows."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import nn

from andiron.learner.metric_log import MetricLog


def summarise(
    metric_log: MetricLog,
    model: nn.Module,
    param_groups: Mapping[str, Any],
    restored_epoch: int | None = None,
) -> dict[str, Any]:
    """What was trained for how long by which optimizers; best and last of every split's metrics.

    The test set was measured with the weights of `restored_epoch`, if early stopping restored some.
    """
    tested = {"epoch_of_best": restored_epoch, "last_epoch": restored_epoch}
    rows = [
        {"split": split, "metric": name, **asdict(standing)}
        | (tested if restored_epoch is not None and split == "test" else {})
        for split, named in metric_log.history.standings.items()
        for name, standing in named.items()
    ]
    return {
        "model": type(getattr(model, "network", model)).__name__,  # of the network inside a task
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "updates": metric_log.progress.updates,
        "epochs": metric_log.progress.epoch,
        "seconds": round(metric_log.throughput.training_seconds, 3),
        "metrics": rows,
        "directions": metric_log.history.directions,  # which value is best, for other readers
        "param_groups": dict(param_groups),
    }
