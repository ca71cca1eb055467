"""Texts: the last tokens of each, by the data set's vocabulary or a tokenizer of transformers."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from andiron import errors
from andiron.data.composed.torch_samples import from_torch
from andiron.data.dataset import Indices, RawBatch
from andiron.data.kinds.new_samples import Kind, NewSamples
from andiron.data.on_disk.text_file import TextBatcher
from andiron.disk import files, tokenizer_files
from andiron.plain.plain_values import Named, Plain
from andiron.plain.token_texts import Vocabulary, encoded

MOST_TEXT_BYTES = 2**26


class LastTokens:
    """The last `context_length` tokens of each text; a `Path` is a text file.

    Texts of different lengths come one at a time, since networks may not support padding.
    Raises: DataError for a text that is empty or has characters outside the vocabulary.
    """

    def __init__(
        self, texts: Sequence[str | Path], vocabulary: Vocabulary, context_length: int
    ):
        self.tokens = [_tokens(text, vocabulary)[-context_length:] for text in texts]
        self.is_even = len({len(tokens) for tokens in self.tokens}) == 1

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The tokens of the texts at `indices`, all of one length; all targets are 0."""
        tokens = [self.tokens[index] for index in torch.as_tensor(indices).tolist()]
        return RawBatch(torch.stack(tokens), torch.zeros(len(tokens), dtype=torch.long))


class Texts(Kind):
    """Texts or files of text: as characters or bytes, or by the network's own tokenizer."""

    takes_texts: ClassVar[bool] = True

    @property
    def expected(self) -> str:
        return "texts, or arrays of tokens [number, time]"

    def own_samples(self, inputs: Sequence[Any], keep: Sequence[str]) -> NewSamples | None:
        if not isinstance(inputs[0], str | Path):
            return None
        batcher, facts, names = self.data.batcher, self.data.offered, [*map(str, inputs)]
        if not isinstance(batcher, TextBatcher):
            fields = from_torch(tokenised(inputs, facts["tokenizer"]))
            return NewSamples(fields, names, batcher, comes_alone=True)
        tokens = LastTokens(inputs, facts.get("vocabulary"), int(facts["context_length"]))
        return NewSamples(tokens, names, batcher, comes_alone=not tokens.is_even)

    def read_stdin(self) -> list[Any]:
        """One text."""
        return [sys.stdin.read()]


def tokenised(texts: Sequence[str | Path], recorded: Named) -> list[Plain]:
    """The texts as fields for a network of transformers, by its tokenizer on record.

    They are not padded: beside longer texts, networks of absolute positions would move them.
    Raises: DataError if its files are missing or others.
    """
    import transformers

    folder, then = recorded["folder"], recorded["files"]
    now = tokenizer_files.checksums_in(folder)
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
        if tokenizer.is_fast:
            tokenizer_files.turn_off_dropout(tokenizer.backend_tokenizer.model)
        positions = getattr(settings, "max_position_embeddings", sys.maxsize)
        longest = min(tokenizer.model_max_length, positions)
        return [dict(tokenizer(one, truncation=True, max_length=longest)) for one in contents]
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{folder}: {errors.first_line(error)}") from error


def _tokens(text: str | Path, vocabulary: Vocabulary) -> Tensor:
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
