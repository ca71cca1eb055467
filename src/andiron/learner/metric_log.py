"""Everything a run measures, and where each value goes: the writers, the history, the screen."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.metrics import History, Tally
from andiron.protocols import (
    Loader,
    Metric,
    Point,
    Progress,
    Renderer,
    Rewinds,
    Statistic,
    Values,
    Writer,
)
from andiron.render import plain
from andiron.learner.machine_usage import Usage

SECONDS_BETWEEN_READINGS = 1.0  # of the machine: a tiny step would feel one at every log point
log = logging.getLogger("andiron.epoch")  # for experiment.log; the terminal has a renderer


class Journal:
    """Counts what the steps return and hands the means to every writer at each log point and epoch."""

    def __init__(
        self,
        *,
        train_metrics: Sequence[Metric | Statistic],
        valid_metrics: Sequence[Metric | Statistic],
        writers: Sequence[Writer],
        renderer: Renderer | None,
        num_epochs: int,
        refuses_nonfinite: bool = True,
        device: torch.device | None = None,
    ):
        self.train_tally, self.valid_tally = Tally(train_metrics), Tally(valid_metrics)
        self.writers = list(writers)
        self.renderer = renderer
        self.history = History([*train_metrics, *valid_metrics])
        self.progress = Progress(num_epochs)
        self.refuses_nonfinite = refuses_nonfinite
        self.seconds = 0.0  # spent in training epochs, validation and checkpoints left out
        self._window_started = self._epoch_started = 0.0
        self._window_batches = self._window_updates = 0
        self._window_waited = 0.0  # seconds
        self._usage, self._usage_read = Usage(device), time.perf_counter()

    def start(self, train: Loader, epoch: int, updates: int, batch: int = 0) -> None:
        """Before the first update: where the run stands, for the renderer to show."""
        self.progress.num_batches, self.progress.num_items = len(train), train.num_items
        self.progress.updates = updates
        self.progress.epoch = self.progress.first_epoch = epoch + 1
        self.progress.first_batch = batch
        if self.renderer:
            self.renderer.start(self.progress)

    def start_epoch(self, epoch: int, batch: int = 0) -> None:
        """Before the first batch of an epoch that is trained here; both are counted from 0."""
        self.progress.epoch, self.progress.batch = epoch + 1, batch
        self._epoch_started = self._window_started = time.perf_counter()

    def waited(self, seconds: float) -> None:
        """After each time that the step had to wait for its batches."""
        self._window_waited += seconds

    def trained(self, items: Sequence[Any], updates: int) -> None:
        """After each update, with the item of every batch in it; nothing is read back from the device."""
        for item in items:
            self.train_tally.add(item)
        self.progress.batch += len(items)
        self.progress.updates = updates
        self._window_batches += len(items)
        self._window_updates += 1

    def start_pass(self) -> None:
        """Before the first batch of a pass that only measures; of one that was left nothing is counted."""
        self.valid_tally.forget()

    def measured(self, item: Any) -> None:
        """After each batch of a pass that only measures."""
        self.valid_tally.add(item)

    def log_window(self, readings: Values, histograms: Mapping[str, Tensor] | None = None) -> None:
        """The means since the last log point, what was read at the last update, and the speed."""
        values = self.train_tally.close_window()
        now = time.perf_counter()
        if self._window_batches:
            readings = {**readings, **self._speed(now - self._window_started), **self._machine(now)}
            self._record("train", values, readings, histograms=histograms)
        self._window_started, self._window_waited = now, 0.0
        self._window_batches = self._window_updates = 0

    def _speed(self, seconds: float) -> Values:
        """Of the window: seconds an update, the fraction of them that it waited for data, and samples a second."""
        samples = self._window_batches * self.progress.num_items / self.progress.num_batches
        return {
            "time/step": seconds / self._window_updates,
            "time/data": self._window_waited / seconds,
            "time/samples_per_second": samples / seconds,
        }

    def _machine(self, now: float) -> Values:
        """What the process takes of the machine, unless that was read less than a second ago."""
        if now - self._usage_read < SECONDS_BETWEEN_READINGS:
            return {}
        self._usage_read = now
        return self._usage.readings()

    def close_train_epoch(self) -> None:
        """After the last batch of an epoch: its own means."""
        self.seconds += time.perf_counter() - self._epoch_started
        self._record("train", self.train_tally.close_epoch(), whole_epoch=True)

    def close_pass(self, split: str) -> Values:
        """After a pass that only measured: its means."""
        values = self.valid_tally.close_epoch()
        self._record(split, values, whole_epoch=True, texts=self.valid_tally.texts)
        return values

    def shown(self, split: str, samples: Mapping[str, str | Tensor]) -> None:
        """After a validation: what the model has to show, text or images."""
        texts = {name: sample for name, sample in samples.items() if isinstance(sample, str)}
        images = {name: sample for name, sample in samples.items() if isinstance(sample, Tensor)}
        point = Point(
            split, self.progress.updates, self.progress.epoch, {}, texts=texts, images=images
        )
        for writer in self.writers:
            writer.write(point)

    def epoch_ended(self) -> None:
        """After training and validation."""
        seconds = self._window_started - self._epoch_started
        log.info(plain.line(self.progress, seconds))
        if self.renderer:
            self.renderer.epoch_ended(self.progress, seconds)

    def stop(self) -> None:
        """After the last epoch, or when something went wrong."""
        if self.renderer:
            self.renderer.stop()

    def show(self, summary: dict[str, Any]) -> None:
        """Shows the summary of the run."""
        if self.renderer:
            self.renderer.show(summary)

    def state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What was measured, the window under way included, and how far each writer has come: plain values, and tensors."""
        tally, tensors = self.train_tally.state_dict()
        return {
            "tally": tally,
            "window": [self._window_batches, self._window_updates],
            "history": self.history.state_dict(),
            "latest": {split: dict(values) for split, values in self.progress.latest.items()},
            "seconds": self.seconds,
            "writers": [
                writer.position() if isinstance(writer, Rewinds) else None
                for writer in self.writers
            ],
        }, tensors

    def load_state_dict(
        self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device
    ) -> None:
        """Goes on from what `state_dict` gave; the writers stay where they are.

        Raises: ValueError if it is of other metrics.
        """
        self.train_tally.load_state_dict(plain["tally"], tensors, device)
        self._window_batches, self._window_updates = plain["window"]
        self.history.load_state_dict(plain["history"])
        self.progress.latest = {split: dict(values) for split, values in plain["latest"].items()}
        self.seconds = plain["seconds"]

    def rewind(self, positions: Sequence[Mapping[str, Any] | None], updates: int) -> None:
        """Takes the writers back to where they were, so that nothing is there twice; those that cannot go back stay."""
        for writer, position in zip(self.writers, positions, strict=False):
            if isinstance(writer, Rewinds) and position is not None:
                writer.rewind(position, updates)

    def close(self) -> None:
        """Closes the writers."""
        for writer in self.writers:
            writer.close()

    def _record(
        self,
        split: str,
        values: Values,
        more: Values | None = None,
        *,
        whole_epoch: bool = False,
        histograms: Mapping[str, Tensor] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        progress = self.progress
        for name, value in values.items():
            if self.refuses_nonfinite and name == "loss" and not math.isfinite(value):
                raise errors.NonFiniteError(
                    f"{split} loss is {value} after update {progress.updates} (epoch {progress.epoch}); "
                    "the weights are no good from there on: lower lr, or look at the batches just before"
                )
        point = Point(
            split,
            progress.updates,
            progress.epoch,
            {**values, **(more or {})},
            whole_epoch,
            histograms or {},
            texts or {},
        )
        progress.latest[split] = values
        self.history.add(point)
        for writer in self.writers:
            writer.write(point)
