"""Rows of numbers with a class or numbers to predict, divided into training, validation and test.

`of_columns` reads the targets from columns of the table, `split` takes them as a tensor.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from andiron.data.batchers import ArrayBatcher
from andiron.data.dataset import ArrayDataset
from andiron.data.on_disk import columns, table_encoding
from andiron.data.on_disk.columns import PLAIN, Reading
from andiron.data.on_disk.table_encoding import TableEncoding
from andiron.data.splitting import splits, standardisation
from andiron.ranges import Validation

Facts = Mapping[str, Any]
CHUNK_ROWS = 2**14  # fit the cache
MOST_SHARED = 0.01  # of the rows of another set, beyond those that training rows share
OFFSET = "target_offset"  # subtracted in float64 from targets that vary little around it
log = logging.getLogger("andiron")


def of_columns(
    table: columns.Columns,
    targets: Sequence[str],
    *,
    kind: Literal["classification", "regression", "integer_classes"] | None = None,
    weight: str | None = None,
    **options: Any,
) -> splits.Splits:
    """The rows of `table`, its `texts` being the columns `targets`; `options` as in `split`.

    Without `kind`, `table_targets.inferred_kind` decides. `weight` is a column of `table.kept`.
    Raises: DataError naming row and column of an invalid target or weight.
    """
    from andiron.data.on_disk import table_targets  # polars takes 0.2 s

    if weight is not None:
        options["weights"] = table_targets.sample_weights(table, weight)
        log.info("%s: the training loss is weighted by column %r", table.source, weight)
    if kind in (None, "integer_classes"):
        of_integers = kind is not None
        kind = table_targets.inferred_kind(table, targets, of_integers=of_integers)
        has = "numbers to predict" if kind == "regression" else "classes"
        names = ", ".join(targets)
        log.info("%s: target %s read as %s (data.kind changes it)", table.source, names, has)
    if kind == "regression":
        numbers = table_targets.target_numbers(table, targets)
        return split(table, numbers, target_columns=targets, **options)
    classes, class_names = table_targets.target_classes(table, targets[0])
    return split(table, classes, class_names=class_names, **options)


def further_set(table: columns.Columns, targets: Sequence[str], facts: Facts) -> ArrayDataset:
    """All rows of another table, encoded as in the data set with these `facts`.

    Raises: DataError naming row and column of an invalid target, or of another class.
    """
    from andiron.data.on_disk import table_targets  # polars takes 0.2 s

    encoding = TableEncoding.of_facts(facts)
    encoding.warn_of_unknown_categories(table)
    inputs = encoding.inputs(table)
    standardisation.check(inputs, encoding.names, source=table.source)
    if "class_names" in facts:
        found = table_targets.known_classes(table, targets[0], facts["class_names"])
    else:
        numbers = table_targets.target_numbers(table, targets)
        numbers -= torch.tensor(facts.get(OFFSET, 0.0), dtype=torch.float64)
        standardisation.check(numbers, targets, source=table.source)
        found = numbers.float()
    return ArrayDataset(inputs.float(), found)


def warn_of_shared(train: Any, other: ArrayDataset, source: str) -> None:
    """Logs how many rows of `other` are training rows, unless these repeat as much by themselves.
    """
    import polars  # takes 0.2 s

    def hashes(rows: Any) -> polars.Series:
        targets = rows.targets.view(len(rows), -1).float()
        return polars.from_numpy(torch.cat([rows.inputs, targets], 1).numpy()).hash_rows()

    known = hashes(train)
    shared = int(hashes(other).is_in(known.implode()).sum())
    is_all = shared == len(other) >= len(train)
    if is_all or shared / len(other) > int(known.is_duplicated().sum()) / len(known) + MOST_SHARED:
        log.warning(
            "%s: %d of %d rows are training rows too: what is measured on them says little of "
            "new data", source, shared, len(other),
        )  # fmt: skip


def split(
    table: columns.Columns,
    targets: Tensor,
    *,
    class_names: Sequence[str] | None = None,
    valid: Validation,
    test: float | None,
    split_seed: int,
    **options: Any,
) -> splits.Splits:
    """The rows of a table as inputs, with `targets` [rows]: classes or numbers.

    With `class_names` they are classes; numbers to predict are [rows, target_columns]. Every part
    has its share of every class (see `stratified_split`). The other arguments are as in `of_rows`.
    Raises: DataError naming the source if float32 cannot hold a column, or a part would be empty.
    """
    classes = None if class_names is None else targets
    parts = splits.parts(
        len(targets), valid=valid, test=test, split_seed=split_seed, classes=classes
    )
    make = partial(of_rows, table, targets, class_names=class_names, **options)
    return splits.of_rows(make, parts)


def of_rows(
    table: columns.Columns,
    targets: Tensor,
    parts: splits.Parts,
    *,
    target_columns: Sequence[str] = (),
    class_names: Sequence[str] | None = None,
    standardise: bool = True,
    missing: str | float = "refuse",
    reading: Reading = PLAIN,
    encoding: TableEncoding | None = None,
    weights: Tensor | None = None,
    target_offset: Sequence[float] | None = None,
    **described: Any,
) -> splits.Splits:
    """These `parts` of the rows, prepared by what the training rows teach.

    Without an `encoding` it is learned from them, with `missing` and `reading`. Numbers stay in
    their own unit; the facts have their mean and standard deviation, in which `weights` [rows] of
    samples do not count. Targets are less `target_offset`, by default learned. `described` are the
    other fields of `Splits`.
    """
    is_learned = encoding is None
    if encoding is None:
        encoding = table_encoding.fitted(table, parts.train, missing=missing, reading=reading)
    else:
        encoding.warn_of_unknown_categories(table)
    inputs = encoding.inputs(table)
    facts: dict[str, Any] = {"input_shape": (inputs.shape[1],), "columns": list(table.names)}
    if class_names is None:
        mean, std = standardisation.fit(targets[parts.train])
        facts |= {"num_outputs": targets.shape[1], "target_columns": list(target_columns)}
        facts |= {"target_mean": list(mean), "target_std": list(std)}
        found = standardisation.offsets(targets, mean, std) if is_learned else target_offset or ()
        if any(found):
            facts[OFFSET] = [each or 0.0 for each in found]
            targets = targets - torch.tensor(facts[OFFSET], dtype=torch.float64)
        standardisation.check(targets, target_columns, source=table.source)
        targets = targets.float()
    else:
        facts |= {"num_classes": len(class_names), "class_names": list(class_names)}
    batcher = ArrayBatcher()
    if standardise:
        batcher = _standardising(inputs, parts.train, encoding.is_quantity)
        offsets = standardisation.offsets(inputs, batcher.mean, batcher.std)
        if is_learned and any(offsets):
            encoding = encoding.around(dict(zip(encoding.names, offsets, strict=True)))
            inputs = encoding.inputs(table)
            batcher = _standardising(inputs, parts.train, encoding.is_quantity)
        facts |= {"mean": list(batcher.mean), "std": list(batcher.std)}
    standardisation.check(inputs, encoding.names, source=table.source)
    facts |= encoding.facts | dict(table.record)

    def subset(rows: Tensor) -> ArrayDataset:
        chosen = None if weights is None else weights[rows]
        return ArrayDataset(_float32_rows(inputs, rows), targets[rows], chosen)

    return splits.of_parts(subset, parts, batcher=batcher, facts=facts, **described)


def _float32_rows(inputs: Tensor, rows: Tensor) -> Tensor:
    """`inputs[rows]` in float32, without a copy of them all in float64."""
    chosen = torch.empty(len(rows), inputs.shape[1])
    chunks = zip(torch.split(chosen, CHUNK_ROWS), torch.split(rows, CHUNK_ROWS), strict=True)
    for chunk, indices in chunks:
        chunk.copy_(inputs[indices])
    return chosen


def _standardising(inputs: Tensor, rows: Tensor, is_scaled: Sequence[bool]) -> ArrayBatcher:
    """The batcher by mean and deviation of these rows; categories are unchanged."""
    chunks = torch.split(rows, CHUNK_ROWS)
    mean, std = standardisation.fit_in_chunks(lambda: (inputs[indices] for indices in chunks))
    kept = [(m, s) if scaled else (0.0, 1.0) for m, s, scaled in zip(mean, std, is_scaled)]
    return ArrayBatcher(*zip(*kept))
