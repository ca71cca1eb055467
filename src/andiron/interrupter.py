"""External requests to a run: to stop, save or validate.

The learner checks for them wherever the run can be interrupted and resumed.

>>> interrupter = Interrupter(stop_rule=lambda split, updates, batch: "enough" if updates else None)
>>> interrupter.at("train", 0, 0), interrupter.at("train", 1, 1)
(None, Interrupted('enough'))
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from andiron import errors

# torchrun forwards a Ctrl-C that the terminal has already sent to every process
SECONDS_OF_ONE_SIGNAL = 2.0
# why to stop after `updates`, before batch `batch` (from 0) of a pass over `split`; None: continue
StopRule = Callable[[str, int, int], str | None]


class Phase(Enum):
    """The phase of a process, by which a stop is handled."""

    IDLE = auto()  # a stop is raised at once
    STARTING = auto()  # a stop waits for the configuration, which has the exit code
    HELD = auto()  # a stop waits: for work that must not be left, or for the first update
    TRAINING = auto()  # a learner finishes its update and saves
    TRAINED = auto()  # a stop is raised at once; the run has begun


class Interrupter:
    """Stops a run once `stop` was called, from a signal handler or another thread.

    The run pauses at its validation after `pause_at` epochs or updates, and stops where the
    `stop_rule` has a reason. If it `is_shared`, all processes of a run stop at the same place:
    after `connect`, `asked` is set once they agree, and only rank 0's requests count.
    """

    def __init__(
        self,
        pause_at: int | None = None,
        stop_rule: StopRule | None = None,
        *,
        is_shared: bool = False,
    ):
        self._pause_at = pause_at
        self._stop_rule = stop_rule
        self._is_shared = is_shared
        self.asked: errors.Interrupted | None = None
        self.exit_code: int | None = None  # of an interrupted process; None: the request's
        self.phase = Phase.IDLE
        self.is_watched = stop_rule is not None  # whether to check after the next update
        self.cleanups: list[Callable[[], None]] = []  # for an immediate exit: at most a second
        self._requests: deque[str] = deque()
        self._peers: Any = None  # an andiron.distributed.World, which imports torch
        self._own: tuple[str, int] | None = None  # a stop that the peers have not agreed on
        self._first_signal = 0.0

    def stop(self, reason: str, exit_code: int = 130) -> None:
        """Requests a stop at the next check; the first reason counts."""
        self._first_signal = self._first_signal or time.monotonic()
        if self._peers is None:
            self.asked = self.asked or errors.Interrupted(reason, exit_code)
            self.is_watched = True
        else:
            self._own = self._own or (reason, exit_code)

    @property
    def may_end_at_once(self) -> bool:
        """Whether another Ctrl-C is a second one, not the first forwarded by torchrun."""
        since = time.monotonic() - self._first_signal
        return not self._is_shared or since > SECONDS_OF_ONE_SIGNAL

    @property
    def is_heard(self) -> bool:
        """Whether a stop waits, until it is handled."""
        return self.phase in (Phase.STARTING, Phase.HELD, Phase.TRAINING)

    @property
    def has_begun(self) -> bool:
        """Whether the run has a state to save: its first update was made."""
        return self.phase in (Phase.TRAINING, Phase.TRAINED)

    def start(self) -> None:
        """Defers a stop until `begin`."""
        self.phase = Phase.STARTING

    def begin(self, exit_code: int | None) -> None:
        """Ends the deferral, with the configured exit code of an interrupted process.

        Raises: Interrupted if `stop` was called before.
        """
        self.exit_code = exit_code
        self._enter(Phase.IDLE)

    def hear(self) -> None:
        """From here on a learner handles stops.

        Raises: Interrupted if `stop` was called before.
        """
        self._enter(Phase.HELD)

    def mark_begun(self) -> None:
        """From here on the run has a state to save: its first update was made, now or earlier."""
        self.phase = Phase.TRAINING

    @contextmanager
    def heard(self) -> Iterator[None]:
        """A context in which a learner handles stops."""
        self.phase = Phase.TRAINING if self.has_begun else Phase.HELD
        try:
            yield
        finally:
            self.phase = Phase.TRAINED if self.phase is Phase.TRAINING else Phase.IDLE

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """A context that must not be interrupted: an interruption is raised on exit."""
        self.phase = Phase.HELD
        try:
            yield
        finally:
            self.phase = Phase.IDLE
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

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        if self.asked:
            raise self.asked

    def join(self) -> None:
        """Defers a stop until `connect`, which all processes are about to call."""
        self.phase = Phase.HELD

    def connect(self, peers: Any) -> None:
        """From here on decides together with the other processes of a World."""
        self._peers, self.is_watched = peers, self._stop_rule is not None
        if self.asked is not None:
            self._own, self.asked = (str(self.asked), self.asked.exit_code), None
        peers.wants_asking = lambda: bool(self._own or self._requests)

    def request(self, name: str) -> None:
        """Requests `save` or `validate` after the current update."""
        self._requests.append(name)
        if self._peers is None:  # else rank 0 is asked as its peers are
            self.is_watched = True

    @property
    def _is_asked(self) -> bool:
        """Whether a process has a request."""
        if self._peers is not None:
            return bool(self._peers.is_asked)
        return bool(self._requests)

    def requests(self) -> Iterator[str]:
        """The requests since the last call."""
        self.is_watched = self._stop_rule is not None
        while self.asked is None and self._is_asked:
            request = self._requests[0] if self._requests else None
            states = self._gathered((self._own is not None, request))
            _, request = states[0]
            if any(is_stopping for is_stopping, _ in states):
                self._agree()
            elif request is None:
                return
            else:
                if self._requests:
                    self._requests.popleft()
                yield request

    def at(self, split: str, updates: int, batch: int) -> errors.Interrupted | None:
        """Why to stop after `updates`, before batch `batch` (from 0) of a pass over `split`.

        All processes get the same answer.
        """
        if self._stop_rule and (reason := self._stop_rule(split, updates, batch)):
            self.stop(reason)
        if self._peers is not None and self._peers.any(self._own is not None):
            self._agree()
        return self.asked

    def pause(self, completed: int, unit: str) -> errors.Paused | None:
        """The pause due once `completed` epochs or updates (`unit`) are validated."""
        if self._pause_at is None or completed < self._pause_at:
            return None
        return errors.Paused(f"after {completed} {unit if completed > 1 else unit[:-1]}")

    def _gathered(self, value: object) -> list[Any]:
        """The values of all processes."""
        return [value] if self._peers is None else self._peers.gathered(value)

    def _agree(self) -> None:
        """Takes the reason of the first process that has one."""
        reasons = enumerate(self._gathered(self._own))
        rank, (reason, exit_code) = next((rank, own) for rank, own in reasons if own)
        where = f" to rank {rank}" if rank else ""
        self.asked = self.asked or errors.Interrupted(f"{reason}{where}", exit_code)
