"""Before the first update: refuses a batch of one sample that BatchNorm cannot train on, and to
divide a batch whose loss is no mean over what it counts; names a network left in evaluation mode.

At the first two updates: names tensors of a network that do not train or are in no checkpoint.
"""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference, outputs, randomness
from andiron.data import dataset, structures
from andiron.distributed import Sliced, World
from andiron.gradients import Gradients
from andiron.plain.readable import joined
from andiron.protocols import Loader, batch_size_of

REFUSAL = "Expected more than 1 value per channel"  # torch's
MOST = 8  # samples whose losses are compared
SEEDS = 4  # of a network that draws
EXACT, HALF = 1e-4, 2e-2  # relative: sums of float32 in another order; of 16 bits
FAILURES = (
    AttributeError, errors.AndironError, LookupError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d
log = logging.getLogger("andiron")


def refused(
    batches: Iterator[object],
    train: Loader,
    model: nn.Module,
    world: World,
    accumulation: int,
    *,
    is_whole: bool,
) -> Iterator[Any]:
    """The batches, once the first fits the model; the last counts if the epoch `is_whole`.

    Weights, buffers and generators stay as they are.
    Raises: MismatchError with the batch sizes, or the options that divide a batch.
    """
    _warn_of_evaluation_mode(model)
    ahead = list(itertools.islice(batches, 1))  # none after a resume at the epoch's end
    for first in ahead:
        _check_lone_samples(first, train, model, world, is_whole)
        _check_mean(first, train, model, world, accumulation)
    return itertools.chain(ahead, batches)


def _check_lone_samples(
    first: object, train: Loader, model: nn.Module, world: World, is_whole: bool
) -> None:
    """Tries the network on one sample if a batch of the epoch has one; a slice is a batch too."""
    number, slices = train.num_items, world.num_slices
    size = min(batch_size_of(train) or number, number)
    last = (number - 1) % size + 1 if is_whole else size
    if 1 not in (size // slices, -(-size // slices), last // slices, -(-last // slices)):
        return
    batch = next(iter(first.values())) if isinstance(first, Sliced) else first
    inputs = getattr(batch, "inputs", None)
    if isinstance(inputs, Tensor) and hasattr(model, "network"):  # others take what they like
        _try(model, inputs[:1], f"{number} samples in batches of {size}")


def _warn_of_evaluation_mode(model: nn.Module) -> None:
    """Names a part of several layers that trains as `from_pretrained` of transformers leaves it."""
    for name, module in model.named_modules():
        if not module.training and [*module.children()]:
            if any(parameter.requires_grad for parameter in module.parameters()):
                log.warning("%s trains in evaluation mode: no dropout, and the statistics of "
                            "BatchNorm stay; call its train() first if that is not meant", name)
                return


def _try(model: nn.Module, inputs: Tensor, described: str) -> None:
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = [inputs.device] if inputs.is_cuda else []
    try:
        with torch.no_grad(), torch.random.fork_rng(devices), inference.uncompiled():
            torch.func.functional_call(model, buffers, (inputs,))
    except (ValueError, RuntimeError) as error:  # any other problem is explained by the update
        if REFUSAL in str(error):
            raise errors.MismatchError(
                f"batch_size: {described}: a batch, or its slice, has a single sample, and the "
                "model's BatchNorm trains on two or more; choose another batch_size, or GroupNorm"
            ) from error


def _check_mean(
    batch: object, train: Loader, model: Any, world: World, accumulation: int
) -> None:
    """Compares the loss of samples of a batch with the mean of each's own, in evaluation mode.

    Not of a task without `predict`, nor of a batch that cannot be cut.
    """
    named = ("slices", world.slices or 1), ("processes", world.size)
    divided = *named, ("grads_accumulation", accumulation)
    options = ", ".join(f"{name}={number}" for name, number in divided if number > 1)
    is_allowed = getattr(model, "parts_are_batches", False) or _mixes_samples(model)
    if not options or is_allowed or not hasattr(model, "predict"):
        return
    if isinstance(batch, Sliced):
        is_stream = dataset.is_stream(getattr(train, "dataset", None))
        whole: Any = train
        batch = next(iter(batch.values())) if is_stream else whole.undivided().batch(0, 0)
    _compare(model, batch, options)


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


class NetworkFaults:
    """One of the `instruments` of two updates; a model without `network` may train by parts."""

    def __init__(self, model: nn.Module, instruments: list[Any]):
        self._model, self._instruments = model, instruments
        self._state: dict[str, tuple[object, ...]] | None = None

    def before(self, batches: Sequence[object], position: object) -> None:
        """Names tensors that no module has, and after an update what changed and is not saved."""
        if (before := self._state) is None:
            if names := [*_outside(self._model)]:
                log.warning("%s: tensors in no module, so not trained, saved or moved to a device; "
                            "keep them in a ModuleList, ModuleDict or ParameterList", joined(names))
            self._state = dict(_unsaved(self._model))
            return
        now = dict(_unsaved(self._model))
        if names := [name for name in before if before[name][:2] != now.get(name, ())[:2]]:
            log.warning("%s: changed in training, and in no checkpoint: a resumed run, evaluate "
                        "and predict begin with the first value; keep it in a buffer",
                        joined(names))
        self._instruments.remove(self)

    def computed(self, gradients: Gradients, items: Sequence[object]) -> None:
        """Names parameters without a gradient."""
        named = self._model.named_parameters() if hasattr(self._model, "network") else ()
        if names := [n for n, tensor in named if tensor.requires_grad and n not in gradients]:
            log.warning("%s: no gradient in this update: the loss does not depend on them; are "
                        "they unused, or behind detach() or no_grad()?", joined(names))


def _outside(model: nn.Module) -> Iterator[str]:
    """Attributes with tensors to train that are no parameters, such as a list of layers."""
    registered = {id(parameter) for parameter in model.parameters()}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            values: Any = value.values() if isinstance(value, Mapping) else value
            values = [value] if isinstance(value, Tensor) else values
            for part in values if isinstance(value, Tensor | list | tuple | Mapping) else ():
                tensors = [*part.parameters()] if isinstance(part, nn.Module) else [part]
                leaves = (t for t in tensors if isinstance(t, Tensor) and t.is_leaf)
                if any(t.requires_grad and id(t) not in registered for t in leaves):
                    yield f"{name}.{key}"
                    break


def _unsaved(model: nn.Module) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Numbers and tensors that no checkpoint holds, with what differs once they change."""
    for name, module in model.named_modules():
        if type(module).__module__.partition(".")[0] in (*errors.OWN, *errors.LIBRARIES):
            continue
        buffers = module.named_buffers(recurse=False)
        passing = {key: t for key, t in buffers if key in module._non_persistent_buffers_set}
        for key, value in (vars(module) | passing).items():
            if isinstance(value, Tensor) and not value.is_inference():
                yield f"{name}.{key}", (id(value), value._version, value)
            elif isinstance(value, int | float) and key != "training":
                yield f"{name}.{key}", (value,)
