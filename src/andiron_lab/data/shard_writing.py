"""Writes texts as shards of tokens in a folder, with their tokenizer."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from andiron import errors
from andiron.data.splitting import fingerprint
from andiron.disk import files, tokenizer_files
from andiron_lab.data import tokenizer_texts
from andiron_lab.data.shard_files import MANIFEST, TOKENIZER, DType, Manifest, ShardEntry

SHARD_TOKENS = 2**27  # of a shard, but for a document that is longer
BATCH_DOCUMENTS, BATCH_BYTES = 1024, 2**22  # tokenized at a time
MOST_DOCUMENT_BYTES = 2**28
CHUNK_BYTES = 2**20
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[SEP]")
LINES = (".jsonl", ".ndjson")


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
    tokenizer_files.turn_off_dropout(model.model)
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
        texts = ((path, _documents(path, field, separator)) for path in sources)
        ends, records = [] if end_token is None else [end_token], list[dict[str, Any]]()
        manifest = Manifest(
            format="andiron token shards 1", dtype=dtype, vocabulary_size=size, end=end_token,
            tokenizer=named, tokenizer_sha256=hashlib.sha256(content).hexdigest(),
            shards=_write_shards(_tokens(texts, model, ends, records), folder, dtype, shard_tokens),
            sources=records,
        )  # fmt: skip
        files.write_json(folder / MANIFEST, asdict(manifest))
    except BaseException:  # a missing source, or Ctrl-C: half a folder is of no use
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return manifest


def _tokens(
    texts: Iterable[tuple[Path, Iterator[str]]], model: Any, ends: list[int],
    records: list[dict[str, Any]],
) -> Iterator[list[int]]:  # fmt: skip
    """The tokens of each document, with the `ends`; adds a record of each file that is read."""
    for path, documents in texts:
        number = 0
        for batch in _batches(documents):
            number += len(batch)
            for encoding in model.encode_batch(batch, add_special_tokens=False):
                yield encoding.ids + ends
        records.append({
            "path": str(path), "documents": number, "sha256": fingerprint.of_file(path)
        })  # fmt: skip


def _write_shards(
    documents: Iterator[list[int]], folder: Path, dtype: DType, shard_tokens: int
) -> list[ShardEntry]:
    """Writes whole documents to shards of at most `shard_tokens`, or of one longer document."""
    entries, document = list[ShardEntry](), next(documents, None)
    while document is not None:
        name = f"{len(entries):05}"
        paths, size, number = (folder / f"{name}.bin", folder / f"{name}.ends.bin"), 0, 0
        with paths[0].open("xb") as tokens, paths[1].open("xb") as ends:
            while document is not None and (not number or size + len(document) <= shard_tokens):
                size, number = size + len(document), number + 1
                tokens.write(np.array(document, np.dtype(dtype).newbyteorder("<")).tobytes())
                ends.write(np.array(size, "<i8").tobytes())
                document = next(documents, None)
            for file in (tokens, ends):
                file.flush()
                os.fsync(file.fileno())
        entries.append(ShardEntry(
            tokens=paths[0].name, num_tokens=size, tokens_sha256=fingerprint.of_file(paths[0]),
            ends=paths[1].name, num_documents=number, ends_sha256=fingerprint.of_file(paths[1]),
        ))  # fmt: skip
    return entries


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


def _documents(path: Path, field: str, separator: str | None) -> Iterator[str]:
    """The documents of a file."""
    is_lines = path.suffix in LINES
    mark = b"\n" if is_lines else (separator or "").encode()
    try:
        for number, piece in enumerate(_split(path, mark)):
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


def _split(path: Path, mark: bytes) -> Iterator[bytes]:
    """The content of a file between marks; whole without a mark."""
    rest = b""
    with files.opened(path) as file:
        while chunk := file.read(CHUNK_BYTES):
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
