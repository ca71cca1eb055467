"""What signals do to a run: the first stops it where it can be resumed, a second Ctrl-C at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from andiron import errors
from andiron.interrupter import Interrupter

NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")  # SIGHUP: the terminal or ssh session closed
STOPPING = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]  # Windows has two
SECONDS_SPARED = 60  # twice what SLURM waits between SIGTERM and SIGKILL, by default
NOTICE = "the current update will be finished and saved; Ctrl-C again ends the run at once"


class Signals:
    """Passes signals to an interrupter; while no learner asks it, they raise Interrupted."""

    def __init__(self, interrupter: Interrupter):
        self.interrupter = interrupter
        self.last_words: Callable[[str], None] | None = None  # called before an exit at once
        self._process = os.getpid()
        self._terminated_here = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handles signal `number`.

        Raises: Interrupted for the first one, unless a learner asks the interrupter.
        """
        name = signal.Signals(number).name
        if os.getpid() != self._process:
            self._in_worker(number)
        elif self.interrupter.asked is None:
            self.interrupter.stop(name, 128 + number)
            if not self.interrupter.is_heard and self.interrupter.asked:
                raise self.interrupter.asked
            _notify(f"\n{name}: {NOTICE}")
        elif number == signal.SIGINT:
            if self.last_words is not None:
                self.last_words(f"{name} for the second time: ended at once")
            os._exit(128 + number)

    def _in_worker(self, number: int) -> None:
        """In a data worker: a signal to the whole group is for the parent, which still needs it."""
        if number == signal.SIGTERM:
            self._terminated_here += 1
            if self._terminated_here > 1:  # from the parent, at the end
                os._exit(0)  # torch would take another code for a failure
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS_SPARED)  # in case the parent did send it, and waits for the exit


@contextmanager
def heard(signals: Signals) -> Iterator[None]:
    """Within it the stopping signals go to `signals`; afterwards to their earlier handlers.

    A signal that the process was started to ignore, as SIGHUP under nohup, stays ignored.
    """
    before = {
        number: signal.signal(number, signals)
        for number in STOPPING
        if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(error: KeyboardInterrupt) -> int:
    """The exit code of a process that was interrupted by `error`."""
    return error.exit_code if isinstance(error, errors.Interrupted) else 128 + signal.SIGINT


def _notify(text: str) -> None:
    """Writes to standard error; output to a terminal that is gone is discarded from here on.

    Otherwise the next print would raise an error in a run that is about to save its state.
    """
    for stream, notice in ((1, ""), (2, text)):
        try:
            os.write(stream, f"{notice}\n".encode())  # not print: a print may be interrupted
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
