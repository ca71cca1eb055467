"""Uneven batches for metrics of torchmetrics, and what torchmetrics says of all of them at once."""

import json
import math

import torch

from andiron.metrics import Tally
from andiron_lab.scores import Torchmetrics

LOSS = torch.tensor(0.0)
SIZES = (7, 1, 12, 5, 12)
NUMBER = sum(SIZES)


def stream(seed=3):
    return torch.Generator().manual_seed(seed)


def batches(kind, output, targets):
    """Items of uneven sizes."""
    pairs = zip(output.split(SIZES), targets.split(SIZES), strict=True)
    return [kind(LOSS, *pair) for pair in pairs]


def adapted(metric, **options):
    return Torchmetrics(metric, name="theirs", **{"higher_is_better": True, **options})


def tallied(metric, items):
    """A tally of the items, with a window closed among them."""
    tally = Tally([metric])
    for number, item in enumerate(items):
        tally.add(item)
        if number == 2:
            tally.close_window()
    return tally


def restored(tally, metric):
    """Another process's tally that continues from this one's checkpoint."""
    plain, tensors = tally.state_dict()
    resumed = Tally([metric])
    plain = json.loads(json.dumps(plain))
    resumed.load_state_dict(
        plain, {key: tensor.clone() for key, tensor in tensors.items()}, LOSS.device
    )
    return resumed


def numbers(result):
    """Every number of a result of torchmetrics that is not NaN, in order."""
    if isinstance(result, dict):
        result = [*result.values()]
    if isinstance(result, torch.Tensor):
        result = result.flatten().tolist()
    if isinstance(result, list | tuple):
        return [number for value in result for number in numbers(value)]
    return [] if math.isnan(result) else [result]


def at_once(metric, *updates):
    for arguments in updates:
        metric.update(*arguments)
    return numbers(metric.compute())
