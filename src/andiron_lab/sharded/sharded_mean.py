"""The mean of sharded gradients: torch adds up blocks during backward, this divides the sums."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from andiron import errors
from andiron.distributed import Sliced, World
from andiron.gradients import During, Gradients
from andiron.optim.divided.sliced_mean import SlicedMean
from andiron.optim.gradient_mean import divide
from andiron.outputs import Weight
from andiron.plain import private_torch
from andiron_lab.sharded.exchanges import BlockSum, StepPlace
from andiron_lab.sharded.parameter_rows import part


class ShardedMean:
    """The weighted mean over all slices of all processes, of parameters that are sharded.

    Losses, weights and running statistics are added up as for copies, by a `SlicedMean`.
    """

    def __init__(
        self,
        world: World,
        model: nn.Module,
        size: Callable[[Any], int],
        place: StepPlace,
        sums: Sequence[BlockSum],
    ):
        self._world, self._model, self._place, self._sums = world, model, place, sums
        self._rest = SlicedMean(world, _WithoutParameters(model), size)
        self._has_weight = False  # whether the step has called `backward` with a weight
        self._gradients: list[Gradients] = []  # of the last step, or without slices of all
        for block in sums:
            block.forget()

    @property
    def during_backward(self) -> During:
        """The context of a `backward` with a weight, in which gradients are exchanged."""
        return self._weighted

    @contextmanager
    def _weighted(self, weight: Weight) -> Iterator[None]:
        if self._has_weight:
            raise ValueError(
                "a train_step called backward with a weight twice, and strategy=fsdp adds up the "
                "gradients of one: add the losses first, or give strategy=ddp"
            )
        self._has_weight, self._place.weight = True, weight
        yield

    def steps(self, batches: Sequence[Sliced]) -> Iterator[tuple[int, tuple[int, ...], Any]]:
        """This process's slices, each of all micro-batches; `add` each before taking the next.

        Raises: MismatchError for a slice without samples.
        """
        own, number = self._world.own_slices, len(batches)
        if not all(slice_number in batch for batch in batches for slice_number in own):
            raise errors.MismatchError(
                f"strategy=fsdp: a batch has fewer samples than the {self._world.num_slices} parts "
                "it is divided into; choose a batch_size that leaves a last batch of at least "
                "as many, or give strategy=ddp"
            )
        for count, step in enumerate(self._rest.steps(batches), start=1):
            self._has_weight = False
            self._place.complete_slices = 0 if count % number else count // number
            self._place.is_last = count == number * len(own)
            yield step

    def add(self, gradients: Gradients, weight: Weight = 1) -> None:
        """Adds a step, whose gradients are sums over processes after the last one.

        Raises: ValueError for gradients that were not added up, or that changed since.
        """
        given = self._place.weight
        if not self._has_weight:
            raise ValueError(
                "strategy=fsdp adds up gradients during backward: call backward(loss, self, "
                "weight) in train_step, with the weight that TrainOutput has"
            )
        if weight is not given and weight != given:
            raise ValueError(
                f"TrainOutput has weight={weight}, backward was given weight={given}; give both "
                "the number of targets that count"
            )
        self._check_unchanged(gradients)
        if self._place.is_last or self._world.slices is None:
            self._gradients.append(gradients)
        self._rest.add(Gradients({}, self._model, gradients.loss), weight)

    def _check_unchanged(self, gradients: Gradients) -> None:
        """Raises: ValueError for a gradient that is not the sum that a block computed."""
        made = {
            block.sum.untyped_storage().data_ptr(): block
            for block in self._sums
            if block.sum is not None
        }
        for name, gradient in gradients.items():
            own = part(gradient)
            block = made.get(own.untyped_storage().data_ptr())
            is_sum = block is not None and private_torch.version(own) == block.version
            if own.numel() and not is_sum:
                raise ValueError(
                    f"the gradient of {name} is not what backward added up over processes: "
                    "it was changed by train_step, or the loss uses the parameter outside of the "
                    "network's forward; change gradients with `gradients`, or give strategy=ddp"
                )

    def mean(self) -> Gradients:
        """The weighted mean over all slices of all processes, and over their micro-batches."""
        rest, weight = self._rest.total()
        mean, *others = self._gradients
        for gradients in others:
            for name, gradient in gradients.items():
                mean[name] = mean[name].add_(gradient) if name in mean else gradient
        mean = Gradients(mean, self._model, rest.loss)
        divide(mean, weight or 1)
        for block in self._sums:
            block.forget()  # or it would keep the memory of gradients until the next update
        return mean

    def by_batch(self, items: list[Any]) -> list[Any]:
        """For each micro-batch, the items of its slices."""
        return self._rest.by_batch(items)


class _WithoutParameters(nn.Module):
    """The modules of a model, for what is added up beside the gradients."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """None: blocks add up their gradients."""
        return iter(())

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """The parameters of the model, which are on its device."""
        return self.model.parameters(recurse)
