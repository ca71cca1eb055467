"""Named tensors to safetensors files and back."""

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

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


def load_what_fits(module: nn.Module, tensors: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Copies those of `tensors` whose name and shape `module` has; the names of those it took, and in words of those it has not.

    Raises: ValueError if none fits.
    """
    own = module.state_dict()
    taken = [name for name, tensor in own.items() if name in tensors and tensors[name].shape == tensor.shape]
    if not taken:
        raise ValueError(f"no tensor fits by name and shape; there are {', '.join(tensors)}; the model has {', '.join(own)}")
    with torch.no_grad():
        for name in taken:
            own[name].copy_(tensors[name])
    left = {name: "not there" if name not in tensors else _shape(tensors[name]) for name in own if name not in taken}
    return taken, [f"{name} {_shape(own[name])} ({there})" for name, there in left.items()]


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors in a safetensors file, on the CPU.

    Raises: DataError if the file is missing, truncated or no safetensors file.
    """
    try:
        return safetensors.torch.load_file(path)
    except OSError as error:
        why = "is a folder; name a file in it" if path.is_dir() else "no such file" if not path.exists() else error.strerror
        raise errors.DataError(f"{path}: {why}") from error
    except SafetensorError as error:
        raise errors.DataError(f"{path}: not a whole safetensors file ({error}); restore it from a copy") from error
