"""The mean gradients of an update over slices and processes; BatchNorm's running statistics too."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.distributed import Sliced, World
from andiron.gradients import During, Gradients
from andiron.optim.divided.early_exchange import NO_ENTRY, EarlyExchange
from andiron.optim.gradient_mean import GradientsAccumulator, add_up, divide, is_on_gpu
from andiron.outputs import Weight
from andiron.plain import private_torch

PREFIX = "running statistics of "  # prefix of a name among parameters' names
TAIL = ""  # no parameter has this name
Sums = tuple[Gradients, Tensor]  # of weighted gradients; of their weights, and of samples


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


class RunningStatistics:
    """The running means and variances that a training step changes.

    Every slice starts from the statistics before the update. They are then averaged like gradients,
    so that neither their order nor the process that computes a slice matters. A step must not
    change any other buffer.
    """

    def __init__(self, model: nn.Module):
        modules = [
            (name, module)
            for name, module in model.named_modules()
            if isinstance(module, private_torch.NormBase)
            if module.training and module.running_mean is not None
        ]
        self.tensors: dict[str, Tensor] = {
            f"{PREFIX}{name}.{buffer}": getattr(module, buffer)
            for name, module in modules
            for buffer in ("running_mean", "running_var")
        }
        # SyncBatchNorm has the statistics of all processes, by exchanges of its own
        self.are_exchanged = any(isinstance(m, nn.SyncBatchNorm) for m in model.modules())
        counts = [module.num_batches_tracked for _, module in modules]
        self._counts = [count for count in counts if count is not None]
        self._before = {name: tensor.clone() for name, tensor in self.tensors.items()}
        self._counts_before = [count.clone() for count in self._counts]
        self._fixed = [
            (f"{name}.{key}", module, key, buffer, private_torch.version(buffer))
            for name, module in model.named_modules()
            if not isinstance(module, private_torch.NormBase)
            for key, buffer in module.named_buffers(recurse=False)
        ]

    def of_slice(self) -> Mapping[str, Tensor]:
        """The statistics after a slice; the model's are reset for the next one.

        Raises: MismatchError naming another buffer that the slice changed.
        """
        for name, module, key, buffer, version in self._fixed:
            if getattr(module, key) is not buffer or private_torch.version(buffer) != version:
                raise errors.MismatchError(
                    f"buffer {name!r} is changed by a training step: only running statistics of "
                    "BatchNorm are merged; start one process without slices, or keep it constant"
                )
        after = {name: tensor.clone() for name, tensor in self.tensors.items()}
        self._put(self._before)
        for count, before in zip(self._counts, self._counts_before, strict=True):
            count.copy_(before)
        return after

    def merge(self, sums: Gradients, weight: float, micro_batches: int) -> None:
        """Moves the sums of all slices' statistics from `sums` to the model, as their means."""
        merged = {name: sums.pop(name) / weight for name in self.tensors if name in sums}
        self._put(merged)
        for count in self._counts:
            count += micro_batches

    def _put(self, values: Mapping[str, Tensor]) -> None:
        if values:
            private_torch.foreach_copy_([self.tensors[name] for name in values], [*values.values()])
