"""One segment of an interrupted run, in a process of its own or in this one."""

import contextlib
import functools
import gc
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from andiron.disk import files
from andiron.interrupter import Interrupter
from andiron.shell.cli import command_line, process
from andiron.shell.cli.signals import EXIT_FAILED, Signals
from andiron.shell.training import resume_arguments, train_run

from .stop_points import Moment, Stop

SECONDS_BETWEEN_LOOKS = 0.005


@dataclass(frozen=True)
class Piece:
    """A segment: the arguments of train.py, and where to stop; None runs to the end."""

    arguments: Sequence[str]
    stop: Stop | None = None
    conf_dir: Path | None = None


@dataclass(frozen=True)
class Ended:
    """How a segment ended: its exit code, the moments it passed, its standard error, its duration.
    """

    code: int
    moments: Sequence[Moment]
    said: str
    seconds: float


class Watched:
    """A stop rule that records every moment: it stops at one, or calls `signalled` there."""

    def __init__(self, stop: Stop | None, signalled: Callable[[], object]):
        self.moments: list[Moment] = []
        self._stop, self._signalled = stop, signalled

    def __call__(self, split: str, updates: int, batch: int) -> str | None:
        moment = Moment(split, updates, batch)
        self.moments.append(moment)
        if self._stop is None or moment != self._stop.moment:
            return None
        if self._stop.by_signal:
            self._signalled()
            return None
        return f"at {moment}"


def run_here(piece: Piece) -> Ended:
    """Runs a segment in this process: faster, but global state of one segment reaches the next."""
    watched = Watched(piece.stop, functools.partial(signal.raise_signal, signal.SIGTERM))
    started = time.perf_counter()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        try:
            code = _run(piece, watched)
        except Exception as error:  # a process would exit with a traceback
            traceback.print_exception(error)
            code = EXIT_FAILED
    gc.collect()  # the exception holds frames, which hold the worker processes
    return Ended(code, watched.moments, said.getvalue(), time.perf_counter() - started)


def run_apart(piece: Piece) -> Ended:
    """Runs a segment in a new process, and sends SIGTERM where its stop is by a signal."""
    with tempfile.TemporaryDirectory(prefix="andiron-piece-") as folder:
        order, said = Path(folder) / "order.json", Path(folder) / "said"
        conf_dir = str(piece.conf_dir) if piece.conf_dir else None
        files.write_json(
            order, {"arguments": list(piece.arguments), "stop": piece.stop, "conf_dir": conf_dir}
        )
        started = time.perf_counter()
        with said.open("w+", encoding="utf-8", errors="replace") as errors_said:
            child = _start(order, errors_said.fileno())
            try:
                if piece.stop and piece.stop.by_signal:
                    _terminate_when(child, _known(order))
                code = child.wait()
            finally:
                if child.poll() is None:  # after Ctrl-C here: let it save and end
                    child.terminate()
                    child.wait()
            errors_said.seek(0)
            text = errors_said.read()
        moments = files.read_json(_moments(order)) if _moments(order).exists() else []
        return Ended(
            code, [Moment(*moment) for moment in moments], text, time.perf_counter() - started
        )


@process.command
def _run(piece: Piece, watched: Watched) -> int:
    interrupter = Interrupter(stop_rule=watched)
    task = functools.partial(train_run.train, interrupter=interrupter)
    command_line.main(
        task,
        piece.conf_dir,
        list(piece.arguments),
        signals=Signals(interrupter),
        run=resume_arguments.run,
    )
    return 0


def _start(order: Path, standard_error: int) -> "subprocess.Popen[bytes]":
    root = Path(__file__).resolve().parents[2]  # a plain checkout needs no install of its own
    path = os.pathsep.join(
        filter(None, [str(root), str(root / "src"), os.environ.get("PYTHONPATH")])
    )
    command = [sys.executable, "-P", "-m", __spec__.name, str(order)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=standard_error,
        env={**os.environ, "PYTHONPATH": path},
    )


def _terminate_when(child: "subprocess.Popen[bytes]", known: Path) -> None:
    while child.poll() is None:
        if known.exists():
            child.terminate()
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def main(order: Path) -> int:
    """Runs the segment described in the file at `order`; returns the exit code."""
    plain = files.read_json(order)
    stop = plain["stop"] and Stop(plain["stop"][0], Moment(*plain["stop"][1]), plain["stop"][2])
    conf_dir = Path(plain["conf_dir"]) if plain["conf_dir"] else None
    watched = Watched(stop, _known(order).touch)
    try:
        return _run(Piece(plain["arguments"], stop, conf_dir), watched)
    finally:
        files.write_json(_moments(order), watched.moments)


def _known(order: Path) -> Path:
    return order.with_name("known")


def _moments(order: Path) -> Path:
    return order.with_name("moments.json")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
