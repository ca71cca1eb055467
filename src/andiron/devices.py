"""Which device a name stands for."""

import torch

from andiron import errors


def resolve(name: str) -> torch.device:
    """The device of that name; `auto` is the first GPU, else Apple's, else the CPU.

    Raises: DeviceError if this machine has no such device.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    device = torch.device(name)
    there = {
        "cpu": True,
        "mps": mps,
        "cuda": cuda and (device.index or 0) < torch.cuda.device_count(),
    }
    if not there[device.type]:
        found = [
            "cpu",
            *(["mps"] if mps else []),
            *(f"cuda:{i}" for i in range(torch.cuda.device_count() if cuda else 0)),
        ]
        raise errors.DeviceError(
            f"device={name}: this machine has no such device; it has: {', '.join(found)}; device=auto takes the best"
        )
    return device
