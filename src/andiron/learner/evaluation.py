"""One pass of a model over a loader that measures and trains nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn

from andiron import errors, inference
from andiron.metrics import Tally
from andiron.protocols import Loader, Values

Stop = Callable[[int], BaseException | None]  # from the number of a batch to why to stop before it


def measure(
    model: nn.Module,
    loader: Loader,
    tally: Tally,
    *,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    stop: Stop | None = None,
) -> Values:
    """The values of the tally's metrics over one pass, in evaluation mode and without gradients.

    Raises: what `stop` returns; DataError naming the samples that no model can be measured on.
    """
    tally.forget()
    with inference.valid(model):
        for number, batch in enumerate(loader.epoch(0)):
            reason = stop and stop(number)
            if reason is not None:
                raise reason
            try:
                with autocast():
                    item = model.valid_step(batch)  # type: ignore[operator]
            except errors.SampleError as error:
                raise error.located(loader, 0, number) from error
            tally.add(item)
    return tally.close_epoch()
