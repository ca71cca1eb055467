"""Data sets of raw inputs without targets: pictures, decoded by the batch, and texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Indices, RawBatch
from andiron.data.on_disk import image_decoding
from andiron.disk import files
from andiron.tasks.language import encoded

MOST_TEXT_BYTES = 2**26


@dataclass
class Pictures:
    """Files and PIL images as uint8 [channels, height, width], decoded as in training.

    Unreadable pictures are black; `unreadable` has the reasons by index.
    """

    pictures: Sequence[Any]
    names: Sequence[str]
    shape: tuple[int, ...]
    unreadable: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The pictures at `indices`, in this order; all targets are 0."""
        return _batch([self._pixels(index) for index in torch.as_tensor(indices).tolist()])

    def _pixels(self, index: int) -> Tensor:
        picture = self.pictures[index]
        try:
            if isinstance(picture, str | Path):
                return image_decoding.of_file(Path(picture), self.shape)
            return image_decoding.of_picture(picture, self.names[index], self.shape)
        except errors.DataError as error:
            self.unreadable[index] = str(error)
            return torch.zeros(self.shape, dtype=torch.uint8)


class Texts:
    """The last `context_length` tokens of each text; a `Path` is a text file.

    Texts of different lengths come one at a time, since networks may not support padding.
    Raises: DataError for a text that is empty or has characters outside the vocabulary.
    """

    def __init__(
        self, texts: Sequence[str | Path], vocabulary: Sequence[str] | None, context_length: int
    ):
        self.names = [str(text) for text in texts]
        self.tokens = [_tokens(text, vocabulary)[-context_length:] for text in texts]
        self.is_even = len({len(tokens) for tokens in self.tokens}) == 1

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The tokens of the texts at `indices`, all of one length; all targets are 0."""
        return _batch([self.tokens[index] for index in torch.as_tensor(indices).tolist()])


def _batch(inputs: list[Tensor]) -> RawBatch:
    return RawBatch(torch.stack(inputs), torch.zeros(len(inputs), dtype=torch.long))


def _tokens(text: str | Path, vocabulary: Sequence[str] | None) -> Tensor:
    name, content = "text", str(text)
    if isinstance(text, Path):
        name = str(text)
        try:
            content = files.read_text(text, MOST_TEXT_BYTES)
        except (OSError, ValueError) as error:
            raise errors.DataError(f"{text}: cannot be read as text ({error})") from error
    try:
        return torch.tensor(encoded(content, vocabulary, name), dtype=torch.long)
    except ValueError as error:
        raise errors.DataError(str(error)) from error
