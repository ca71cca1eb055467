"""The samples of updates that are made again: loss, class, prediction, random numbers of each."""

import math
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from statistics import median_low
from typing import Any

import torch
from torch import Tensor

from andiron import errors, gradients
from andiron.data import structures
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import is_stream, sample_name, uses_default_generators
from andiron.data.batchers import Gather, Request, augmentation_name
from andiron.distributed import Sliced
from andiron_lab.ask.instruments import Instrument, Update
from andiron.wings.trained import predictions
from andiron.wings.trained.evaluating import losses_of

NONE = -math.inf  # the loss of a sample that has none of its own
HUGE = 10  # times the largest value of the batch's median sample
Row = dict[str, Any]  # as in the answers of `andiron samples`


class SeenSamples(Instrument):
    """Sees at most `most` samples of each wanted update, or only one, by its index or name.

    `losses` has sum and number of each sample's losses by index, of all updates that are made.
    Raises: SelectionError if a sample of a stream, or none of its updates, is wanted.
    """

    newest: Update

    def __init__(
        self, wanted: Container[int], most: int | None = None, sample: int | str | None = None
    ):
        self.updates, self.losses = list[Row](), defaultdict[int, list[float]](lambda: [0.0, 0])
        self._wanted, self._most, self._sample = wanted, most, sample

    def before(self, update: Update) -> None:
        if self._sample is not None or not self._wanted:
            if any(map(is_stream, _sources(update))):
                raise errors.SelectionError(
                    f"{update.splits.name}: an index of a stream is another sample in each epoch; "
                    "ask by --update or --spikes"
                )

    def computed(self, update: Update) -> None:
        self.newest, rows = update, list[tuple[Any, ...]]()
        gathered = update.learner.updater.world.gathered  # from each process its part
        for parts in _micro_batches(update):
            own = [row for part in parts for row in _rows(*part)]
            everyone = [*chain(*gathered([row[:3] for row in own]))]
            for index, loss, _ in everyone:
                if loss != NONE:
                    total, times = self.losses[index]
                    self.losses[index] = [total + loss, times + 1]
            columns = zip(*(largest for _, _, largest in everyone), strict=False)
            medians = [median_low([v for v in column if v == v] or column) for column in columns]
            rows += [(*row[:2], _relative_size(row[2], medians), *row[3:]) for row in own]
        if update.number not in self._wanted:
            return
        chosen = [row for row in rows if self._sample in (None, row[0], self.name(row[0]))]
        chosen = sorted(chosen, key=_rank)[: self._most]
        described = chain(*gathered([(_rank(row), self._described(*row)) for row in chosen]))
        samples = [row for _, row in sorted(described, key=itemgetter(0))]
        mean: Any = update.gradients
        self.updates.append({
            "update": update.number, "epoch": update.epoch + 1, "data": update.splits.name,
            "loss": None if mean.loss is None else float(mean.loss),
            "grad_norm": float(gradients.global_norm(mean)),
            "samples": samples[: self._most],
        })  # fmt: skip

    def name(self, index: int) -> str:
        """The name of a sample, by default its index."""
        return sample_name(self.newest.train.dataset, index) or str(index)

    def _described(
        self, index: int, loss: float, size: float | None, item: Any, place: int
    ) -> Row:
        """A sample; one without a loss has no classes either."""
        update, name = self.newest, self.name(index)
        row: Row = {"index": index, "name": name, "loss": None, "true": None, "predicted": None}
        if loss != NONE:
            model, facts = update.learner.model, update.splits.facts
            output = item.network_output[[place]]
            (prediction,) = predictions.of_batch(model, output, facts, [name])
            true = predictions.target_text(model, facts, item.targets[place])
            row |= {"loss": loss, "true": true, "predicted": prediction.text}
        return row | {"relative_size": size, **_drawn(update, index)}


def _rank(row: Sequence[Any]) -> tuple[Any, ...]:
    """The worst first: a NaN may make every loss of its batch one, a huge value every gradient."""
    _, loss, size, *_ = row
    return size == size, (size or 0) < HUGE, not math.isnan(loss), -loss


def _relative_size(largest: Sequence[float], medians: Sequence[float]) -> float | None:
    """The largest value of a sample, relative to the median sample; NaN if it is not finite."""
    if not all(map(math.isfinite, largest)):
        return math.nan
    pairs = zip(largest, medians, strict=False)
    return max((a / b if b else math.inf if a else 1.0 for a, b in pairs), default=None)


def _micro_batches(update: Update) -> Iterator[list[tuple[Sequence[int], Any, Any]]]:
    """Indices, batch and item of the parts of each micro-batch: one, or its slices here."""
    for indices, batch, item in zip(update.indices, update.batches, update.items, strict=True):
        if isinstance(batch, Sliced):
            places = dict(update.learner.updater.world.parts(indices))
            yield [(places[number], batch[number], item.get(number)) for number in batch]
        else:
            yield [(indices, batch, item)]


def _rows(indices: Sequence[int], batch: object, item: Any) -> Iterator[tuple[Any, ...]]:
    """Index, loss, largest value of each tensor, item and place of each sample of a part."""
    losses = none = torch.full((len(indices),), NONE)
    with suppress(errors.MismatchError):  # an own loss compares other shapes
        losses = losses_of(item).cpu()
    targets: Any = getattr(batch, "targets", None)
    if losses.shape != none.shape or (
        isinstance(targets, Tensor) and not item.targets.is_floating_point()
        and (targets != targets.round()).any()  # probabilities, of which the item has the likeliest
    ):  # fmt: skip
        losses = none
    largest = [
        tensor.abs().reshape(len(none), -1).amax(1).cpu().double()
        for tensor in structures.tensors_in(getattr(batch, "inputs", batch))
        if tensor.is_floating_point() and tensor.numel() and tensor.shape[:1] == none.shape
    ]
    sizes = torch.stack(largest, 1) if largest else none[:, None][:, :0]
    columns = zip(indices, losses.tolist(), sizes.tolist(), strict=True)
    return ((*values, item, place) for place, values in enumerate(columns))


def _sources(update: Update) -> Iterator[Any]:
    """The data set, and those that it is made from; the last is the user's own."""
    source: Any = update.train.dataset
    while source is not None:
        yield source
        source = getattr(source, "dataset", None)


def _drawn(update: Update, index: int) -> Row:
    """The numbers that augmentations drew for a sample; the random changes without a record."""
    train, numbers, unrecorded = update.train, Row(), list[str]()
    if uses_default_generators(train.dataset):
        *_, source = _sources(update)
        unrecorded.append(type(source).__name__)
    augmentations: Any = train.recorded["augmentation"]
    one = torch.tensor([index], device=train.device if train.in_memory else "cpu")
    seed = train.shuffle_seed or 0
    raw = augmentations and Gather(train.dataset, (), seed)(Request(update.epoch, one))
    first = Draws(seed, update.epoch, one, white=getattr(train.batcher, "scale", None))
    for place, augmentation in enumerate(augmentations):
        draws, before = replace(first, noted={}, place=place), getattr(raw, "targets", None)
        raw = augmentation(raw, draws)
        if draws.noted and getattr(raw, "targets", None) is before:  # mixes no samples
            numbers |= {purpose: drawn[0].tolist() for purpose, drawn in draws.noted.items()}
        else:
            unrecorded.append(augmentation_name(augmentation))
    return {"drawn": numbers, "unrecorded": unrecorded}
