"""Signals that stop a run: the first so that it can be resumed, a second Ctrl-C immediately."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from andiron import errors
from andiron.interrupter import Interrupter, Phase
from andiron.plain.states import State
from andiron.shell.cli import streams

# SIGHUP: the terminal or ssh session closed; SIGUSR1, SIGUSR2: a scheduler's time is nearly over;
# SIGXCPU: the CPU time of `ulimit -t` is over
NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGXCPU")
_exit = os._exit  # while `_exits_reported` has its own in the place
BY_NAME = signal.Signals.__members__
STOPPING = [BY_NAME[name] for name in NAMES if name in BY_NAME]  # Windows has two
EXIT_FAILED, EXIT_USAGE = 1, 2  # interrupted: 128 + the signal, unless the config sets another
SECONDS_SPARED = 60  # twice what SLURM waits between SIGTERM and SIGKILL, by default
SECONDS_TO_START = 15  # half of that: the longest that a signal waits for Hydra to compose
SAVES = "the current update will be finished and saved; Ctrl-C again ends the run at once"
LEAVES = "the run ends before its first update, and leaves nothing; Ctrl-C again ends it at once"


class Signals:
    """Passes signals to an interrupter; they raise Interrupted while no learner polls it.

    A starting command ends once its configuration is composed, or after `SECONDS_TO_START`.
    """

    def __init__(self, interrupter: Interrupter, *, until_exit: bool = False):
        self.interrupter = interrupter
        self.until_exit = until_exit  # whether the process exits after `installed`
        self.on_immediate_exit: Callable[..., None] | None = None
        self._process = os.getpid()
        self._terminated_here = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Signals, (Interrupter(),)  # a job in another process has its own

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handles signal `number`.

        Raises: Interrupted for the first one, unless a learner polls the interrupter.
        """
        name = signal.Signals(number).name
        if os.getpid() != self._process:
            self._in_worker(number)
        elif self.interrupter.asked is None:
            self.interrupter.stop(name, 128 + number)
            if not self.interrupter.is_heard and self.interrupter.asked:
                raise self.interrupter.asked
            if self.interrupter.phase is not Phase.STARTING:
                streams.notify(f"\n{name}: {SAVES if self.interrupter.has_begun else LEAVES}")
            elif hasattr(signal, "alarm"):  # Windows has none
                signal.signal(signal.SIGALRM, self._end_start)
                signal.alarm(SECONDS_TO_START)
        elif number == signal.SIGINT and self.interrupter.may_end_at_once:
            if self.on_immediate_exit is not None:
                self.on_immediate_exit(f"{name} for the second time: ended at once")
            for cleanup in self.interrupter.cleanups:
                cleanup()
            streams.show_cursor()
            _exit(128 + number)

    def _end_start(self, number: int, frame: FrameType | None) -> None:
        """Ends a start that takes too long, such as that of a launcher other than Andiron's."""
        if self.interrupter.phase is Phase.STARTING and self.interrupter.asked:
            raise self.interrupter.asked

    def _in_worker(self, number: int) -> None:
        """In a data worker, ignores a signal to its process group: the parent still needs it."""
        if number == signal.SIGTERM:
            self._terminated_here += 1
            if self._terminated_here > 1:  # from the parent, at the end
                _exit(0)  # torch would take another code for a failure
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS_SPARED)  # in case the parent sent it, and waits for the exit


@contextmanager
def installed(signals: Signals) -> Iterator[None]:
    """Sends stopping signals to `signals` within the body, then restores the earlier handlers.

    If the process exits then, they are ignored instead, so that a second signal does not replace
    its exit code; a second Ctrl-C ends it immediately. Signals that such a process blocked are
    delivered: `train.py` blocks them at its first line.

    A SIGHUP that the process was started to ignore, as under nohup, stays ignored.
    Raises: Interrupted with the exit code of the interrupter.
    """
    before = {
        number: signal.signal(number, signals)
        for number in STOPPING
        if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        if signals.until_exit and hasattr(signal, "pthread_sigmask"):  # not on Windows
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        with _exits_reported(signals):
            yield
    except errors.Interrupted as error:
        error.add(exit_code=signals.interrupter.exit_code)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, _at_exit(number) if signals.until_exit else handler)
        if signals.until_exit and hasattr(signal, "alarm"):
            signal.alarm(0)  # set for `_end_start`, whose handler Python removes at exit


@contextmanager
def _exits_reported(signals: Signals) -> Iterator[None]:
    """Within the body a part that calls `os._exit` in this process is named, and the run failed."""
    process = os.getpid()
    # `inspect.currentframe` would be this lambda's: the caller's is one step back
    os._exit = lambda code: _exit(  # type: ignore[assignment]
        _reported(signals, code, sys._getframe(1)) if os.getpid() == process else code
    )
    try:
        yield
    finally:
        os._exit = _exit


def _reported(signals: Signals, code: int, caller: FrameType) -> int:
    """The exit code of a process that `caller` ends at once; 0 would mean that the run is done."""
    function = f"{caller.f_globals.get('__name__')}.{caller.f_code.co_qualname}"
    reason = f"{function}:{caller.f_lineno}: ended the process (os._exit({code}))"
    if signals.on_immediate_exit is not None:
        signals.on_immediate_exit(reason, State.FAILED)
    streams.notify(f"error: {reason}; raise an error there instead")
    return code or EXIT_FAILED


@contextmanager
def saved_before_launcher(signals: Signals) -> Iterator[None]:
    """Within the body SIGUSR1 and SIGUSR2 stop a job that a launcher such as submitit started.

    The launcher's handlers, which requeue the job, are then restored.
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
    # at exit Python restores the default action of every signal that is not ignored
    return (lambda *_: _exit(128 + number)) if number == signal.SIGINT else signal.SIG_IGN


def exit_code(error: BaseException) -> int:
    """The exit code of a process that ends with this error, of Andiron or an interruption."""
    if isinstance(error, KeyboardInterrupt):
        return error.exit_code if isinstance(error, errors.Interrupted) else 128 + signal.SIGINT
    is_usage = isinstance(error, errors.ConfigError | errors.SelectionError)
    return EXIT_USAGE if is_usage else EXIT_FAILED


def outcome(error: KeyboardInterrupt) -> list[str]:
    """The outcome of the run that `error` interrupted; empty if it interrupted none."""
    return [error.outcome] if isinstance(error, errors.Interrupted) and error.outcome else []
