"""Signals and failures in the worker processes of a loader."""

import multiprocessing.queues
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from andiron import distributed


def iterator_of(workers: Any) -> Iterator[Any]:
    """An iterator over the batches of torch's loader; either all its workers are started or none.
    """
    if workers._iterator is None:
        distributed.settle()
    before = multiprocessing.active_children()
    try:
        with sigterm_ignored_by_workers():
            return iter(workers)
    except OSError:
        for process in multiprocessing.active_children():
            if process not in before:
                process.kill()
        raise


@contextmanager
def sigterm_ignored_by_workers() -> Iterator[None]:
    """Workers started inside ignore SIGTERM until `prepare_worker` has run."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prepare_worker(worker: int) -> None:
    """Undoes torch's handler of SIGTERM: a signal to the whole process group is for the parent.

    A batch that cannot be sent (no open files left) ends the worker: its parent would wait.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        signal.signal(signal.SIGTERM, handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    queue: Any = multiprocessing.queues.Queue
    queue._on_queue_feeder_error = staticmethod(_end_worker)


def _end_worker(error: Exception, batch: object) -> None:
    os.write(2, f"a data worker ends: {error}\n".encode(errors="backslashreplace"))
    os._exit(1)
