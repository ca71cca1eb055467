"""Divides the cores and GPUs of this machine among jobs that run side by side.

>>> environment_of(2, gpus=["0", "1"], sharing=4), environment_of(2, gpus=["0"], sharing=4)
({'CUDA_VISIBLE_DEVICES': '0'}, {})
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from andiron.plain import processor

THREADS = "OMP_NUM_THREADS"  # read by torch, MKL and OpenBLAS when they are loaded
GPUS = "CUDA_VISIBLE_DEVICES"


def threads(jobs: int, environment: Mapping[str, str]) -> str | None:
    """The threads of each of `jobs` side by side, for `OMP_NUM_THREADS`; the user's value wins.

    None leaves the number to torch, as for a single run.
    """
    if THREADS in environment:
        return environment[THREADS]
    return str(max(1, processor.cores() // jobs)) if jobs > 1 else None


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """The GPUs that jobs may use, by their CUDA names; found without CUDA."""
    if GPUS in environment:
        names = filter(None, (name.strip() for name in environment[GPUS].split(",")))
        return list(itertools.takewhile(lambda name: name != "-1", names))  # as CUDA reads it
    return sorted(
        (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")), key=int
    )


def environment_of(place: int, *, gpus: Sequence[str], sharing: int) -> dict[str, str]:
    """The environment variables of the job at `place` of `sharing`; empty with fewer than two GPUs.
    """
    if len(gpus) < 2 or sharing < 2:
        return {}
    return {GPUS: gpus[place % len(gpus)]}
