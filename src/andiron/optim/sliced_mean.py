"""Where gradients are reduced: the mean of one batch, in slices and over several processes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from andiron.distributed import Sliced, World
from andiron.gradients import Gradients, exchanged
from andiron.optim.accumulator import add_up, divide, multiply
from andiron.optim.early_exchange import NO_ENTRY, EarlyExchange
from andiron.optim.running_statistics import RunningStatistics

TAIL = ""  # no parameter has this name


class SlicedMean:
    """Adds the gradients of slices in order; `mean` covers all slices of all processes.

    The sums of slices are added in a balanced binary tree, within and between processes, so that
    with a fixed number of slices the bits do not depend on the number of processes. The gradient of
    a slice is the sum over its micro-batches, each weighted by the count its loss is a mean over.
    Running statistics of BatchNorm are averaged like gradients.
    """

    def __init__(self, world: World, model: nn.Module):
        self._world, self._model = world, model
        self._statistics = RunningStatistics(model)
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._layout: dict[str, Tensor] = {**trained, **self._statistics.tensors}
        self._exchange = EarlyExchange(world, trained)
        self._device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._sums: list[tuple[Gradients, Tensor]] = []  # of whole subtrees, and their weights
        self._slice: tuple[Gradients, Tensor] | None = None  # the sum of the current slice
        self._places: list[tuple[int, int]] = []  # micro-batch and slice of each step
        self._counted: list[bool] = []  # whether each step had a target that counts
        self._num_batches = 0

    def steps(self, batches: Sequence[Sliced]) -> Iterator[tuple[int, tuple[int, ...], Any]]:
        """This process's slices, each of all micro-batches; `add` each before taking the next."""
        self._num_batches = len(batches)
        for complete, slice_number in enumerate(self._world.own_slices, start=1):
            for number, batch in enumerate(batches):
                if slice_number in batch:
                    self._places.append((number, slice_number))
                    yield number, (slice_number,), batch[slice_number]
            self._end_slice(complete)

    def step_context(
        self, context: Callable[[], AbstractContextManager[object]]
    ) -> Callable[[], AbstractContextManager[object]]:
        """`context` for each step, in which `backward` also exchanges gradients where it can.

        It cannot with several slices or micro-batches, whose sums are made first, nor beside
        SyncBatchNorm, whose own exchanges during backward need an order among these.
        """
        is_alone = self._world.size == 1 or self._world.slices is not None

        @contextmanager
        def exchanging() -> Iterator[None]:
            if is_alone or self._num_batches > 1 or self._statistics.are_exchanged:
                with context():
                    yield
            else:
                with context(), exchanged(self._exchange.during_backward):
                    yield

        return exchanging

    def add(self, gradients: Gradients, weight: float | Tensor) -> None:
        """Adds a step of the current slice; its tensors may be overwritten."""
        self._counted.append(bool(weight))
        if self._counted[-1]:  # else every target is ignored, and the mean loss is NaN
            total = torch.as_tensor(weight, dtype=torch.float32, device=self._device)
            if not self._exchange.has_weighted(gradients, weight):
                multiply(gradients, weight)
            elif gradients.loss is not None:
                gradients.loss = gradients.loss * weight
            self._slice = _sum_of(self._slice, (gradients, total))

    def by_slice(self, items: Sequence[Any]) -> list[Any]:
        """For each micro-batch, the items of its slices that count."""
        sliced = [Sliced() for _ in range(self._num_batches)]
        for (number, slice_number), item, counts in zip(self._places, items, self._counted):
            if counts:
                sliced[number][slice_number] = item
        return sliced

    def _end_slice(self, complete: int) -> None:
        """Adds the sum of a slice to the tree of the `complete` ones; an empty one counts nothing.
        """
        values = self._statistics.of_slice()
        if self._slice is None:
            self._slice = Gradients({}, self._model), torch.zeros((), device=self._device)
        elif values:
            gradients, weight = self._slice
            gradients.update({name: value * weight for name, value in values.items()})
        self._sums.append(self._slice)
        self._slice = None
        while complete % 2 == 0:  # both halves of a subtree are known
            last = self._sums.pop()
            self._sums[-1] = _sum_of(self._sums[-1], last)
            complete //= 2

    def mean(self) -> Gradients:
        """The weighted mean over all slices of all processes, and over their micro-batches."""
        (sums, weight), = self._sums
        if self._world.size > 1:
            sums, weight = self._over_processes(sums, weight)
        total = float(weight)
        mean = sums.replaced({name: sums[name] for name in self._layout if name in sums})
        self._statistics.merge(mean, total, self._num_batches)
        divide(mean, total)
        return mean

    def _over_processes(self, sums: Gradients, weight: Tensor) -> tuple[Gradients, Tensor]:
        """The sums of all processes; a parameter without a gradient in any of them has no entry.

        Small ones are exchanged together, by dtype. The tail of float32 carries the weight, the
        loss, the world's notes, and who has a gradient.
        """
        loss = torch.zeros(()) if sums.loss is None else sums.loss
        flags = [float(sums.loss is not None), *(float(name in sums) for name in self._layout)]
        head = torch.stack([weight, loss.to(self._device, torch.float32)])
        tail = torch.cat([head, torch.tensor([*self._world.notes, *flags], device=self._device)])
        layout = {**self._layout, TAIL: tail}
        missing = self._layout.keys() - sums
        entries = {name: torch.full_like(layout[name], NO_ENTRY) for name in missing}
        entries |= {**sums, TAIL: tail}
        self._exchange.finish(entries)
        small = [entries[name] for name in layout if name not in self._exchange.names]
        for dtype in dict.fromkeys(tensor.dtype for tensor in small):
            self._world.add_up([tensor for tensor in small if tensor.dtype == dtype])
        weight, loss, *rest = tail.unbind()
        asking, seconds, has_loss, *has_entry = torch.stack(rest).tolist()
        self._world.take_notes(asking, seconds)
        flagged = zip(self._layout, has_entry, strict=True)
        gradients = Gradients({name: entries[name] for name, has in flagged if has}, self._model)
        gradients.loss = loss if has_loss else None
        return gradients, weight


def _sum_of(
    first: tuple[Gradients, Tensor] | None, second: tuple[Gradients, Tensor]
) -> tuple[Gradients, Tensor]:
    """Two weighted sums as one, in the memory of the first."""
    if first is None:
        return second
    add_up(first[0], second[0])
    return first[0], first[1] + second[1]
