"""Before the first update: refuses to divide a batch whose loss is no mean over what it counts."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from andiron import errors, inference, outputs, randomness
from andiron.data import dataset, structures
from andiron.distributed import Sliced, World
from andiron.protocols import Loader

MOST = 8  # samples that are compared
SEEDS = 4  # of a network that draws
EXACT, HALF = 1e-4, 2e-2  # relative: sums of float32 in another order; of 16 bits
FAILURES = (
    AttributeError, errors.AndironError, LookupError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d


def refused(
    batches: Iterator[object], train: Loader, model: Any, world: World, accumulation: int
) -> Iterator[Any]:
    """The batches; the loss of samples of the first is compared with the mean of each's own.

    In evaluation mode; not of a task without `predict`, nor of a batch that cannot be cut.
    Raises: MismatchError if they differ, naming the options that divide a batch.
    """
    named = ("slices", world.slices or 1), ("processes", world.size)
    divided = *named, ("grads_accumulation", accumulation)
    options = ", ".join(f"{name}={number}" for name, number in divided if number > 1)
    is_allowed = getattr(model, "parts_are_batches", False) or _mixes_samples(model)
    if not options or is_allowed or not hasattr(model, "predict"):
        return batches
    ahead = list(itertools.islice(batches, 1))
    for batch in ahead:
        if isinstance(batch, Sliced):
            is_stream = dataset.is_stream(getattr(train, "dataset", None))
            whole: Any = train
            batch = next(iter(batch.values())) if is_stream else whole.undivided().batch(0, 0)
        _compare(model, batch, options)
    return itertools.chain(ahead, batches)


def _mixes_samples(model: nn.Module) -> bool:
    """Whether a BatchNorm uses the statistics of the batch in evaluation mode too."""
    return any(isinstance(m, NORMS) and m.running_mean is None for m in model.modules())


def _compare(model: Any, batch: object, options: str) -> None:
    """Raises: MismatchError if the losses differ by more than rounding and the network's draws."""
    number = min(structures.size_or_one(batch), MOST)
    parts = [slice(0, number), *(slice(place, place + 1) for place in range(number))]
    try:
        cut = [structures.cut(batch, samples) for samples in parts]
        losses = [_losses(model, cut, seed) for seed in range(SEEDS if number > 1 else 0)]
    except FAILURES:  # the update explains it
        return
    off = [whole - mean for whole, mean in losses]
    is_half = any(parameter.dtype.itemsize < 4 for parameter in model.parameters())
    bound = sum((HALF if is_half else EXACT) * abs(whole) for whole, _ in losses)
    if losses and abs(sum(off)) > bound + 3 * SEEDS * (max(off) - min(off)):
        allowed = "; task.mean_over=batch makes each part a batch of its own"
        own = "" if getattr(model, "loss", True) else allowed
        raise errors.MismatchError(
            f"{options}: the loss of samples together is {losses[0][0]:.6g}, the weighted mean of "
            f"their own losses {losses[0][1]:.6g}: it is a sum, or depends on the other samples of "
            "a batch, so that parts of a batch train something else; leave this out, or choose a "
            f"loss that is a mean over samples or targets{own}"
        )


def _losses(model: Any, parts: Sequence[object], seed: int) -> tuple[float, float]:
    """The loss of the first part, and the weighted mean of the others, in evaluation mode."""
    with (
        inference.valid(model, torch.no_grad), inference.uncompiled(),
        randomness.global_generators_restored(), torch.random.fork_rng([]),
    ):  # fmt: skip
        randomness.start_stream(seed, "parts of a batch")
        items = [*map(model.valid_step, parts)]
    pairs = [(float(item.loss), float(outputs.loss_weight(item))) for item in items]
    (whole, _), *others = [(loss if weight else 0.0, weight) for loss, weight in pairs]
    total = sum(weight for _, weight in others)
    return whole, sum(loss * weight for loss, weight in others) / (total or 1.0)
