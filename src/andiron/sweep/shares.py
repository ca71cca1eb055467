"""The cores and GPUs of this machine, shared out among jobs that run side by side.

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
    """The threads of each of so many jobs side by side, for `OMP_NUM_THREADS`.

    None leaves them to torch, as for a run alone. What the user chose stays.
    """
    if THREADS in environment:
        return environment[THREADS]
    return str(max(1, processor.cores() // jobs)) if jobs > 1 else None


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """The GPUs that jobs may use, by what names them to CUDA; found without CUDA."""
    if GPUS in environment:
        names = filter(None, (each.strip() for each in environment[GPUS].split(",")))
        return list(itertools.takewhile(lambda name: name != "-1", names))  # as CUDA reads it
    return sorted(
        (each.name.removeprefix("nvidia") for each in Path("/dev").glob("nvidia[0-9]*")), key=int
    )


def environment_of(place: int, *, gpus: Sequence[str], sharing: int) -> dict[str, str]:
    """The variables of the job at one of `sharing` places; nothing where there is one GPU or none.
    """
    if len(gpus) < 2 or sharing < 2:
        return {}
    return {GPUS: gpus[place % len(gpus)]}
