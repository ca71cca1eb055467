"""Measuring a learner's model: with its own weights, with each average of them, and what it has to show."""

from typing import TYPE_CHECKING

from torch import nn

from andiron import errors, inference, randomness
from andiron.learner import naming, state
from andiron.protocols import Loader, Shows, Values

if TYPE_CHECKING:
    from andiron.learner.learner import Learner


def validate(learner: "Learner", loader: Loader, split: str) -> None:
    """Measures the model on `loader` as `split`, and with each average of its weights as `split`-<average>."""
    with learner.optimizer.evaluated():
        measure(learner, loader, split)
    for name, average in learner.averages.items():
        if not average.count:
            continue  # nothing but the initial weights so far
        with average.swapped_in(learner.model):
            measure(learner, loader, f"{split}-{name}")
    if split == "valid":
        _show(learner, split)
        for schedule in state.stateful_schedules(learner):
            if hasattr(schedule, "observe"):
                schedule.observe(dict(learner.journal.progress.latest))


def measure(learner: "Learner", loader: Loader, split: str) -> Values:
    """The metrics' means over one pass through `loader` with the weights as they are, recorded as `split`.

    Raises: Interrupted before a batch at which the run is asked to stop.
    """
    learner.journal.start_pass()
    randomness.start_stream(
        learner.seed, split, learner.updates
    )  # whatever was drawn before, and where a run was taken up
    with inference.valid(learner.model) as model:
        for number, batch in enumerate(loader.epoch(0)):
            if learner.interrupter.at(split, learner.updates, number) and learner.interrupter.asked:
                raise learner.interrupter.asked
            try:
                with learner.precision.autocast():
                    item = model.valid_step(batch)
            except errors.SampleError as error:
                raise naming.located(error, loader, 0, number) from error
            learner.journal.measured(item)
    return learner.journal.close_pass(split)


def _show(learner: "Learner", split: str) -> None:
    """Writes the samples of a model that has some; what they draw has a stream of its own."""
    model: nn.Module = learner.model
    if isinstance(model, Shows):
        randomness.start_stream(learner.seed, "samples")
        with learner.optimizer.evaluated(), inference.valid(model):
            learner.journal.shown(split, model.samples())
