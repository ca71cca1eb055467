"""The mean gradients of an update: over its micro-batches, their slices, and all processes.

The weight of a batch is the count its loss is a mean over. A step returns it in `TrainOutput`, and
gives it to `backward` where processes are to add up gradients early; both meet in `SlicedMean`.
A step of weight 0, in which no target counts, adds zeros and no loss, whatever its loss is.
Another strategy, such as sharded gradients, is another `Reduction`, chosen in `reduction_for`.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, repeat
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from andiron.distributed import Sliced, World
from andiron.gradients import During, Gradients
from andiron.optim.divided.early_exchange import NO_ENTRY, EarlyExchange
from andiron.optim.divided.running_statistics import RunningStatistics
from andiron.optim.weighted_sums import add_up, divide, is_on_gpu, multiply, zero_uncounted
from andiron.outputs import Weight

TAIL = ""  # no parameter has this name
Sums = tuple[Gradients, Tensor]  # of weighted gradients; of their weights, and of samples


@runtime_checkable
class Reduction(Protocol):
    """The steps of one update and the weighted mean of their gradients."""

    @property
    def during_backward(self) -> During | None:
        """The context of a `backward` with a weight, in which gradients are exchanged, if any."""

    def steps(self, batches: Sequence[Any]) -> Iterable[tuple[int, tuple[int, ...], Any]]:
        """Micro-batch, slice and batch of each step; `add` each before taking the next."""

    def add(self, gradients: Gradients, weight: Weight = 1) -> None:
        """Adds a step, and then owns its gradients and may overwrite them."""

    def mean(self) -> Gradients:
        """The weighted mean over the steps of all processes."""

    def by_batch(self, items: list[Any]) -> list[Any]:
        """The items of the steps for each micro-batch."""


def reduction_for(world: World, model: nn.Module, size: Callable[[Any], int]) -> Reduction:
    """The reduction of one update; `size` gives the number of samples of a batch."""
    if world.sharding is not None:
        return world.sharding.reduction(model, size)
    return SlicedMean(world, model, size) if world.is_divided else GradientsAccumulator()


class GradientsAccumulator:
    """Sums the gradients of micro-batches; `mean` equals one large batch's, to rounding.

    The weight of a micro-batch is the number of samples or tokens its loss is a mean over, so that
    a short one counts less. A micro-batch without a gradient for a parameter adds nothing to it.
    """

    during_backward = None
    _sum: Gradients | None = None
    _weights: tuple[Weight, ...] = ()

    def steps(self, batches: Sequence[Any]) -> Iterable[tuple[int, tuple[int, ...], Any]]:
        """Number and batch of each micro-batch, which is not sliced."""
        return zip(count(), repeat(()), batches)

    def add(self, gradients: Gradients, weight: Weight = 1, fixed: Container[str] = ()) -> None:
        """Adds one micro-batch; the accumulator then owns its gradients and may overwrite them.

        A weight of 0 leaves the gradients of `fixed` parameters alone, which are zeros already.
        """
        self._weights += (weight,)
        if isinstance(weight, Tensor) or not weight:
            zero_uncounted(gradients, weight, fixed)
        if self._sum is None:
            self._sum = gradients
            return
        if len(self._weights) == 2:
            multiply(self._sum, self._weights[0])
        multiply(gradients, weight)
        add_up(self._sum, gradients)

    def mean(self) -> Gradients:
        """The weighted mean of the micro-batches added since the last one.

        Raises: ValueError if there are none.
        """
        mean, weights = self._sum, self._weights
        self._sum, self._weights = None, ()
        if mean is None:
            raise ValueError(
                "no micro-batch was added, so there is no mean; add gradients first"
            )
        if len(weights) > 1:  # multiplying and dividing the only one would round
            total = sum(weights[1:], start=weights[0])
            divide(mean, total + (total == 0))
        return mean

    def by_batch(self, items: list[Any]) -> list[Any]:
        """The items as they are."""
        return items

    def sums(self, device: torch.device, *, only_loss: bool) -> tuple[Gradients, Tensor] | None:
        """The weighted sum of what was added, and the sum of the weights; None for nothing.

        With `only_loss` the gradients of the only micro-batch are multiplied already.
        """
        if self._sum is None:
            return None
        if len(self._weights) == 1:
            multiply(self._sum, self._weights[0], only_loss=only_loss)
        total = torch.zeros((), device=device)
        for weight in self._weights:
            total = total + torch.as_tensor(weight, dtype=torch.float32, device=device)
        return self._sum, total


class SlicedMean:
    """Adds the gradients of slices in order; `mean` covers all slices of all processes.

    The sums of slices are added in a balanced binary tree, within and between processes, so that
    with a fixed number of slices the bits do not depend on the number of processes. The gradient of
    a slice is the sum over its micro-batches, each weighted by the count its loss is a mean over.
    Running statistics of BatchNorm are averaged over the samples, targets that count or not.
    """

    def __init__(
        self, world: World, model: nn.Module, size: Callable[[Any], int] = lambda batch: 1
    ):
        self._world, self._model, self._size = world, model, size
        self._statistics = RunningStatistics(model)
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._layout: dict[str, Tensor] = {**trained, **self._statistics.tensors}
        self._exchange = EarlyExchange(world, trained)
        self._early: Weight | None = None  # of the step whose gradients are added up early
        self._device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._sums: list[Sums] = []  # of whole subtrees
        self._slice = GradientsAccumulator()  # the current one
        self._places: list[tuple[int, int]] = []  # micro-batch and slice of each step
        self._num_batches = self._num_samples = 0  # of the update, and of the current slice

    def steps(self, batches: Sequence[Sliced]) -> Iterator[tuple[int, tuple[int, ...], Any]]:
        """This process's slices, each of all micro-batches; `add` each before taking the next."""
        self._num_batches = len(batches)
        for complete, slice_number in enumerate(self._world.own_slices, start=1):
            for number, batch in enumerate(batches):
                if slice_number in batch:
                    self._places.append((number, slice_number))
                    if self._statistics.tensors:
                        self._num_samples += self._size(batch[slice_number])
                    yield number, (slice_number,), batch[slice_number]
            self._end_slice(complete)

    @property
    def during_backward(self) -> During | None:
        """The context of a `backward` with a weight, in which gradients are exchanged, if any.

        Not with several slices or micro-batches, which are summed first, and not with
        SyncBatchNorm, whose own exchanges during backward would need an order among these.
        """
        is_alone = self._world.size == 1 or self._world.slices is not None
        is_late = is_alone or self._num_batches > 1 or self._statistics.are_exchanged
        return None if is_late else self._weighted

    @contextmanager
    def _weighted(self, weight: Weight) -> Iterator[Weight | None]:
        """A context in which gradients are exchanged; its value is the factor of the loss.

        A step without targets that count adds nothing.
        Raises: ValueError if the step has called `backward` with a weight before.
        """
        if self._early is not None:
            raise ValueError(
                "a train_step called backward with a weight twice; leave weight out of both, or "
                "add the losses first"
            )
        if not is_on_gpu(weight) and not weight:
            yield None
            return
        self._early = weight
        with self._exchange.begun_in_backward(weight):
            yield weight

    def add(self, gradients: Gradients, weight: Weight = 1) -> None:
        """Adds a step of the current slice; its tensors may be overwritten.

        Raises: ValueError if gradients that are exchanged, or their weight, changed since.
        """
        self._exchange.check_unchanged(gradients)
        early = self._early
        if early is not None and weight is not early and weight != early:
            raise ValueError(
                f"TrainOutput has weight={weight}, backward was given weight={early}; give both "
                "the number of targets that count"
            )
        self._slice.add(gradients, weight, self._exchange.computed)

    def by_batch(self, items: list[Any]) -> list[Any]:
        """For each micro-batch, the items of its slices."""
        sliced = [Sliced() for _ in range(self._num_batches)]
        for (number, slice_number), item in zip(self._places, items, strict=True):
            sliced[number][slice_number] = item
        return sliced

    def _end_slice(self, complete: int) -> None:
        """Adds the sum of a slice to the tree of complete ones; an empty one adds nothing."""
        values = self._statistics.of_slice()
        counted = self._slice.sums(self._device, only_loss=self._early is not None)
        self._slice = GradientsAccumulator()
        sums, weight = counted or (Gradients({}, self._model), torch.zeros((), device=self._device))
        samples, self._num_samples = self._num_samples, 0
        if counted:
            sums.update({name: value * samples for name, value in values.items()})
        totals = torch.stack([weight, torch.full_like(weight, samples)])
        while complete % 2 == 0:  # both halves of a subtree are known
            first, first_totals = self._sums.pop()
            add_up(first, sums)
            sums, totals = first, first_totals + totals
            complete //= 2
        self._sums.append((sums, totals))

    def mean(self) -> Gradients:
        """The weighted mean over all slices of all processes, and over their micro-batches."""
        sums, weight = self.total()
        divide(sums, weight or 1)
        return sums

    def total(self) -> tuple[Gradients, float]:
        """The weighted sum, and the sum of the weights."""
        (sums, totals), = self._sums
        if self._world.size > 1:
            sums, totals = self._over_processes(sums, totals)
        weight, samples = totals.tolist()
        ordered = sums.replaced({name: sums[name] for name in self._layout if name in sums})
        self._statistics.merge(ordered, samples, self._num_batches)
        return ordered, weight

    def _over_processes(self, sums: Gradients, totals: Tensor) -> Sums:
        """The sums of all processes; a parameter without a gradient in any of them has no entry.

        Small ones are exchanged together, by dtype. The tail of float32 carries the weight,
        samples and loss, the world's notes, and who has a gradient.
        """
        loss = torch.zeros(()) if sums.loss is None else sums.loss
        flags = [float(sums.loss is not None), *(float(name in sums) for name in self._layout)]
        loss = loss.to(self._device, torch.float32).reshape(1)
        notes = torch.tensor([*self._world.notes, *flags], device=self._device)
        tail = torch.cat([totals, loss, notes])
        layout = {**self._layout, TAIL: tail}
        missing = self._layout.keys() - sums
        entries = {name: torch.full_like(layout[name], NO_ENTRY) for name in missing}
        entries |= {**sums, TAIL: tail}
        self._exchange.finish(entries)
        small = [entries[name] for name in layout if name not in self._exchange.names]
        for dtype in dict.fromkeys(tensor.dtype for tensor in small):
            self._world.add_up([tensor for tensor in small if tensor.dtype == dtype])
        *head, loss = tail[:3].unbind()
        asking, seconds, has_loss, *has_entry = tail[3:].tolist()
        self._world.take_notes(asking, seconds)
        flagged = zip(self._layout, has_entry, strict=True)
        present = {name: entries[name] for name, has in flagged if has}
        mean = Gradients(present, self._model, loss if has_loss else None)
        return mean, torch.stack(head)
