"""What a run is asked from outside: to stop, save, validate or pause.

The learner asks for it wherever the run can be left and resumed.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from andiron import errors

SECONDS_BETWEEN_LOOKS = 0.05  # of a paused run
# torchrun passes on a Ctrl-C that the terminal has sent to every process already
SECONDS_OF_ONE_SIGNAL = 2.0


class Interrupter:
    """Answers yes once `stop` was called, which a signal handler or another thread may do."""

    is_watched = False  # whether `at` is to be called at every place, and not only once asked

    def __init__(self, pause_at: int | None = None):
        """With `pause_at`, the run pauses at its validation after so many epochs or updates."""
        self._pause_at = pause_at
        self.asked: errors.Interrupted | None = None
        self.exit_code: int | None = None  # of an interrupted process; None: that of the request
        self.is_heard = False  # while a learner asks: it finishes its update and saves
        self.is_starting = False  # until the configuration is known, which has the exit code
        self.is_paused = False
        self.cleanups: list[Callable[[], None]] = []  # for an exit at once: a second at most
        self._wishes: deque[str] = deque()

    def stop(self, reason: str, exit_code: int = 130) -> None:
        """Makes the run stop when it asks next; the first reason counts."""
        self.asked = self.asked or errors.Interrupted(reason, exit_code)

    def start(self) -> None:
        """Holds a stop back until `begin`."""
        self.is_starting = self.is_heard = True

    def begin(self, exit_code: int | None) -> None:
        """The configuration is known, and with it the exit code of an interrupted process.

        Raises: Interrupted if `stop` was called before.
        """
        self.exit_code = exit_code
        self.is_starting = self.is_heard = False
        if self.asked:
            raise self.asked

    @property
    def may_end_at_once(self) -> bool:
        """Whether another Ctrl-C is a second one."""
        return True

    def wish(self, name: str) -> None:
        """Requests `save` or `validate` after the update under way, or `pause` until the next."""
        if name == "pause":
            self.is_paused = not self.is_paused
        else:
            self._wishes.append(name)
        self.is_watched = True  # so that the learner asks after its next update

    def wishes(self) -> Iterator[str]:
        """The wishes made since; while the run is paused, waits for more, or for `stop`."""
        self.is_watched = type(self).is_watched
        while self.asked is None and (self._wishes or self.is_paused):
            if self._wishes:
                yield self._wishes.popleft()
            else:
                time.sleep(SECONDS_BETWEEN_LOOKS)

    def hear(self) -> None:
        """Leaves it to a learner to stop, from here on.

        Raises: Interrupted if `stop` was called before.
        """
        self.is_heard = True
        if self.asked:
            raise self.asked

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Work that must not be left in the middle: an interruption is raised after it."""
        self.is_heard = True
        try:
            yield
        finally:
            self.is_heard = False
        if self.asked:
            raise self.asked

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether to stop after `updates`, before batch `batch` (from 0) of a pass over `split`."""
        return self.asked is not None

    def pause(self, completed: int, unit: str) -> errors.Paused | None:
        """The pause that is due once so many epochs or updates, as `unit` says, are validated."""
        if self._pause_at is None or completed < self._pause_at:
            return None
        return errors.Paused(f"after {completed} {unit if completed > 1 else unit[:-1]}")


class SharedInterrupter(Interrupter):
    """Stops all processes of a run at the same place: `asked` is set where they agree on it.

    Wishes are those of rank 0. Until `connect` it acts for its own process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._peers: Any = None  # an andiron.distributed.World, which imports torch
        self._own: tuple[str, int] | None = None  # why this process was asked to stop
        self._first_signal = 0.0

    def join(self) -> None:
        """Holds a stop back until `connect`, as all processes are about to call it."""
        self.is_heard, self.is_starting = True, False

    def connect(self, peers: Any) -> None:
        """Decides together with the other processes of a World from here on."""
        self._peers = peers
        if self.asked is not None:
            self._own, self.asked = (str(self.asked), self.asked.exit_code), None
        peers.wants_asking = lambda: bool(self._own or self._wishes or self.is_paused)

    @property
    def is_watched(self) -> bool:
        """Whether any process wants to stop, or rank 0 has a wish, since the last update."""
        return self._peers is not None and self._peers.is_asked

    @is_watched.setter
    def is_watched(self, value: bool) -> None:
        """Follows from what all processes say."""

    @property
    def may_end_at_once(self) -> bool:
        """Whether another Ctrl-C is a second one, and not the first as torchrun passes it on."""
        return time.monotonic() - self._first_signal > SECONDS_OF_ONE_SIGNAL

    def stop(self, reason: str, exit_code: int = 130) -> None:
        """Asks all processes to stop where they next agree; the first reason counts."""
        self._first_signal = self._first_signal or time.monotonic()
        if self._peers is None:
            super().stop(reason, exit_code)
        else:
            self._own = self._own or (reason, exit_code)

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether to stop here, the same answer in all processes."""
        if self._peers is not None and self._peers.any(self._own is not None):
            self._agree()
        return self.asked is not None

    def wishes(self) -> Iterator[str]:
        """The wishes of rank 0; while it is paused, waits for more, or for any to `stop`."""
        while self.asked is None and self._peers is not None and self._peers.is_asked:
            wish = self._wishes[0] if self._wishes else None
            states = self._peers.gathered((self._own is not None, wish, self.is_paused))
            _, wish, is_paused = states[0]
            if any(is_stopping for is_stopping, *_ in states):
                self._agree()
            elif wish is not None:
                if self._wishes:
                    self._wishes.popleft()
                yield wish
            elif is_paused:
                time.sleep(SECONDS_BETWEEN_LOOKS)
            else:
                return

    def _agree(self) -> None:
        """Takes the reason of the first process that has one."""
        reasons = enumerate(self._peers.gathered(self._own))
        rank, (reason, exit_code) = next((rank, own) for rank, own in reasons if own)
        where = f" to rank {rank}" if rank else ""
        self.asked = self.asked or errors.Interrupted(f"{reason}{where}", exit_code)
