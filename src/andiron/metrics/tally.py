"""The values of several metrics over a window of batches, and over the epoch of those windows.

>>> from andiron.metrics import Accuracy, Loss
>>> from andiron.outputs import ClassificationOutput
>>> tally = Tally([Loss(), Accuracy()])
>>> logits, targets = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])
>>> tally.add(ClassificationOutput(torch.tensor(0.75), logits, targets))
>>> tally.close_epoch()
{'loss': 0.75, 'accuracy': 0.5}
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.distributed import ALONE, Sliced, World
from andiron.metrics import metric_sums
from andiron.outputs import ClassificationOutput
from andiron.plain import fast_paths
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Decisions, Metric, Parts, Values

MOST_SHOWN = 300  # characters
LARGEST_KEPT = 16_384  # numbers in the output of an item that may wait: 64 KiB of float32
MOST_KEPT = 256  # items that may wait: 16 MiB together


class Tally:
    """The values of `metrics` over a window and over an epoch, weighted by counts.

    Adding a batch reads nothing back from the device. Closing a window does, once for each part of
    each metric; from there on an epoch's sums are float64, so a long epoch loses no precision.
    If every metric has `count_items`, small items are counted in one operation at the end of their
    window, with the same bits as one by one.
    `texts`, `images` and `decisions` are the Markdown pages, pictures and decisions by threshold of
    the last window or epoch closed. In a divided `world`, items are Sliced, and closing a window or
    reading the state merges the counts of all processes, which must all call it.
    """

    def __init__(self, metrics: Sequence[Metric], world: World = ALONE):
        self.metrics: list[Any] = list(metrics)
        self._world = world
        self.forget()
        # a subclass with its own __call__ does not inherit count_items
        self._can_wait = all("count_items" in vars(type(metric)) for metric in self.metrics)
        self.texts: dict[str, str] = {}
        self.images: dict[str, Tensor] = {}
        self.decisions: dict[str, Decisions] = {}

    def forget(self) -> None:
        """Drops everything counted since the last whole epoch."""
        self._items: list[Any] = []  # of the window, not yet counted
        self._window: list[Any] = []  # of each batch, or slice of one, the parts of each metric
        self._epoch: list[Any] = [None] * len(self.metrics)
        self._is_given = False  # whether `close_epoch` gave its numbers
        self._is_restored = False  # whether parts in it come from a file

    def add(self, item: Any, batch: Any = None, *, is_kept: bool = False) -> None:
        """Counts one batch; `batch` is for metrics that declare `needs_batch`.

        `is_kept`: nothing writes into the memory of item and batch again, so that it may wait.
        """
        may_wait = is_kept and self._can_wait and not self._window and len(self._items) < MOST_KEPT
        if (
            may_wait
            and _is_small(item, self._items)
            and item.targets is getattr(batch, "targets", None)
            and fast_paths.on["counted later"]
        ):
            self._items.append(item)
            return
        with torch.no_grad():  # an item that is not detached must not keep its graph alive
            self._count_items()
            if isinstance(item, Sliced):
                parts = {number: self._parts(part, batch[number]) for number, part in item.items()}
                self._window.append(Sliced(parts))
            else:
                self._window.append(self._parts(item, batch))

    def close_window(self) -> Values:
        """The numbers since the last window was closed; empty if no batch was added."""
        with self._file_blamed():
            return self._values(self._move_window())

    def close_epoch(self, is_whole: bool = True) -> Values:
        """The numbers since the last whole epoch, an open window included; {} if given already.

        If it is not whole, a longer run may complete it: its counts are kept.
        """
        with self._file_blamed():
            self._move_window()
            values = {} if self._is_given else self._values(self._epoch)
        self._is_given = True
        if is_whole:
            self.forget()
        return values

    def state_dict(self) -> tuple[Plain, dict[str, Tensor]]:
        """The open window, batch by batch, and the open epoch; merging early rounds differently."""
        self._count_items()
        tensors: dict[str, Tensor] = {}
        counted, places = self._window, {}
        if self._world.is_divided:
            batches = metric_sums.of_all(self._window, self._world)
            counted = [parts for batch in batches for parts in batch.values()]
            places = {"slices": [[*batch] for batch in batches]}
        window, epoch = (metric_sums.plain(part, tensors) for part in (counted, self._epoch))
        names = [metric.name for metric in self.metrics]
        plain = {"metrics": names, "window": window, "epoch": epoch} | places
        return plain | ({"given": True} if self._is_given else {}), tensors

    def load_state_dict(
        self, plain: Named, tensors: Mapping[str, Tensor], device: torch.device
    ) -> None:
        """Continues from `state_dict`; tensors that were on a GPU are moved to `device`.

        Raises: MismatchError if the state is of other metrics; DataError if it is not a tally's.
        """
        names = [metric.name for metric in self.metrics]
        if plain["metrics"] != names:
            saved = f"saved while {', '.join(plain['metrics'])[:MOST_SHOWN]} were measured"
            raise errors.MismatchError(f"{saved}, not {', '.join(names)}; measure the same")
        self._items = []
        metric_sums.check(self.metrics, plain, tensors)
        with metric_sums.failures_explained():
            self._window, self._epoch = (
                metric_sums.restored(plain[part], tensors, device) for part in ("window", "epoch")
            )
        if self._world.is_divided:
            places = plain.get("slices") or [[0] for _ in self._window]
            self._window = metric_sums.own(self._window, places, self._world)
        self._is_given = plain.get("given", False)
        self._is_restored = True

    def _file_blamed(self) -> AbstractContextManager[None]:
        """Blames errors on the file while its parts are in use."""
        return metric_sums.failures_explained() if self._is_restored else nullcontext()

    def _parts(self, item: object, batch: object = None) -> list[Parts]:
        parts = []
        for metric in self.metrics:
            try:
                needs_batch = getattr(metric, "needs_batch", False)
                parts.append(metric(item, batch) if needs_batch else metric(item))
            except Exception as error:
                _explain(error, metric, item)
                raise
        return parts

    def _count_items(self) -> None:
        """Counts the waiting items one by one: in a long window, and before saving."""
        self._window += map(self._parts, self._items)
        self._items = []

    def _move_window(self) -> list[Any]:
        """Moves the open window into the epoch; returns its merged parts, None where empty."""
        batches, items, self._window, self._items = self._window, self._items, [], []
        if items:
            batches = [[metric.count_items(items) for metric in self.metrics]]
        parts: list[Any] | None = None
        if self._world.is_divided:
            parts = metric_sums.merged_slices(self.metrics, batches, self._world)
        elif batches:
            parts = list(map(metric_sums.merged, self.metrics, zip(*batches, strict=True)))
        if parts is None:
            return [None] * len(self.metrics)
        self._is_given = False
        self._epoch = metric_sums.added(self._epoch, parts)
        return parts

    def _values(self, parts: list[Any]) -> Values:
        """The numbers by name; fills `texts` and so on."""
        numbers = {}
        self.texts, self.images, self.decisions = {}, {}, {}
        for metric, merged in zip(self.metrics, parts, strict=True):
            value = None if merged is None else metric_sums.value_of(metric, merged)
            for name, shown in metric_sums.named(metric.name, value).items():
                if isinstance(shown, str):
                    self.texts[name] = shown
                elif isinstance(shown, Tensor):
                    self.images[name] = shown
                elif isinstance(shown, Decisions):
                    self.decisions[name] = shown
                elif shown is not None:
                    numbers[name] = shown
        return numbers


def _is_small(item: object, others: Sequence[object]) -> bool:
    """Whether an item may wait beside `others`, to be counted with them in one operation."""
    if type(item) is not ClassificationOutput or type(item.weight) is not int or item.has_ignored:
        return False
    loss, output, targets = item.loss, item.output, item.targets
    shape, length, first = output.shape, targets.shape, others[0].output if others else output
    return (
        loss.dtype is torch.float32  # others would round the weights
        and not loss.dim()
        and output.numel() <= LARGEST_KEPT
        and len(shape) == 2 and len(length) == 1  # single elements: slices take 0.7 us each
        and length[0] == shape[0] and shape[1] == first.shape[1]
        and output.dtype is first.dtype
        and not (loss.requires_grad or output.requires_grad)
        and loss.is_cpu and output.is_cpu and targets.is_cpu
    )


def _explain(error: Exception, metric: Metric, item: object) -> None:
    """Raises a MismatchError if the item does not fit the metric; the user's own errors pass."""
    given = errors.shapes(item, "output", "targets")
    what = f"metrics.{metric.name}: cannot measure {type(item).__name__}{given and ' with '}{given}"
    remedy = f"leave it out, on the command line by ~metrics.{metric.name}"
    if item is None:
        remedy = "return an item from train_step and valid_step"
    if is_dataclass(item) and isinstance(error, AttributeError):
        known = ", ".join(field.name for field in fields(item))
        remedy = f"it has: {known}; correct it, or {remedy}"
    errors.explain(error, what, remedy)
