"""The events of the training loop, and observers: objects of the user's that are shown them.

>>> class Counts:
...     every = 2  # updates
...     updates = 0
...
...     def after_update(self, learner, step):
...         self.updates += 1
>>> counts = Counts()
>>> observers = Observers({"counts": counts})
>>> for updates in range(1, 6):
...     _ = observers.show(None, Step("update", updates, 1, updates, {}), is_last=False)
>>> counts.updates
2
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from andiron.plain.cadence import Cadence, Clock, Ticker
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Values


class Step(NamedTuple):
    """An event of the training loop, and its position in the run."""

    kind: Literal["update", "skipped", "validation", "test"]  # skipped: a non-finite update
    updates: int  # completed
    epoch: int  # counted from 1
    batch: int  # batches taken from this epoch
    values: Values  # of a validation, the test or a log point; empty for other updates
    items: Sequence[Any] = ()  # of an update, one for each of its batches
    split: str = "train"  # that the values are of: valid, test, or a further validation set

    @property
    def item(self) -> Any:
        """The item of the update's last batch; None for a validation."""
        return self.items[-1] if self.items else None


@runtime_checkable
class AfterUpdate(Protocol):
    """An observer of updates; its attribute `every`, if it has one, says of which."""

    def after_update(self, learner: Any, step: Step) -> None:
        """Called between two updates; an exception ends the run."""


@runtime_checkable
class AfterValidation(Protocol):
    """An observer of validations."""

    def after_validation(self, learner: Any, step: Step) -> None:
        """Called once the validation is logged; an exception ends the run."""


Observer = AfterUpdate | AfterValidation
METHODS = {"update": "after_update", "validation": "after_validation"}


class Observers:
    """Calls observers.

    `every` of an observer is when its `after_update` is called: 100 (updates), 1epochs or
    10minutes; by default after each update. With `state_dict` and `load_state_dict`, of plain
    values, its state is in the checkpoints.
    """

    def __init__(self, observers: Mapping[str, Observer], clock: Clock = time.monotonic):
        self._observers: Plain = dict(observers)
        self._methods = {
            kind: [(n, getattr(one, name)) for n, one in observers.items() if hasattr(one, name)]
            for kind, name in METHODS.items()
        }
        self._tickers = {
            name: Ticker(Cadence.of(getattr(observer, "every", 1)), clock)
            for name, observer in self._observers.items()
        }

    def start(self, updates_per_epoch: int) -> None:
        """Resolves fractional epochs to updates."""
        for ticker in self._tickers.values():
            ticker.resolve(updates_per_epoch)

    def show(self, learner: object, step: Step, *, is_last: bool) -> bool:
        """Calls the observers that are due; `is_last`: the update ends an epoch.

        Returns whether any was called.
        """
        was_called = False
        for name, method in self._methods.get(step.kind, ()):
            if step.kind == "update":
                ticker = self._tickers[name]
                if not ticker.due(updates=step.updates, epochs=step.epoch if is_last else None):
                    continue
                ticker.done(step.updates)
            method(learner, step)
            was_called = True
        return was_called

    def state_dict(self) -> Plain:
        """The states of the observers that have one, by name."""
        observers = self._observers.items()
        return {n: one.state_dict() for n, one in observers if hasattr(one, "state_dict")}

    def load_state_dict(self, states: Named) -> None:
        """Continues from saved states; an observer without one starts fresh."""
        for name, state in states.items():
            if hasattr(self._observers.get(name), "load_state_dict"):
                self._observers[name].load_state_dict(state)
