"""The mean and the standard deviation of columns, as the rows that are trained on have them."""

from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from andiron import errors

ENOUGH_STEPS = 100  # between float32 values within one standard deviation; with fewer, rounding blurs the column
FLOAT32 = torch.finfo(torch.float32)

MeanAndStd = tuple[tuple[float, ...], tuple[float, ...]]


def fit(columns: Float[Tensor, "rows columns"]) -> MeanAndStd:
    """(mean, std) of each column: mean = sum x / n, std = sqrt(sum (x - mean)^2 / n); of a constant one (x, 1)."""
    return fit_in_chunks(lambda: [columns])


def fit_in_chunks(chunks: Callable[[], Iterable[Float[Tensor, "_ columns"]]]) -> MeanAndStd:
    """`fit` of all the rows that `chunks` gives, which is called for them twice."""
    sums = [(len(rows), rows.double().sum(0), rows.amin(0), rows.amax(0)) for rows in chunks()]
    number = sum(length for length, *_ in sums)
    total, lowest, highest = (
        torch.stack(parts) for parts in zip(*(rest for _, *rest in sums), strict=True)
    )
    is_constant = lowest.amin(0) == highest.amax(0)
    mean = torch.where(is_constant, lowest.amin(0).double(), total.sum(0) / number)
    squares = torch.stack([(rows.double() - mean).square().sum(0) for rows in chunks()])
    std = torch.where(is_constant, 1.0, (squares.sum(0) / number).sqrt())
    return tuple(mean.tolist()), tuple(std.tolist())


def check(columns: Float[Tensor, "rows columns"], names: Sequence[str], *, source: str) -> None:
    """Nothing, if float32 can hold the columns.

    Raises: DataError, naming `source` and the column, if its numbers are too large or too close together.
    """
    largest = columns.abs().amax(0).tolist()
    for name, size, center, spread, numbers in zip(
        names, largest, *fit(columns), columns.T, strict=True
    ):
        if size > FLOAT32.max:
            raise errors.DataError(
                f"{source}: column {name!r} has {size:.3g}, too large for float32; scale it in the file"
            )
        if spread < ENOUGH_STEPS * size * FLOAT32.eps and len(numbers.unique()) > 1:
            raise errors.DataError(
                f"{source}: column {name!r} varies by {spread:.3g} around {center:.10g}, and float32 cannot tell its values "
                "apart; subtract a constant from it in the file"
            )
