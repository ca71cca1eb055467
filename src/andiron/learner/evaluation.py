"""Evaluation passes: with the model's own weights, and with each average of them."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference, randomness
from andiron.distributed import Sliced
from andiron.interrupter import Interrupter
from andiron.learner.state import LearnerState
from andiron.learner.update import Updater, explain_step
from andiron.metrics.tally import Tally
from andiron.progress import watched
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Loader, Shows, Values

MOST_UNREAD = 2**24  # numbers of predictions: 64 MiB of float32
log = logging.getLogger("andiron")


def measure(
    model: nn.Module,
    loader: Loader,
    tally: Tally,
    *,
    step: Callable[[Any], Any] | None = None,
    name: str = "evaluation",
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    before: Callable[..., None] = lambda batch, *slice_number: None,
    after: Callable[[Any], None] = lambda item: None,
) -> Values:
    """The values of the tally's metrics over one pass, in evaluation mode and without gradients.

    `step` stands for the model's `valid_step`. A pass that takes long is logged by its `name`.
    `before` is called with the number of each batch, and in a divided world with the numbers of the
    batch and each slice; `after` with each item.
    Raises: errors of `before`; DataError naming unusable samples.
    """
    tally.forget()
    with inference.valid(model):
        batches = watched(loader.epoch(0), f"{name}: batches", len(loader))
        for number, batch in enumerate(batches):
            before(number)
            is_sliced, items = isinstance(batch, Sliced), Sliced()
            for slice_number, part in batch.items() if is_sliced else [(0, batch)]:
                place = (number, slice_number) if is_sliced else (number,)
                if is_sliced:
                    before(*place)
                try:
                    with autocast():
                        item = (step or model.valid_step)(part)  # type: ignore[operator]
                except errors.SampleError as error:
                    raise error.located(loader, 0, *place) from error
                except Exception as error:
                    explain_step(error, model, part)
                    raise
                after(item)
                items[slice_number] = item
            tally.add(items if is_sliced else items[0], batch)
            item, items = None, Sliced()  # outputs are freed before the next are computed
    return tally.close_epoch()


@dataclass
class Evaluator:
    """Measures a model on a split and records it, in streams of (seed, split, update)."""

    state: LearnerState
    updater: Updater
    interrupter: Interrupter

    def grant_requests(self, sets: Mapping[str, Loader], save: Callable[[], None]) -> None:
        """Saves or validates as requested; training then continues unchanged.

        A validation on request is only logged: no schedule, early stopping or best value observes
        it. A request to stop ends it.
        """
        model, metric_log = self.state.model, self.state.metric_log
        with metric_log.throughput.halted(), suppress(errors.Interrupted):
            for request in self.interrupter.requests():
                if request == "save":
                    save()
                else:
                    # a user's loader or step may draw from them
                    with randomness.global_generators_restored():
                        for split, loader in sets.items():
                            for name, weights in self._passes(split):
                                with weights:
                                    values = measure(model, loader, **self._start_pass(name))
                                metric_log.record_request(name, values)
                log.info("%s on request, after update %d", request, metric_log.progress.updates)

    def evaluate(self, loader: Loader) -> Values:
        """The metrics over one pass with the weights to evaluate; recorded nowhere."""
        with self.state.optimizer.evaluated(), randomness.global_generators_restored():
            return measure(self.state.model, loader, **self._start_pass("evaluate"))

    def predict(self, loader: Loader) -> Tensor:
        """The outputs of one pass with the weights to evaluate: [samples, ...], on the CPU.

        Raises: TypeError if an item has no output.
        """
        outputs: list[Tensor] = []
        unread: list[Tensor] = []  # on the device: reading waits for it

        def read() -> None:
            outputs.append(torch.cat(unread).cpu())
            unread.clear()

        def keep(item: Any) -> None:
            if not isinstance(getattr(item, "output", None), Tensor):
                kind = type(item).__name__
                remedy = "return an item with it, as andiron.outputs.ClassificationOutput"
                raise TypeError(f"valid_step returns {kind}, which has no output tensor; {remedy}")
            if len(unread) * item.output.numel() > MOST_UNREAD:
                read()
            unread.append(item.output)

        tally, options = Tally([], self.updater.world), self._options
        with self.state.optimizer.evaluated(), randomness.global_generators_restored():
            measure(self.state.model, loader, tally, name="predict", after=keep, **options)
        read()
        return torch.cat(outputs)

    @property
    def _options(self) -> Plain:
        return {"step": self.updater.valid_step, "autocast": self.updater.precision.autocast}

    def validate(self, sets: Mapping[str, Loader]) -> None:
        """Measures the model on every set, and with each average of its weights as `set`-<average>.

        After a pass over `valid`, shows the model's samples; at the end lets schedules such as
        Plateau observe.
        """
        state = self.state
        for split, loader in sets.items():
            for name, weights in self._passes(split):
                with weights:
                    values = measure(state.model, loader, **self._start_pass(name))
                state.metric_log.record_pass(name, values)
            if split == "test":
                state.metric_log.answers.gather(self.updater.world)
            if split == "valid" and isinstance(state.model, Shows):
                randomness.start_stream(state.position.seed, "samples")  # the same after any pass
                with state.optimizer.evaluated(), inference.valid(state.model) as model:
                    state.metric_log.show_samples(split, model.samples())
        for schedule in state.observing_schedules():
            if state.is_measured(getattr(schedule, "split", "valid"), sets):
                schedule.observe(dict(state.metric_log.latest))
        for name in sets.keys() & state.validations:
            state.validations[name].done(state.position.updates)

    def _passes(self, split: str) -> Iterator[tuple[str, ExitStack]]:
        """The name of each pass over a split, and a context in which the model has its weights."""
        yield split, self.state.optimizer.evaluated()
        for name, average in self.state.averages.items():
            if average.count:  # else it holds only the initial weights
                yield f"{split}-{name}", average.swapped_in(self.state.model)

    def _start_pass(self, split: str) -> Plain:
        """The arguments of `measure` for a pass, whose random stream is started.

        `measure` then raises Interrupted before a batch at which the run is asked to stop.
        """
        at = self.state.position

        def start_batch(batch: int, *slice_number: int) -> None:
            if slice_number:
                randomness.start_stream(at.seed, split, at.updates, batch, *slice_number)
            elif reason := self.interrupter.at(split, at.updates, batch):
                raise reason

        randomness.start_stream(at.seed, split, at.updates)  # independent of earlier draws
        options = {
            "name": split,
            "tally": self.state.metric_log.valid_tally,
            "before": start_batch,
            **self._options,
        }
        if split == "test":
            self.state.metric_log.answers.forget()
            options["after"] = self.state.metric_log.answers.add
        return options


def named_sets(valid: object, more: Named | None, known: Named) -> Plain:
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
