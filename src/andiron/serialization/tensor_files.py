"""Named tensors to safetensors files and back."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from andiron import errors, files
from andiron.serialization import safetensors_codec


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes named tensors to a safetensors file, whole or not at all."""
    files.write_pieces(path, pieces(tensors))


def as_safetensors(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Named tensors, as they are at this moment, as the content of a safetensors file.

    Tensors that share memory are written apart: the format knows no sharing.
    """
    return b"".join(pieces(tensors, metadata))


def pieces(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """The same piece by piece, without a copy of tensors that are on the CPU and contiguous."""
    return safetensors_codec.chunks(
        {name: plain(tensor) for name, tensor in tensors.items()}, metadata
    )


def plain(tensor: Tensor) -> Tensor:
    """A tensor's values on the CPU, contiguous, with no pending conjugation or sign; itself where it is so already."""
    return tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors in a safetensors file, on the CPU; memory-mapped.

    Raises: DataError if the file is missing, truncated or no safetensors file.
    """
    try:
        return safetensors.torch.load_file(path)
    except OSError as error:
        raise errors.DataError(f"{path}: {why_not_open(path, error)}") from error
    except SafetensorError as error:
        raise errors.DataError(
            f"{path}: not a whole safetensors file ({error}); restore it from a copy"
        ) from error


def why_not_open(path: Path, error: OSError) -> str:
    """Why a file could not be read, in words."""
    if path.is_dir():
        return "is a folder; name a file in it"
    return (error.strerror or str(error)) if path.exists() else "no such file"
