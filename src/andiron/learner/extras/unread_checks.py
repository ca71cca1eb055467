"""Updates whose check for NaN and infinity is read later, so that nothing waits for a GPU.

The check sets a flag on the device, and nothing but the host resets it: a step leaves weights and
optimizer state alone once it is set. The host reads a copy of the flag for each update, and counts
the update then. The first that is rejected, and those made since, are undone and made again.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from andiron import errors, randomness

MOST_UNREAD = 4  # updates: their batches and items are held until then


class CopiedFlag:
    """A flag of a GPU on its way to the host, after everything that was started there so far."""

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
LATE: dict[str, Callable[[Tensor], CopiedFlag]] = {"cuda": CopiedFlag}


class UnreadChecks:
    """The updates that are made and not yet counted, oldest first."""

    def __init__(self, device: torch.device):
        self._flag = torch.zeros((), device=device)
        self._ask = LATE[device.type]
        self._undo: Callable[[], None] | None = None  # of the update that is computed now
        self._made: deque[Any] = deque()
        self._repeats = False  # the next update was rejected
        # state of Python's and NumPy's generators since all were read
        self._others: dict[str, Any] | None = None
        self._is_quiet: bool | None = None  # no update drew from them; None before the first

    def begin(self) -> None:
        """An update is about to be computed."""
        if self._others is None:
            self._others = randomness.global_generator_state()

    def defers(self, undo: Callable[[], None]) -> Tensor | None:
        """The flag to set where the check is read later; not of a first or repeated update.

        Nor once updates drew from Python's or NumPy's generators: they would draw again.
        While the flag is 1, updates change nothing that `undo` does not bring back.
        """
        if self._repeats or not self._is_quiet:
            self._repeats = False
            return None
        self._undo = undo
        return self._flag

    def add(self, *made: Any) -> None:
        """Keeps an update until its check is read; `made` is what `read` returns of it."""
        asked = None if self._undo is None else (self._ask(self._flag), self._undo)
        self._made.append((asked, made))
        self._undo = None

    def read(self, *, waits: bool) -> tuple[list[Any], bool]:
        """The updates that were applied, in order, and whether later ones are undone.

        All are read if it `waits`, else those that the device has answered.
        Raises: MismatchError if an update cannot be made again with the draws that it had.
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
                    if self._others != randomness.global_generator_state():
                        raise errors.MismatchError(
                            "an update has NaN or infinity and cannot be made again: updates began "
                            "to draw from Python's or NumPy's generators; resume with graph=false"
                        )
                    self._repeats = True
                    undo()
                    return passed, True
            passed.append(made)
            self._made.popleft()
        if waits and self._others is not None:
            is_same = self._others == randomness.global_generator_state()
            self._is_quiet, self._others = is_same and self._is_quiet is not False, None
        return passed, False
