"""Any table in a delimited text file, its columns by name; every problem is reported by line."""

import array
import csv as csv_format
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field

from andiron import errors, files
from andiron.data import fingerprint
from andiron.data.on_disk import columns, table_splits
from andiron.data.splits import Splits
from andiron.ranges import Proportion, Seed, Validation

Names = Annotated[Sequence[str], Field(min_length=1)]


def csv(
    *,
    path: str,
    target: str | Names,
    features: Names | None = None,
    kind: Literal["classification", "regression"] | None = None,
    valid: Validation,
    test: Proportion = 0.1,
    split_seed: Seed,
    standardise: bool = True,
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ",",
) -> Splits:
    """The rows of a file: `features` as float32, by default all columns but `target`.

    The batcher standardises the features. In a regression the targets, one or several columns, are
    in their own unit. In a classification they are places in `class_names`, which are sorted (whole
    numbers by value). Without `kind` it is a classification if a target is not a number, or if the
    targets are the whole numbers from 0 on, each at least twice.
    Raises: DataError naming file, line and column of what is not such a table.
    """
    file, targets = Path(path), [target] if isinstance(target, str) else list(target)
    _check_choice(file, targets, features, kind)
    checksum = fingerprint.of_file(file)
    return table_splits.of_columns(
        read(file, features=features, texts=targets, delimiter=delimiter),
        targets,
        kind=kind,
        name=file.name,
        fingerprint=checksum,
        valid=valid,
        test=test,
        split_seed=split_seed,
        standardise=standardise,
    )


def read(
    path: Path, *, features: Sequence[str] | None, texts: Sequence[str], delimiter: str
) -> columns.Columns:
    """The columns `features` as numbers, by default all others, and `texts` as they are written.

    The first line has the names. Blank lines, and blanks around names and values, are ignored.
    Raises: DataError naming the line and the column of what is not a table of these.
    """
    rows = _rows(path, delimiter)
    line, header = next(rows, (0, []))
    if not header:
        raise errors.DataError(
            f"{path}: is empty; its first line should have the names of the columns"
        )
    _check_header(path, line, header, [*(features or ()), *texts])
    if features is None:
        features = [name for name in header if name not in texts]
    if not features:
        raise errors.DataError(
            f"{path}: has no column beside {', '.join(texts)}; there is nothing to learn from"
        )
    values, lines = array.array("d"), array.array("q")
    of_texts: dict[str, list[str]] = {name: [] for name in texts}
    for line, row in rows:
        where = f"{path}, line {line}"
        if len(row) != len(header):
            raise errors.DataError(
                f"{where}: has {len(row)} values where the header has {len(header)} names"
            )
        named = dict(zip(header, row, strict=True))
        values.extend([columns.number(named[name], where, name) for name in features])
        lines.append(line)
        for name in texts:
            of_texts[name].append(columns.nonempty(named[name], where, name))
    if not lines:
        raise errors.DataError(f"{path}: has a header and no rows; there is nothing to learn from")
    numbers = torch.frombuffer(values, dtype=torch.float64).view(len(lines), len(features))
    return columns.Columns(
        str(path), tuple(features), numbers, of_texts, lambda row: f"{path}, line {lines[row]}"
    )


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its line, counted from 1."""
    try:
        content = io.TextIOWrapper(files.opened(path), encoding="utf-8-sig", newline="")
        with content as file:
            reader = csv_format.reader(file, delimiter=delimiter, strict=True)
            for row in reader:
                if row:
                    yield reader.line_num, [value.strip() for value in row]
    except (csv_format.Error, UnicodeDecodeError) as error:
        raise errors.DataError(
            f"{path}, after line {reader.line_num}: cannot be read ({error}); correct it"
        ) from error


def _check_header(path: Path, line: int, header: list[str], wanted: list[str]) -> None:
    for place, name in enumerate(header, start=1):
        if not name or header.index(name) != place - 1:
            what = f"the name {name!r} twice" if name else f"no name for column {place}"
            raise errors.DataError(
                f"{path}, line {line}: the header has {what}; give each column a name of its own"
            )
    for name in wanted:
        if name not in header:
            hint = errors.nearest(name, header)
            raise errors.DataError(
                f"{path}: has no column {name!r}{hint}; its columns are: {', '.join(header)}"
            )


def _check_choice(
    file: Path, targets: list[str], features: Sequence[str] | None, kind: str | None
) -> None:
    if not targets or len(set(targets)) != len(targets):
        raise errors.DataError(
            f"data.target={targets}: should name one column, or several different ones"
        )
    if kind == "classification" and len(targets) > 1:
        raise errors.DataError(
            f"data.target={targets}: a classification has one target column; name one"
        )
    for name, count in Counter(features or ()).items():
        if name in targets or count > 1:
            what = "is also the target" if name in targets else "is listed twice"
            raise errors.DataError(
                f"data.features: {name!r} {what}; name each column of {file.name} once"
            )
