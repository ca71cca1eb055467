"""The targets of a table: numbers, or classes with their names."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars
import torch
from jaxtyping import Float, Int
from torch import Tensor

from andiron import errors
from andiron.data.on_disk.column_values import comma_hint, complaint, finite, parsed
from andiron.data.on_disk.columns import Columns

Kind = Literal["classification", "regression"]
WHOLE = re.compile(r"[+-]?\d+")


def inferred_kind(table: Columns, targets: Sequence[str]) -> Kind:
    """Classification if one target column has names, or whole numbers from 0 on, each repeated."""
    values = polars.Series(table.texts[targets[0]])
    odd = {*values.filter(finite(values, table.decimal).is_null())}
    counts = dict(values.value_counts().iter_rows()) if "0" in values else {}
    is_repeated = min(counts.values(), default=0) > 1
    is_numbered = is_repeated and {*counts} == {*map(str, range(len(counts)))}
    is_class = len(targets) == 1 and (None in map(parsed, odd) or is_numbered)
    return "classification" if is_class else "regression"


def target_numbers(table: Columns, targets: Sequence[str]) -> Float[Tensor, "rows targets"]:
    """The target columns as numbers.

    Raises: DataError naming the first row and column with another value.
    """
    texts = polars.DataFrame({name: table.texts[name] for name in targets})
    numbers = texts.select(finite(values, table.decimal) for values in texts)
    for name in targets:
        for row in numbers[name].is_null().arg_true():
            why = complaint(texts[name][row], table.decimal)
            raise errors.DataError(f"{table.row_name(row)}, column {name!r}: {why}")
    return torch.from_numpy(numbers.to_numpy(order="c", writable=True))


def sample_weights(table: Columns, name: str) -> Float[Tensor, " rows"]:
    """The column `name` of `table.kept` as weights with mean 1.

    Raises: DataError naming the first row whose weight is not a number greater than 0.
    """
    texts = polars.Series(table.kept[name])
    weights = finite(texts, table.decimal).to_numpy()
    scaled = torch.from_numpy(weights / np.nanmean(weights)).float()
    wrong = (~((scaled > 0) & scaled.isfinite())).nonzero().flatten()
    if len(wrong):
        row = int(wrong[0])
        text = texts[row]
        raise errors.DataError(
            f"{table.row_name(row)}, column {name!r}: {text!r} is not a weight, a number greater "
            f"than 0; correct it, or remove the row{comma_hint(text, table.decimal)}"
        )
    return scaled


def target_classes(table: Columns, target: str) -> tuple[Int[Tensor, " rows"], list[str]]:
    """The class of each row, and the names of the classes: sorted, whole numbers by value."""
    values = polars.Series(table.texts[target])
    counts = dict(values.value_counts().iter_rows())
    are_whole = all(map(WHOLE.fullmatch, counts))
    names = sorted(counts, key=lambda name: (int(name) if are_whole else 0, name))
    for name in names:
        if counts[name] == 1:
            row = table.row_name(int(values.index_of(name) or 0))
            raise errors.DataError(
                f"{row}, column {target!r}: the class {name!r} has only this row, and "
                "cannot be in both training and test set; add rows of it, or remove it"
                + comma_hint(name, table.decimal)
            )
    if len(names) == 1:
        raise errors.DataError(
            f"{table.source}, column {target!r}: every row is {names[0]!r}; "
            "there is nothing to classify"
        )
    return known_classes(table, target, names), names


def known_classes(table: Columns, target: str, names: Sequence[str]) -> Int[Tensor, " rows"]:
    """The class of each row, as a place in `names`.

    Raises: DataError naming a row with another class.
    """
    values = polars.Series(table.texts[target])
    for name in sorted({*values.unique()} - {*names}):
        row = table.row_name(int(values.index_of(name) or 0))
        raise errors.DataError(
            f"{row}, column {target!r}: {name!r} is not a class of the training data"
            f"{errors.nearest(name, names)}; correct it, or remove the row"
        )
    places = values.replace_strict(names, range(len(names)), return_dtype=polars.Int64)
    return torch.from_numpy(places.to_numpy(writable=True))
