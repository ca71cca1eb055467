"""The worker processes of a loader: how many can run, their signals and failures."""

import multiprocessing.queues
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from andiron import distributed
from andiron.plain import processor

WORKERS_PER_CORE = 8  # they may wait for a disk or a network
FEWEST_CORES = 2


def problem(num_workers: int) -> str | None:
    """Why `num_workers` is refused; None if not."""
    cores = processor.cores()
    most = WORKERS_PER_CORE * max(cores, FEWEST_CORES)
    if num_workers <= most:
        return None
    where = f"where there are {cores} processor cores"
    return f"num_workers={num_workers}: at most {most} can run here, {where}; lower it"


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
