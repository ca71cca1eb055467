"""The precision in which metrics add."""

import torch


def sum_dtype(device: torch.device) -> torch.dtype:
    """float64, in which the order of the samples hardly matters; float32 on MPS, which lacks it."""
    return torch.float32 if device.type == "mps" else torch.float64
