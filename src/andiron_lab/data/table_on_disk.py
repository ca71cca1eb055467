"""Tables larger than memory, converted once into arrays on the disk, from which runs read batches.

`data=csv data.in_memory=false` reads one column at a time, and makes the numbers of the table in
memory. A folder `table-KEY` then has `column-0.arrow` and so on, the checked columns, and for each
choice of training rows `inputs-KEY.safetensors`, the inputs of all rows, and `inputs-KEY.json`, how
they are encoded. KEY is of the file's content and the options that matter. `rm -r .andiron` removes
all; what a later run needs is written again, with the same bytes.
"""

import dataclasses
import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from numpy.lib.format import open_memmap
from torch import Tensor

from andiron import errors
from andiron.data.batchers import ArrayBatcher
from andiron.data.dataset import Dataset, Indices, RawBatch, WeightedBatch
from andiron.data.on_disk import csv_file, stored, table_encoding, table_splits
from andiron.data.on_disk.columns import Columns, Reading
from andiron.data.on_disk.stored import StoredArray
from andiron.data.on_disk.table_encoding import CHUNK_ROWS, EncodedTable, TableEncoding
from andiron.data.splitting import fingerprint
from andiron.disk import files, guarded_folders
from andiron.progress import watched
from andiron.serialization import safetensors_codec
from andiron_lab.data.column_files import ColumnFiles, workspace_in

VERSION = 1  # of the conversion; each version has its own folders
FOLDER = ".andiron"  # beside the table
LOCK = "lock"  # held while a table is converted, one at a time
UNFINISHED = "unfinished-"  # folders of a conversion, removed by the next if it was killed
NOTE, KEPT = "table.json", "kept"
LINES = "lines.npy"
log = logging.getLogger("andiron")


