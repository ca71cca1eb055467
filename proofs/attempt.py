"""A command over a folder that a stranger made, in a forked process that notes what it does."""

import contextlib
import ctypes
import functools
import hashlib
import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from andiron.shell.training import train
from andiron.wings.sweep import job_process

CONF = Path(__file__).resolve().parents[1] / "conf"
SMALL = (
    "data=synthetic", "data.num_samples=200", "data.input_shape=[1,4,4]", "model.hidden=[8]",
    "batch_size=64", "render=plain", "device=cpu",
)  # fmt: skip
SECRET = "ANDIRON_SECRET"  # an environment variable whose value no output may show
SECRET_VALUE = "a-value-that-only-the-environment-has"
PROGRAMS = {"git", "uname"}  # what the record of a run asks about code and machine
OF_NAMES = ("os.remove", "os.rename", "os.rmdir")  # of a link itself, wherever it leads
CHANGES = (
    "os.mkdir", "os.truncate", "os.chmod", "os.symlink", "os.link", "shutil.rmtree",
    "shutil.copyfile", "shutil.move",
)  # fmt: skip
RUNS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pty.spawn")
CONNECTS = ("socket.connect", "socket.bind", "socket.sendto", "urllib.Request", "ftplib.connect")
OF_TORCH = os.path.join(tempfile.gettempdir(), "torchinductor_")  # made by its import
CLONE_NEWNS, PR_SET_PDEATHSIG = 0x20000, 1  # of <sched.h> and <linux/prctl.h>
DEVICES = {  # major and minor number, on Linux
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
    "tty": (5, 0),
}  # fmt: skip
Fingerprints = dict[Path, tuple[object, ...]]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code (None: killed at the time limit) and what it did."""

    code: int | None
    output: str
    deeds: Sequence[str]  # programs started, connections, changes outside the allowed folders
    megabytes: float  # of resident memory, beyond that before the command
    seconds: float

    def faults(self, *, most_megabytes: float = 300) -> list[str]:
        """Faults in how the command ended, for a folder that it has to refuse."""
        result = list(self.deeds)
        if self.code is None:
            result.append("took too long")
        elif self.code < 0:
            result.append(f"was killed by {signal.Signals(-self.code).name}")
        elif self.code == 0:
            result.append("accepted it")
        elif "error: " not in self.output:
            result.append("said no error")
        if "Traceback (most recent call last)" in self.output:
            result.append("ended with a traceback")
        if SECRET_VALUE in self.output:
            result.append("showed a value of the environment")
        if any(ord(value) < 32 and value not in "\n\t\r" for value in self.output):
            result.append("printed control characters")
        if self.megabytes > most_megabytes:
            result.append(f"took {self.megabytes:.0f} MB")
        return result


def attempt(
    command: Callable[[], int], *, may_write: Sequence[Path], forbidden: Path, seconds: float = 20
) -> Outcome:
    """Runs `command` in a forked process.

    `may_write`: folders whose files it may change. `forbidden`: a folder from which no module may
    be imported.
    """
    with tempfile.TemporaryDirectory(prefix="andiron-attempt-") as folder:
        output, deeds, start = (Path(folder) / name for name in ("output", "deeds", "start"))
        started = time.perf_counter()
        process = os.fork()
        if process == 0:
            start.write_text(str(_resident()))
            tempfile.tempdir = folder
            _child(command, output, deeds, [*may_write, Path(folder)], forbidden)
        code, usage = _ended(process, started + seconds)
        return Outcome(
            code,
            output.read_text(encoding="utf-8", errors="replace") if output.exists() else "",
            deeds.read_text(encoding="utf-8").splitlines() if deeds.exists() else [],
            usage / 1024 - float(start.read_text()),
            time.perf_counter() - started,
        )


def forks(jobs: int) -> ProcessPoolExecutor:
    """A pool of forked processes, which may start others, and which end when this one does."""
    torch.set_num_threads(1)  # a forked process waits for ever for threads that its parent had
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(jobs, context, end_with_parent)


def end_with_parent() -> None:
    """Has this process of a pool killed once its parent has ended, however that did (Linux)."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@functools.cache
def write_only_in(scratch: Path) -> bool:
    """Makes all but the folder `scratch` read-only for this process; whether that was possible.

    It gets mounts and a /dev of its own, which end with it: what a command of root's does by
    mistake harms nothing. Temporary files are made in the folder from here on.
    """
    libc = ctypes.CDLL(None)
    if os.geteuid() != 0 or not hasattr(libc, "unshare") or libc.unshare(CLONE_NEWNS):
        return False
    own = scratch / f"dev-{os.getpid()}"
    own.mkdir()
    try:
        _mount("--make-rprivate", "/")
        _mount("--bind", scratch, scratch)
        _mount("-t", "tmpfs", "tmpfs", own)
        for name, numbers in DEVICES.items():
            os.mknod(own / name, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        (own / "shm").mkdir()
        for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
            (own / name).symlink_to(f"/proc/self/fd{target}")
        _mount("--move", own, "/dev")
        _mount("-o", "remount,bind,ro", "/")
    except (OSError, subprocess.CalledProcessError):
        return False
    tempfile.tempdir = str(scratch)
    return True


def _mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True)


def trained() -> int:
    """The exit code of `train.py` with the arguments in `sys.argv`."""
    return train.main(CONF)


def made_run(folder: Path, *options: str, code: int = 0) -> Path:
    """A run in `folder` that ends with this exit code.

    Raises: RuntimeError with its output if it ends with another.
    """
    sys.argv = ["train", *options, "render=plain", f"hydra.run.dir={folder}"]
    made = attempt(trained, may_write=[folder], forbidden=folder / "none", seconds=120)
    if made.code != code:
        raise RuntimeError(made.output)
    return folder


def fingerprints(*paths: Path) -> Fingerprints:
    """Kind, mode and content of these paths and of everything below them; no link is followed."""
    prints = dict[Path, tuple[object, ...]]()
    for path in paths:
        if os.path.lexists(path):
            prints[path] = _fingerprint(path)
        for parent, folders, names in os.walk(path):
            entries = (Path(parent, name) for name in (*folders, *names))
            prints |= {entry: _fingerprint(entry) for entry in entries}
    return prints


def _fingerprint(path: Path) -> tuple[object, ...]:
    entry = path.lstat()
    content: object = entry.st_rdev
    if stat.S_ISREG(entry.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    elif stat.S_ISLNK(entry.st_mode):
        content = os.readlink(path)
    return entry.st_mode, content


@contextlib.contextmanager
def jobs_forked_here() -> Iterator[None]:
    """Within it, the jobs of a sweep are forked from this process.

    It has imported torch, and what it does is noted. Their output is that of a process of their
    own.
    """
    context_of = multiprocessing.get_context

    def context(method: str | None = None) -> Any:
        return context_of("fork" if method == "forkserver" else method)

    streams = {name: open(number, "w", buffering=1, closefd=False)  # noqa: SIM115
               for number, name in ((1, "stdout"), (2, "stderr"))}  # fmt: skip
    with (
        mock.patch.object(job_process.multiprocessing, "get_context", context),
        mock.patch.object(job_process.forkserver, "ensure_running"),
        mock.patch.multiple(sys, **streams),
    ):
        yield


def _child(
    command: Callable[[], int],
    output: Path,
    deeds: Path,
    may_write: Sequence[Path],
    forbidden: Path,
) -> None:
    code = 70
    try:
        os.setsid()
        os.environ[SECRET] = SECRET_VALUE
        sys.dont_write_bytecode = True  # byte code would be a change outside the folders
        tempfile.tempdir = str(output.parent)  # which it may write
        with output.open("w", encoding="utf-8", errors="replace", buffering=1) as file:
            noted = os.open(deeds, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdin.close()
            watch = _watcher(
                noted, [os.path.realpath(value) for value in may_write], str(forbidden)
            )
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                sys.addaudithook(watch)
                try:
                    code = command()
                except SystemExit as error:
                    code = error.code if isinstance(error.code, int) else 1
                except BaseException:  # noqa: B036  # the process ends here
                    traceback.print_exc(file=file)
                    code = 1
    finally:
        os._exit(code)


def _watcher(noted: int, may_write: Sequence[str], forbidden: str) -> Callable[[str, Any], None]:
    def is_outside(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        return is_outside_itself(os.path.realpath(os.fsdecode(path)))

    def is_outside_itself(real: str) -> bool:
        allowed = ("/dev/null", "/dev/tty", "/proc/", "/dev/shm/", OF_TORCH)
        return not real.startswith(allowed) and not any(
            real == value or real.startswith(f"{value}/") for value in may_write
        )

    def watch(event: str, arguments: Any) -> None:
        deed = None
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING:
            deed = f"wrote {arguments[0]}" if is_outside(arguments[0]) else None
        elif event in OF_NAMES and any(map(is_outside_itself, _named(event, arguments))):
            deed = f"{event} {arguments[:2]}"
        elif event in CHANGES and any(map(is_outside, arguments[:2])):
            deed = f"{event} {arguments[:2]}"
        elif event in CONNECTS and not (
            str(arguments[1]).startswith("/") and not is_outside(arguments[1])
        ):  # data workers have sockets in the folder for temporary files
            deed = f"{event} {arguments[1:]}"
        elif event in RUNS:
            program = os.path.basename(os.fsdecode(arguments[0] or ""))
            deed = None if program in PROGRAMS else f"{event} {arguments[:2]}"
        elif event == "exec" and getattr(arguments[0], "co_filename", "").startswith(forbidden):
            deed = f"ran {arguments[0].co_filename}"
        if deed:
            os.write(noted, f"{deed}\n".encode(errors="replace"))

    return watch


def _named(event: str, arguments: Any) -> Iterator[str]:
    """The paths that an audited call removes or renames; a link is removed itself."""
    place = arguments[-1]
    for path in arguments[: 2 if event == "os.rename" else 1]:
        folder, name = os.path.split(os.fsdecode(path))
        if event != "os.rename" and place >= 0:
            folder = os.path.join(f"/proc/self/fd/{place}", folder)
        yield os.path.join(os.path.realpath(folder), name)


def _ended(process: int, deadline: float) -> tuple[int | None, int]:
    """The exit code, and the most resident memory in KiB."""
    while time.perf_counter() < deadline:
        done, status, usage = os.wait4(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    _, _, usage = os.wait4(process, 0)
    return None, usage.ru_maxrss


def _resident() -> float:
    """MB of resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
