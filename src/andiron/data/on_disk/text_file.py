"""A text file as windows of tokens for a language model: each token is predicted from those before.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from andiron import errors
from andiron.data.composed.composed_datasets import Mapped
from andiron.data.dataset import Batch, Dataset, Indices, RawBatch
from andiron.data.on_disk import character_tokens
from andiron.data.on_disk.stored import StoredArray, StoredFile
from andiron.data.on_disk.train_valid_test import part_of
from andiron.data.splitting import fingerprint, splits
from andiron.disk import files, guarded_folders
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import Count, Proportion, SetFiles, Validation
from andiron.recording import keep_arguments

MOST_SHOWN = 10  # characters in a message
EVALUATION_TOKENS = 2**14  # in a batch: the logits of a vocabulary of 256 take 16 MiB
# of gzip, zip, bzip2, xz, zstandard; byte order marks of UTF-16
NO_UTF_8 = b"\x1f\x8b", b"PK\3\4", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd", b"\xff\xfe", b"\xfe\xff"
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class TextBatcher:
    """Tokens as int64 on the device."""

    def __call__(self, raw: RawBatch, device: torch.device) -> Batch:
        return Batch(*(tokens.to(device, non_blocking=True).long() for tokens in raw))


@dataclass(eq=False)
class WindowDataset:
    """Sample i: inputs `tokens[i * stride :][:context_length]`, targets the same one token later.

    Both are int64, from the tokens in [begin, end); tokens after the last whole window are left
    out.
    """

    tokens: StoredArray | Tensor
    begin: int
    end: int
    context_length: int
    stride: int

    def __len__(self) -> int:
        return len(self._starts())

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in this order.

        Raises: IndexError for an index out of range.
        """
        starts, tokens = self._starts(), self.tokens
        chosen = [starts[index] for index in torch.as_tensor(indices).tolist()]
        begins = torch.tensor(chosen, dtype=torch.int64)
        length = self.context_length + 1
        places = (begins[:, None] + torch.arange(length)).flatten()
        read = tokens[places] if isinstance(tokens, Tensor) else tokens.read(places)
        windows = read.view(-1, length)
        return RawBatch(windows[:, :-1].long(), windows[:, 1:].long())

    def sample_name(self, index: int) -> str:
        """The place of its first token in the text, counted from 0."""
        return f"token {self._starts()[index]}"

    def _starts(self) -> range:
        return range(self.begin, self.end - self.context_length, self.stride)


