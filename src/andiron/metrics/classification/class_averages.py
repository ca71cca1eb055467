"""Averages over classes, or the value of each class by name."""

import math
from typing import get_args

from jaxtyping import Float, Shaped
from torch import Tensor

from andiron import errors
from andiron.outputs import ClassNames, named
from andiron.protocols import Result
from andiron.ranges import Average

AVERAGES = get_args(Average)


def averaged(
    values: Float[Tensor, " classes"],
    average: str | None,
    support: Shaped[Tensor, " classes"],
    class_names: ClassNames,
) -> Result:
    """The mean over the classes with a value, weighted by `support`; or each by name.

    NaN stands for no value. Without any support the weights are equal, as in scikit-learn. None if
    no class has a value.
    Raises: ValueError for an unknown average.
    """
    average = "none" if average is None else average
    if average not in AVERAGES:
        hint = errors.nearest(average, AVERAGES) or "; choose one of these"
        raise ValueError(f"average={average}: should be {' or '.join(AVERAGES)}{hint}")
    defined = ~values.isnan()
    if not defined.any():
        return None
    if average == "none":
        by_name = zip(named(class_names, len(values)), values.tolist(), strict=True)
        return {name: value for name, value in by_name if not math.isnan(value)}
    values, weights = values[defined], support[defined].double()
    if average == "weighted" and weights.sum() > 0:
        return float((values * weights).sum() / weights.sum())
    return float(values.mean())
