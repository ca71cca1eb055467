"""Prefetch to a GPU: each batch is copied while the step before it runs."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from andiron.data import structures
from andiron.data.dataset import Batcher


def batches(raws: Iterable[Any], batcher: Batcher, device: torch.device) -> Iterator[Any]:
    """`batcher(raw, device)` for each of `raws`, in order.

    On a GPU, the copy and the batcher run on their own stream, one batch ahead; the step's stream
    waits only for its batch. A copy from page-locked memory overlaps with the step; an object
    without `record_stream` is copied on the step's stream, and does not.
    """
    if device.type != "cuda":
        for raw in raws:
            yield batcher(raw, device)
        return
    copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    ahead: list[tuple[Any, Any]] = []  # at most one batch, and the event after its copy
    for raw in raws:
        is_kept = all(hasattr(leaf, "record_stream") for leaf in structures.leaves(raw))
        stream = copying if is_kept else torch.cuda.current_stream(device)
        with torch.cuda.stream(stream):
            batch = batcher(raw, device)
            ahead.append((batch, stream.record_event()))
        if len(ahead) > 1:
            yield _wait_for(*ahead.pop(0), device)
    for batch, event in ahead:
        yield _wait_for(batch, event, device)


def _wait_for(batch: object, event: Any, device: torch.device) -> Any:
    step = torch.cuda.current_stream(device)
    step.wait_event(event)
    for leaf in structures.leaves(batch):
        if hasattr(leaf, "record_stream"):
            leaf.record_stream(step)  # keeps the copying stream from reusing its memory too early
    return batch


def pinned(raw: object) -> Any:
    """The batch in page-locked memory, as far as it can be pinned."""
    return structures.mapped(lambda leaf: getattr(leaf, "pin_memory", lambda: leaf)(), raw)
