"""The device of a name such as `auto`, and deterministic kernels."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cudnn

from andiron import errors

REFUSED = re.compile(r"(\S+) does not have a deterministic implementation")  # torch's words


def resolve(name: str) -> torch.device:
    """The device of that name; `auto` is the first GPU, else Apple's, else the CPU.

    Raises: DeviceError if this machine has no such device.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    device = torch.device(name)
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count() if cuda else 0)]
    present = ["cpu", *(["mps"] if mps else []), *gpus]
    wanted = f"cuda:{device.index or 0}" if device.type == "cuda" else device.type
    if wanted not in present:
        raise errors.DeviceError(
            f"device={name}: this machine has no such device; it has: {', '.join(present)}; "
            "device=auto takes the best"
        )
    return device


@contextmanager
def deterministic(is_on: bool) -> Iterator[None]:
    """A context with deterministic kernels only, if on; enter it before CUDA starts.

    Raises: MismatchError naming an operation that has no deterministic kernel.
    """
    if not is_on:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
    was_on = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        with cudnn.flags(cudnn.enabled, benchmark=False, deterministic=True):
            yield
    except (RuntimeError, errors.MismatchError) as error:
        refused = REFUSED.search(str(error))
        if refused is None:
            raise
        raise errors.MismatchError(
            f"deterministic=true: torch has no deterministic kernel for {refused[1]} on this "
            "device; give deterministic=false, or replace the layer or loss that uses it"
        ) from error
    finally:
        torch.use_deterministic_algorithms(was_on)