def of_file(path: Path, checksum: str, cache: str | None) -> tuple[Callable[..., Any], ...]:
    """Functions in the place of `csv_file.read` and `table_splits.in_memory`, for one file.

    `checksum` is of its content; the arrays are in the folder `cache`, or in FOLDER beside it.
    """
    root = Path(cache) if cache else path.absolute().parent / FOLDER

    def read(source: Path, **options: Any) -> Columns:
        folder = root / f"table-{_key(VERSION, checksum, options)}"

        def write(unfinished: Path) -> None:
            log.info("%s: converting it once, into %s", path, folder)
            _write_columns(source, options, unfinished)

        _make(folder, root, write)
        return _columns(source, folder, options)

    return read, _prepared


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The samples at `rows` of `inputs`, with their targets and, if given, weights."""

    inputs: StoredArray
    rows: Tensor
    targets: Tensor
    weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: Indices) -> RawBatch | WeightedBatch:
        """The samples at `indices`, in this order. Raises: DataError if the file cannot be read."""
        chosen = torch.as_tensor(indices)
        raw = RawBatch(self.inputs.read(self.rows[chosen]), self.targets[chosen])
        return raw if self.weights is None else WeightedBatch(*raw, self.weights[chosen])


@dataclass(frozen=True)
class EncodedColumn:
    """The numbers or codes of a column in a file, mapped into memory only while they are copied."""

    path: Path
    dtype: np.dtype[Any]

    def __getitem__(self, rows: Any) -> Shaped[np.ndarray, " number"]:
        return np.array(open_memmap(self.path, mode="r")[rows])


def _prepared(
    table: Columns, rows: Tensor, **learned: Any
) -> tuple[TableEncoding, ArrayBatcher, Callable[..., Dataset]]:
    """The inputs of the table in a file, learned from `rows`; as `table_splits.in_memory`."""
    columns: Any = table.frame
    key = _key(fingerprint.of_tensors(rows), learned)
    inputs, note = (columns.folder / f"inputs-{key}.{kind}" for kind in ("safetensors", "json"))

    def write(unfinished: Path) -> None:
        encoded = _encoded(table, table_encoding.fitted(table, rows, **learned), unfinished.parent)
        encoded, batcher = table_splits.standardised(encoded, rows, table.source)
        _write_inputs(encoded, len(table), unfinished, table.source)
        learnt = {"mean": batcher.mean, "std": batcher.std, **encoded.encoding.facts}
        files.write_json(note, {"columns": [*table.kinds], **learnt})

    _make(inputs, columns.folder.parent, write)
    facts = files.read_json(note, safetensors_codec.MAX_HEADER_BYTES)
    missing = "refuse" if learned["missing"] == "drop" else learned["missing"]
    given: dict[str, Any] = {"missing": missing}  # as given: 7, not 7.0
    given["missing_values"] = table.reading.missing_values
    encoding = dataclasses.replace(TableEncoding.of_facts(facts), **given)
    batcher = ArrayBatcher(tuple(facts["mean"]), tuple(facts["std"]))
    return encoding, batcher, partial(StoredRows, stored.arrays_in(inputs)["inputs"])


def _key(*parts: Any) -> str:
    """16 letters that are the same for equal values, which may have options of a table."""
    def plain(value: Any) -> Any:
        return vars(value) if isinstance(value, Reading) else list(value)

    return fingerprint.of_texts(json.dumps(parts, default=plain, sort_keys=True))[:16]


def _make(path: Path, root: Path, write: Callable[[Path], None]) -> None:
    """Writes `path` in `root` if it is not there; one process at a time, others wait.

    `write` gets the path of a file or folder that is renamed once it is whole.
    Raises: DataError if it cannot be written.
    """
    import fcntl  # Windows has none

    if path.exists():
        return
    try:
        guarded_folders.check_writing(root)
        root.mkdir(parents=True, exist_ok=True)
        with (root / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for killed in root.glob(f"{UNFINISHED}*"):
                shutil.rmtree(killed)
            with TemporaryDirectory(prefix=UNFINISHED, dir=root) as unfinished:
                if not path.exists():
                    write(Path(unfinished) / path.name)
                    (Path(unfinished) / path.name).rename(path)
    except OSError as error:
        raise errors.DataError(
            f"{root}: cannot be written to ({error.strerror}), and data.in_memory=false keeps the "
            "rows of the table there; make room, name another folder with data.cache, or convert "
            "the table by training first, which check and evaluate then read"
        ) from error


def _write_columns(source: Path, options: dict[str, Any], folder: Path) -> None:
    folder.mkdir()
    with TemporaryDirectory(prefix=UNFINISHED, dir=folder.parent) as texts:
        workspace = workspace_in(Path(texts), ColumnFiles(folder))
        table = csv_file.read(source, **options, workspace=workspace)
    np.save(folder / LINES, np.asarray(table.lines))
    kept: Any = table.kept
    ColumnFiles(folder, kind=KEPT).update(kept)
    note = {"columns": [*workspace.columns], "kinds": table.kinds, "unit": table.unit}
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())  # before the folder gets its name
    files.write_json(folder / NOTE, {**note, "record": table.record})


def _columns(source: Path, folder: Path, options: dict[str, Any]) -> Columns:
    """The columns in a folder that `_write_columns` wrote."""
    note = files.read_json(folder / NOTE, safetensors_codec.MAX_HEADER_BYTES)
    columns = ColumnFiles(folder, note.pop("columns"))
    kept = {**ColumnFiles(folder, options["kept"], KEPT)}
    lines = open_memmap(folder / LINES, mode="r")
    return Columns(str(source), columns, reading=options["reading"], kept=kept, lines=lines, **note)


def _encoded(table: Columns, encoding: TableEncoding, folder: Path) -> EncodedTable:
    """The table's columns as numbers and codes, in files of `folder`."""
    columns = []
    for place, column in enumerate(watched(encoding.columns, f"{table.source}: encoded columns")):
        values, path = column.encoded(table.column(column.column)), folder / f"encoded-{place}.npy"
        np.save(path, values)
        columns.append(EncodedColumn(path, values.dtype))
    return EncodedTable(encoding, columns)


def _write_inputs(table: EncodedTable, size: int, path: Path, source: str) -> None:
    """Writes the inputs of all rows, as float32."""
    shape = [size, len(table.encoding.names)]
    chunks = torch.split(torch.arange(size), CHUNK_ROWS)
    inputs = map(table.inputs, watched(chunks, f"{source}: groups of rows", len(chunks)))
    shapes = {"inputs": (torch.float32, shape)}
    files.write_pieces(path, safetensors_codec.pieces(shapes, inputs))
