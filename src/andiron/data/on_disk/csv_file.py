"""Any table in a delimited text or parquet file, its columns by name; problems by line."""

from __future__ import annotations  # help() shows them as they stand

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from andiron import errors
from andiron.data.dataset import Dataset
from andiron.data.on_disk import other_files, table_splits
from andiron.data.on_disk.columns import (
    argument,
    Categories,
    Columns,
    Decimal,
    Kind,
    Names,
    Reading,
    Request,
    Thousands,
)
from andiron.data.on_disk.table_encoding import TableEncoding
from andiron.data.splitting import fingerprint
from andiron.data.splitting.divided_rows import columns_of
from andiron.data.splitting.splits import Splits, with_sets
from andiron.plain import wings
from andiron.plain.plain_values import Named
from andiron.ranges import Index, Number, Proportion, Seed, SetFiles, SplitOption, Validation
from andiron.recording import keep_arguments

# options of how values are written, which another file may have otherwise
WRITTEN = ("decimal", "thousands", "date_format", "missing_values")
log = logging.getLogger("andiron")
MOST_SPAN = 2  # numbers for each row, if a table is a sample of what was numbered
SomeNames = Annotated[Names, Field(min_length=1)]
Text = Annotated[str, Field(min_length=1)]


@keep_arguments
def csv(
    *,
    path: str,
    target: str | SomeNames,
    features: SomeNames | None = None,
    exclude: SomeNames | None = None,
    kind: Literal["classification", "regression", "integer_classes"] | None = None,
    valid: Validation,
    test: Proportion | Text = 0.1,
    split_seed: Seed,
    split: SplitOption | None = None,
    missing: Literal["refuse", "drop", "median", "mean"] | Number = "refuse",
    missing_values: Sequence[Text | Number] | None = None,
    categories: Categories | SomeNames | dict[Text, Categories] | None = None,
    date_format: str | None = None,
    decimal: Decimal = ".",
    thousands: Thousands | None = None,
    encoding: str | None = None,
    header: SomeNames | None = None,
    max_bad_lines: Index = 0,
    weight: str | None = None,
    valid_sets: SetFiles = None,
    in_memory: bool = True,
    cache: str | None = None,
) -> Splits:
    """The rows of a file: `features` as float32, by default all columns but `target` and `exclude`.

    A column without a number has dates, if half of its values match `date_format` (default ISO
    8601), else text; `categories` are further text columns. Dates become days since 1970-01-01.
    Text becomes an input for each category, or a code for an embedding: `categories` is codes for
    all columns of text, or has one_hot or codes by column. A row with a missing feature is refused
    or dropped, or the feature becomes the column's median or mean, or a number; a row without a
    target is refused or else dropped.
    Medians, means and categories are of the training rows; a missing or unknown category is
    all zeros, or code 0. The batcher standardises numbers and dates.
    In a regression the targets, one or several columns, are in their own unit. In a classification
    they are places in `class_names`, which are sorted (whole numbers by value). Without `kind` it
    is a classification if a target is not a number, or if the targets are the whole numbers from 0
    on, each at least twice; with integer_classes, also if they are other whole numbers.
    A parquet file has its columns by name; its rows are counted from 0. An index that pandas wrote
    is no feature, unless it is named.
    Numbers have the `decimal` and `thousands` separators. Missing are the usual texts, such as NA,
    and `missing_values`; if these are empty, empty cells alone. The delimiter is the first of
    , ; tab | and space that gives the header its names. The `encoding` is UTF-8. `header` has the
    names of a file without them. Up to `max_bad_lines` invalid lines of a file are skipped. `test`
    is a fraction of the rows, or the path of another file. `valid_sets` are files of further
    validation sets by name, encoded and standardised as the training rows. The column `weight` has
    the weight of each sample in the training loss, relative to the others. `split` divides the
    rows (see `Division`); a column that it names is no feature, unless it is named. If not
    `in_memory`, the rows are written once, to the folder `cache` or .andiron beside the file.
    Raises: DataError naming file, line and column of invalid values.
    """
    file, targets = Path(path), [target] if isinstance(target, str) else list(target)
    _check_roles(targets, kind, features, exclude, [] if weight is None else [weight])
    other_files.refuse_folder(file)
    checksum = fingerprint.of_file(file)
    texts = () if isinstance(categories, str) else categories or ()
    kinds: dict[str, Kind] = dict.fromkeys(texts, "text")
    reading = Reading(
        kinds, date_format, decimal, thousands, missing_values, encoding=encoding, header=header
    )
    read_rows, prepare = read, table_splits.in_memory
    if not in_memory:
        lab = wings.required("data.table_on_disk", "data.in_memory=false", errors.DataError)
        read_rows, prepare = lab.of_file(file, checksum, cache)
    table = read_rows(
        file, features=features, targets=targets, exclude=exclude or (), weight=weight,
        kept=columns_of(split), reading=reading, missing=missing, max_bad_lines=max_bad_lines,
        has_number_targets=kind == "regression",
    )  # fmt: skip
    if features is None:
        _warn_of_counters(table, exclude or ())
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
        split=split,
        prepare=partial(prepare, missing=missing, categories=categories or ()),
    )
    options = {
        "encoding": encoding, "header": header, "missing": missing, "max_bad_lines": max_bad_lines,
    }  # fmt: skip
    return splits.then(lambda made: with_files(made, targets, test, valid_sets, options))


