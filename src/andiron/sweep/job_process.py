"""The process of one job of a sweep: forked from a clean one, and ended with the sweep.

The clean process (multiprocessing's fork server) has imported torch, started no thread and not
touched a GPU. A job leads a session of its own, so that Ctrl-C reaches it once, through the sweep.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from andiron.sweep import shares

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

PRELOADED = ["__main__", "andiron.sweep.clean_process"]
SECONDS_TO_SAVE = 60  # for a job whose sweep was killed
HELD_BACK = {
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
    if hasattr(signal, name)
}
_of_clean_process: dict[str, str | None] = {}  # variables of its own, once it was started
Work = Callable[[Any, Callable[[Any], None]], int]  # request, reply -> exit code


@dataclass(frozen=True)
class Surroundings:
    """What a job's process has of its own."""

    output: Path  # for what it prints
    environment: Mapping[str, str]
    memory_bytes: int | None


class JobProcess:
    """A process that does `work(request, reply)`; `replies` are the facts that it sent so far."""

    def __init__(self, work: Work, request: Any, surroundings: Surroundings):
        context = multiprocessing.get_context("forkserver")
        self._receiver, sender = context.Pipe(duplex=False)
        arguments = (work, request, surroundings, sender)
        self._process = context.Process(target=_do, args=arguments)
        with _from_clean_process():
            self._process.start()
        sender.close()
        self.replies: dict[str, Any] = {}
        self.pid = self._process.pid or 0  # never 0 once it has started
        self.sentinel: int = self._process.sentinel

    def receive(self) -> None:
        """Takes what the process has sent since."""
        with suppress(EOFError, OSError):
            while self._receiver.poll():
                self.replies |= self._receiver.recv()

    def ended(self) -> int | None:
        """The exit code, of a process that a signal killed less than 0; None while it runs."""
        code: int | None = self._process.exitcode
        if code is not None:
            self.receive()
            self._receiver.close()
            self._process.close()
        return code

    def send(self, number: int) -> bool:
        """Sends it a signal; whether it was still there. Signal 0 is none."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def kill(self) -> None:
        """Kills it and the processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.send(signal.SIGKILL)


def start_clean_process(threads: str | None) -> str | None:
    """Starts the process that jobs are forked from, which imports while this one continues.

    The threads that its jobs have, for `OMP_NUM_THREADS`; None leaves them to torch. If it was
    started before, they are those of that time.
    """
    _of_clean_process.setdefault(shares.THREADS, threads)
    forkserver.set_forkserver_preload(PRELOADED)
    with _from_clean_process():
        forkserver.ensure_running()
    return _of_clean_process[shares.THREADS]


@contextmanager
def _from_clean_process() -> Iterator[None]:
    """Within it, the clean process starts with the modules of this one, deaf to signals.

    They are for the sweep and its jobs: the clean process has to tell how the jobs end.
    """
    resource_tracker.ensure_running()  # it would make this process hear them again
    own = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_of_clean_process}
    before = {name: os.environ.get(name) for name in own}
    was = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        _set(own)
        yield
    finally:
        _set(before)
        signal.pthread_sigmask(signal.SIG_SETMASK, was)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _do(work: Work, request: Any, surroundings: Surroundings, sender: Connection) -> None:
    """In the job's process: what it prints goes to its own file, and it ends with the sweep."""

    def reply(message: Any) -> None:
        with suppress(OSError):  # the sweep was killed
            sender.send(message)

    os.setsid()
    try:
        surroundings.output.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(surroundings.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        reply({"error": f"{surroundings.output} cannot be written ({error.strerror})"})
        sys.exit(1)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(surroundings.environment)
    threading.Thread(target=_end_with_sweep, name="sweep", daemon=True).start()
    problem = _limited(surroundings.memory_bytes)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        reply({"error": problem})
        sys.exit(1)
    sys.exit(work(request, reply))


def _limited(memory_bytes: int | None) -> str | None:
    """Limits the memory of this process; why that cannot be, if torch alone has more."""
    if memory_bytes is None or resource is None:
        return None
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        taken = pages * resource.getpagesize()
        if taken >= memory_bytes:
            return (
                f"the memory limit is {memory_bytes / 2**30:.2f} GiB, and torch alone takes "
                f"{taken / 2**30:.2f} GiB; give a higher hydra.launcher.job_gib"
            )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    return None


def _end_with_sweep() -> None:
    """Once the sweep is gone, stops the job where it can be resumed."""
    sweep = multiprocessing.parent_process()
    if sweep is not None:
        sweep.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS_TO_SAVE)
        os.killpg(0, signal.SIGKILL)
