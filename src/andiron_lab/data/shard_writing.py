"""Writes texts as shards of tokens in a folder, with their tokenizer."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from andiron import errors
from andiron.disk import files
from andiron_lab.data import tokenizer_texts
from andiron_lab.data.shard_files import MANIFEST, TOKENIZER, DType, Manifest, ShardEntry

SHARD_TOKENS = 2**27  # of a shard, but for a document that is longer
BATCH_DOCUMENTS, BATCH_BYTES = 1024, 2**22  # tokenized at a time
MOST_DOCUMENT_BYTES = 2**28
CHUNK_BYTES = 2**20
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[SEP]")
LINES = (".jsonl", ".ndjson")


@dataclass
class ShardWriter:
    """Writes documents to shards in a folder; whole documents, one shard after the other."""

    folder: Path
    dtype: DType
    shard_tokens: int
    entries: list[ShardEntry] = field(default_factory=list)
    _tokens: list[Any] = field(default_factory=list)
    _files: list[tuple[BinaryIO, Any]] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, tokens: Sequence[int]) -> None:
        """Adds a document; begins a shard if this one would have more than `shard_tokens`."""
        if self._files and self._sizes[0] + len(tokens) > self.shard_tokens:
            self.finish()
        if not self._files:
            number = f"{len(self.entries):05}"
            names = self.folder / f"{number}.bin", self.folder / f"{number}.ends.bin"
            self._files = [(path.open("xb"), hashlib.sha256()) for path in names]
            self._sizes = [0, 0]
        self._sizes = [self._sizes[0] + len(tokens), self._sizes[1] + 1]
        end = np.array([self._sizes[0]], "<i8")
        document = np.asarray(tokens, f"<u{np.dtype(self.dtype).itemsize}")
        for (file, digest), content in zip(self._files, (document, end), strict=True):
            file.write(content.tobytes())
            digest.update(content.tobytes())

    def finish(self) -> None:
        """Ends the shard, if one is begun."""
        if not self._files:
            return
        for file, _ in self._files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        (tokens, tokens_digest), (ends, ends_digest) = self._files
        self.entries.append(ShardEntry(
            tokens=Path(tokens.name).name, num_tokens=self._sizes[0],
            tokens_sha256=tokens_digest.hexdigest(), ends=Path(ends.name).name,
            num_documents=self._sizes[1], ends_sha256=ends_digest.hexdigest(),
        ))  # fmt: skip
        self._files = []


def tokenize(
    sources: Sequence[Path],
    tokenizer: str,
    folder: Path,
    *,
    end: str | None = None,
    field: str = "text",
    separator: str | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> Manifest:
    """Writes the texts of the files as shards of tokens to a new folder; returns its manifest.

    A `.jsonl` file has a document in the `field` of each line; any other file is a document, or
    several with `separator` between. After each document comes the token `end`, by default the
    tokenizer's own end of text. `tokenizer` is a tokenizer.json, a folder with one, or a name on
    the Hugging Face Hub. The manifest is written last: a folder without it is not whole.
    Raises: DataError for a file that cannot be read or is no text, or an unknown tokenizer or end;
    OutputError if the folder exists.
    """
    named, content, model = _tokenizer(tokenizer)
    end_token = _end(model, end)
    model.encode_special_tokens = True  # in a text they are text
    size = max(model.get_vocab(with_added_tokens=True).values()) + 1
    dtype: DType = "uint16" if size <= 2**16 else "uint32"
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise errors.OutputError(f"{folder}: exists already; name another folder") from error
    try:
        files.write(folder / TOKENIZER, content)
        writer, records = ShardWriter(folder, dtype, shard_tokens), list[dict[str, Any]]()
        for path in sources:
            digest, number = hashlib.sha256(), 0
            for batch in _batches(_documents(path, digest, field, separator)):
                for encoding in model.encode_batch(batch, add_special_tokens=False):
                    writer.add(encoding.ids if end_token is None else [*encoding.ids, end_token])
                number += len(batch)
            records.append({"path": str(path), "documents": number, "sha256": digest.hexdigest()})
        writer.finish()
        manifest = Manifest(
            format="andiron token shards 1", dtype=dtype, vocabulary_size=size, end=end_token,
            tokenizer=named, tokenizer_sha256=hashlib.sha256(content).hexdigest(),
            shards=writer.entries, sources=records,
        )  # fmt: skip
        files.write_json(folder / MANIFEST, asdict(manifest))
    except BaseException:  # a missing source, or Ctrl-C: half a folder is of no use
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return manifest


def _tokenizer(name: str) -> tuple[str, bytes, Any]:
    """The name of a tokenizer, its tokenizer.json, and itself."""
    path = Path(name)
    if path.is_dir():
        path = path / TOKENIZER
    if path.exists() or path.suffix == ".json":
        model = tokenizer_texts.parsed(path)
        return str(path), path.read_bytes(), model
    from tokenizers import Tokenizer

    try:
        model = Tokenizer.from_pretrained(name)
        return name, model.to_str().encode(), model
    except Exception as error:  # the package raises no other class
        raise errors.DataError(
            f"--tokenizer {name}: is neither a file nor a name on the Hugging Face Hub "
            f"({errors.first_line(error)}); give the path of a tokenizer.json"
        ) from error


def _end(model: Any, named: str | None) -> int | None:
    """The number of the token after each document."""
    if named is None:
        known = (model.token_to_id(name) for name in ENDS)
        return next((token for token in known if token is not None), None)
    token: int | None = model.token_to_id(named)
    if token is None:
        raise errors.DataError(f"--end {named}: is no token of the tokenizer; give one of its own")
    return token


def _documents(path: Path, digest: Any, field: str, separator: str | None) -> Iterator[str]:
    """The documents of a file, of which all bytes are added to `digest`."""
    is_lines = path.suffix in LINES
    mark = b"\n" if is_lines else (separator or "").encode()
    try:
        for number, piece in enumerate(_split(path, digest, mark)):
            if is_lines:
                if piece.strip():
                    yield _field(path, number + 1, piece, field)
            elif piece or not mark:
                yield piece.decode()
    except UnicodeDecodeError as error:
        raise errors.DataError(
            f"{path}: is not UTF-8 ({error.reason} at byte {error.start} of document {number + 1})"
            "; convert it"
        ) from error
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{path}: cannot be read ({error})") from error


def _split(path: Path, digest: Any, mark: bytes) -> Iterator[bytes]:
    """The content of a file between marks; whole without a mark."""
    rest = b""
    with files.opened(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            *pieces, rest = (rest + chunk).split(mark) if mark else (rest + chunk,)
            yield from pieces
            if len(rest) > MOST_DOCUMENT_BYTES:
                raise ValueError(
                    f"has a document of more than {MOST_DOCUMENT_BYTES >> 20} MiB; divide it with "
                    "--separator, or into files"
                )
    yield rest


def _field(path: Path, line: int, content: bytes, field: str) -> str:
    try:
        row = json.loads(content)
    except ValueError as error:
        raise errors.DataError(f"{path}:{line}: is no JSON ({errors.first_line(error)})") from error
    text = row.get(field) if isinstance(row, Mapping) else None
    if not isinstance(text, str):
        raise errors.DataError(
            f"{path}:{line}: has no text in the field {field!r}; name another one with --field"
        )
    return text


def _batches(documents: Iterator[str]) -> Iterator[list[str]]:
    batch, length = list[str](), 0
    for document in documents:
        batch.append(document)
        length += len(document)
        if len(batch) == BATCH_DOCUMENTS or length > BATCH_BYTES:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch
