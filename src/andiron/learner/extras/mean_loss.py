"""Before the first update: refuses to divide a batch whose loss is no mean over what it counts."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from andiron import errors, inference, outputs, randomness
from andiron.data import structures
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
    batches: Iterator[Any], train: Loader, model: nn.Module, world: World, accumulation: int
) -> Iterator[Any]:
    """The same batches; the loss of samples of the first is compared with the mean of each's own.

    In evaluation mode; not of a task without `predict`, nor of a batch that cannot be cut.
    Raises: MismatchError if they differ, naming the options that divide a batch.
    """
    options = [f"slices={world.slices}"] if (world.slices or 1) > 1 else []
    options += [f"{world.size} processes"] if world.size > 1 else []
    options += [f"grads_accumulation={accumulation}"] if accumulation > 1 else []
    is_allowed = getattr(model, "parts_are_batches", False) or _mixes_samples(model)
    if not options or is_allowed or not hasattr(model, "predict"):
        return batches
    ahead = list(itertools.islice(batches, 1))
    batch = ahead[0] if ahead else None
    if isinstance(batch, Sliced):
        batch = max(batch.values(), key=structures.size_or_one, default=None)
    dataset = getattr(train, "dataset", None)
    if structures.size_or_one(batch) < 2 and not getattr(dataset, "is_stream", False):
        batch = train.undivided().batch(0, 0) if hasattr(train, "undivided") else batch
    if structures.size_or_one(batch) < 2:
        return itertools.chain(ahead, batches)
    whole, parts, bound = _compared(model, batch)
    if abs(whole - parts) > bound:
        is_own = getattr(model, "loss", model) is None
        more = "; task.mean_over=batch makes each part a batch of its own" if is_own else ""
        raise errors.MismatchError(
            f"{', '.join(options)}: the loss of samples together is {whole:.6g}, the weighted mean "
            f"of their own losses {parts:.6g}: it is a sum, or depends on the other samples of a "
            "batch, so that parts of a batch train something else; leave this out, or choose a "
            f"loss that is a mean over samples or targets{more}"
        )
    return itertools.chain(ahead, batches)


def _mixes_samples(model: nn.Module) -> bool:
    """Whether a BatchNorm uses the statistics of the batch in evaluation mode too."""
    return any(isinstance(m, NORMS) and m.running_mean is None for m in model.modules())


def _compared(model: Any, batch: Any) -> tuple[float, float, float]:
    """Mean losses of samples together and in parts, and the difference that rounding explains.

    Of a network that draws, also the spread of its losses. Zeros for what cannot be computed: the
    update explains it.
    """
    number = min(structures.size(batch), MOST)
    is_half = any(parameter.dtype.itemsize < 4 for parameter in model.parameters())
    for size in (1, number // 2):  # some networks take no single sample
        try:
            cuts = [(0, number), *((n, min(n + size, number)) for n in range(0, number, size))]
            parts = [structures.cut(batch, *each) for each in cuts]
            losses = [_losses(model, parts, seed) for seed in range(2)]
            if losses[0][0] != losses[1][0]:
                losses += [_losses(model, parts, seed) for seed in range(2, SEEDS)]
        except FAILURES:
            continue
        wholes, means = zip(*losses)
        first, second = (sum(values) / len(values) for values in (wholes, means))
        spread = max(wholes) - min(wholes) + max(means) - min(means)
        rounding = (HALF if is_half else EXACT) * max(abs(first), abs(second))
        return first, second, rounding + (3 * spread if len(losses) > 2 else 0)
    return 0.0, 0.0, 0.0


def _losses(model: Any, parts: Sequence[Any], seed: int) -> tuple[float, float]:
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
