"""Which samples of the data it is that an error about a batch speaks of."""

from andiron import errors
from andiron.protocols import Loader


def located(
    error: errors.SampleError, loader: Loader | None, epoch: int, batch: int
) -> errors.DataError:
    """The error with the samples' indices in the data beside their places in the batch; the error itself if no one can tell.

    Epoch and batch are counted from 0.
    """
    indices = getattr(loader, "indices", None)
    if indices is None:
        return error
    of_batch = indices(epoch, batch)
    named = ", ".join(str(of_batch[place]) for place in error.places)
    return errors.DataError(
        f"epoch {epoch + 1}, batch {batch + 1}: sample {named} of the data: {error}"
    )
