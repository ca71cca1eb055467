"""A table as named columns, from whatever file: its targets as numbers, or as classes.

A reader of another kind of file makes `Columns` and passes them to `table_splits.of_columns`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
    names: tuple[str, ...]  # of the columns of numbers
    numbers: Float[Tensor, "rows columns"]
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # of a row counted from 0, in messages: "table.csv, line 12"
    row_name: Callable[[int], str] = "row {}".format


def number(text: str, row: str, column: str) -> float:
    """The finite number that the text is.

    Raises: DataError, naming row and column, if it is not one.
    """
    value = _parsed(text)
    if value is None:
        nonempty(text, row, column)
        raise errors.DataError(
            f"{row}, column {column!r}: {text!r} is not a number; "
            "correct it, or leave the column out of data.features"
        )
    if value - value != 0 or "_" in text:  # NaN and infinity; float() takes 1_000 for a thousand
        raise errors.DataError(
            f"{row}, column {column!r}: {text!r} is not a finite number; correct or remove the row"
        )
    return value


def nonempty(text: str, row: str, column: str) -> str:
    """The text. Raises: DataError, naming row and column, if it is empty."""
    if not text:
        raise errors.DataError(
            f"{row}, column {column!r}: has no value; fill it in, or remove the row"
        )
    return text


def inferred_kind(table: Columns, targets: Sequence[str]) -> Kind:
    """Classification if one target column has names, or whole numbers from 0 on, each repeated."""
    counts = Counter(table.texts[targets[0]])
    has_names = None in map(_parsed, counts)
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


def _parsed(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
