"""Work in a background thread: soon after a request, at most once in an interval."""

import math
import threading
import time
from collections.abc import Callable

SECONDS_BETWEEN_LOOKS = 0.2  # at a deadline that the work may have moved


class Background:
    """Calls `work` in a thread after `ask`, at most once every `seconds`.

    Calls of `ask` in between result in one call of `work`. The thread is a daemon: a process that
    must exit at once does not wait for it. Nobody waits for work beyond its `deadline`, a time of
    the monotonic clock that the work may move.
    """

    def __init__(
        self,
        work: Callable[[], None],
        seconds: float,
        deadline: Callable[[], float] = lambda: math.inf,
    ):
        self._work = work
        self._deadline = deadline
        self._seconds = seconds
        self._changed = threading.Condition()
        self._is_asked = self._is_hurried = self._is_running = self._is_closed = False
        self._began = -math.inf
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Requests the work, as soon as the interval allows.

        Raises: RuntimeError after `close`.
        """
        with self._changed:
            if self._is_closed:
                raise RuntimeError("closed; create another")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._is_asked = True
            self._changed.notify_all()

    def give_way(self) -> bool:
        """Waits for work that has run for longer than the interval; returns False if it stalls."""
        with self._changed:
            began = self._began
            is_young = time.monotonic() - began < self._seconds
            return is_young or self._wait(lambda: not self._is_running or self._began > began)

    def finish(self) -> bool:
        """Waits until all requested work is done, without intervals; returns False if it stalls."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            try:
                return self._wait(lambda: not (self._is_asked or self._is_running))
            finally:
                self._is_hurried = False

    def check(self) -> None:
        """Raises: the work's error, once."""
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the thread once all work is done; leaves one whose work stalls."""
        is_done = self.finish()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if is_done and self._thread is not None:
            self._thread.join()

    def _wait(self, is_done: Callable[[], bool]) -> bool:
        """Waits for it, up to the deadline; returns whether it is done."""
        while not is_done() and (left := self._deadline() - time.monotonic()) > 0:
            self._changed.wait(min(left, SECONDS_BETWEEN_LOOKS))
        return is_done()

    def _run(self) -> None:
        while self._is_due():
            try:
                self._work()
            except BaseException as error:  # noqa: B036  `check` raises it in the caller's thread
                self._error = error
            finally:
                with self._changed:
                    self._is_running = False
                    self._changed.notify_all()

    def _is_due(self) -> bool:
        """Waits until work is due; False after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_asked or self._is_closed)
            left = self._began + self._seconds - time.monotonic()
            self._changed.wait_for(lambda: self._is_hurried or self._is_closed, timeout=left)
            if not self._is_asked:
                return False
            self._is_asked, self._is_running, self._began = False, True, time.monotonic()
            return True
