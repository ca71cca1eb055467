"""The number of worker processes that this machine can run."""

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
