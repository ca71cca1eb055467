"""Work in a thread of its own: begun when asked for, but not again before some time has passed."""

import math
import threading
import time
from collections.abc import Callable


class Background:
    """Calls `work` in a thread after each `ask`, at most once in `seconds`; several asked for meanwhile are one.

    The thread is a daemon: a process that is told to end at once does not wait for it.
    """

    def __init__(self, work: Callable[[], None], *, seconds: Callable[[], float]):
        self._work = work
        self._seconds = seconds
        self._changed = threading.Condition()
        self._asked = self._hurried = self._running = self._closed = False
        self._began, self._ended = -math.inf, 0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Has the work done, as soon as it may be again.

        Raises: RuntimeError after `close`.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("nothing is written after close(); make another checkpointer")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
                self._thread.start()
            self._asked = True
            self._changed.notify_all()

    def give_way(self) -> None:
        """Waits for the end of work under way that began so long ago that it could begin again."""
        with self._changed:
            if self._running and time.monotonic() - self._began >= self._seconds():
                ended = self._ended
                self._changed.wait_for(lambda: self._ended > ended)

    def finish(self) -> None:
        """Returns when all that was asked for is done; it need not wait for its time."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: not (self._asked or self._running))
            finally:
                self._hurried = False

    def check(self) -> None:
        """Raises: what the work raised, once."""
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the thread when all is done."""
        self.finish()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._is_due():
            try:
                self._work()
            except Exception as error:  # the caller's thread raises it: `check`
                self._error = error
            finally:
                with self._changed:
                    self._running = False
                    self._ended += 1
                    self._changed.notify_all()

    def _is_due(self) -> bool:
        """Waits until there is work and it may begin, or returns False after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._asked or self._closed)
            while (
                not (self._hurried or self._closed)
                and (left := self._began + self._seconds() - time.monotonic()) > 0
            ):
                self._changed.wait(left)
            if not self._asked:
                return False
            self._asked, self._running, self._began = False, True, time.monotonic()
            return True
