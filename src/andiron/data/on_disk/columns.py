"""Columns of a delimited text file, by name: numbers as numbers, every problem by its line."""

import array
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from andiron import errors


@dataclass(frozen=True)
class Columns:
    """The chosen columns of a file: `numbers` of those read as numbers, `texts` of the others, the line of each row."""

    path: Path
    names: tuple[str, ...]  # of the columns of numbers
    numbers: Float[Tensor, "rows columns"]
    texts: dict[str, list[str]]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)


def read(
    path: Path, *, features: Sequence[str] | None, texts: Sequence[str], delimiter: str
) -> Columns:
    """The columns `features` of the file as numbers, by default all that are not `texts`, and `texts` as they stand.

    The first line has the names. Blank lines are passed over, and blanks around a name or a value.
    Raises: DataError, naming the line and the column, for whatever is no table of these.
    """
    rows = _rows(path, delimiter)
    line, header = next(rows, (0, []))
    if not header:
        raise errors.DataError(
            f"{path}: is empty; its first line should have the names of the columns"
        )
    _check_header(path, line, header, [*(features or ()), *texts])
    names = tuple(
        features if features is not None else [name for name in header if name not in texts]
    )
    if not names:
        raise errors.DataError(
            f"{path}: has no column beside {', '.join(texts)}; there is nothing to learn from"
        )
    values, lines = array.array("d"), array.array("q")
    kept: dict[str, list[str]] = {name: [] for name in texts}
    wanted, others = (
        [header.index(name) for name in names],
        [(header.index(name), kept[name]) for name in texts],
    )
    for line, row in rows:
        if len(row) != len(header):
            raise errors.DataError(
                f"{path}, line {line}: has {len(row)} values where the header has {len(header)} names"
            )
        values.extend([number(row[place], path, line, header[place]) for place in wanted])
        lines.append(line)
        for place, texts_of in others:
            texts_of.append(present(row[place], path, line, header[place]))
    if not lines:
        raise errors.DataError(f"{path}: has a header and no rows; there is nothing to learn from")
    numbers = torch.frombuffer(values, dtype=torch.float64).view(len(lines), len(names))
    return Columns(path, names, numbers, kept, lines)


def number(text: str, path: Path, line: int, column: str) -> float:
    """The finite number that the text is.

    Raises: DataError, naming the place, if it is none.
    """
    try:
        value = float(text)
    except ValueError:
        present(text, path, line, column)
        raise errors.DataError(
            f"{path}, line {line}, column {column!r}: {text!r} is no number; mend it, or leave the column out of data.features"
        ) from None
    if value - value != 0 or "_" in text:  # nan and infinity; float() takes 1_000 for a thousand
        raise errors.DataError(
            f"{path}, line {line}, column {column!r}: {text!r} is no finite number; mend or remove the row"
        )
    return value


def present(text: str, path: Path, line: int, column: str) -> str:
    """The text, if there is any.

    Raises: DataError, naming the place, if there is none.
    """
    if not text:
        raise errors.DataError(
            f"{path}, line {line}, column {column!r}: has no value; fill it in, or remove the row"
        )
    return text


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with its line's number, counted from 1."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                for row in reader:
                    if row:
                        yield reader.line_num, [value.strip() for value in row]
            except (csv.Error, UnicodeDecodeError) as error:
                raise errors.DataError(
                    f"{path}, after line {reader.line_num}: cannot be read ({error}); mend it"
                ) from error
    except OSError as error:
        raise errors.DataError(
            f"{path}: cannot be read ({error.strerror}); name a file with data.path"
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
