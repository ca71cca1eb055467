"""Any table in a text file, its columns by name."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import columns, table_splits
from andiron.data import fingerprint
from andiron.data.on_disk.columns import Columns
from andiron.data.splits import Splits
from andiron.ranges import Proportion, Seed, Validation

Names = Annotated[Sequence[str], Field(min_length=1)]
Kind = Literal["classification", "regression"]
WHOLE = re.compile(r"[+-]?\d+")
log = logging.getLogger("andiron")


def csv(
    *,
    path: str,
    target: str | Names,
    features: Names | None = None,
    kind: Kind | None = None,
    valid: Validation,
    test: Proportion = 0.1,
    split_seed: Seed,
    standardise: bool = True,
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ",",
) -> Splits:
    """The rows of a delimited file: `features` as float32, by default all columns but `target`, standardised by the batcher.

    For regression the targets are in their own unit, one or several columns. For classification they are the places of
    the names in `class_names`, sorted (whole numbers by value). Without `kind` it is classification if a target is no
    number, or if the targets are the whole numbers from 0 on, each there at least twice.
    Raises: DataError, naming file, line and column, for what is no such table.
    """
    file, targets = Path(path), [target] if isinstance(target, str) else list(target)
    _check_choice(file, targets, features, kind)
    table = columns.read(file, features=features, texts=targets, delimiter=delimiter)
    chosen = kind or _inferred(table, targets)
    content: dict[str, Any] = dict(
        name=file.name, inputs=table.numbers, columns=table.names, source=str(file), fingerprint=fingerprint.of_file(file),
        valid=valid, test=test, split_seed=split_seed, standardise=standardise,
    )  # fmt: skip
    if chosen == "regression":
        return table_splits.regression(
            **content, targets=_numbers(table, targets), target_columns=targets
        )
    numbers, class_names = _classes(table, targets[0])
    return table_splits.classification(**content, targets=numbers, class_names=class_names)


def _check_choice(
    file: Path, targets: list[str], features: Sequence[str] | None, kind: Kind | None
) -> None:
    if not targets or len(set(targets)) != len(targets):
        raise errors.DataError(
            f"data.target={targets}: should name one column, or several different ones"
        )
    if kind == "classification" and len(targets) > 1:
        raise errors.DataError(
            f"data.target={targets}: a classification has one target column; name one"
        )
    for name in features or ():
        if name in targets or list(features or ()).count(name) > 1:
            what = "is the target too" if name in targets else "stands there twice"
            raise errors.DataError(
                f"data.features: {name!r} {what}; name each column of {file.name} once"
            )
    if features is not None and not features:
        raise errors.DataError(
            "data.features=[]: names no column; name some, or leave it null for all but the target"
        )


def _inferred(table: Columns, targets: list[str]) -> Kind:
    """What the targets look like."""
    values = table.texts[targets[0]]
    counts = Counter(values)
    has_names = not all(map(_is_number, counts))
    is_numbered = min(counts.values()) >= 2 and all(
        str(number) in counts for number in range(len(counts))
    )
    kind: Kind = (
        "classification" if len(targets) == 1 and (has_names or is_numbered) else "regression"
    )
    log.info(
        "%s: column %s taken for the target of a %s; data.kind says otherwise",
        table.path,
        ", ".join(targets),
        kind,
    )
    return kind


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(table: Columns, targets: list[str]) -> Tensor:
    """The target columns as numbers."""
    read = [
        [
            columns.number(text, table.path, line, name)
            for text, line in zip(table.texts[name], table.lines, strict=True)
        ]
        for name in targets
    ]
    return torch.tensor(read, dtype=torch.float64).T


def _classes(table: Columns, target: str) -> tuple[Tensor, list[str]]:
    """The class of each row as a number, and the names of the classes by number."""
    values = table.texts[target]
    are_whole = all(WHOLE.fullmatch(value) for value in values)
    names = sorted(set(values), key=lambda name: (int(name) if are_whole else 0, name))
    places = {name: place for place, name in enumerate(names)}
    numbers = torch.tensor([places[value] for value in values])
    for place, count in enumerate(torch.bincount(numbers).tolist()):
        if count == 1:
            line = table.lines[values.index(names[place])]
            raise errors.DataError(
                f"{table.path}, line {line}, column {target!r}: the class {names[place]!r} has this single row, and cannot be "
                "both trained on and measured; add rows of it, or remove it"
            )
    if len(names) == 1:
        raise errors.DataError(
            f"{table.path}, column {target!r}: every row is {names[0]!r}; there is nothing to tell apart"
        )
    return numbers, names
