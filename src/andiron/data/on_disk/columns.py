"""A table as named columns, independent of the file format: targets as numbers or as classes.

A reader of another kind of file makes `Columns` and passes them to `table_splits.of_columns`.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from andiron import errors

Kind = Literal["classification", "regression"]
WHOLE = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Columns:
    """Chosen columns of a table: `numbers` as float64, `texts` as they are written."""

    source: str  # the file, in messages
    names: tuple[str, ...]  # of the columns to predict from; numbers, but for those in `texts`
    numbers: Float[Tensor, "rows columns"]  # NaN where a value is missing
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # of a row counted from 0, in messages: "table.csv, line 12"
    row_name: Callable[[int], str] = "row {}".format
    dates: Collection[str] = ()  # which of the numbers are days since 1970-01-01
    record: Mapping[str, Any] = field(default_factory=dict)  # what was left out, for data.json

    def column(self, name: str) -> Float[Tensor, " rows"]:
        """One column of numbers."""
        return self.numbers[:, [each for each in self.names if each not in self.texts].index(name)]


def number(text: str, row: str, column: str) -> float:
    """The finite number that the text is.

    Raises: DataError, naming row and column, if it is not one.
    """
    value = finite(text)
    if value is None:
        raise errors.DataError(f"{row}, column {column!r}: {complaint(text)}")
    return value


def finite(text: str) -> float | None:
    """The finite number that the text is; None if it is not one."""
    value = parsed(text)
    # NaN and infinity; float() takes 1_000 for a thousand
    return None if value is None or value - value != 0 or "_" in text else value


def parsed(text: str) -> float | None:
    """The number that the text is for Python, NaN and infinity too; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None


def complaint(text: str) -> str:
    """Why the text is no finite number, and what to do."""
    if not text:
        return "has no value; fill it in, or remove the row"
    if parsed(text) is None:
        return f"{text!r} is not a number; correct it, or leave the column out of data.features"
    return f"{text!r} is not a finite number; correct or remove the row"


def inferred_kind(table: Columns, targets: Sequence[str]) -> Kind:
    """Classification if one target column has names, or whole numbers from 0 on, each repeated."""
    counts = Counter(table.texts[targets[0]])
    has_names = None in map(parsed, counts)
    is_numbered = min(counts.values()) >= 2 and all(
        str(number) in counts for number in range(len(counts))
    )
    is_class = len(targets) == 1 and (has_names or is_numbered)
    return "classification" if is_class else "regression"


def target_numbers(table: Columns, targets: Sequence[str]) -> Float[Tensor, "rows targets"]:
    """The target columns as numbers."""
    read = [
        [number(text, table.row_name(row), name) for row, text in enumerate(table.texts[name])]
        for name in targets
    ]
    return torch.tensor(read, dtype=torch.float64).T


def target_classes(table: Columns, target: str) -> tuple[Int[Tensor, " rows"], list[str]]:
    """The class of each row, and the names of the classes: sorted, whole numbers by value."""
    values = table.texts[target]
    counts = Counter(values)
    are_whole = all(map(WHOLE.fullmatch, counts))
    names = sorted(counts, key=lambda name: (int(name) if are_whole else 0, name))
    for name in names:
        if counts[name] == 1:
            row = table.row_name(values.index(name))
            raise errors.DataError(
                f"{row}, column {target!r}: the class {name!r} has only this row, and "
                "cannot be in both training and test set; add rows of it, or remove it"
            )
    if len(names) == 1:
        raise errors.DataError(
            f"{table.source}, column {target!r}: every row is {names[0]!r}; "
            "there is nothing to classify"
        )
    places = {name: place for place, name in enumerate(names)}
    return torch.tensor([places[value] for value in values]), names
