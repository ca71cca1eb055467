"""Mean and standard deviation of columns."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from andiron import errors
from andiron.data.splitting import standardisation

COLUMNS = torch.tensor(
    [[1.0, 5.0, -2.0], [3.0, 5.0, 0.5], [2.0, 5.0, 0.0], [6.0, 5.0, 4.5]], dtype=torch.float64
)


def test_mean_and_deviation_by_hand():
    # about the mean 3: 4 + 0 + 1 + 9 = 14; about 0.75: 7.5625 + 0.0625 + 0.5625 + 14.0625 = 22.25
    mean, std = standardisation.fit(COLUMNS)
    assert mean == (3.0, 5.0, 0.75)
    # the last bit of a square root
    assert std == pytest.approx((3.5**0.5, 1.0, (22.25 / 4) ** 0.5), rel=1e-15)


def test_a_constant_column_is_kept_and_only_shifted():
    mean, std = standardisation.fit(torch.full((1001, 1), 0.1, dtype=torch.float64))
    assert (mean, std) == ((0.1,), (1.0,))  # a sum of 1,001 tenths is not exactly 100.1


def test_in_chunks_it_is_the_same():
    assert standardisation.fit_in_chunks(lambda: torch.split(COLUMNS, 3)) == standardisation.fit(
        COLUMNS
    )  # sums are exact


def test_a_column_that_float32_would_blur_is_refused_by_name():
    seconds = torch.tensor(
        [[1.0, 1.6e9], [2.0, 1.6e9 + 60], [3.0, 1.6e9 + 120]], dtype=torch.float64
    )
    with pytest.raises(errors.DataError) as raised:
        standardisation.check(seconds, ("a", "time"), source="x.csv")
    assert str(raised.value) == (
        "x.csv: column 'time' varies by 49 around 1600000060, and float32 cannot tell its values "
        "apart; subtract a constant from it in the file"
    )


def test_whole_numbers_that_float64_rounds_together_are_refused():
    for numbers in (2**64 - 1 - torch.arange(40).double(), 2**53 + torch.arange(40).double()):
        (mean,), (std,) = standardisation.fit(numbers[:, None])
        assert standardisation.offset(numbers, mean, std) is None  # which would hide it
        with pytest.raises(errors.DataError, match=r"'id' varies by .* float32 cannot tell"):
            standardisation.check(numbers[:, None], ("id",), source="x.csv")
        standardisation.check(numbers[:1, None], ("id",), source="x.csv")  # of a row to predict


def test_a_number_too_large_for_float32_is_refused_by_name():
    with pytest.raises(errors.DataError) as raised:
        standardisation.check(
            torch.tensor([[1.0], [-1e39]], dtype=torch.float64), ("a",), source="x.csv"
        )
    assert (
        str(raised.value)
        == "x.csv: column 'a' has 1e+39, too large for float32; scale it in the file"
    )


def test_columns_that_float32_holds_pass():
    dates = torch.tensor([[1990.0], [2024.0], [1600000000.0]], dtype=torch.float64)
    standardisation.check(dates, ("year",), source="x.csv")
    standardisation.check(
        torch.full((3, 1), 1.6e9, dtype=torch.float64), ("constant",), source="x.csv"
    )


@given(st.floats(width=32))
def test_float32_is_the_number_of_its_shortest_text(number):
    stored = np.array([number], dtype=np.float32)
    (decimal,) = standardisation.in_float64(stored)
    assert np.array_equal(decimal.astype(np.float32), stored[0], equal_nan=True)
    assert decimal == float(str(stored[0])) or np.isnan(number)
