"""float32 as the decimals that they were written for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from andiron.plain.float32_decimals import in_float64


@given(st.floats(width=32))
def test_float32_is_the_number_of_its_shortest_text(number):
    stored = np.array([number], dtype=np.float32)
    (decimal,) = in_float64(stored)
    assert np.array_equal(decimal.astype(np.float32), stored[0], equal_nan=True)
    assert decimal == float(str(stored[0])) or np.isnan(number)