def _warn_of_counters(table: Columns, exclude: Names) -> None:
    """Names columns of whole numbers that increase with each row, or number rows in any order.

    The remedy leaves out the columns to `exclude`, too.
    """
    for name in (name for name, kind in table.kinds.items() if kind == "number"):
        values = table.column(name)
        if len(values) < 2 or not (values % 1 == 0).all():
            continue
        steps = np.diff(values.sort())
        is_counter = values.is_sorted() or steps.sum() < MOST_SPAN * len(values)
        if is_counter and (steps > 0).all():
            exclude = [*exclude, name]
            log.warning(
                "%s: column %r has another whole number in each row, and is a feature; if it "
                "numbers the rows, set %s", table.source, name, argument("exclude", exclude),
            )  # fmt: skip


def with_files(
    splits: Splits, targets: Names, test: Any, sets: Any, options: Named
) -> Splits:
    """`splits` with further validation sets, and with the test set if `test` is a path.

    `options` are the arguments of `csv`.
    """

    division: Any = splits.division

    def read_set(path: str, kept: Names = ()) -> tuple[Dataset, str]:
        table = read_as(Path(path), splits.facts, targets, options, kept)
        rows = table_splits.further_set(table, targets, splits.facts)
        table_splits.warn_of_shared(splits.train, rows, table.source)
        for values in table.kept.values():
            division.check_apart({"data.path": division.values, path: values})
        return rows, fingerprint.of_file(Path(path))

    if isinstance(test, str):
        is_group = division.kind == "group"
        rows, checksum = read_set(test, columns_of(division.option) if is_group else ())
        valid = rows if splits.validates_on_test else splits.valid
        checksum = fingerprint.of_texts((splits.fingerprint, checksum))
        splits = replace(splits, test=rows, valid=valid, fingerprint=checksum)
    return with_sets(splits, sets, read_set)


def read_as(
    path: Path, facts: Named, targets: Names, options: Named,
    kept: Names = (),
) -> Columns:  # fmt: skip
    """The columns of another file, read as the data set with these `facts` and `options`.

    `kept` are further columns, as text.

    Raises: DataError as `read`.
    """
    encoding = TableEncoding.of_facts(facts)
    written = {name: options[name] for name in WRITTEN if name in options}
    reading = replace(encoding.reading.laid_out(options), **written)
    return read(
        path,
        features=[feature.column for feature in encoding.columns],
        targets=targets,
        kept=kept,
        reading=replace(reading, classes=facts.get("class_names", ())),
        missing="drop" if options.get("missing") == "drop" else encoding.missing,
        max_bad_lines=options.get("max_bad_lines", 0),
        has_number_targets="class_names" not in facts,
    )


def read(source: Any, **options: Any) -> Columns:
    """The columns of a table: a path, the content of a file, or mappings.

    `options` are the fields of `columns.Request`.
    Raises: DataError for a missing column, or invalid rows.
    """
    from andiron.data.on_disk import delimited_text, table_checks, table_files  # polars takes 0.2 s

    request, name = Request(**options), ""
    if isinstance(source, Path | bytes):
        path, content = (source, None) if isinstance(source, Path) else (Path("stdin"), source)
        name = str(path)
        with table_files.opened(path, content, request.reading.encoding) as file:
            reader = delimited_text.table
            if table_files.is_parquet(path, file):
                reader = table_files.of_parquet
            table = reader(path, file, request)
    else:
        table = table_files.of_mappings(source, request)
    return table_checks.checked(name, table, request)


def _check_roles(targets: list[str], kind: str | None, *others: Names | None) -> None:
    """Raises: DataError for a column with two roles, or a number of targets that does not fit."""
    if not targets or kind == "classification" and len(targets) > 1:
        raise errors.DataError(
            f"data.target={targets}: should name one column, or in a regression several"
        )
    counts = Counter([*targets, *(name for names in others for name in names or ())])
    for name in counts:
        if counts[name] > 1:
            raise errors.DataError(
                f"data: column {name!r} is named twice in target, features, exclude and weight; "
                "name each column once"
            )
