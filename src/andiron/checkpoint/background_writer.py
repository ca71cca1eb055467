"""Work in a background thread: soon after a request, at most once in an interval."""

import math
import threading
import time
from collections.abc import Callable


class Background:
    """Calls `work` in a thread after `ask`, at most once every `seconds`.

    Calls of `ask` in between result in one call of `work`. The thread is a daemon: a process that
    must exit at once does not wait for it.
    """

    def __init__(self, work: Callable[[], None], *, seconds: float):
        self._work = work
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
                raise RuntimeError("closed; create another checkpointer")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
                self._thread.start()
            self._is_asked = True
            self._changed.notify_all()

    def give_way(self) -> None:
        """Waits for work that has run for longer than the interval."""
        with self._changed:
            began = self._began
            if time.monotonic() - began >= self._seconds:
                self._changed.wait_for(lambda: not self._is_running or self._began > began)

    def finish(self) -> None:
        """Waits until all requested work is done, ignoring the interval."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: not (self._is_asked or self._is_running))
            finally:
                self._is_hurried = False

    def check(self) -> None:
        """Raises: the work's error, once."""
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the thread once all work is done."""
        self.finish()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._is_due():
            try:
                self._work()
            except Exception as error:  # raised in the caller's thread by `check`
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
