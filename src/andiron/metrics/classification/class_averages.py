"""The values of several classes averaged, or each by its name."""

from collections.abc import Sequence
from typing import get_args

from jaxtyping import Bool, Float
from torch import Tensor

from andiron import errors
from andiron.protocols import Values
from andiron.ranges import Average

AVERAGES = get_args(Average)


def averaged(
    values: Float[Tensor, " classes"],
    average: str | None,
    *,
    support: Tensor,
    defined: Bool[Tensor, " classes"],
    class_names: Sequence[str] | None,
) -> float | Values | None:
    """The mean over the classes with a value, weighted by `support`; or each by name.

    Without any support the weights are equal, as in scikit-learn. None if no class has a value.
    Raises: ValueError for an unknown average.
    """
    if average is not None and average not in AVERAGES:
        hint = errors.nearest(average, AVERAGES) or "; choose one of these"
        raise ValueError(f"average={average}: should be {' or '.join(AVERAGES)}{hint}")
    if not defined.any():
        return None
    if average is None or average == "none":
        names = named(class_names, len(values))
        named_values = zip(names, values.tolist(), defined.tolist(), strict=True)
        return {name: value for name, value, is_defined in named_values if is_defined}
    kept, weights = values[defined], support[defined].double()
    if average == "weighted" and weights.sum() > 0:
        return float((kept * weights).sum() / weights.sum())
    return float(kept.mean())


def named(class_names: Sequence[str] | None, number: int) -> list[str]:
    """The names of the classes, by default their indices.

    Raises: ValueError for another number of names than classes.
    """
    if class_names is None:
        return [str(index) for index in range(number)]
    if len(class_names) != number:
        counts = f"{len(class_names)} names for {number} classes"
        raise ValueError(f"class_names={[*class_names]}: {counts}; give one for each")
    return [*class_names]
