"""Batches on their way to a GPU: each is copied while the step before it runs."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from andiron.data.dataset import Batcher, tensors_in


def batches(raws: Iterable[Any], batcher: Batcher, device: torch.device) -> Iterator[Any]:
    """`batcher(raw, device)` for each of `raws`, in order.

    On a GPU, the copy and the batcher's computation run on their own stream, one batch ahead; the
    step's stream waits for its batch alone. A copy from page-locked memory takes no time of the
    step.
    """
    if device.type != "cuda":
        for raw in raws:
            yield batcher(raw, device)
        return
    copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    ahead: list[tuple[Any, Any]] = []  # at most one batch, and the event after its copy
    for raw in raws:
        with torch.cuda.stream(copying):
            batch = batcher(raw, device)
            ahead.append((batch, copying.record_event()))
        if len(ahead) > 1:
            yield _arrived(*ahead.pop(0), device)
    for batch, event in ahead:
        yield _arrived(batch, event, device)


def _arrived(batch: Any, event: Any, device: torch.device) -> Any:
    step = torch.cuda.current_stream(device)
    step.wait_event(event)
    for tensor in tensors_in(batch):
        tensor.record_stream(step)  # keeps the copying stream from reusing its memory too early
    return batch


def pinned(raw: Any) -> Any:
    """The same tensors in page-locked memory; only tensors and named tuples are copied there."""
    if isinstance(raw, Tensor):
        return raw.pin_memory()
    return type(raw)(*map(pinned, raw)) if hasattr(raw, "_fields") else raw
