"""The values of several metrics over a window of batches, and over the epoch the windows make up.

>>> from andiron.metrics import Accuracy, Loss
>>> from andiron.outputs import ClassificationOutput
>>> tally = Tally([Loss(), Accuracy()])
>>> logits, targets = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])
>>> tally.add(ClassificationOutput(torch.tensor(0.75), logits, targets))
>>> tally.close_epoch()
{'loss': 0.75, 'accuracy': 0.5}
"""

import operator
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.distributed import ALONE, Sliced, World
from andiron.metrics import sliced_window, tally_state
from andiron.outputs import ClassificationOutput
from andiron.plain import readable
from andiron.protocols import Decisions, Metric, Parts, Values

MOST_SHOWN = 300  # characters
LARGEST_KEPT = 16_384  # numbers in the output of an item that may wait: 64 KiB of float32
MOST_KEPT = 256  # items that may wait: 16 MiB together


class Tally:
    """The values of `metrics` over a window and over an epoch, weighted by what was counted.

    Adding a batch reads nothing back from the device. Closing a window does, once for each part of
    each metric; from there on an epoch's sums are float64, so a long epoch loses no precision.
    Where every metric has `count_items`, small items wait for the end of their window and are then
    counted in one operation, which gives the same bits as counting them one by one.
    `texts`, `images` and `decisions` are the Markdown pages, pictures and decisions by threshold of
    the last window or epoch closed. In a divided `world`, items are Sliced, and closing a window or
    reading the state merges what all processes counted: all of them do so at the same time.
    """

    def __init__(self, metrics: Sequence[Metric], world: World = ALONE):
        self.metrics: list[Any] = list(metrics)
        self._world = world
        self.forget()
        # a subclass with another __call__ does not inherit how to count many items
        self._can_wait = all("count_items" in vars(type(metric)) for metric in self.metrics)
        self.texts: dict[str, str] = {}
        self.images: dict[str, Tensor] = {}
        self.decisions: dict[str, Decisions] = {}

    def add(self, item: Any, batch: Any = None) -> None:
        """Counts one batch; `batch` is for metrics that declare `needs_batch`."""
        may_wait = self._can_wait and not self._window and len(self._items) < MOST_KEPT
        if may_wait and _is_small(item):
            self._items.append(item)
            return
        self._count_items()
        if isinstance(item, Sliced):
            parts = {number: self._parts(part, batch[number]) for number, part in item.items()}
            self._window.append(Sliced(parts))
        else:
            self._window.append(self._parts(item, batch))

    def close_window(self) -> Values:
        """The numbers since the last window was closed; empty if no batch was added."""
        with self._explained():
            return self._values(self._move_window())

    def close_epoch(self) -> Values:
        """The numbers since the last epoch was closed, an open window included."""
        with self._explained():
            self._move_window()
            values = self._values(self._epoch)
        self.forget()
        return values

    def forget(self) -> None:
        """Drops what was counted since the last epoch was closed."""
        self._items: list[Any] = []  # of the window, not yet counted
        self._window: list[Any] = []  # of each batch, or slice of one, the parts of each metric
        self._epoch: list[Any] = [None] * len(self.metrics)
        self._is_restored = False  # whether parts in it come from a file

    def state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The open window, batch by batch, and the open epoch; merging early rounds differently."""
        self._count_items()
        tensors: dict[str, Tensor] = {}
        counted, places = self._window, {}
        if self._world.is_divided:
            batches = sliced_window.of_all(self._window, self._world)
            counted = [parts for batch in batches for parts in batch.values()]
            places = {"slices": [[*batch] for batch in batches]}
        window, epoch = (tally_state.plain(part, tensors) for part in (counted, self._epoch))
        names = [metric.name for metric in self.metrics]
        return {"metrics": names, "window": window, "epoch": epoch} | places, tensors

    def load_state_dict(
        self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device
    ) -> None:
        """Continues from `state_dict`; tensors that were on a GPU are moved to `device`.

        Raises: MismatchError if the state is of other metrics; DataError if it is not a tally's.
        """
        names = [metric.name for metric in self.metrics]
        if plain["metrics"] != names:
            saved = f"saved while {', '.join(plain['metrics'])[:MOST_SHOWN]} were measured"
            raise errors.MismatchError(f"{saved}, not {', '.join(names)}; measure the same")
        self._items = []
        tally_state.check(self.metrics, plain, tensors)
        self._window, self._epoch = (
            tally_state.restored(plain[part], tensors, device) for part in ("window", "epoch")
        )
        if self._world.is_divided:
            places = plain.get("slices") or [[0] for _ in self._window]
            self._window = sliced_window.own(self._window, places, self._world)
        self._is_restored = True

    def _explained(self) -> AbstractContextManager[None]:
        """While parts from a file are open, blames an error on the file."""
        return tally_state.failures_explained() if self._is_restored else nullcontext()

    def _parts(self, item: Any, batch: Any = None) -> list[Parts]:
        parts: list[Parts] = []
        for metric in self.metrics:
            try:
                needs_batch = getattr(metric, "needs_batch", False)
                parts.append(metric(item, batch) if needs_batch else metric(item))
            except Exception as error:
                _explain(error, metric, item)
                raise
        return parts

    def _count_items(self) -> None:
        """Counts the waiting items one by one: those of a long window, and before it is saved."""
        self._window += map(self._parts, self._items)
        self._items = []

    def _move_window(self) -> list[Any]:
        """The merged parts of the open window, now part of the epoch; None where nothing is."""
        batches, items, self._window, self._items = self._window, self._items, [], []
        if items:
            batches = [[metric.count_items(items) for metric in self.metrics]]
        parts: list[Any] | None = None
        if self._world.is_divided:
            parts = sliced_window.merged(self.metrics, batches, self._world, _merged)
        elif batches:
            parts = list(map(_merged, self.metrics, zip(*batches, strict=True)))
        if parts is None:
            return [None] * len(self.metrics)
        self._epoch = [
            new if old is None else type(new)(map(operator.add, old, new))
            for old, new in zip(self._epoch, parts, strict=True)
        ]
        return parts

    def _values(self, parts: list[Any]) -> Values:
        """The numbers by name, several of one metric as name/part; fills `texts` and its like."""
        numbers: Values = {}
        self.texts, self.images, self.decisions = {}, {}, {}
        for metric, merged in zip(self.metrics, parts, strict=True):
            value = None if merged is None else _value(metric, merged)
            named = {metric.name: value}
            if isinstance(value, Mapping):
                named = {f"{metric.name}/{part}": inner for part, inner in value.items()}
            for name, each in named.items():
                if isinstance(each, str):
                    self.texts[name] = each
                elif isinstance(each, Tensor):
                    self.images[name] = each
                elif isinstance(each, Decisions):
                    self.decisions[name] = each
                elif each is not None:
                    numbers[name] = each
        return numbers


def _is_small(item: Any) -> bool:
    """Whether an item may wait: on a GPU its memory may belong to a CUDA graph, which reuses it."""
    return (
        type(item) is ClassificationOutput
        and type(item.weight) is int
        and not item.has_ignored
        and item.output.numel() <= LARGEST_KEPT
        and item.loss.is_cpu
        and not (item.loss.requires_grad or item.output.requires_grad)
    )


def _explain(error: Exception, metric: Metric, item: Any) -> None:
    """Raises a MismatchError for what the metric cannot measure, but for the user's own errors."""
    given = errors.shapes(item, "output", "targets")
    what = f"metrics.{metric.name}: cannot measure {type(item).__name__}{given and ' with '}{given}"
    errors.explain(error, what, f"leave it out: ~metrics.{metric.name}")


