"""External requests to a run: to stop, save, validate or pause.

The learner checks for them wherever the run can be interrupted and resumed.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from andiron import errors

SECONDS_BETWEEN_LOOKS = 0.05  # of a paused run
# torchrun forwards a Ctrl-C that the terminal has already sent to every process
SECONDS_OF_ONE_SIGNAL = 2.0


class Interrupter:
    """Stops a run once `stop` was called, from a signal handler or another thread."""

    is_watched = False  # whether to call `at` everywhere, not only after a request

    def __init__(self, pause_at: int | None = None):
        """With `pause_at`, the run pauses at its validation after `pause_at` epochs or updates."""
        self._pause_at = pause_at
        self.asked: errors.Interrupted | None = None
        self.exit_code: int | None = None  # of an interrupted process; None: the request's
        self.is_heard = False  # a learner checks: it finishes its update and saves
        self.has_begun = False  # the run has a state to save: its first update was made
        self.is_starting = False  # until the configuration, with its exit code, is known
        self.is_paused = False
        self.cleanups: list[Callable[[], None]] = []  # for an immediate exit: at most a second
        self._requests: deque[str] = deque()

    def stop(self, reason: str, exit_code: int = 130) -> None:
        """Requests a stop at the next check; the first reason counts."""
        self.asked = self.asked or errors.Interrupted(reason, exit_code)

    def start(self) -> None:
        """Defers a stop until `begin`."""
        self.is_starting = self.is_heard = True

    def begin(self, exit_code: int | None) -> None:
        """Ends the deferral, with the configured exit code of an interrupted process.

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

    def request(self, name: str) -> None:
        """Requests `save` or `validate` after the current update, or `pause` until the next one."""
        if name == "pause":
            self.is_paused = not self.is_paused
        else:
            self._requests.append(name)
        self.is_watched = True  # so that the learner checks after its next update

    def requests(self) -> Iterator[str]:
        """The requests since the last call; while paused, waits for more, or for `stop`."""
        self.is_watched = type(self).is_watched
        while self.asked is None and (self._requests or self.is_paused):
            if self._requests:
                yield self._requests.popleft()
            else:
                time.sleep(SECONDS_BETWEEN_LOOKS)

    def hear(self) -> None:
        """From here on a learner handles stops.

        Raises: Interrupted if `stop` was called before.
        """
        self.is_heard = True
        if self.asked:
            raise self.asked

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """A context that must not be interrupted: an interruption is raised on exit."""
        self.is_heard = True
        try:
            yield
        finally:
            self.is_heard = False
        if self.asked:
            raise self.asked

    @contextmanager
    def raised_for_errors(self) -> Iterator[None]:
        """Until the first update, an error that follows a stop in the body is the interruption.

        `stop` may raise within code of torch, which answers with an error of its own.
        """
        try:
            yield
        except Exception as error:
            if self.asked is None or self.has_begun:
                raise
            raise self.asked from error

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether to stop after `updates`, before batch `batch` (from 0) of a pass over `split`."""
        return self.asked is not None

    def pause(self, completed: int, unit: str) -> errors.Paused | None:
        """The pause due once `completed` epochs or updates (`unit`) are validated."""
        if self._pause_at is None or completed < self._pause_at:
            return None
        return errors.Paused(f"after {completed} {unit if completed > 1 else unit[:-1]}")


class SharedInterrupter(Interrupter):
    """Stops all processes of a run at the same place: `asked` is set once they agree.

    Only rank 0's requests count. Until `connect` it acts for its own process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._peers: Any = None  # an andiron.distributed.World, which imports torch
        self._own: tuple[str, int] | None = None  # why this process was asked to stop
        self._first_signal = 0.0

    def join(self) -> None:
        """Defers a stop until `connect`, which all processes are about to call."""
        self.is_heard, self.is_starting = True, False

    def connect(self, peers: Any) -> None:
        """From here on decides together with the other processes of a World."""
        self._peers = peers
        if self.asked is not None:
            self._own, self.asked = (str(self.asked), self.asked.exit_code), None
        peers.wants_asking = lambda: bool(self._own or self._requests or self.is_paused)

    @property
    def is_watched(self) -> bool:
        """Whether any process requests a stop, or rank 0 has a request, since the last update."""
        return self._peers is not None and self._peers.is_asked

    @is_watched.setter
    def is_watched(self, value: bool) -> None:
        """Ignored: determined by all processes."""

    @property
    def may_end_at_once(self) -> bool:
        """Whether another Ctrl-C is a second one, not the first forwarded by torchrun."""
        return time.monotonic() - self._first_signal > SECONDS_OF_ONE_SIGNAL

    def stop(self, reason: str, exit_code: int = 130) -> None:
        """Requests that all processes stop where they next agree; the first reason counts."""
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

    def requests(self) -> Iterator[str]:
        """The requests of rank 0; while paused, waits for more, or for any `stop`."""
        while self.asked is None and self._peers is not None and self._peers.is_asked:
            request = self._requests[0] if self._requests else None
            states = self._peers.gathered((self._own is not None, request, self.is_paused))
            _, request, is_paused = states[0]
            if any(is_stopping for is_stopping, *_ in states):
                self._agree()
            elif request is not None:
                if self._requests:
                    self._requests.popleft()
                yield request
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
