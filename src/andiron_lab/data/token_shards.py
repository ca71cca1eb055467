"""Shards of tokens as windows for a language model, read from their files."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from andiron import errors
from andiron.data.dataset import Dataset
from andiron.data.on_disk.text_file import EVALUATION_TOKENS, TextBatcher
from andiron.data.splitting import fingerprint, splits
from andiron.ranges import Count, Proportion, SetFiles, Validation
from andiron.recording import keep_arguments
from andiron_lab.data import shard_files, tokenizer_texts
from andiron_lab.data.shard_files import Shards
from andiron_lab.data.token_windows import DocumentWindows, PackedWindows, TokenWindows


@keep_arguments
def token_shards(
    *,
    path: str,
    context_length: Count,
    documents: Literal["packed", "apart"] = "packed",
    stride: Count | None = None,
    valid: Validation,
    test: Proportion = 0.1,
    dtype: Literal["uint16", "uint32"] = "uint16",
    tokenizer: str | None = None,
    valid_sets: SetFiles = None,
) -> splits.Splits:
    """Windows of tokens, `stride` apart, by default `context_length`, of a folder of shards.

    Packed windows cross the ends of documents. Apart, each is within its document, and a shorter
    one is filled up with targets that do not count. The last fraction `test` of the tokens is held
    out, the fraction `valid` before it validates; apart, a document is in one part. `path` may be a
    plain file of tokens of `dtype`, such as nanoGPT's, with the tokenizer.json of its `tokenizer`.
    `valid_sets` are folders or files of further validation sets by name.
    Raises: DataError if a file is missing or another than recorded, a part is too short for a
    window, or a further set has another tokenizer.
    """
    length, step = context_length + 1, stride or context_length

    def read(source: str) -> TokenWindows:
        shards, windows = shard_files.of_path(Path(source), dtype), PackedWindows(length, step)
        shards = _known(shards, source, tokenizer)
        cut = windows if documents == "packed" else DocumentWindows(shards, length, step)
        return TokenWindows(shards, cut, 0, len(shards))

    def read_set(other: str) -> tuple[Dataset, str]:
        further = read(other)
        if _sha256(further.shards) != _sha256(whole.shards):
            raise errors.DataError(
                f"{other}: has the tokens of another tokenizer than {path}; write it with the same"
            )
        return _checked(further, other), further.shards.fingerprint

    whole = read(path)
    made = splits.of_parts(
        lambda span: _checked(whole.between(*span), path),
        _bounds(whole.end, valid, test, whole.windows.begin_of),
        name=Path(path).name,
        batcher=TextBatcher(),
        facts=_facts(whole.shards, context_length),
        fingerprint=whole.shards.fingerprint,
        evaluation_batch_size=min(256, max(1, EVALUATION_TOKENS // context_length)),
    )
    return splits.with_sets(made, valid_sets, read_set)


def _known(shards: Shards, path: str, tokenizer: str | None) -> Shards:
    """The shards with their own tokenizer, or that of the option."""
    if (shards.tokenizer is None) == (tokenizer is None):
        raise errors.DataError(
            f"{path}: does not say what its tokens mean; give data.tokenizer=<the tokenizer.json "
            "that they were made with>" if tokenizer is None else
            f"data.tokenizer={tokenizer}: {path} records its own tokenizer; leave the option out"
        )
    if tokenizer is None:
        return shards
    file = Path(tokenizer)
    record = tokenizer_texts.record_of(file, fingerprint.of_file(file))
    size = len(tokenizer_texts.of_record(record))
    return replace(shards, vocabulary_size=size, tokenizer=record)


def _bounds(
    size: int, valid: Validation, test: float, begin_of: Callable[[int], int]
) -> list[tuple[int, int]]:
    """The (begin, end) of the training, validation and test tokens."""
    cut = size - round(size * test)
    first_test = first_valid = begin_of(cut)
    validates = held_out = first_test, size
    if valid != "test":
        first_valid = begin_of(max(cut - round(size * float(valid)), 0))
        validates = first_valid, first_test
    return [(0, first_valid), validates, held_out]


def _checked(part: TokenWindows, path: str) -> Dataset:
    if not len(part):
        raise errors.DataError(
            f"{path}: a part of {part.end - part.begin} tokens (from {part.begin} on) has no "
            f"window of data.context_length={part.windows.length - 1} and the token after it; "
            "shorten it, choose other fractions data.valid and data.test, or give more text"
        )
    return part


def _facts(shards: Shards, context_length: int) -> dict[str, Any]:
    record = dict(shards.tokenizer or {})
    return {
        "input_shape": (context_length,), "context_length": context_length,
        "vocabulary_size": shards.vocabulary_size, **record,
        "bytes_per_token": tokenizer_texts.of_record(record).bytes_per_token,
    }  # fmt: skip


def _sha256(shards: Shards) -> object:
    return (shards.tokenizer or {}).get("tokenizer_sha256")
