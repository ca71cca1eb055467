"""Processes of Python that are forked from one that has imported torch and Andiron.

A process imports them for longer than most tests train. Within `processes()`, `subprocess` forks
instead of starting Python where both give the same: the forked process is a child of its caller,
with the requested environment, folder, streams, session, `sys.path` and `__main__`. Tests of the
start of a process start Python.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import itertools
import json
import os
import random
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import util
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
MODULES = (
    "andiron.wings.sweep.clean_process", "andiron.learner", "andiron.models",
    "andiron.wings.runs", "andiron_lab.sharded.fully_sharded", "torch.distributed.launcher.api",
    "tensorboard.compat.proto.event_pb2", "andiron.shell.training.train",
    "andiron.data.sources.digits", "andiron_lab.views.model_views",
    "hydra_plugins.andiron_launcher", "hydra_plugins.andiron_sweeper", "rich.table",
)  # fmt: skip
AT_START = ("LC_", "LANG", "LD_", "MALLOC_", "MKL_", "OMP_", "PYTHON", "ANDIRON_FAST")
FOLLOWED = ("PYTHONPATH", "PYTHONUNBUFFERED")  # by a forked process
# of further processes
STARTERS = ("torch.distributed.run", "kill_test.py", "verify-resume", "seeds", "try")
ROOM = "x" * 16_384  # for the environment of a forked process, which /proc shows
MOST_BYTES = 2**17
PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>
STREAMS = (0, 1, 2)
FLAGS = ("-P", "-u")  # of Python, before its program
LIBC = ctypes.CDLL(None)
STARTED = subprocess.Popen


class Forked(STARTED):
    """`subprocess.Popen`, forked where that gives the same."""

    executable = sys.executable
    server: socket.socket | None = None  # none: whatever starts is not forked

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        _, _, shell, *pipes = rest[:9]
        _, gid, gids, uid, umask, new_session, group = rest[9:]
        environment = dict(os.environ if env is None else env)
        is_plain = (executable, preexec_fn, gid, gids, uid) == (None,) * 5
        is_plain = is_plain and (shell, umask, group) == (False, -1, -1)
        arguments = (
            [] if isinstance(args, str | bytes) else [os.fspath(argument) for argument in args]
        )
        if not self.server or not is_plain or not _is_forkable(arguments, environment):
            super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest
            )
            return
        given = (pipes[0], pipes[3], pipes[5])  # the child's ends of stdin, stdout and stderr
        streams = [own if asked == -1 else asked for own, asked in zip(STREAMS, given, strict=True)]
        place = os.fspath(cwd or Path.cwd())
        self.pid = _fork(arguments, place, environment, streams, pass_fds, bool(new_session))
        self._child_created = True
        self._close_pipe_fds(*pipes)


def _fork(
    arguments: Sequence[str], cwd: str, environment: Mapping[str, str], streams: Sequence[int],
    pass_fds: Iterable[int], new_session: bool = False,
) -> int:  # fmt: skip
    """The number of a process that the server has forked."""
    request = {
        "arguments": arguments, "cwd": cwd, "environment": environment,
        "new_session": new_session, "numbers": [*STREAMS, *pass_fds],
    }  # fmt: skip
    message = json.dumps(request).encode()
    assert len(message) < MOST_BYTES and Forked.server
    with _adopting():
        socket.send_fds(Forked.server, [message], [*streams, *pass_fds])
        return int(Forked.server.recv(64))


def _spawned(
    path: bytes, words: Iterable[bytes], pass_fds: Iterable[int], spawn=util.spawnv_passfds
) -> int:
    """`spawnv_passfds` of multiprocessing: the server of a sweep's jobs, which imports as much."""
    arguments = [*map(os.fsdecode, words)]
    is_of_jobs = "multiprocessing.forkserver" in arguments[-1]
    if not Forked.server or not is_of_jobs or not _is_forkable(arguments, os.environ):
        return spawn(path, words, pass_fds)
    return _fork(arguments, os.getcwd(), {**os.environ}, STREAMS, pass_fds)


def _is_forkable(arguments: list[str], environment: Mapping[str, str]) -> bool:
    first = [argument for argument in arguments[1:] if argument not in FLAGS][:1]
    if not first or arguments[0] != Forked.executable:
        return False
    if first[0].startswith("-") and first[0] not in ("-c", "-m"):
        return False
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    if any(Path(folder, "sitecustomize.py").exists() for folder in folders):
        return False
    return _at_start(environment) == _at_start(os.environ)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are read while a process starts."""
    return {
        name: value for name, value in environment.items()
        if name.startswith(AT_START) and name not in FOLLOWED
    }  # fmt: skip


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Within it, this process becomes the parent of what its children leave behind."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0)


@contextlib.contextmanager
def processes() -> Iterator[None]:
    """Within it, `subprocess` forks this Python where that gives the same."""
    with _forking(sys.executable, _server):
        yield


@contextlib.contextmanager
def processes_of(executable: str | Path, source: Path | None = None) -> Iterator[None]:
    """Processes of another Python, or for the Andiron below `source` (none: the installed one)."""
    with contextlib.ExitStack() as at_end:
        starting = functools.partial(_started, str(executable), source, at_end)
        with _forking(str(executable), starting):
            yield


@functools.cache
def _server() -> socket.socket:
    at_end = contextlib.ExitStack()
    atexit.register(at_end.close)
    return _started(sys.executable, ROOT / "src", at_end)


@contextlib.contextmanager
def _forking(executable: str, starting: Callable[[], socket.socket]) -> Iterator[None]:
    if sys.platform != "linux":  # others have no way to adopt a process
        yield
        return
    with (
        mock.patch.multiple(Forked, executable=executable, server=starting()),
        mock.patch.object(subprocess, "Popen", Forked),
    ):
        yield


def _started(executable: str, source: Path | None, at_end: contextlib.ExitStack) -> socket.socket:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "ROOM": ROOM}
    environment.pop("PYTHONPATH", None)
    with there:
        command = [executable, __file__, str(there.fileno()), str(source or "")]
        server = STARTED(
            command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()]
        )
    at_end.callback(server.wait)
    at_end.enter_context(here)
    return here


def starting(folder: Path, *words: str) -> str:
    """A shell command for `python *words` whose own processes are forked from it."""
    return shlex.join(["env", f"ROOM={ROOM}", sys.executable, __file__, "", str(folder), *words])


def serve(connection: socket.socket) -> Callable[[], object]:
    """Forks a process for each request; returns in the forked one, with what it has to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the processes
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, MOST_BYTES, 16)
        if not message:  # who asked has ended
            os._exit(0)
        answer, told = os.pipe()
        between = os.fork()
        if between == 0:
            between, request = os.getpid(), json.loads(message)
            if os.fork():
                os._exit(0)
            if request["new_session"]:  # before its number is known, so that nobody asks too early
                os.setsid()
            os.write(told, str(os.getpid()).encode())
            for descriptor in (answer, told, connection.detach()):
                os.close(descriptor)
            while os.getppid() == between:
                time.sleep(0.0005)
            return _become(request, descriptors)
        os.waitpid(between, 0)  # the process is now a child of who asked
        connection.send(os.read(answer, 64))
        for descriptor in (answer, told, *descriptors):
            os.close(descriptor)


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> Callable[[], object]:
    """Makes this process the one requested; returns what it has to run."""
    os.chdir(request["cwd"])
    apart = [os.dup2(descriptor, 100 + place) for place, descriptor in enumerate(descriptors)]
    for number, descriptor in zip(request["numbers"], apart, strict=True):
        os.dup2(descriptor, number)
    for descriptor in {*descriptors, *apart} - {*request["numbers"]}:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    _show_environment()
    words = request["arguments"]
    if "-m" in words[2:] or any(word.endswith(STARTERS) for word in words):
        return _beside_a_server(words[1:])
    return _ready(words[1:])


def _beside_a_server(words: Sequence[str]) -> Callable[[], object]:
    """Has the further processes of this one forked from it, as it is now."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        here.close()
        return serve(there)
    there.close()
    Forked.server = here
    return _ready(words)


def _ready(words: Sequence[str]) -> Callable[[], object]:
    """The program of `python *words`, once this process is as a new one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    gc.enable()
    # the destructors of torch's libraries take longer than most tests train; Python's own end stays
    LIBC.on_exit(LIBC._exit, None)
    _open_streams()
    return _program(words)


def _show_environment() -> None:
    """Puts the environment where /proc shows it."""
    numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = map(int, numbers[47:49])
    shown = "\0".join(map("=".join, os.environ.items())).encode(errors="surrogateescape")
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, shown, min(len(shown), end - start - 1))


def _open_streams() -> None:
    encoding, errors = sys.__stdout__.encoding, sys.__stdout__.errors
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding=encoding, errors=errors, closefd=False)
    sys.stderr = sys.__stderr__ = open(
        2, "w", buffering=1, encoding=encoding, errors="backslashreplace", closefd=False
    )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through="PYTHONUNBUFFERED" in os.environ)


def _program(arguments: Sequence[str]) -> Callable[[], object]:
    """The program of `python *arguments`."""
    sys.orig_argv = [sys.executable, *arguments]
    flags = [*itertools.takewhile(FLAGS.__contains__, arguments)]
    kind, *rest = arguments[len(flags) :]
    if "-u" in flags:
        sys.stdout.reconfigure(write_through=True)
    sys.argv, first = [kind, *rest], os.path.dirname(os.path.realpath(kind))
    if kind in ("-c", "-m"):
        sys.argv, first = [kind, *rest[1:]], os.getcwd() if kind == "-m" else ""
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [*([] if "-P" in flags else [first]), *paths, *BASE]
    if kind == "-m":
        return functools.partial(runpy.run_module, rest[0], run_name="__main__", alter_sys=True)
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    if kind == "-c":
        code: tuple[str | bytes, str] = rest[0], "<string>"
    else:
        module.__file__ = kind
        code = Path(kind).read_bytes(), kind
    return functools.partial(exec, compile(*code, "exec"), module.__dict__)


if __name__ == "__main__":
    BASE = sys.path[1:]
    sys.path[:1] = filter(None, sys.argv[2:3])
    subprocess.Popen = Forked  # for those that import it by its name
    util.spawnv_passfds = _spawned
    for name in MODULES:
        with contextlib.suppress(ImportError):  # a wing that is not there
            importlib.import_module(name)
    gc.freeze()
    del os.environ["ROOM"]  # else the environments shown for its own processes would need as much
    number, _, *words = sys.argv[1:]
    run = _beside_a_server(words) if words else serve(socket.socket(fileno=int(number)))
    run()
