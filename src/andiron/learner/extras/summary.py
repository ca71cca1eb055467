"""The summary of a finished run: the content of `summary.json` and of the summary table."""

from collections.abc import Collection, Mapping
from dataclasses import asdict

from torch import nn

from andiron.learner.metric_log import MetricLog
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import network_of


def summarise(
    metric_log: MetricLog,
    model: nn.Module,
    param_groups: Named,
    last_rates: Mapping[str, float],
    tested_epoch: int | None,
    tested_average: str,
) -> Plain:
    """Model, optimizers, length and time of the run; best and last value of every metric.

    `param_groups` has the rates of the next update, `last_rates` the rates before it. The test set
    was measured with the weights of `tested_epoch` (their `tested_average`, if any), or with the
    last if it is None.
    """
    tested = {"epoch_of_best": tested_epoch, "last_epoch": tested_epoch}
    rows = [
        {"split": split, "metric": name, **asdict(standing)}
        | (tested if tested_epoch is not None and split == "test" else {})
        for split, named in sorted(
            metric_log.history.standings.items(), key=lambda item: item[0] != "train"
        )
        for name, standing in named.items()
    ]
    return {
        "model": type(network_of(model)).__name__,
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "updates": metric_log.progress.updates,
        "epochs": metric_log.progress.epoch,
        "seconds": round(metric_log.throughput.training_seconds, 3),
        "metrics": rows,
        "weights": _measured_weights(
            metric_log.history.standings, tested_epoch, tested_average
        ),
        "directions": metric_log.history.directions,  # which value is best, for other readers
        "param_groups": dict(param_groups),
        "last_lr": dict(last_rates),
    }


def _measured_weights(
    splits: Collection[str], tested_epoch: int | None, tested_average: str
) -> dict[str, str]:
    """The weights measured on each split, if they differ from every epoch's."""
    average = f", average {tested_average}" if tested_average else ""
    tested = "last" if tested_epoch is None else f"best, of epoch {tested_epoch}{average}"
    averages = {split: f"average {split.partition('-')[2]}" for split in splits if "-" in split}
    return ({"test": tested} if "test" in splits else {}) | averages
