"""Named tensors to safetensors files and back."""

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from andiron import errors, files


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes named tensors to a safetensors file, whole or not at all."""
    files.write(path, as_safetensors(tensors))


def as_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Named tensors, as they are at this moment, as the content of a safetensors file.

    Tensors that share memory are written apart: the format knows no sharing.
    """
    apart = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(apart)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors in a safetensors file, on the CPU.

    Raises: DataError if the file is missing, truncated or no safetensors file.
    """
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError as error:
        raise errors.DataError(f"{path}: no such file") from error
    except SafetensorError as error:
        raise errors.DataError(f"{path}: not a whole safetensors file ({error}); restore it from a copy") from error
