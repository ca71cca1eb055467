"""What signals do to a run: the first stops it where it can be resumed, a second Ctrl-C at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from andiron import errors
from andiron.cli import streams
from andiron.interrupter import Interrupter

# SIGHUP: the terminal or ssh session closed; SIGUSR1, SIGUSR2: a scheduler's time is nearly over;
# SIGXCPU: the time of `ulimit -t` is
NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGXCPU")
STOPPING = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]  # Windows has two
SECONDS_SPARED = 60  # twice what SLURM waits between SIGTERM and SIGKILL, by default
SECONDS_TO_START = 15  # half of that: a signal is held back no longer while Hydra composes
NOTICE = "the current update will be finished and saved; Ctrl-C again ends the run at once"


class Signals:
    """Passes signals to an interrupter; while no learner asks it, they raise Interrupted.

    During its start the command ends once the configuration is known, or `SECONDS_TO_START` later.
    """

    def __init__(self, interrupter: Interrupter, *, until_exit: bool = False):
        self.interrupter = interrupter
        self.until_exit = until_exit  # whether the process ends when they are heard no longer
        self.last_words: Callable[[str], None] | None = None  # called before an exit at once
        self._process = os.getpid()
        self._terminated_here = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Signals, (Interrupter(),)  # a job in another process has its own

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
            if not self.interrupter.is_starting:
                streams.notify(f"\n{name}: {NOTICE}")
            elif hasattr(signal, "alarm"):  # Windows has none
                signal.signal(signal.SIGALRM, self._end_start)
                signal.alarm(SECONDS_TO_START)
        elif number == signal.SIGINT and self.interrupter.may_end_at_once:
            if self.last_words is not None:
                self.last_words(f"{name} for the second time: ended at once")
            for cleanup in self.interrupter.cleanups:
                cleanup()
            streams.show_cursor()
            os._exit(128 + number)

    def _end_start(self, number: int, frame: FrameType | None) -> None:
        """Ends a start that takes too long: of a launcher that is not Andiron's, for example."""
        if self.interrupter.is_starting and self.interrupter.asked:
            raise self.interrupter.asked

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

    Where the process ends then, they are ignored instead, so that a second signal does not replace
    its exit code; a second Ctrl-C ends it at once.

    A signal that the process was started to ignore, as SIGHUP under nohup, stays ignored. Blocked
    signals of a process that ends then are let through: `train.py` blocks them at its first line.
    Raises: Interrupted with the exit code that the interrupter has.
    """
    before = {
        number: signal.signal(number, signals)
        for number in STOPPING
        if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        if signals.until_exit and hasattr(signal, "pthread_sigmask"):  # not on Windows
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        yield
    except errors.Interrupted as error:
        error.exit_code = signals.interrupter.exit_code or error.exit_code
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, _at_exit(number) if signals.until_exit else handler)
        if signals.until_exit and hasattr(signal, "alarm"):
            signal.alarm(0)  # of `_end_start`: Python's exit would put its handler away


@contextmanager
def saved_before_launcher(signals: Signals) -> Iterator[None]:
    """Within it SIGUSR1 and SIGUSR2 stop a job that a launcher such as submitit has started.

    Afterwards they go to the launcher's handlers again, which queue the job.
    """
    before = {
        number: signal.signal(number, signals)
        for number in STOPPING
        if "USR" in number.name and callable(signal.getsignal(number))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_exit(number: signal.Signals) -> Any:
    # Python puts back the default action of every signal that is not ignored as it exits
    return (lambda *_: os._exit(128 + number)) if number == signal.SIGINT else signal.SIG_IGN


def exit_code(error: KeyboardInterrupt) -> int:
    """The exit code of a process that was interrupted by `error`."""
    return error.exit_code if isinstance(error, errors.Interrupted) else 128 + signal.SIGINT


def outcome(error: KeyboardInterrupt) -> list[str]:
    """What became of the run that was interrupted by `error`, if it was one."""
    return [error.outcome] if isinstance(error, errors.Interrupted) and error.outcome else []
