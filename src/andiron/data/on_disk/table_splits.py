"""Rows of numbers with a class or with numbers to predict, as the parts that a run trains on, chooses by and keeps aside."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from andiron.data.composed import fractions
from andiron.data import standardisation
from andiron.data.array_batcher import ArrayBatcher
from andiron.data.arrays import ArrayDataset
from andiron.data.composed.fractions import Parts
from andiron.data.splits import Splits
from andiron.ranges import Validation


def regression(
    *,
    name: str,
    inputs: Float[Tensor, "rows columns"],
    columns: Sequence[str],
    targets: Float[Tensor, "rows targets"],
    target_columns: Sequence[str],
    source: str,
    fingerprint: str,
    valid: Validation,
    test: float,
    split_seed: int,
    standardise: bool = True,
) -> Splits:
    """A table with numbers to predict, in their own unit; the facts have their mean and deviation too."""
    parts = fractions.parts(len(inputs), valid=valid, test=test, split_seed=split_seed)
    standardisation.check(targets, target_columns, source=source)
    mean, std = standardisation.fit(targets[parts.train])
    facts = {
        "num_outputs": targets.shape[1], "target_columns": list(target_columns), "target_mean": list(mean), "target_std": list(std)
    }  # fmt: skip
    batcher, of_inputs = _batcher(inputs, columns, parts, source, standardise)
    everything = ArrayDataset(inputs.float(), targets.float())
    return _splits(name, everything, parts, batcher, of_inputs | facts, fingerprint, valid)


def classification(
    *,
    name: str,
    inputs: Float[Tensor, "rows columns"],
    columns: Sequence[str],
    targets: Int[Tensor, " rows"],
    class_names: Sequence[str],
    source: str,
    fingerprint: str,
    valid: Validation,
    test: float,
    split_seed: int,
    standardise: bool = True,
) -> Splits:
    """A table with a class to tell for each row; every part has a share of every class."""
    parts = fractions.parts(
        len(inputs), valid=valid, test=test, split_seed=split_seed, classes=targets
    )
    facts = {"num_classes": len(class_names), "class_names": list(class_names)}
    batcher, of_inputs = _batcher(inputs, columns, parts, source, standardise)
    everything = ArrayDataset(inputs.float(), targets)
    return _splits(name, everything, parts, batcher, of_inputs | facts, fingerprint, valid)


def _batcher(
    inputs: Tensor, columns: Sequence[str], parts: Parts, source: str, standardise: bool
) -> tuple[ArrayBatcher, dict[str, Any]]:
    """What turns rows into what a network takes, fitted on the rows that are trained on, and the facts of the columns."""
    standardisation.check(inputs, columns, source=source)
    facts = {"input_shape": (inputs.shape[1],), "columns": list(columns)}
    if not standardise:
        return ArrayBatcher(), facts
    mean, std = standardisation.fit(inputs[parts.train])
    return ArrayBatcher(mean, std), facts | {"mean": list(mean), "std": list(std)}


def _splits(
    name: str,
    everything: ArrayDataset,
    parts: Parts,
    batcher: ArrayBatcher,
    facts: dict[str, Any],
    fingerprint: str,
    valid: Validation,
) -> Splits:
    train, held_out, test = (everything.subset(indices) for indices in parts)
    return Splits(
        name=name,
        train=train,
        valid=held_out,
        test=test,
        batcher=batcher,
        facts=facts,
        fingerprint=fingerprint,
        validates_on_test=valid == "test",
    )