@keep_arguments
def text(
    *,
    path: str,
    level: Literal["bytes", "characters"] = "bytes",
    context_length: Count,
    stride: Count | None = None,
    valid: Validation,
    test: Proportion = 0.1,
    vocabulary: str | None = None,
    cache: str | None = None,
    valid_sets: SetFiles = None,
) -> splits.Splits:
    """A file's tokens in windows `stride` tokens apart, by default `context_length`.

    Of a folder, the `.txt` files below it are joined in the order of their paths, into a file
    beside the folder or in the folder `cache`. The last fraction `test` of the text is held out,
    the fraction `valid` before it validates; no token is in two parts. With level=characters the
    tokens are stored in a file beside the text or in `cache`; with `vocabulary` they number the
    characters of that text. `valid_sets` are texts of further validation sets by name.
    Raises: DataError if a file is missing, too short, or not UTF-8 with level=characters, or has
    characters that the vocabulary lacks.
    """
    step = context_length if stride is None else stride
    windows = partial(WindowDataset, context_length=context_length, stride=step)
    folder = None if cache is None else Path(cache)
    tokens, own, sha256 = _tokens(Path(path), level, folder)
    facts = own
    if vocabulary is not None:
        facts = _tokens(Path(vocabulary), level, folder)[1]
        sha256 = fingerprint.of_texts((sha256, str(facts["vocabulary"])))
    bounds = _bounds(len(tokens), valid, test, context_length, Path(path))
    made = splits.of_parts(
        lambda part: as_known(windows(tokens, *part), own, facts, path),
        bounds,
        name=Path(path).name,
        batcher=TextBatcher(),
        facts={"input_shape": (context_length,), "context_length": context_length, **facts},
        fingerprint=sha256,
        evaluation_batch_size=min(256, max(1, EVALUATION_TOKENS // context_length)),
    )

    def read_set(other: str) -> tuple[Dataset, str]:
        its_tokens, its_facts, checksum = _tokens(Path(other), level, folder)
        if len(its_tokens) <= context_length:
            raise errors.DataError(
                f"{other}: has {len(its_tokens)} tokens, where data.context_length="
                f"{context_length} takes {context_length + 1}; give more text"
            )
        dataset = windows(its_tokens, 0, len(its_tokens))
        return as_known(dataset, its_facts, facts, other), checksum

    return splits.with_sets(made, valid_sets, read_set)


def as_known(dataset: Dataset, facts: Named, known: Named, path: str) -> Dataset:
    """The windows of characters, with the tokens of the vocabulary of `known` facts.

    Raises: DataError for characters that are not in it.
    """
    if (own := facts["vocabulary"]) == known["vocabulary"]:
        return dataset
    places = {character: place for place, character in enumerate(known["vocabulary"])}
    if unknown := [character for character in own if character not in places]:
        shown = " ".join(map(ascii, unknown[:MOST_SHOWN]))
        raise errors.DataError(
            f"{path}: has {len(unknown)} characters that the training text lacks ({shown}); "
            "replace them, or use data.level=bytes"
        )
    return Mapped(dataset, partial(_renumbered, torch.tensor([places[value] for value in own])))


def _renumbered(places: Tensor, raw: RawBatch) -> RawBatch:
    return RawBatch(places[raw.inputs], places[raw.targets])


def _tokens(
    path: Path, level: Literal["bytes", "characters"], cache: Path | None
) -> tuple[StoredArray | Tensor, Plain, str]:
    """The tokens of the whole file, their facts, and its SHA-256."""
    file = StoredFile(_joined(path, cache) if path.is_dir() else path)
    sha256 = fingerprint.of_file(file.path)
    if not file.size:
        raise errors.DataError(f"{file.path}: is empty; there is nothing to learn from")
    if file.read(0, min(file.size, 5)).startswith(NO_UTF_8):
        raise errors.DataError(
            f"{file.path}: is compressed, or in UTF-16; decompress it, or convert it to UTF-8: "
            "iconv -f utf-16 -t utf-8"
        )
    if level == "bytes":
        facts = {"vocabulary_size": 256, "vocabulary": None, "bytes_per_token": None}
        return StoredArray(file, "bytes", 0, torch.uint8, (file.size,)), facts, sha256
    try:
        tokens, vocabulary = character_tokens.tokens(file.path, sha256=sha256, cache=cache)
    except errors.DataError:
        for text in _texts(path) if path.is_dir() else ():
            deque(character_tokens.decoded(text), maxlen=0)  # raises for one that is not UTF-8
        raise
    return tokens, {
        "vocabulary_size": len(vocabulary),
        "vocabulary": vocabulary,
        "bytes_per_token": [len(character.encode()) for character in vocabulary],
    }, sha256  # fmt: skip


def _bounds(
    size: int, valid: Validation, test: float, context_length: int, path: Path
) -> list[tuple[int, int]]:
    """The (begin, end) of the training, validation and test tokens.

    Raises: DataError if one of the three is too short for a window.
    """
    first_test = first_valid = size - round(size * test)
    validates = held_out = first_test, size
    if valid != "test":
        first_valid -= round(size * float(valid))
        validates = first_valid, first_test
    training = 0, max(first_valid, 0)
    bounds = {"data.valid": validates, "data.test": held_out, "training": training}
    for part, (begin, end) in bounds.items():
        if end - begin <= context_length:
            raise errors.DataError(
                f"{path}: has {size} tokens, of which {part} gets {end - begin}, where "
                f"data.context_length={context_length} takes {context_length + 1}; shorten it, "
                f"choose other fractions (valid={valid}, test={test}), or give more text"
            )
    return [training, validates, held_out]


def _joined(folder: Path, cache: Path | None) -> Path:
    """A file with the `.txt` files below `folder`, one after the other in the order of their paths.

    It has the bytes of `cat`, and lies in the folder `cache` or beside `folder`; it is written if
    missing. Names that begin with a dot are ignored.
    Raises: DataError if there is no text, one cannot be read, or the file cannot be written; for
    texts of several parts of the data.
    """
    folder = folder.absolute()
    texts = _texts(folder)
    if not texts:
        raise errors.DataError(
            f"{folder}: has no text that ends in .txt; rename its texts, or name one file"
        )
    _refuse_parts(folder, texts)
    try:
        name = f"{folder.name}.{fingerprint.of_texts(map(fingerprint.of_file, texts))[:16]}.txt"
        joined = (cache or folder.parent) / name
        if not joined.is_file():
            guarded_folders.check_writing(joined)
            joined.parent.mkdir(parents=True, exist_ok=True)
            files.write_pieces(joined, files.chunks(*texts))
    except OSError as error:
        raise errors.DataError(
            f"{folder}: its texts cannot be joined ({error}); data.cache names the folder of the "
            "joined file"
        ) from error
    log.info("%s: %d texts are read as one, %s", folder, len(texts), joined)
    return joined


def _texts(folder: Path) -> list[Path]:
    paths = sorted(folder.rglob("*.[tT][xX][tT]"))
    return [path for path in paths if "/." not in f"/{path.relative_to(folder).as_posix()}"]


def _refuse_parts(folder: Path, texts: Sequence[Path]) -> None:
    """Refuses a text that trains beside one held out: as one text, the latter would train too."""
    by_part: dict[str, Path] = {}
    for path in texts:
        names = path.relative_to(folder).with_suffix("").parts
        for part in filter(None, map(part_of, ".".join(names).split("."))):
            by_part.setdefault(part, path)
    train = by_part.pop("train", None)
    if train and by_part:
        sets = ", ".join(f"own_{part}: {path}" for part, path in sorted(by_part.items()))
        held_out = next(iter(by_part.values())).name
        raise errors.DataError(
            f"{folder}: {train.relative_to(folder)} and {held_out} are parts of "
            "the data, and the texts of a folder are read as one, which is divided anew; name the "
            f"part that trains: data.path={train} 'data.valid_sets={{{sets}}}'"
        )
