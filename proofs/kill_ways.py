"""How a training process is hit: killed, signalled to stop, halted, or its terminal closed."""

import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

SECONDS_BETWEEN_SIGNALS = 1.5  # at most; a process that was signalled to stop has ended by then
SECONDS_HALTED = 0.5  # at most
CONTINUES = "SIGSTOP and SIGCONT"  # the process goes on after it
KILL, VANISHED = "SIGKILL", "the terminal vanishes"


class Terminal:
    """A terminal for a process, and what the process has shown on it."""

    def __init__(self) -> None:
        self.ours, self.theirs = os.openpty()

    def drain(self, said: IO[bytes]) -> None:
        """Reads what was shown: a process waits for its reader."""
        while self.ours >= 0 and select.select([self.ours], [], [], 0)[0]:
            try:
                said.write(os.read(self.ours, 65536))
            except OSError:  # the process has ended
                return

    def close(self) -> None:
        """Closes it: the process gets SIGHUP, and errors where it writes."""
        if self.ours >= 0:
            os.close(self.ours)
            self.ours = -1


@dataclass(frozen=True)
class Way:
    """A way to hit a process; `codes` are the exit codes of a process without a handler for it."""

    name: str
    hit: Callable[["subprocess.Popen[bytes]", Terminal | None], None]
    codes: tuple[int, ...] = field(default=())
    on_terminal: bool = False


def drawn(draw: random.Random) -> Way:
    """A way, as often as `SHARES` says."""
    (make,) = draw.choices(list(SHARES), weights=list(SHARES.values()))
    return make(draw)


def _killed(draw: random.Random) -> Way:
    return Way(KILL, lambda process, _: process.kill(), (-signal.SIGKILL,))


def _told(draw: random.Random) -> Way:
    number = draw.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGHUP])
    return Way(number.name, lambda process, _: process.send_signal(number), _unsaved(number))


def _told_twice(draw: random.Random) -> Way:
    later = draw.choice([0.0, draw.uniform(0, 0.05), draw.uniform(0, SECONDS_BETWEEN_SIGNALS)])

    def hit(process: "subprocess.Popen[bytes]", _: Terminal | None) -> None:
        process.terminate()
        time.sleep(later)
        process.terminate()  # nothing is sent where it has ended

    return Way("SIGTERM twice", hit, _unsaved(signal.SIGTERM))


def _halted(draw: random.Random) -> Way:
    seconds = draw.uniform(0, SECONDS_HALTED)

    def hit(process: "subprocess.Popen[bytes]", _: Terminal | None) -> None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    return Way(CONTINUES, hit, (0,))


def _vanished(draw: random.Random) -> Way:
    def hit(_: "subprocess.Popen[bytes]", terminal: Terminal | None) -> None:
        if terminal is not None:
            terminal.close()

    return Way(VANISHED, hit, _unsaved(signal.SIGHUP), on_terminal=True)


def _unsaved(number: signal.Signals) -> tuple[int, ...]:
    """The exit codes before the configuration is read, and before a handler is there."""
    return 128 + number, -number


SHARES: dict[Callable[[random.Random], Way], float] = {
    _killed: 0.5, _told: 0.15, _told_twice: 0.15, _halted: 0.08, _vanished: 0.12,
}  # fmt: skip
