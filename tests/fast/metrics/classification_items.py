"""Items of classifiers in uneven batches, with padding, ties and absent classes; measuring them."""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import numpy
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st

from andiron.metrics import Tally
from andiron.outputs import (
    IGNORED, BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
    SequenceOutput,
)  # fmt: skip

LOSS = torch.tensor(0.0)
laws = settings(derandomize=True, deadline=None, max_examples=40)
averages = ("micro", "macro", "weighted", "none", None)


@dataclass(frozen=True)
class Drawn:
    """Batches in order, and their rows side by side, those that are padding included."""

    items: tuple
    logits: torch.Tensor
    targets: torch.Tensor

    @property
    def true(self) -> numpy.ndarray:
        """The targets that count, in a line."""
        return self.targets[self.targets != IGNORED].numpy()

    @property
    def kept(self) -> torch.Tensor:
        """The logits of the targets that count, float64."""
        return self.logits[self.targets != IGNORED].double()

    @property
    def predicted(self) -> numpy.ndarray:
        """The decisions on the targets that count."""
        return (self.kept.argmax(-1) if self.kept.ndim == 2 else (self.kept > 0).long()).numpy()


@st.composite
def classes(draw, ignored=True, sequences=True):
    """One of two to five classes for every row."""
    number = draw(st.integers(2, 5))
    allowed = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=number, unique=True))
    kind = SequenceOutput if sequences and draw(st.booleans()) else ClassificationOutput
    inner = (draw(st.integers(1, 4)),) if kind is SequenceOutput else ()
    return _drawn(draw, kind, inner, (number,), torch.tensor(sorted(allowed)), ignored)


@st.composite
def binary(draw, ignored=True):
    """Yes or no for every row."""
    allowed = draw(st.sampled_from([[0, 1], [0, 1], [0], [1]]))
    return _drawn(draw, BinaryClassificationOutput, (), (), torch.tensor(allowed), ignored)


@st.composite
def labels(draw, ignored=False):
    """Yes or no to each of two to four labels, for every row."""
    allowed, inner = draw(st.sampled_from([[0, 1], [0, 1], [0], [1]])), (draw(st.integers(2, 4)),)
    return _drawn(draw, MultiLabelClassificationOutput, inner, (), torch.tensor(allowed), ignored)


def _drawn(draw, kind, inner, outer, allowed, ignored):
    stream = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    coarse, has_ignored = draw(st.booleans()), ignored and draw(st.booleans())
    items = []
    for size in draw(st.lists(st.integers(1, 11), min_size=1, max_size=5)):
        logits = 2 * torch.randn(size, *inner, *outer, generator=stream)
        targets = allowed[torch.randint(len(allowed), (size, *inner), generator=stream)]
        if has_ignored:
            targets[torch.rand(targets.shape, generator=stream) < 0.3] = IGNORED
        items.append(
            kind(LOSS, logits.round() if coarse else logits, targets, has_ignored=has_ignored)
        )
    flat = (
        (lambda tensor: tensor.flatten(0, 1)) if kind is SequenceOutput else (lambda tensor: tensor)
    )
    logits, targets = (
        torch.cat([flat(getattr(item, name)) for item in items]) for name in ("output", "targets")
    )
    return Drawn(tuple(items), logits, targets)


def measured(metric, items):
    """The value of the batches: a number, several by name, a page, or None."""
    tally = Tally([metric])
    for item in items:
        tally.add(item)
    return closed_value(metric, tally)


def shuffled(metric, items, data):
    """Items with the batches in any order and windows closed anywhere between them."""
    tally = Tally([metric])
    for item in data.draw(st.permutations(items)):
        tally.add(item)
        if data.draw(st.booleans()):
            tally.close_window()
    return closed_value(metric, tally)


def closed_value(metric, tally):
    values = tally.close_epoch()
    if metric.name in tally.texts:
        return tally.texts[metric.name]
    by_name = {
        name.removeprefix(f"{metric.name}/"): value for name, value in values.items() if "/" in name
    }
    return by_name or values.get(metric.name)


def close(expected, *, rel, abs):
    """The expected value or values with a tolerance; None where none is expected."""
    return None if expected is None else pytest.approx(expected, rel=rel, abs=abs)


def padded(item):
    """The item with ignored rows before and after it, whose logits are inf and nan."""
    size = len(item.targets)
    output = torch.full((size + 2, *item.output.shape[1:]), torch.nan)
    targets = torch.full((size + 2, *item.targets.shape[1:]), IGNORED)
    output[0], output[1:-1], targets[1:-1] = torch.inf, item.output, item.targets
    return replace(item, output=output, targets=targets, has_ignored=True)


def on_meta(item):
    """The item without any data: whoever needs a value, or a shape that hangs on one, fails."""
    moved = {field.name: getattr(item, field.name) for field in fields(item)}
    return replace(
        item,
        **{
            name: value.to("meta")
            for name, value in moved.items()
            if isinstance(value, torch.Tensor)
        },
    )


@contextmanager
def unwarned():
    """scikit-learn warns where it has to make up a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
