"""Which samples of the data it is that an error about a batch speaks of."""

from collections.abc import Iterator
from contextlib import contextmanager

from andiron import errors
from andiron.protocols import Loader


@contextmanager
def samples(loader: Loader | None, epoch: int, batch: int) -> Iterator[None]:
    """Within it, an error about samples by their places in a batch tells their indices in the data as well.

    Both counted from 0; a loader need not be able to tell.
    """
    try:
        yield
    except errors.SampleError as error:
        indices = getattr(loader, "indices", None)
        if indices is None:
            raise
        of_batch = indices(epoch, batch)
        named = ", ".join(str(of_batch[place]) for place in error.places)
        where = f"epoch {epoch + 1}, batch {batch + 1}: sample {named} of the data"
        raise errors.DataError(f"{where}: {error}") from error
