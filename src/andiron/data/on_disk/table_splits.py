"""Rows of a table with a class or numbers to predict, divided into training, validation and test.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from andiron import errors
from andiron.data.batchers import ArrayBatcher
from andiron.data.dataset import ArrayDataset, Classes, Dataset
from andiron.data.on_disk import table_encoding
from andiron.data.on_disk.columns import Columns, Names
from andiron.data.on_disk.table_encoding import CHUNK_ROWS, QUANTITIES, EncodedTable, TableEncoding
from andiron.data.splitting import splits, standardisation
from andiron.data.splitting.divided_rows import Division, Option, Parts, columns_of
from andiron.progress import watched
from andiron.ranges import Validation

Facts = Mapping[str, Any]
# the encoding, the batcher, and a data set of rows with their targets and weights
Prepared = tuple[TableEncoding, ArrayBatcher, Callable[..., Dataset]]
MOST_SHARED = 0.01  # of the rows of another set, beyond those that repeat in the training set
OFFSET = "target_offset"  # subtracted in float64 from targets that vary little around it
log = logging.getLogger("andiron")


def of_columns(
    table: Columns,
    targets: Names,
    *,
    kind: Literal["classification", "regression", "integer_classes"] | None = None,
    weight: str | None = None,
    valid: Validation,
    test: float | None,
    split_seed: int,
    split: Option = None,
    **options: Any,
) -> splits.Splits:
    """The rows of `table`, with these columns as `targets`; `options` as in `of_rows`.

    Without `kind`, `table_targets.inferred_kind` decides. `weight` is a column of numbers.
    `split` divides the rows (see `Division`); its column is in `table.kept`.
    Raises: DataError naming row and column of an invalid target or weight, or the source if
    float32 cannot hold a column, or a part would be empty.
    """
    from andiron.data.on_disk import table_targets  # polars takes 0.2 s

    if weight is not None:
        options["weights"] = table_targets.sample_weights(table, weight)
        log.info("%s: the training loss is weighted by column %r", table.source, weight)
    if kind in (None, "integer_classes"):
        kind = table_targets.inferred_kind(table, targets, of_integers=kind is not None)
        has = "numbers to predict" if kind == "regression" else "classes"
        what = "%s: target %s read as %s (data.kind changes it)"
        log.info(what, table.source, ", ".join(targets), has)
    if kind == "regression":
        classes, values = None, table_targets.target_numbers(table, targets)
        options["target_columns"] = targets
    else:
        values, options["class_names"] = table_targets.target_classes(table, targets[0])
        classes = values
    options["division"] = division = division_of(table, split, classes)
    parts = division.parts(valid=valid, test=test, split_seed=split_seed)
    return splits.of_rows(partial(of_rows, table, values, **options), parts)


def division_of(table: Columns, split: Option, classes: Classes | None) -> Division:
    """The rows of a table, to be divided by the option `split`, whose column it has kept.

    Raises: DataError if dates only go back, as the last rows are held out in order.
    """
    values = [value for column in columns_of(split) for value in table.kept[column]]
    division = Division(len(table), split, classes, values, row_name=table.row_name)
    for name, kind in table.kinds.items() if division.kind == "in_order" else ():
        steps = np.diff(table.column(name).to_numpy()) if kind == "date" else np.empty(0)
        if (steps < 0).any() and not (steps > 0).any():
            raise errors.DataError(
                f"{table.source}: column {name!r} begins with the latest date, and data.split="
                "in_order holds out the last rows; sort the file by date"
            )
    return division


def further_set(table: Columns, targets: Names, facts: Facts) -> ArrayDataset:
    """All rows of another table, encoded as in the data set with these `facts`.

    Raises: DataError naming row and column of an invalid target, or of another class.
    """
    from andiron.data.on_disk import table_targets  # polars takes 0.2 s

    encoding = TableEncoding.of_facts(facts)
    encoding.warn_of_unknown_categories(table)
    encoded = encoding.encoded(table)
    encoded.check(table.source)
    rows = torch.arange(len(table))
    inputs, names = encoded.inputs(rows), table.names_of(rows.numpy())
    if "class_names" in facts:
        classes = table_targets.known_classes(table, targets[0], facts["class_names"])
        return ArrayDataset(inputs, classes, None, names)
    numbers = table_targets.target_numbers(table, targets)
    numbers -= torch.tensor(facts.get(OFFSET, 0.0), dtype=torch.float64)
    standardisation.check(numbers, targets, source=table.source)
    return ArrayDataset(inputs, numbers.float(), None, names)


def warn_of_shared(train: Dataset, other: Dataset, source: str) -> None:
    """Logs how many rows of `other` are training rows, unless these repeat as much by themselves.
    """
    import polars  # takes 0.2 s

    def hashes(rows: Dataset) -> polars.Series:
        chunks = map(rows.__getitems__, torch.split(torch.arange(len(rows)), CHUNK_ROWS))
        pairs = ([raw.inputs, raw.targets.view(len(raw.targets), -1).float()] for raw in chunks)
        hashed = [polars.from_numpy(torch.cat(pair, 1).numpy()).hash_rows() for pair in pairs]
        return polars.concat(hashed)

    known = hashes(train)
    shared = int(hashes(other).is_in(known.implode()).sum())
    if shared / len(other) > int(known.is_duplicated().sum()) / len(known) + MOST_SHARED:
        log.warning(
            "%s: %d of %d rows are training rows too: what is measured on them says little of "
            "new data", source, shared, len(other),
        )  # fmt: skip


def in_memory(table: Columns, rows: Tensor, **learned: Any) -> Prepared:
    """The inputs of the table, learned from `rows`; `learned` are the options of `fitted`.

    Raises: DataError as `fitted`, or if float32 cannot hold a column.
    """
    encoded = table_encoding.fitted(table, rows, **learned).encoded(table)
    encoded, batcher = standardised(encoded, rows, table.source)

    def dataset(chosen: Tensor, targets: Tensor, weights: Tensor | None) -> ArrayDataset:
        names = table.names_of(chosen.numpy())
        return ArrayDataset(encoded.inputs(chosen), targets, weights, names)

    return encoded.encoding, batcher, dataset


def standardised(
    table: EncodedTable, rows: Tensor, source: str
) -> tuple[EncodedTable, ArrayBatcher]:
    """The table, with offsets where float32 needs them, and the batcher that `rows` teach.

    Raises: DataError if float32 cannot hold a column.
    """
    batcher = _standardising(table, rows)
    around_mean = table.around(batcher.mean, batcher.std)
    if around_mean.encoding != table.encoding:
        table, batcher = around_mean, _standardising(around_mean, rows)
    table.check(source)
    return table, batcher


def of_rows(
    table: Columns,
    targets: Tensor,
    parts: Parts,
    *,
    target_columns: Names = (),
    class_names: Names | None = None,
    weights: Tensor | None = None,
    prepare: Callable[[Columns, Tensor], Prepared] = in_memory,
    **described: Any,
) -> splits.Splits:
    """These `parts` of the rows, prepared by what the training rows teach.

    `prepare` learns the encoding, and keeps the inputs in memory or elsewhere. Numbers stay in
    their own unit; the facts have their mean and standard deviation, in which `weights` [rows] of
    samples do not count. `described` are the other fields of `Splits`.
    """
    encoding, batcher, dataset = prepare(table, parts.train)
    facts: dict[str, Any] = {"input_shape": (len(encoding.names),), "columns": [*table.kinds]}
    if class_names is None:
        mean, std = standardisation.fit(targets[parts.train])
        facts |= {
            "num_outputs": targets.shape[1], "target_columns": [*target_columns],
            "target_mean": [*mean], "target_std": [*std],
        }  # fmt: skip
        offsets = [*map(standardisation.offset, targets.T, mean, std)]
        if any(offsets):
            facts[OFFSET] = [offset or 0.0 for offset in offsets]
            targets = targets - torch.tensor(facts[OFFSET], dtype=torch.float64)
        standardisation.check(targets, target_columns, source=table.source)
        targets = targets.float()
    else:
        facts |= {"num_classes": len(class_names), "class_names": [*class_names]}
    facts |= {"mean": [*batcher.mean], "std": [*batcher.std], **encoding.facts, **table.record}

    def subset(rows: Tensor) -> Dataset:
        return dataset(rows, targets[rows], None if weights is None else weights[rows])

    return splits.of_parts(subset, parts, batcher=batcher, facts=facts, **described)


def _standardising(table: EncodedTable, rows: Tensor) -> ArrayBatcher:
    """The batcher by mean and deviation of these rows; categories are unchanged."""
    chunks, what = torch.split(rows, CHUNK_ROWS), "means and deviations: groups of rows"
    mean, std = standardisation.fit_in_chunks(
        lambda: (table.inputs(of, torch.float64) for of in watched(chunks, what, len(chunks)))
    )
    kinds = [column.kind for column in table.encoding.columns for _ in column.names]
    kept = [(m, s) if kind in QUANTITIES else (0.0, 1.0) for m, s, kind in zip(mean, std, kinds)]
    return ArrayBatcher(*zip(*kept))
