"""One piece of a run that is interrupted again and again, in a process of its own or in this one."""

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

from andiron import files
from andiron.commands import command_line, train
from proofs.stop_points import Moment, Stop
from andiron.commands.signals import Signals
from andiron.interrupter import Interrupter

SECONDS_BETWEEN_LOOKS = 0.005  # for the moment at which a signal is due


@dataclass(frozen=True)
class Piece:
    """What to run: the arguments of train.py, and where to stop; None runs to the end."""

    arguments: Sequence[str]
    stop: Stop | None = None
    conf_dir: Path | None = None


@dataclass(frozen=True)
class Ended:
    """How a piece ended: its exit code, the moments it came by, what it said on standard error, and after how long."""

    code: int
    moments: Sequence[Moment]
    said: str
    seconds: float


class Watched(Interrupter):
    """Keeps every moment it is asked at, and stops at one; where a signal is to do that, it calls `signalled` and goes on."""

    is_watched = True

    def __init__(self, stop: Stop | None, signalled: Callable[[], object]):
        super().__init__()
        self.moments: list[Moment] = []
        self._stop, self._signalled = stop, signalled

    def at(self, split: str, updates: int, batch: int) -> bool:
        """Whether to stop here."""
        moment = Moment(split, updates, batch)
        self.moments.append(moment)
        if self._stop is not None and moment == self._stop.moment:
            if self._stop.by_signal:
                self._signalled()
            else:
                self.stop(f"at {moment}")
        return super().at(split, updates, batch)


def run_here(piece: Piece) -> Ended:
    """Runs a piece in this process: sooner, for what is imported already; but what one piece leaves there the next one finds."""
    watched = Watched(piece.stop, functools.partial(signal.raise_signal, signal.SIGTERM))
    started = time.perf_counter()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        try:
            code = _run(piece, watched)
        except Exception as error:  # what a process would end with
            traceback.print_exception(error)
            code = command_line.EXIT_FAILED
    watched.asked = None
    gc.collect()  # the interruption held the frames it came through, and they the worker processes
    return Ended(code, watched.moments, said.getvalue(), time.perf_counter() - started)


def run_apart(piece: Piece) -> Ended:
    """Runs a piece in a new process, in this one's environment, and sends it SIGTERM if its stop is to be by a signal."""
    with tempfile.TemporaryDirectory(prefix="andiron-piece-") as folder:
        order, said = Path(folder) / "order.json", Path(folder) / "said"
        conf_dir = str(piece.conf_dir) if piece.conf_dir else None
        files.write_json(
            order, {"arguments": list(piece.arguments), "stop": piece.stop, "conf_dir": conf_dir}
        )
        started = time.perf_counter()
        with said.open("w+", encoding="utf-8", errors="replace") as errors_said:
            process = _start(order, errors_said.fileno())
            try:
                if piece.stop and piece.stop.by_signal:
                    _terminate_when(process, _known(order))
                code = process.wait()
            finally:
                if (
                    process.poll() is None
                ):  # Ctrl-C: it may have heard it too, and is left to end in its own way
                    process.terminate()
                    process.wait()
            errors_said.seek(0)
            text = errors_said.read()
        moments = files.read_json(_moments(order)) if _moments(order).exists() else []
        return Ended(
            code, [Moment(*moment) for moment in moments], text, time.perf_counter() - started
        )


def _run(piece: Piece, watched: Watched) -> int:
    task = functools.partial(train.train, interrupter=watched)
    return command_line.main(
        task, piece.conf_dir, list(piece.arguments), signals=Signals(watched), resumes=True
    )


def _start(order: Path, standard_error: int) -> "subprocess.Popen[bytes]":
    root = Path(__file__).resolve().parents[1]  # a plain checkout needs no install of its own
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


def _terminate_when(process: "subprocess.Popen[bytes]", known: Path) -> None:
    while process.poll() is None:
        if known.exists():
            process.terminate()
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def main(order: Path) -> int:
    """What the new process does: runs the piece that is described in the file at `order`; the exit code."""
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
