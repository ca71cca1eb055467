"""The targets of a table: numbers, or classes with their names."""

import logging
import re
from typing import Literal

import numpy as np
import polars
import torch
from jaxtyping import Float, Int
from torch import Tensor

from andiron import errors
from andiron.data.on_disk.category_names import distinct, parsed, places, warn_of_classes
from andiron.data.on_disk.column_values import finite, typed
from andiron.data.on_disk.columns import Columns, Names
from andiron.data.splitting.standardisation import in_float64
from andiron.plain import readable

log = logging.getLogger("andiron")
Kind = Literal["classification", "regression"]
MOST_INTEGERS = 100  # different ones that are classes
MOST_RARE = 20  # names in a message
WHOLE = re.compile(r"[+-]?\d+")


def inferred_kind(table: Columns, targets: Names, *, of_integers: bool = False) -> Kind:
    """Classification if one target column has names, or whole numbers from 0 on, each repeated.

    `of_integers`: also for other whole numbers, if there are few.
    """
    values = table.column(targets[0])
    if len(targets) > 1 or values.dtype.is_numeric():
        return "regression"
    numbers = finite(values, table.reading)
    odd = {*values.filter(numbers.is_null())}
    counts = dict(values.value_counts().iter_rows())
    is_numbered = {*counts} == {*map(str, range(len(counts)))} and min(counts.values()) > 1
    is_few = of_integers and numbers.n_unique() <= MOST_INTEGERS
    is_class = None in map(parsed, odd) or is_numbered or is_few and (numbers % 1 == 0).all()
    return "classification" if is_class else "regression"


def target_numbers(table: Columns, targets: Names) -> Float[Tensor, "rows targets"]:
    """The target columns as numbers.

    Raises: DataError naming the first row and column with another value.
    """
    numbers = []
    for name in targets:
        values = table.column(name)
        _, valid = typed(values, "number", table.reading)
        numbers.append(in_float64(valid.to_numpy()))
        for row in valid.is_null().arg_true():
            raise errors.DataError(
                f"{table.row_name(row)}, column {name!r}: {values[row]!r} is not a finite number; "
                f"{'labels are 0 and 1: ' if len(targets) > 1 else ''}correct it, or remove the row"
            )
    return torch.from_numpy(np.stack(numbers, 1))


def sample_weights(table: Columns, name: str) -> Float[Tensor, " rows"]:
    """The column as weights with mean 1.

    Raises: DataError naming the first row whose weight is not greater than 0 in float32.
    """
    weights = in_float64(table.column(name).to_numpy())
    scaled = torch.from_numpy(weights / weights.mean()).float()
    for row in (~((scaled > 0) & scaled.isfinite())).nonzero().flatten().tolist():
        raise errors.DataError(
            f"{table.row_name(row)}, column {name!r}: {weights[row]:g} is not a weight, a number "
            "greater than 0; correct it, or remove the row"
        )
    return scaled


def target_classes(table: Columns, target: str) -> tuple[Int[Tensor, " rows"], list[str]]:
    """The class of each row, and the names of the classes: sorted, whole numbers by value."""
    written = table.column(target).unique()
    are_whole = all(map(WHOLE.fullmatch, written))
    names = distinct(sorted(written, key=lambda name: (int(name) if are_whole else 0, name)))
    where = f"{table.source}, column {target!r}"
    if len(names) == 1:
        raise errors.DataError(f"{where}: every row is {names[0]!r}; there is nothing to classify")
    warn_of_classes(where, names)
    classes = known_classes(table, target, names)
    counts = classes.bincount().tolist()
    if rare := [repr(name) for name, number in zip(names, counts) if number == 1]:
        what = f"classes with one row each: {readable.joined(rare, MOST_RARE)}"
        if 2 * len(rare) >= len(names):
            raise errors.DataError(
                f"{where}: {len(rare)} of {len(names)} are {what}; add rows of them, or predict "
                "numbers with data=csv_regression"
            )
        log.warning("%s: has %s; other parts of the data lack them", where, what)
    return classes, names


def known_classes(table: Columns, target: str, names: Names) -> Int[Tensor, " rows"]:
    """The class of each row, as a place in `names`; the same value may be written differently.

    Raises: DataError naming a row with another class.
    """
    values, place_of = table.column(target), places(names)
    known = {name: place_of(name) for name in values.unique()}
    for name in sorted(name for name, place in known.items() if place < 0):
        row = table.row_name(values.index_of(name) or 0)
        raise errors.DataError(
            f"{row}, column {target!r}: {name!r} is not a class of the training data"
            f"{errors.nearest(name, names)}; correct it, or remove the row"
        )
    of_rows = values.replace_strict(known, return_dtype=polars.Int64)
    return torch.from_numpy(of_rows.to_numpy(writable=True))
