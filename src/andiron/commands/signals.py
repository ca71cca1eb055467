"""What signals do to a run: the first has it stop at a place where it can be taken up again; a second Ctrl-C, at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from andiron import errors
from andiron.interrupter import Interrupter

STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)
]  # Windows lacks one
SECONDS_SPARED = 60  # twice what SLURM waits between SIGTERM and SIGKILL, by default
HEARD = "the update under way will be finished and saved; Ctrl-C again ends the run at once"


class Signals:
    """Tells an interrupter of signals; while no learner asks it, they raise Interrupted where they find the process."""

    def __init__(self, interrupter: Interrupter):
        self.interrupter = interrupter
        self.last_words: Callable[[str], None] | None = None  # before an end at once
        self._process = os.getpid()
        self._terminated_here = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handles signal `number`.

        Raises: Interrupted for the first, unless a learner asks.
        """
        name = signal.Signals(number).name
        if os.getpid() != self._process:
            self._in_worker(number)
        elif self.interrupter.asked is None:
            self.interrupter.stop(name, 128 + number)
            if not self.interrupter.is_heard and self.interrupter.asked:
                raise self.interrupter.asked
            os.write(2, f"\n{name}: {HEARD}\n".encode())  # print may be what the signal came into
        elif number == signal.SIGINT:
            if self.last_words is not None:
                self.last_words(f"{name} for the second time: ended at once")
            os._exit(128 + number)

    def _in_worker(self, number: int) -> None:
        """In a forked process that gathers data: whoever signals the whole group means its parent, which needs it still."""
        if number == signal.SIGTERM:
            self._terminated_here += 1
            if self._terminated_here > 1:  # its parent, at the end
                os._exit(0)  # torch would take another code for a failure
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(
                SECONDS_SPARED
            )  # its parent may have meant it after all, and wait for its end


@contextmanager
def heard(signals: Signals) -> Iterator[None]:
    """Within it these signals go to `signals`; afterwards where they went before."""
    before = {number: signal.signal(number, signals) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(error: KeyboardInterrupt) -> int:
    """What a process ends with that was interrupted by `error`."""
    return error.exit_code if isinstance(error, errors.Interrupted) else 128 + signal.SIGINT
