"""The checksum that identifies a version of the data in a run's record, and copies among files."""

import functools
import hashlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from andiron import errors
from andiron.disk import files


def of_tensors(*tensors: Tensor) -> str:
    """The SHA-256 of the values of the tensors, in order."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def of_texts(texts: Iterable[str]) -> str:
    """The SHA-256 of the texts, in order."""
    return hashlib.sha256("".join(texts).encode(errors="surrogateescape")).hexdigest()


def of_file(path: Path) -> str:
    """The SHA-256 of the file's content; a gigabyte takes one to three seconds.

    Raises: DataError if the file cannot be read.
    """
    try:
        with files.opened(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise errors.DataError(
            f"{path}: cannot be read ({files.reason(error)}); name a file with data.path"
        ) from error


def copies(paths: Iterable[Path], training: Iterable[Path]) -> list[Path]:
    """The `paths` that have the content of a file in `training`; only equal sizes are read."""
    of_size = defaultdict(list)
    for path in training:
        of_size[path.stat().st_size].append(path)
    checksum = functools.cache(of_file)
    of_equal = ((path, of_size.get(path.stat().st_size, ())) for path in paths)
    return [path for path, equal in of_equal if equal and checksum(path) in map(checksum, equal)]
