"""Data sets of raw inputs without targets: pictures, decoded by the batch, and texts."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Indices, RawBatch
from andiron.data.on_disk import image_decoding
from andiron.disk import files
from andiron.models import libraries
from andiron.ranges import Resizing
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
    resizing: Resizing
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
                return image_decoding.of_file(Path(picture), self.shape, self.resizing)
            name = self.names[index]
            return image_decoding.of_picture(picture, name, self.shape, self.resizing)
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


def tokenised(texts: Sequence[str | Path], recorded: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The texts as fields for a network of transformers, by its tokenizer on record.

    They are not padded: beside longer texts, networks of absolute positions would move them.
    Raises: DataError if its files are missing or others.
    """
    import transformers

    folder, then = recorded["folder"], recorded["files"]
    now = libraries.tokenizer_files(folder)
    names = {*then, *(now if "config.json" in then else ())}  # older records have some files only
    if changed := sorted(name for name in names if then.get(name) != now.get(name)):
        raise errors.DataError(
            f"{folder}: {', '.join(changed)}: missing, added or changed since the run, so that the "
            "tokenizer may be another; restore its files"
        )
    contents = [_content(text) for text in texts]
    try:
        tokenizer, settings = (
            kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            for kind in (transformers.AutoTokenizer, transformers.AutoConfig)
        )
        positions = getattr(settings, "max_position_embeddings", sys.maxsize)
        longest = min(tokenizer.model_max_length, positions)
        return [dict(tokenizer(one, truncation=True, max_length=longest)) for one in contents]
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{folder}: {errors.first_line(error)}") from error


def _batch(inputs: list[Tensor]) -> RawBatch:
    return RawBatch(torch.stack(inputs), torch.zeros(len(inputs), dtype=torch.long))


def _tokens(text: str | Path, vocabulary: Sequence[str] | None) -> Tensor:
    name = str(text) if isinstance(text, Path) else "text"
    try:
        return torch.tensor(encoded(_content(text), vocabulary, name), dtype=torch.long)
    except ValueError as error:
        raise errors.DataError(str(error)) from error


def _content(text: str | Path) -> str:
    if isinstance(text, str):
        return text
    try:
        return files.read_text(text, MOST_TEXT_BYTES).removeprefix("\ufeff")
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{text}: cannot be read as text ({error})") from error
