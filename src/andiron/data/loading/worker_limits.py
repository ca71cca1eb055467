"""The number of worker processes that this machine can run."""

from andiron.plain import processor

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

WORKERS_PER_CORE = 8  # they may wait for a disk or a network
FEWEST_CORES = 2
LOADERS = 3  # training, validation and test data have separate workers
FILES_PER_WORKER, OTHER_FILES = 4, 40  # of a loader, open in the parent; measured: 3 and 35


def problem(num_workers: int, further_sets: int = 0) -> str | None:
    """Why `num_workers` is refused with this number of further validation sets; None if not."""
    bounds = _bounds(LOADERS + further_sets)
    most, reason = min(bounds, key=lambda bound: bound[0])
    if num_workers <= most:
        return None
    return f"num_workers={num_workers}: at most {most} can run here, where {reason}; lower it"


def _bounds(loaders: int) -> list[tuple[int, str]]:
    """Each bound, and its reason."""
    cores = processor.cores()
    bounds = [(WORKERS_PER_CORE * max(cores, FEWEST_CORES), f"there are {cores} processor cores")]
    files = _limit("RLIMIT_NOFILE")
    if files is not None:
        most = max(0, (files - OTHER_FILES) // (FILES_PER_WORKER * loaders))
        bounds.append((most, f"a process may have {files} open files (`ulimit -n`)"))
    processes = _limit("RLIMIT_NPROC")
    if processes is not None:
        most = processes // (loaders + 1)
        bounds.append((most, f"a user may have {processes} processes (`ulimit -u`)"))
    return bounds


def _limit(name: str) -> int | None:
    """A resource limit of this process; None if it is unlimited."""
    if resource is None or not hasattr(resource, name):
        return None
    soft, _ = resource.getrlimit(getattr(resource, name))
    return None if soft == resource.RLIM_INFINITY else soft
