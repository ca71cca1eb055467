"""Explains errors of exhausted memory, processes or open files, and names what to lower."""

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from andiron import errors
from andiron.shell.config.schema import Demands

# in out-of-memory errors of torch, CUDA, cuDNN and the system
NO_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "failed to map segment",
    "alloc_failed",
    "bad_alloc",
)
# prefixes of torch's RuntimeErrors, on any device
WORKERS_FAILED = ("DataLoader worker", "Too many open files", "unable to open shared memory")
SHORTAGES = {
    errno.EAGAIN: "raise the number of processes, `ulimit -u`",
    errno.EMFILE: "raise the number of open files, `ulimit -n`",
    errno.ENFILE: "close files of other processes",
}


@contextmanager
def explained(demands: Demands) -> Iterator[None]:
    """Turns an error of an exhausted resource into an ExhaustedError that names what to lower.

    An exit of the process (`sys.exit`) is an error too, or another exception that ends a loop.
    """
    try:
        with errors.exits_refused(KeyboardInterrupt):
            yield
    except (MemoryError, RuntimeError, OSError, ImportError) as error:
        problem = _problem(error, demands)
        if problem is None:
            raise
        raise errors.ExhaustedError(problem) from error


def _problem(error: Exception, demands: Demands) -> str | None:
    message = errors.first_line(error)[:300]
    is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC and _is_shared(error)
    is_failed = isinstance(error, RuntimeError) and message.startswith(WORKERS_FAILED)
    if is_failed or is_full:
        return (
            f"num_workers={demands.num_workers}: the processes that load data cannot run "
            f"({message}); give num_workers=0, lower batch_size={demands.batch_size}, or give them "
            "more memory, shared memory (/dev/shm) or open files (`ulimit -n`)"
        )
    if is_out_of_memory(error):
        return (
            f"out of memory on device {demands.device} ({message}); give "
            f"slices={2 * (demands.slices or 1)}, which computes a batch in parts, lower "
            f"batch_size={demands.batch_size}, choose a smaller model or data set, or free memory"
        )
    number = error.errno if isinstance(error, OSError) else None
    if number in SHORTAGES:
        workers = f" or lower num_workers={demands.num_workers}" if demands.num_workers else ""
        return f"{message}: {SHORTAGES[number]}{workers}"
    return None


def _is_shared(error: BaseException) -> bool:
    """Whether an error comes from the locks and shared memory of worker processes."""
    frames = traceback.extract_tb(error.__traceback__)
    return any("multiprocessing" in frame.filename for frame in frames)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means out of memory; torch has no class for it on the CPU."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(phrase in text for phrase in NO_MEMORY)
