"""Routes every measured value of a run to the writers, the history and the display."""

import copy
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from andiron import errors
from andiron.distributed import World
from andiron.interrupter import Interrupter
from andiron.learner.extras.throughput import Throughput
from andiron.metrics.history import History
from andiron.metrics.tally import Tally
from andiron.plain.plain_values import Named, Plain
from andiron.progress import Progress
from andiron.protocols import Loader, Metric, Point, Renderer, Values
from andiron.render import text
from andiron.writers.fanout import Writers

Measured = tuple[Plain, dict[str, Tensor]]  # the state of the metrics
log = logging.getLogger("andiron.epoch")  # for experiment.log; the terminal has a renderer
between = logging.getLogger("andiron")


@runtime_checkable
class Answers(Protocol):
    """Counts what a model takes the samples of the test set for; for the summary."""

    def forget(self) -> None:
        """Starts over, for another pass."""

    def add(self, item: Any) -> None:
        """Counts one batch."""

    def gather(self, world: World) -> None:
        """Adds up the counts of all processes."""

    def worst(self, class_names: Sequence[str] | None) -> list[Plain]:
        """The classes with errors, as the summary has them."""


@runtime_checkable
class Interactive(Protocol):
    """A renderer that receives every logged value, and sends keys to the run."""

    def connect(self, interrupter: Interrupter, directions: Mapping[str, str]) -> None:
        """Called once before `start`: the target of keys; `highest` or `lowest` by metric."""

    def add(self, point: Point) -> None:
        """Receives a logged point in the training thread; should only store it."""


