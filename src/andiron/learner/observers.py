"""The events of the training loop, as `Learner.steps` yields them."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from andiron.protocols import Values


class Step(NamedTuple):
    """An event of the training loop, and its position in the run."""

    kind: Literal["update", "skipped", "validation", "test"]  # skipped: a non-finite update
    updates: int  # completed
    epoch: int  # counted from 1
    batch: int  # batches taken from this epoch
    values: Values  # of a validation, the test or a log point; empty for other updates
    items: Sequence[Any] = ()  # of an update, one for each of its batches

    @property
    def item(self) -> Any:
        """The item of the update's last batch; None for a validation."""
        return self.items[-1] if self.items else None
