"""Updates whose check for NaN and infinity is read later, so that nothing waits for a GPU.

The check sets a flag on the device, and nothing but the host resets it: a step leaves weights and
optimizer state alone once it is set. The host reads a copy of the flag for each update, and counts
the update then. The first that is rejected, and those made since, are undone and made again.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from andiron import randomness
from andiron.gradients import Gradients, flag_nonfinite

MOST_UNREAD = 4  # updates: their batches and items are held until then


class Answer(Protocol):
    """The value of a flag on its way from a device to the host."""

    def is_there(self) -> bool:
        """Whether `is_set` would not wait."""

    def is_set(self) -> bool:
        """The value; waits for it."""


class CopiedFlag:
    """An `Answer` of a GPU, copied after everything that was started there so far."""

    def __init__(self, flag: Tensor):
        self._copy = torch.empty((), pin_memory=True)
        self._copy.copy_(flag, non_blocking=True)
        self._event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record()

    def is_there(self) -> bool:
        """Whether the GPU has copied it."""
        return bool(self._event.query())

    def is_set(self) -> bool:
        """The value; waits for the GPU."""
        self._event.synchronize()
        return bool(self._copy)


# by type of device; on a CPU reading takes 1 us
LATE: dict[str, Callable[[Tensor], Answer]] = {"cuda": CopiedFlag}


class UnreadChecks:
    """The updates that are made and not yet counted, oldest first."""

    def __init__(self, device: torch.device):
        self._flag = torch.zeros((), device=device)
        self._ask = LATE[device.type]
        self._asked: tuple[Answer, Callable[[], None]] | None = None
        self._made: deque[Any] = deque()
        self._repeats = False  # the next update was rejected
        self._others: list[Any] = []  # states of Python's and NumPy's generators at two updates

    def defers(self, gradients: Gradients, undo: Callable[[], None]) -> bool:
        """Whether the check is read later; not of a first update, or one that is made again.

        Nor where updates draw from Python's or NumPy's generators: they would draw again.
        A step by these gradients changes nothing if it is to be undone, by `undo`.
        """
        if len(self._others) < 2:
            self._others.append(randomness.global_generator_state())
        if self._repeats or self._others[:1] != self._others[1:]:
            self._repeats = False
            return False
        flag_nonfinite(gradients, self._flag)
        gradients.flag = self._flag
        self._asked = self._ask(self._flag), undo
        return True

    def add(self, *made: Any) -> None:
        """Keeps an update until its check is read; `made` is what `read` returns of it."""
        self._made.append((self._asked, made))
        self._asked = None

    def read(self, *, waits: bool) -> tuple[list[Any], bool]:
        """The updates that were applied, in order, and whether later ones are undone.

        All are read if it `waits`, else those that the device has answered.
        """
        passed: list[Any] = []
        while self._made:
            asked, made = self._made[0]
            if asked is not None:
                answer, undo = asked
                if not (waits or len(self._made) > MOST_UNREAD or answer.is_there()):
                    break
                if answer.is_set():
                    self._made.clear()
                    self._flag.zero_()
                    self._repeats = True
                    undo()
                    return passed, True
            passed.append(made)
            self._made.popleft()
        return passed, False
