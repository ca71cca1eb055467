"""Batches on their way to a device: with a GPU, each is copied while the step before it runs."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from andiron.data.dataset import Batcher


def batches(raws: Iterable[Any], batcher: Batcher, device: torch.device) -> Iterator[Any]:
    """`batcher(raw, device)` for each of `raws`, in order.

    On a GPU the copy and what the batcher computes run on a stream of their own, one batch ahead; the step's stream waits
    for its batch alone. From page-locked memory the copy then takes none of the step's time.
    """
    if device.type != "cuda":
        for raw in raws:
            yield batcher(raw, device)
        return
    copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    ahead: list[tuple[Any, Any]] = []  # at most one batch, and the event after which it is there
    for raw in raws:
        with torch.cuda.stream(copying):
            batch = batcher(raw, device)
            ahead.append((batch, copying.record_event()))
        if len(ahead) > 1:
            yield _arrived(*ahead.pop(0), device)
    for batch, is_there in ahead:
        yield _arrived(batch, is_there, device)


def _arrived(batch: Any, is_there: Any, device: torch.device) -> Any:
    step = torch.cuda.current_stream(device)
    step.wait_event(is_there)
    for tensor in _tensors(batch):
        tensor.record_stream(
            step
        )  # its memory is another stream's: not to be given away while this one reads it
    return batch


def _tensors(batch: Any) -> list[Tensor]:
    if isinstance(batch, Tensor):
        return [batch]
    inner = (
        batch.values()
        if isinstance(batch, dict)
        else batch
        if isinstance(batch, tuple | list)
        else ()
    )
    return [tensor for each in inner for tensor in _tensors(each)]


def pinned(raw: Any) -> Any:
    """The same tensors in page-locked memory; of what is no tensor and no named tuple of them, nothing is known."""
    if isinstance(raw, Tensor):
        return raw.pin_memory()
    return type(raw)(*map(pinned, raw)) if hasattr(raw, "_fields") else raw
