"""Batches of sequences with padding, drawn from a seed, and what a metric makes of them."""

import torch
from hypothesis import strategies as st
from torch.nn import functional

from andiron.metrics.tally import Tally
from andiron.outputs import IGNORED, SequenceOutput

CLASSES = 5
BATCHES = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**32)), min_size=1, max_size=5
)


def drawn(samples, length, seed):
    """A batch whose logits predict most tokens, a third of them padding, and its cross entropy."""
    stream = torch.Generator().manual_seed(seed)
    targets = torch.randint(CLASSES, (samples, length), generator=stream)
    logits = torch.randn(samples, length, CLASSES, generator=stream) + 2 * functional.one_hot(
        targets, CLASSES
    )
    targets = torch.where(torch.rand(samples, length, generator=stream) < 0.3, IGNORED, targets)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    return SequenceOutput(loss, logits, targets, has_ignored=True, num_bytes=samples * length * 2)


def measured(metric, items):
    """The epoch's number, a window closed after every second batch."""
    tally = Tally([metric])
    for number, item in enumerate(items):
        tally.add(item)
        if number % 2:
            tally.close_window()
    return tally.close_epoch().get(metric.name)
