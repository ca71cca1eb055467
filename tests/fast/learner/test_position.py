"""The position of a resumed run: no sample of the epoch is skipped, and a repeated one is counted.
"""

from types import SimpleNamespace

import pytest

from andiron import errors
from andiron.learner.position import Position


class Batches(SimpleNamespace):
    """A loader of `num_items` samples in batches of `batch_size`."""

    def __len__(self):
        return -(-self.num_items // self.batch_size)


@pytest.mark.parametrize(
    "before, taken, now, batch, again",
    [
        (32, 4, 50, 2, 28),
        (64, 2, 53, 2, 22),
        (64, 1, 32, 2, 0),
        (32, 5, 64, 3, 0),  # the epoch is over
        (50, 1, 150, 0, 50),
        (32, 4, 32, 4, 0),
        (None, 4, 50, 4, None),  # not on record
    ],
)
def test_another_batch_size_continues_the_epoch_at_a_multiple(
    caplog, before, taken, now, batch, again
):
    loader = Batches(num_items=150, batch_size=now)
    if again is None:
        with pytest.raises(errors.MismatchError, match="4 batches are taken from an epoch of 3"):
            Position(0, batch=taken, batch_size=before).enter(loader)
        return
    position = Position(0, updates=9, batch=taken, batch_size=before)
    for _ in range(2):
        position.enter(loader)
    assert (position.batch, position.batch_size) == (batch, now)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == bool(again)
    assert all(f"so that {again} of its {before * taken} samples" in text for text in warnings)
