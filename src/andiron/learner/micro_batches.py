"""The gradients of one update, from all of its batches."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from andiron import errors, randomness
from andiron.gradients import Gradients
from andiron.learner import naming
from andiron.learner.nonfinite import Step
from andiron.optim import GradientsAccumulator
from andiron.optim.sam import perturbed
from andiron.protocols import TrainOutput

if TYPE_CHECKING:
    from andiron.learner.learner import Learner


def gradients(learner: "Learner", batches: Sequence[Any]) -> tuple[Gradients, list[Any]]:
    """The gradients to update by, and the batches' items; taken again for the same update they are the same."""
    found, items = _mean(learner, batches)
    if learner.sam is not None:
        with perturbed(learner.model, found, learner.sam):
            found, _ = _mean(learner, batches)
    return found, items


def step(learner: "Learner", num_batches: int) -> Step:
    """Where in the run the update stands that is under way."""
    first = learner.first_batch
    indices = getattr(learner.loader, "indices", None)  # a loader need not be able to tell
    samples = indices and [indices(learner.epoch, first + number) for number in range(num_batches)]
    return Step(learner.updates + 1, learner.epoch + 1, first + 1, num_batches, samples)


def _mean(learner: "Learner", batches: Sequence[Any]) -> tuple[Gradients, list[Any]]:
    """The mean gradients of `batches` at the weights as they are, and their items."""
    randomness.start_stream(learner.seed, "update", learner.updates)
    if len(batches) == 1:
        output = _train_step(learner, batches[0])
        return output.gradients, [output.item]
    accumulator, items = GradientsAccumulator(), []
    for number, batch in enumerate(batches):
        if number:
            randomness.start_stream(learner.seed, "update", learner.updates, number)
        output = _train_step(learner, batch, number)
        accumulator.add(output.gradients, output.weight)
        items.append(output.item)
    return accumulator.mean(), items


def _train_step(learner: "Learner", batch: Any, number: int = 0) -> TrainOutput:
    try:
        with learner.precision.step():
            output: TrainOutput = learner.model.train_step(batch)
    except errors.SampleError as error:
        raise naming.located(
            error, learner.loader, learner.epoch, learner.first_batch + number
        ) from error
    return output
