"""float32 as the decimals that they were written for."""

import numpy as np
import polars
from hypothesis import given
from hypothesis import strategies as st

from andiron.plain.float32_decimals import in_float64


def by_text(numbers):
    return polars.Series(numbers).cast(polars.String).cast(polars.Float64).to_numpy()


def test_any_float32_is_its_shortest_text():
    random = np.random.default_rng(0)
    powers = 2.0 ** np.arange(-149, 128)
    numbers = [
        random.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32),
        *(10.0 ** random.uniform(-16, 9, 200_000) * sign for sign in (1, -1)),
        np.round(random.normal(0, 100, 100_000), 2), random.integers(-(2**25), 2**25, 100_000) / 8,
        np.nextafter(powers.astype(np.float32), np.float32(0)), powers, [0.0, -0.0],
    ]  # fmt: skip
    numbers = np.concatenate([np.asarray(part, dtype=np.float32) for part in numbers])
    assert in_float64(numbers).tobytes() == by_text(numbers).tobytes()


@given(st.floats(width=32))
def test_float32_holds_what_it_was_written_for(number):
    stored = np.array([number], dtype=np.float32)
    assert np.array_equal(in_float64(stored).astype(np.float32), stored, equal_nan=True)
