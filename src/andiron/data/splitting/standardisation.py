"""The mean and the standard deviation of columns, in the training rows."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from andiron import errors

# float32 values within one standard deviation; fewer lose the column to rounding
MIN_STEPS = 100
FINE_STEPS = 10_000  # with fewer, the mean is subtracted in float64
FLOAT32 = torch.finfo(torch.float32)
EXACT = 2.0**53  # above, float64 rounds whole numbers

MeanAndStd = tuple[tuple[float, ...], tuple[float, ...]]


def in_float64(numbers: Shaped[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
    """The numbers in float64; a float32 as the shortest decimal that float32 rounds to it.

    >>> in_float64(np.array([0.1, 2.5, 16777216], dtype=np.float32)).tolist()
    [0.1, 2.5, 16777216.0]

    A file that stores the 0.1 of a text as float32 then gives the statistics of the text.
    """
    if numbers.dtype != np.float32:
        return numbers.astype(np.float64, copy=False)
    import polars  # takes 0.2 s

    texts = polars.Series(numbers).cast(polars.String)  # the shortest; 0.2 s for a million
    return texts.cast(polars.Float64).to_numpy()


def fit(columns: Float[Tensor, "rows columns"]) -> MeanAndStd:
    """(mean, std) of each column; (x, 1) of a constant one.

    mean = sum x / n, std = sqrt(sum (x - mean)^2 / n).
    """
    return fit_in_chunks(lambda: [columns])


def fit_in_chunks(chunks: Callable[[], Iterable[Float[Tensor, "_ columns"]]]) -> MeanAndStd:
    """`fit` of all rows that `chunks` returns; it is called twice."""
    # lists: small tensors between large ones would keep freed memory from being used again
    of_chunks = [
        (*map(Tensor.tolist, (rows.double().sum(0), rows.amin(0), rows.amax(0))), len(rows))
        for rows in chunks()
    ]
    *columns, lengths = zip(*of_chunks, strict=True)
    totals, lowest, highest = (torch.tensor(of_all, dtype=torch.float64) for of_all in columns)
    number, constant = sum(lengths), lowest.amin(0)
    is_constant = constant == highest.amax(0)
    mean = torch.where(is_constant, constant, totals.sum(0) / number)
    squares = [(rows.double() - mean).square_().sum(0).tolist() for rows in chunks()]
    total = torch.tensor(squares, dtype=torch.float64).sum(0)
    std = torch.where(is_constant, 1.0, (total / number).sqrt())
    return tuple(mean.tolist()), tuple(std.tolist())


def offset(values: Float[Tensor, " rows"], mean: float, std: float) -> float | None:
    """The mean of a column that float32 would blur by 1/10,000 deviation and more; else None."""
    is_rounded = abs(mean) >= EXACT and std < MIN_STEPS * abs(mean) / EXACT
    is_held = is_fine(mean, std) or is_rounded
    if is_held or (values.float().double() - values).abs().max() * FINE_STEPS < std:
        return None
    return mean


def is_fine(mean: float, std: float) -> bool:
    """Whether float32 has at least 10,000 values within one standard deviation of the mean."""
    return std >= FINE_STEPS * abs(mean) * FLOAT32.eps


def check(columns: Float[Tensor, "rows columns"], names: Sequence[str], *, source: str) -> None:
    """Raises a DataError, naming `source` and the column, if float32 cannot hold the numbers."""
    lowest, highest = columns.amin(0), columns.amax(0)
    largest = torch.maximum(-lowest, highest)
    # std >= (highest - lowest) / sqrt(2 n): most columns need no pass for the std itself
    bound = (highest - lowest) / math.sqrt(2 * len(columns))
    for place, (name, size, least) in enumerate(zip(names, largest, bound, strict=True)):
        if size > FLOAT32.max:
            raise errors.DataError(
                f"{source}: column {name!r} has {size:.3g}, too large for float32; "
                "scale it in the file"
            )
        if least >= MIN_STEPS * size * FLOAT32.eps:
            continue
        (center,), (spread,) = fit(columns[:, place : place + 1])
        varies = len(torch.unique(columns[:, place])) > 1
        is_blurred = varies or len(columns) > 1 and size >= EXACT
        if spread < MIN_STEPS * size * FLOAT32.eps and is_blurred:
            by = f"{spread:.3g}" if varies else "less than float64 shows"
            raise errors.DataError(
                f"{source}: column {name!r} varies by {by} around {center:.10g}, and "
                "float32 cannot tell its values apart; subtract a constant from it in the file"
            )
