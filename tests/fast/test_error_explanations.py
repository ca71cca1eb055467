"""Errors that pass through the user's own code."""

import pytest
import torch

from andiron import errors


def test_an_error_of_the_users_own_code_is_kept_and_says_what_did_not_fit():
    with pytest.raises(RuntimeError) as raised:
        torch.ones(2) + torch.ones(3)

    assert errors.explain(raised.value, "task Own with inputs [2]", "choose others") is None
    assert raised.value.__notes__ == ["task Own with inputs [2]; choose others"]
