"""Evaluation passes: with the model's own weights, and with each average of them."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference, randomness
from andiron.distributed import Sliced
from andiron.interrupter import Interrupter
from andiron.learner.state import LearnerState
from andiron.learner.update import Updater, explain_step
from andiron.metrics import Tally
from andiron.metrics.classification.worst_classes import Answers
from andiron.protocols import Loader, Shows, Values

Record = Callable[[str, Values], None]
log = logging.getLogger("andiron")


def measure(
    model: nn.Module,
    loader: Loader,
    tally: Tally,
    *,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    before: Callable[[int], None] = lambda number: None,
    after: Callable[[Any], None] | None = None,
    before_slice: Callable[[int, int], None] = lambda number, slice_number: None,
) -> Values:
    """The values of the tally's metrics over one pass, in evaluation mode and without gradients.

    `after` is called with each item, `before_slice` with the numbers of a batch and its slice.
    Raises: errors of `before`, called with the number of each batch before it; DataError naming
    unusable samples.
    """

    def item_of(batch: Any, number: int, *slice_number: int) -> Any:
        try:
            with autocast():
                item = model.valid_step(batch)  # type: ignore[operator]
        except errors.SampleError as error:
            raise error.located(loader, 0, number, *slice_number) from error
        except Exception as error:
            explain_step(error, model, batch)
            raise
        if after is not None:
            after(item)
        return item

    tally.forget()
    with inference.valid(model):
        for number, batch in enumerate(loader.epoch(0)):
            before(number)
            if not isinstance(batch, Sliced):
                tally.add(item_of(batch, number), batch)
                continue
            items = Sliced()
            for slice_number, part in batch.items():
                before_slice(number, slice_number)
                items[slice_number] = item_of(part, number, slice_number)
            tally.add(items, batch)
    return tally.close_epoch()


@dataclass
class Evaluator:
    """Measures a model on a split and records it, in streams of (seed, split, update)."""

    state: LearnerState
    updater: Updater
    interrupter: Interrupter
    answers: Answers = field(default_factory=Answers)  # on the test set

    def grant_requests(self, sets: Mapping[str, Loader], save: Callable[[], None]) -> None:
        """Saves, validates or pauses as requested; training then continues unchanged.

        A validation on request is only logged: no schedule, early stopping or best value observes
        it. A request to stop ends it.
        """
        metric_log = self.state.metric_log
        with metric_log.throughput.halted(), suppress(errors.Interrupted):
            for request in self.interrupter.requests():
                if request == "save":
                    save()
                else:
                    # a user's loader or step may draw from them
                    with randomness.global_generators_restored():
                        for split, loader in sets.items():
                            record = metric_log.record_request
                            self._measure_each(loader, split, record, nullcontext())
                log.info("%s on request, after update %d", request, metric_log.progress.updates)

    def evaluate(self, loader: Loader) -> Values:
        """The metrics over one pass with the weights to evaluate; recorded nowhere."""
        with self.state.optimizer.evaluated(), randomness.global_generators_restored():
            return self._measure(loader, "evaluate")

    def predict(self, loader: Loader) -> Tensor:
        """The outputs of one pass with the weights to evaluate: [samples, ...], on the CPU.

        Raises: TypeError if an item has no output.
        """
        outputs: list[Tensor] = []

        def keep(item: Any) -> None:
            if not isinstance(getattr(item, "output", None), Tensor):
                kind = type(item).__name__
                remedy = "return an item with it, as andiron.outputs.ClassificationOutput"
                raise TypeError(f"valid_step returns {kind}, which has no output tensor; {remedy}")
            outputs.append(item.output.cpu())

        with self.state.optimizer.evaluated(), randomness.global_generators_restored():
            measure(
                self.state.model,
                loader,
                Tally([], self.updater.world),
                autocast=self.updater.precision.autocast,
                after=keep,
            )
        return torch.cat(outputs)

    def validate(
        self,
        loader: Loader,
        split: str = "valid",
        weights: AbstractContextManager[None] | None = None,
    ) -> None:
        """Measures the model as `split`, and with each average of its weights as `split`-<average>.

        Inside `weights` the model has the weights to measure, by default its own.
        """
        self.validate_sets({split: loader}, weights)

    def validate_sets(
        self, sets: Mapping[str, Loader], weights: AbstractContextManager[None] | None = None
    ) -> None:
        """Measures every set as `validate`; then lets schedules such as Plateau observe.

        After a pass over `valid`, shows the model's samples.
        """
        state = self.state
        for split, loader in sets.items():
            own = weights or nullcontext()
            self._measure_each(loader, split, state.metric_log.record_pass, own)
            if split == "valid" and isinstance(state.model, Shows):
                randomness.start_stream(state.position.seed, "samples")  # the same after any pass
                with state.optimizer.evaluated(), inference.valid(state.model) as model:
                    state.metric_log.show_samples(split, model.samples())
        for schedule in state.observing_schedules():
            if state.set_of(getattr(schedule, "split", "valid")) in sets:
                schedule.observe(dict(state.metric_log.latest))
        for name in sets.keys() & state.validations:
            state.validations[name].done(state.position.updates)

    def _measure_each(
        self, loader: Loader, split: str, record: Record, weights: AbstractContextManager[None]
    ) -> None:
        state = self.state
        with state.optimizer.evaluated(), weights:
            record(split, self._measure(loader, split))
        for name, average in state.averages.items():
            if average.count:  # else it holds only the initial weights
                with average.swapped_in(state.model):
                    record(f"{split}-{name}", self._measure(loader, f"{split}-{name}"))

    def _measure(self, loader: Loader, split: str) -> Values:
        """The metrics over one pass with the current weights.

        Raises: Interrupted before a batch at which the run is asked to stop.
        """
        at, metric_log = self.state.position, self.state.metric_log

        def stop_if_asked(batch: int) -> None:
            if self.interrupter.at(split, at.updates, batch) and self.interrupter.asked:
                raise self.interrupter.asked

        randomness.start_stream(at.seed, split, at.updates)  # independent of earlier draws
        autocast, tally = self.updater.precision.autocast, metric_log.tally_of(split)
        model = self.state.model
        after = None
        if split == "test":
            self.answers = Answers()
            after = self.answers.add

        def start_slice(number: int, slice_number: int) -> None:
            randomness.start_stream(at.seed, split, at.updates, number, slice_number)

        values = measure(
            model,
            loader,
            tally,
            autocast=autocast,
            before=stop_if_asked,
            after=after,
            before_slice=start_slice,
        )
        if split == "test":
            self.answers = Answers.of_all(self.updater.world.gathered(self.answers))
        return values


def named_sets(
    valid: Any, more: Mapping[str, Any] | None, known: Mapping[str, Any]
) -> dict[str, Any]:
    """The loaders of the `known` validation sets, by name.

    Raises: MismatchError for a set that is missing or unknown.
    """
    sets = {"valid": valid, **(more or {})}
    if sets.keys() != known.keys():
        given, built = (", ".join(list(names)[1:]) or "none" for names in (sets, known))
        raise errors.MismatchError(
            f"fit got the further validation sets {given}, and the learner was built with {built}; "
            "name each with LearnerBuilder.valid_set(name), and pass its loader in `more`"
        )
    return {name: sets[name] for name in known}
