"""Rows of numbers with a class or numbers to predict, divided into training, validation and test.

`of_columns` takes a table as named columns, `split` takes tensors.
"""

import logging
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor

from andiron.data import splits, standardisation
from andiron.data.dataset import ArrayDataset
from andiron.data.batchers import ArrayBatcher
from andiron.data.on_disk import columns as named_columns
from andiron.data.on_disk.columns import Columns, Kind
from andiron.data.splits import Splits
from andiron.ranges import Validation

log = logging.getLogger("andiron")


def of_columns(
    table: Columns, targets: Sequence[str], *, kind: Kind | None = None, **options: Any
) -> Splits:
    """The rows of `table`, its `texts` being the columns `targets`; `options` are those of `split`.

    Without `kind`, `columns.inferred_kind` decides.
    Raises: DataError naming the row and the column that cannot be a target.
    """
    if kind is None:
        kind = named_columns.inferred_kind(table, targets)
        names = ", ".join(targets)
        what = f"{table.source}: column {names} taken for the target of a {kind}"
        log.info("%s; data.kind sets another", what)
    options |= {"inputs": table.numbers, "columns": table.names, "source": table.source}
    if kind == "regression":
        numbers = named_columns.target_numbers(table, targets)
        return split(**options, targets=numbers, target_columns=targets)
    classes, class_names = named_columns.target_classes(table, targets[0])
    return split(**options, targets=classes, class_names=class_names)


def split(
    *,
    name: str,
    inputs: Float[Tensor, "rows columns"],
    columns: Sequence[str],
    targets: Shaped[Tensor, "rows ..."],
    target_columns: Sequence[str] = (),
    class_names: Sequence[str] | None = None,
    source: str,
    fingerprint: str,
    valid: Validation,
    test: float,
    split_seed: int,
    standardise: bool = True,
) -> Splits:
    """A table whose targets are classes, if there are `class_names`, or else numbers.

    Every part has a share of every class. Numbers stay in their own unit; the facts have their mean
    and standard deviation.
    Raises: DataError naming `source` if float32 cannot hold a column, or a part would be empty.
    """
    classes = None if class_names is None else targets
    parts = splits.parts(
        len(inputs), valid=valid, test=test, split_seed=split_seed, classes=classes
    )
    facts: dict[str, Any] = {"input_shape": (inputs.shape[1],), "columns": list(columns)}
    if class_names is None:
        standardisation.check(targets, target_columns, source=source)
        mean, std = standardisation.fit(targets[parts.train])
        facts |= {"num_outputs": targets.shape[1], "target_columns": list(target_columns)}
        facts |= {"target_mean": list(mean), "target_std": list(std)}
        targets = targets.float()
    else:
        facts |= {"num_classes": len(class_names), "class_names": list(class_names)}
    standardisation.check(inputs, columns, source=source)
    batcher = ArrayBatcher()
    if standardise:
        batcher = ArrayBatcher(*standardisation.fit(inputs[parts.train]))
        facts |= {"mean": list(batcher.mean), "std": list(batcher.std)}
    everything = ArrayDataset(inputs.float(), targets)
    return splits.of_parts(
        everything.subset,
        parts,
        name=name,
        batcher=batcher,
        facts=facts,
        fingerprint=fingerprint,
    )