class MetricLog:
    """Counts the items of steps; hands values to the writers at log points and after passes."""

    def __init__(
        self,
        *,
        train_metrics: Sequence[Metric],
        valid_metrics: Sequence[Metric],
        writers: Writers,
        renderer: Renderer | None,
        stops_at_nonfinite: bool,
        device: torch.device,
        trace: Any,
        answers: Answers,
        world: World,
    ):
        self.train_tally = Tally(train_metrics, world)
        self.valid_tally = Tally(valid_metrics, world)  # of the pass under way, also of the test
        self.writers = writers
        self.renderer = renderer
        self._display = renderer if isinstance(renderer, Interactive) else None
        self.history = History([*train_metrics, *valid_metrics])
        self.progress = Progress(num_epochs=0)
        self.throughput = Throughput(device, world)
        self._device = device
        self._stops_at_nonfinite = stops_at_nonfinite
        self._trace = trace
        self.answers = answers

    @property
    def latest(self) -> dict[str, Values]:
        """The newest values of each split."""
        return self.progress.latest

    def start(
        self, train: Loader, length: tuple[int, int], epoch: int, updates: int, batch: int
    ) -> None:
        """Shows where a run of `length` (epochs, updates) starts; epoch and batch count from 0."""
        num_epochs, num_updates = length
        self.progress = replace(
            self.progress, num_epochs=num_epochs, num_updates=num_updates, updates=updates,
            first_updates=updates, num_batches=len(train), num_items=train.num_items,
            first_epoch=epoch + 1, first_batch=batch,
        )  # fmt: skip
        self.start_epoch(epoch, batch)
        if self.renderer:
            self.renderer.start(self.progress)

    def start_epoch(self, epoch: int, batch: int) -> None:
        """Before the first batch of an epoch in this process; both are counted from 0."""
        self.progress.start_epoch(epoch, batch)
        self.throughput.start_epoch()

    def traced(self, batches: Iterator[object]) -> Iterator[Any]:
        """The batches; their updates are traced if a trace is configured."""
        return batches if self._trace is None else self._trace.over(batches, self.progress)

    def log_window(self, readings: Values, histograms: Mapping[str, Tensor]) -> None:
        """Records the means since the last log point, with the last update's readings and speed."""
        values, progress = self.train_tally.close_window(), self.progress
        speed = self.throughput.close_window(progress.num_items / max(progress.num_batches, 1))
        if speed:
            self._record("train", values, readings | speed, histograms=histograms)

    def close_epoch(self, is_whole: bool = True) -> bool:
        """Records the rest of the window and the means of the epoch; returns whether it has any."""
        self.log_window({}, {})  # after a skipped last update
        self.throughput.close_epoch()
        if values := self.train_tally.close_epoch(is_whole):
            self._record("train", values, {}, whole_epoch=True)
        return bool(values)

    def record_pass(self, split: str, values: Values) -> None:
        """Records the values of a pass over `split`, with the texts and pictures of its metrics."""
        tally = self.valid_tally
        shown = {"texts": tally.texts, "images": tally.images, "decisions": tally.decisions}
        self._record(split, values, {}, whole_epoch=True, **shown)

    def validated(self, split: str) -> None:
        """Logs a line for a validation within an epoch, which no line of an epoch shows."""
        measured = text.values(self.latest.get(split, {}))
        between.info("update %d: %s %s", self.progress.updates, split, measured)

    def record_request(self, split: str, values: Values) -> None:
        """Logs a pass on request; no best value, rule or checkpoint observes it."""
        point = Point(split, self.progress.updates, self.progress.epoch, values)
        self.writers.write(point)
        if self._display is not None:
            self._display.add(point)

    def show_samples(self, split: str, samples: Mapping[str, str | Tensor]) -> None:
        """Records the texts and images that the model generates after a validation."""
        images = {name: sample for name, sample in samples.items() if isinstance(sample, Tensor)}
        texts = {name: sample for name, sample in samples.items() if isinstance(sample, str)}
        progress = self.progress
        point = Point(split, progress.updates, progress.epoch, {}, texts=texts, images=images)
        self.writers.write(point)

    def epoch_ended(self) -> None:
        """Shows the line of an epoch, after training and validation."""
        seconds = self.throughput.seconds_of_epoch
        log.info(text.line(self.progress, seconds))
        if self.renderer:
            self.renderer.epoch_ended(self.progress, seconds)

    def stop(self) -> None:
        """Closes the display, and writes the trace of updates if one was started."""
        if self.renderer:
            self.renderer.stop()
        if self._trace is not None:
            self._trace.stop()

    def show(self, summary: Plain) -> None:
        """Shows the summary of the run."""
        if self.renderer:
            self.renderer.show(summary)

    def state_dict(self) -> Measured:
        """Metrics, the open window and writers' positions: plain values, and tensors."""
        tally, tensors = self.train_tally.state_dict()
        return {
            "tally": tally,
            "window": [self.throughput.batches, self.throughput.updates],
            "seconds": self.throughput.training_seconds,
            "history": self.history.state_dict(),
            "latest": copy.deepcopy(self.latest),
            "writers": self.writers.positions(),
        }, tensors

    def load_state_dict(self, plain: Named, tensors: Mapping[str, Tensor]) -> None:
        """Continues from a saved state; the writers keep their positions.

        Raises: ValueError if other metrics were measured.
        """
        self.train_tally.load_state_dict(plain["tally"], tensors, self._device)
        latest = copy.deepcopy(plain["latest"])
        measured = dict.fromkeys(latest, -1)
        self.progress = replace(self.progress, latest=latest, measured=measured)
        self.throughput.resume(plain["seconds"], *plain["window"])
        self.history.load_state_dict(plain["history"])

    def _record(
        self,
        split: str,
        values: Values,
        readings: Values,
        *,
        whole_epoch: bool = False,
        **shown: Any,
    ) -> None:
        progress, loss = self.progress, values.get("loss", 0.0)
        if self._stops_at_nonfinite and not math.isfinite(loss):
            raise errors.NonFiniteError(
                f"{split} loss is {loss} after update {progress.updates} (epoch {progress.epoch}); "
                "the weights are unusable from then on: lower lr, or inspect the batches just "
                "before"
            )
        every = {**values, **readings}
        point = Point(split, progress.updates, progress.epoch, every, whole_epoch, **shown)
        progress.latest[split], progress.measured[split] = values, progress.updates
        if whole_epoch:
            self.history.add(point)
        self.writers.write(point)
        if self._display is not None:
            self._display.add(point)
