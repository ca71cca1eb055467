"""The device that a name such as `auto` stands for."""

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
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count() if cuda else 0)]
    present = ["cpu", *(["mps"] if mps else []), *gpus]
    wanted = f"cuda:{device.index or 0}" if device.type == "cuda" else device.type
    if wanted not in present:
        raise errors.DeviceError(
            f"device={name}: this machine has no such device; it has: {', '.join(present)}; "
            "device=auto takes the best"
        )
    return device