def _merged(metric: Metric, batches: Sequence[Parts]) -> Any:
    """The parts of several batches merged: two floats for a mean, sums, or lists of tensors."""
    columns = zip(*batches, strict=True)
    try:
        if not hasattr(metric, "value"):
            return tuple(map(_total, columns))
        if getattr(metric, "gathers", False):
            # one tensor for a window, in a list, so that the windows of an epoch are joined once
            return [[torch.cat(parts).detach().cpu()] for parts in columns]
        return [_summed(parts) for parts in columns]
    except Exception as error:
        what = f"metrics.{metric.name}: gives {readable.shortened(repr(batches[0]))} for a batch"
        errors.explain(error, what, "return (total, count), or tensors for a method value")
        raise


def _value(metric: Any, parts: Sequence[Any]) -> Any:
    """What the merged parts come to; the default of a metric without `value` is the mean."""
    if hasattr(metric, "value"):
        return metric.value(*(torch.cat(p) if isinstance(p, list) else p for p in parts))
    total, count = parts
    return total / count if count else None


def _total(values: Sequence[Any]) -> float:
    """The sum as a Python number: one addition on the device for all batches, and one read."""
    if isinstance(values[0], Tensor):
        return float(torch.cat([value.reshape(-1) for value in values]).sum())
    return float(sum(values))


def _summed(parts: tuple[Tensor, ...]) -> Tensor:
    """The sum in float64 on the CPU; MPS has no float64 and adds in the parts' own dtype."""
    stacked = torch.stack(parts).detach()
    if stacked.device.type != "mps" and stacked.is_floating_point():
        stacked = stacked.double()
    return stacked.sum(0).cpu().double()
