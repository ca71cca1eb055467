"""Any table in a delimited text or parquet file, its columns by name; problems by line."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from andiron import errors
from andiron.data.dataset import Dataset
from andiron.data.on_disk import other_files, table_splits
from andiron.data.on_disk.columns import (
    Columns,
    Decimal,
    Kind,
    Layout,
    Reading,
    Request,
    Thousands,
    distinct,
    warn_of_alike,
)
from andiron.data.on_disk.table_encoding import TableEncoding
from andiron.data.on_disk.train_valid_test import PARTS, part_of
from andiron.data.splitting import fingerprint
from andiron.data.splitting.splits import Splits, with_sets
from andiron.ranges import Index, Number, Proportion, Seed, SetName, Validation
from andiron.recording import keep_arguments

log = logging.getLogger("andiron")
Names = Annotated[Sequence[str], Field(min_length=1)]
Text = Annotated[str, Field(min_length=1)]


@keep_arguments
def csv(
    *,
    path: str,
    target: str | Names,
    features: Names | None = None,
    exclude: Names | None = None,
    kind: Literal["classification", "regression", "integer_classes"] | None = None,
    valid: Validation,
    test: Proportion | Text = 0.1,
    split_seed: Seed,
    standardise: bool = True,
    missing: Literal["refuse", "drop", "median", "mean"] | Number = "refuse",
    text: Literal["one_hot", "codes", "refuse"] = "one_hot",
    categories: Names | None = None,
    date_format: str | None = None,
    decimal: Decimal = ".",
    thousands: Thousands | None = None,
    missing_values: Sequence[Text | Number] | None = None,
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None,
    encoding: str | None = None,
    header: bool | Names | None = None,
    max_bad_lines: Index = 0,
    weight: str | None = None,
    valid_sets: dict[SetName, str] | None = None,
    units: None = None,  # in records of earlier versions
) -> Splits:
    """The rows of a file: `features` as float32, by default all columns but `target` and `exclude`.

    A column without a number has dates, if half of its values match `date_format` (default ISO
    8601), else text; `categories` are text columns. Dates become days since 1970-01-01.
    Text becomes an input for each category, or a code for an embedding. A row with a missing
    feature is refused or dropped, or the feature becomes the column's median or mean, or a number.
    Medians, means and categories are of the training rows; a missing or unknown category is
    all zeros, or code 0. The batcher standardises numbers and dates.
    In a regression the targets, one or several columns, are in their own unit. In a classification
    they are places in `class_names`, which are sorted (whole numbers by value). Without `kind` it
    is a classification if a target is not a number, or if the targets are the whole numbers from 0
    on, each at least twice; with integer_classes, also if they are other whole numbers.
    A parquet file has its columns by name; its rows are counted from 0. An index that pandas wrote
    is no feature, unless it is named.
    Numbers have the `decimal` and `thousands` separator. Missing
    are the usual texts, such as NA, and `missing_values`; if these are empty, empty cells alone.
    Without `delimiter` it is the first of , ; tab | and space that gives the header its names. The
    `encoding` is UTF-8. `header` has the names of a file without them. Up to
    `max_bad_lines` invalid lines are skipped. `test` is a fraction of the rows, or the path of
    another file. `valid_sets` are files of further validation sets by
    name, encoded and standardised as the training rows. The column `weight` has the weight of each
    sample in the training loss, relative to the others.
    Raises: DataError naming file, line and column of invalid values.
    """
    file, targets = Path(path), [target] if isinstance(target, str) else list(target)
    beside = [] if weight is None else [weight]
    _check_choice(
        targets, kind, {"features": features or (), "exclude": exclude or (), "weight": beside}
    )
    other_files.refuse_folder(file)
    checksum = fingerprint.of_file(file)
    kinds: dict[str, Kind] = dict.fromkeys(categories or (), "text")
    reading = Reading(text, kinds, date_format, decimal, thousands, missing_values)
    layout = Layout(delimiter, encoding, header)
    table = read(
        file,
        features=features,
        exclude=[*(exclude or ()), *beside],
        texts=targets,
        kept=beside,
        layout=layout,
        reading=reading,
        missing=missing,
        max_bad_lines=max_bad_lines,
        has_number_targets=kind == "regression",
    )
    if features is None:
        _warn_of_features(table)
    splits = table_splits.of_columns(
        table,
        targets,
        kind=kind,
        weight=weight,
        name=file.name,
        fingerprint=checksum,
        valid=valid,
        test=None if isinstance(test, str) else test,
        split_seed=split_seed,
        standardise=standardise,
        missing=missing,
        reading=reading,
    )
    same = {"missing": missing, "max_bad_lines": max_bad_lines, "layout": layout}
    return splits.then(lambda made: with_files(made, targets, test, valid_sets, **same))


def _warn_of_features(table: Columns) -> None:
    """Names columns that count the rows, or whose texts are parts of the data, or alike."""
    from andiron.data.on_disk.column_values import arguments  # polars takes 0.2 s

    for name in table.names:
        left_out = arguments({"exclude": [name]})
        if name in table.texts:
            _warn_of_texts(f"{table.source}, column {name!r}", [*table.texts[name]], left_out)
        elif name not in table.dates:
            values = table.column(name)
            if len(values) > 1 and (values.diff() > 0).all() and (values == values.round()).all():
                log.warning(
                    "%s: column %r increases with each row, and is a feature; if it numbers the "
                    "rows, set %s", table.source, name, left_out,
                )  # fmt: skip


def _warn_of_texts(where: str, texts: Sequence[str], left_out: str) -> None:
    """Names a column of texts that are parts of the data, or alike."""
    categories = distinct(sorted({*texts} - {""}))
    warn_of_alike(where, categories, "categories")
    if {"train"} < {*map(part_of, categories)} <= {*PARTS}:
        log.warning(
            "%s: names parts of the data (%s), and is a feature, while all rows are divided anew: "
            "write a file of each part, for data.path and data.test, or set %s",
            where, ", ".join(categories), left_out,
        )  # fmt: skip


def with_files(
    splits: Splits, targets: Sequence[str], test: Any, sets: Any, **options: Any
) -> Splits:
    """`splits` with further validation sets, and with the test set if `test` is a path."""

    def read_set(path: str) -> tuple[Dataset, str]:
        table = read_as(Path(path), splits.facts, targets, **options)
        rows = table_splits.further_set(table, targets, splits.facts)
        table_splits.warn_of_shared(splits.train, rows, table.source)
        return rows, fingerprint.of_file(Path(path))

    if isinstance(test, str):
        rows, checksum = read_set(test)
        valid = rows if splits.validates_on_test else splits.valid
        checksum = fingerprint.of_texts((splits.fingerprint, checksum))
        splits = replace(splits, test=rows, valid=valid, fingerprint=checksum)
    return with_sets(splits, sets, read_set)


def read_as(
    path: Path,
    facts: Mapping[str, Any],
    targets: Sequence[str],
    *,
    missing: Any = None,
    **options: Any,
) -> Columns:
    """The columns of another file, read as the data set with these `facts`.

    Raises: DataError as `read`.
    """
    encoding = TableEncoding.of_facts(facts)
    return read(
        path,
        features=[feature.column for feature in encoding.columns],
        texts=targets,
        reading=replace(encoding.reading, classes=facts.get("class_names", ())),
        missing="drop" if missing == "drop" else encoding.missing,
        has_number_targets="class_names" not in facts,
        **options,
    )


def read(source: Any, **options: Any) -> Columns:
    """The columns of a path, the content of a file, a data frame, or mappings.

    `options` are the fields of `columns.Request`.
    Raises: DataError for a missing column, or more than `max_bad_lines` invalid lines.
    """
    from andiron.data.on_disk import table_reading  # polars takes 0.2 s

    return table_reading.read(source, Request(**options))


def _check_choice(
    targets: list[str], kind: str | None, options: Mapping[str, Sequence[str]]
) -> None:
    if not targets or len(set(targets)) != len(targets):
        raise errors.DataError(
            f"data.target={targets}: should name one column, or several different ones"
        )
    if kind == "classification" and len(targets) > 1:
        raise errors.DataError(
            f"data.target={targets}: a classification has one target column; name one"
        )
    taken = dict.fromkeys(targets, "the target")
    for option, names in options.items():
        for name in names:
            if name in taken:
                what = f"{name!r} is already {taken[name]}"
                raise errors.DataError(f"data.{option}: {what}; name each column once")
            if option == "features":
                taken[name] = "in data.features"
