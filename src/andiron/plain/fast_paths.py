"""The fast paths of training: what each saves, and the public way that gives the same bits.

The law of a fast path: any of its inputs may change between two updates (an option, a module, a
hook, a tensor, a trainable flag), and it still equals the public way. Batches that a thread or
worker processes gather ahead are no fast path: they show a data set as it was some batches before.

>>> with off():
...     on["engine"]
False
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "ANDIRON_FAST_PATHS"  # 0 turns all off, in every process of a run
FAST_PATHS = {  # its saving, and the public way that it equals
    "fused step": "30 of 50 us of a small step: `step` of torch's fused optimizers",
    "plain step": "30 us a step, 1.3 s of imports: `step` with torch's wrappers",
    "engine": "15 us a step: `loss.backward()`",
    "named parameters": "30 us a step: `model.named_parameters()`",
    "finite check": "6 us a step, or more: `isfinite` of every gradient",
    "checked division": "a pass over the gradients: a division, then `isfinite`",
    "generators": "0.2 ms a step: `torch.manual_seed`",
    "batches together": "20 us a batch: batches gathered one by one",
    "early exchange": "the wait for a sum: sums over processes after backward",
    "counted later": "20 us a batch: metrics of each batch at once",
}
# whether each is taken; asked after its own conditions
on = dict.fromkeys(FAST_PATHS, os.environ.get(VARIABLE) != "0")


@contextmanager
def off() -> Iterator[None]:
    """A context in which everything goes the public way."""
    before = on.copy()
    on.update(dict.fromkeys(on, False))
    try:
        yield
    finally:
        on.update(before)
