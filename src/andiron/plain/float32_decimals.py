"""The decimal number that a float32 was written for, in float64.

    >>> import numpy as np
    >>> in_float64(np.array([0.1, 2.5, 16777216], dtype=np.float32)).tolist()
    [0.1, 2.5, 16777216.0]

A file that stores the 0.1 of a text as float32 then gives the statistics of the text.
"""

import numpy as np
from jaxtyping import Float, Shaped

CHUNK = 2**13  # fits the cache
EXPONENTS = np.arange(256)  # as float32 stores them; the last place of a number is 2^(e - 150)
# 10^n, whose multiples have at most the distance of two float32; exact in float64 up to 10^22
PLACES = np.ceil((150 - EXPONENTS) * np.log10(2))
SCALES = np.where((EXPONENTS <= 150) & (PLACES <= 22), 10.0 ** np.clip(PLACES, 0, 22), np.nan)
SCALES[0] = 1.0  # zero


def in_float64(numbers: Shaped[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
    """The numbers in float64; a float32 as the shortest decimal that float32 rounds to it."""
    if numbers.dtype != np.float32:
        return numbers.astype(np.float64, copy=False)
    decimals = np.empty(len(numbers))
    with np.errstate(invalid="ignore", over="ignore"):  # of NaN and infinity
        for begin in range(0, len(numbers), CHUNK):
            decimals[begin : begin + CHUNK] = _shortest(numbers[begin : begin + CHUNK])
    return decimals


def _shortest(numbers: Float[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
    """The nearest multiple of 10^-n with the fewest places n that rounds to the number.

    Polars writes and reads the few that this arithmetic cannot decide: large ones, and small powers
    of two, whose neighbours are not equally far.
    """
    bits, wide = numbers.view(np.int32), numbers.astype(np.float64)
    scales = SCALES[bits >> 23 & 255]
    decimals = np.rint(wide * scales) / scales
    is_small_power = (bits & 0x7FFFFF == 0) & (np.abs(wide) < 1) & (wide != 0)
    is_undecided = (decimals.astype(np.float32) != numbers) | is_small_power
    places, rest = np.arange(len(numbers)), numbers
    while len(places):
        scales = scales / 10
        shorter = np.rint(wide * scales) / scales
        equal = np.flatnonzero((shorter.astype(np.float32) == rest) & (scales >= 1))
        places, wide, scales, rest = places[equal], wide[equal], scales[equal], rest[equal]
        decimals[places] = shorter[equal]
    if is_undecided.any():
        import polars  # takes 0.2 s

        texts = polars.Series(numbers[is_undecided]).cast(polars.String)
        decimals[is_undecided] = texts.cast(polars.Float64).to_numpy()
    return decimals
