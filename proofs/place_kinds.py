"""Kinds of places that a user may name for what a command writes, each made freshly.

A kind lays out the ground around the place: a user's files and run, and what lies at the place.
"""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from andiron.run import log_file
from andiron.run_folder import RunFolder
from proofs.hostile_case import socket_at

UNUSED_MAJOR = 4000  # no driver has it: opening such a block device fails, and does nothing
PIPE_BYTES = 2**20  # that a pipe takes before anybody reads
CAPABILITY_VERSION = 0x20080522  # of <linux/capability.h>
OVER_PERMISSIONS = 0b1110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER
STDOUT = "`/dev/stdout`"
DISK = "disk"  # a small file system, mounted where a kind asks for it


@dataclass
class Ground:
    """The folder `work` of one attempt, whose every file is compared before and after.

    `owned` are the files of the run at the place: a command that works on that run may change
    them. `suffix` ends the names of places, where a command goes by it. `reader` is the descriptor
    of a pipe's reader.
    """

    work: Path
    templates: Path
    at_end: ExitStack
    suffix: str = ""
    owned: set[Path] = field(default_factory=set)
    reader: int | None = None

    @property
    def here(self) -> Path:
        """The current folder of the command."""
        return self.work / "here"

    @property
    def run(self) -> Path:
        """The finished run that a command reads."""
        return self.work / "source" / "run"

    @property
    def place(self) -> Path:
        """Where most kinds make the place."""
        return self.here / f"place{self.suffix}"

    @property
    def new(self) -> str:
        """The name of a missing place in another folder."""
        return f"new{self.suffix}"

    def copy(self, template: str, to: Path | None = None) -> Path:
        """A copy of a template at the place or elsewhere; its files are the user's own run."""
        to = to or self.place
        shutil.copytree(self.templates / template, to, symlinks=True)
        self.owned |= {to, *to.rglob("*")}
        return to


class Kind(NamedTuple):
    """A kind of place: its name, and how it is made; returns the text that the user gives.

    `is_full`: what a run has written of itself before the disk was full stays. `is_plain_user`:
    the command obeys permissions, as root does not. `needs_root`: to mount, or to make a device.
    """

    name: str
    make: Callable[[Ground], object]
    is_full: bool = False
    is_plain_user: bool = False
    needs_root: bool = False
    only: tuple[str, ...] = ()  # commands; for the others there is no such place


def laid_out(ground: Ground) -> None:
    """What every attempt has: a run to read, inputs, a user's files beside the place."""
    ground.here.mkdir(parents=True)
    (ground.here / "notes.txt").write_text("of the user\n")
    (ground.work / "neighbour").mkdir()
    (ground.work / "neighbour" / "precious").write_text("of the user\n")
    shutil.copytree(ground.templates / "done", ground.run)
    for name in ("input.png", "weights.pt"):
        shutil.copy(ground.templates / name, ground.work / "source" / name)


def kinds() -> list[Kind]:
    """All of them, in the order of the table."""
    return [*_plain(), *_links(), *_special(), *_disks(), *_runs(), *_foreign(), *_names()]


def _plain() -> Iterator[Kind]:
    yield Kind("missing", lambda at: at.place)
    yield Kind("missing, below a missing folder", lambda at: at.place / "inner" / at.new)
    yield Kind("empty folder", lambda at: at.place.mkdir())
    yield Kind("file", lambda at: _file(at.place))
    yield Kind("empty file", lambda at: at.place.touch())
    yield Kind("file with a second name", _second_name)
    yield Kind("folder with a user's files", lambda at: _file(at.place / "mine.txt").parent)
    yield Kind("below a file", lambda at: _file(at.place) / "inner")
    yield Kind("its own input", lambda at: "", only=OWN_INPUTS)


OWN_INPUTS = (
    "rerun --into", "predict", "import", "png", "export", "archive --into", "--move --into",
)  # fmt: skip


def _links() -> Iterator[Kind]:
    def linked(target: str) -> Callable[[Ground], object]:
        return lambda at: at.place.symlink_to(at.work / target)

    def to_empty(at: Ground) -> None:
        (at.work / "empty").mkdir()
        at.place.symlink_to(at.work / "empty")

    def to_run(at: Ground) -> None:
        at.place.symlink_to(at.copy("done", at.work / "mine"))

    def to_folder_of_runs(at: Ground) -> None:
        shutil.copytree(at.templates / "done", at.work / "runs" / "mine")
        at.place.symlink_to(at.work / "runs")

    def parent_of_target(at: Ground) -> Path:
        (at.here / "a").mkdir()
        (at.work / "neighbour" / "inner").mkdir()
        (at.here / "a" / "link").symlink_to(at.work / "neighbour" / "inner")
        return at.here / "a" / "link" / ".." / at.new

    def run_above_target(at: Ground) -> Path:
        _file(at.copy("done", at.work / "mine") / "inner" / "mine.txt")
        shutil.copytree(at.templates / "done", at.place)
        (at.place / "link").symlink_to(at.work / "mine" / "inner")
        return at.place / "link" / ".."

    yield Kind("link to a missing place", lambda at: at.place.symlink_to(at.work / at.new))
    yield Kind("link to an empty folder", to_empty)
    yield Kind("link to a file", linked("neighbour/precious"))
    yield Kind("link to a user's folder", linked("neighbour"))
    yield Kind("link to a run", to_run)
    yield Kind("link to a folder of runs", to_folder_of_runs)
    yield Kind("link to itself", lambda at: at.place.symlink_to(at.place))
    yield Kind("`a/link/../new`", parent_of_target)
    yield Kind("`run/link/..`, in another run", run_above_target)


def _special() -> Iterator[Kind]:
    def device(major: int, minor: int, kind: int) -> Callable[[Ground], object]:
        return lambda at: os.mknod(at.place, 0o600 | kind, os.makedev(major, minor))

    def linked_device(at: Ground) -> None:
        os.mknod(at.work / "null", 0o600 | CHARACTER, os.makedev(1, 3))
        at.place.symlink_to(at.work / "null")

    yield Kind("pipe with a reader", _pipe_with_reader)
    yield Kind("pipe without a reader", lambda at: os.mkfifo(at.place))
    yield Kind("socket", lambda at: socket_at(at.place))
    yield Kind("null device", device(1, 3, CHARACTER), needs_root=True)
    yield Kind("full device", device(1, 7, CHARACTER), needs_root=True)
    yield Kind("link to a null device", linked_device, needs_root=True)
    yield Kind("block device", device(UNUSED_MAJOR, 0, BLOCK), needs_root=True)
    yield Kind(STDOUT, _standard_output, needs_root=True)  # of a /dev of its own


CHARACTER, BLOCK = 0o020000, 0o060000  # stat.S_IFCHR and S_IFBLK


def _disks() -> Iterator[Kind]:
    def missing(at: Ground) -> Path:
        with _disk(at) as disk:
            return disk / at.new

    def run(at: Ground) -> Path:
        with _disk(at) as disk:
            return at.copy("interrupted", disk / "mine")

    def read_only(make: Callable[[Ground], Path]) -> Callable[[Ground], Path]:
        def made(at: Ground) -> Path:
            place = make(at)
            _call("mount", "-o", "remount,ro", at.work / DISK)
            return place

        return made

    def without_permission(at: Ground) -> Path:
        at.place.mkdir(mode=0o555)
        return at.place / at.new

    def run_without_permission(at: Ground) -> None:
        for path in (at.copy("interrupted"), *at.place.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)

    yield Kind("in a read-only folder", without_permission, is_plain_user=True)
    yield Kind("run without write permission", run_without_permission, is_plain_user=True)
    yield Kind("on a read-only disk", read_only(missing), needs_root=True)
    yield Kind("run on a read-only disk", read_only(run), needs_root=True)
    yield Kind("on a full disk", missing, is_full=True, needs_root=True)
    yield Kind("run on a full disk", run, is_full=True, needs_root=True)


def _runs() -> Iterator[Kind]:
    def with_users_files(at: Ground) -> None:
        _file(at.copy("done") / "notes.txt")
        _file(at.place / "checkpoints" / "notes.txt")
        _file(at.place / "tensorboard" / "notes.txt")

    def with_aside(at: Ground) -> None:
        at.copy("done")
        shutil.copytree(at.templates / "other", at.work / "mine")
        at.here.joinpath(f"{at.place.name}.replaced-01234567").symlink_to(at.work / "mine")

    def with_aside_of_links(at: Ground) -> None:
        at.copy("done")
        shutil.copytree(at.templates / "other", at.work / "mine")
        aside = at.here / f"{at.place.name}.replaced-01234567"
        for name in ("checkpoints", "tensorboard"):
            (aside / name).parent.mkdir(exist_ok=True)
            (aside / name).symlink_to(at.work / "mine" / name)

    def with_link(at: Ground) -> None:
        shutil.rmtree(at.copy("done") / "tensorboard")
        shutil.copytree(at.templates / "other", at.work / "mine")
        (at.place / "tensorboard").symlink_to(at.work / "mine" / "tensorboard")

    def nested(at: Ground) -> Path:
        shutil.copytree(at.templates / "done", at.place)
        return at.copy("other", at.place / "checkpoints" / "mine")

    def around_nested(at: Ground) -> None:
        at.copy("done")
        shutil.copytree(at.templates / "other", at.place / "checkpoints" / "mine")

    def running(at: Ground) -> None:
        _run_under_way(at, at.copy("killed"))

    for name in ("done", "interrupted", "killed"):
        yield Kind(f"{name} run", lambda at, name=name: at.copy(name))
    yield Kind("running run", running)
    yield Kind("run with a user's files", with_users_files)
    yield Kind("run with a link inside", with_link)
    yield Kind("run with a run below `checkpoints/`", around_nested)
    yield Kind("run below another's `checkpoints/`", nested)
    yield Kind("run beside a link named as its aside", with_aside)
    yield Kind("run beside an aside of links", with_aside_of_links)
    yield Kind("file of a run", lambda at: _in_run(at, "model.safetensors"))
    yield Kind("missing, in a run", lambda at: _in_run(at, at.new))
    yield Kind("`checkpoints/` of a run", lambda at: _in_run(at, "checkpoints"))
    yield Kind("folder of a sweep", lambda at: at.copy("sweep"))
    yield Kind("job of a sweep", _job)


def _foreign() -> Iterator[Kind]:
    def of_another_tool(at: Ground, *, status: str | None = None) -> None:
        for name in ("config.json", "model.safetensors", "metrics.jsonl", "tensorboard/events"):
            _file(at.place / name)
        if status is not None:
            (at.place / "status.json").write_text(json.dumps({"status": status}))

    yield Kind("another tool's model folder", of_another_tool)
    for status in ("done", "running"):
        yield Kind(
            f"the same, with a `status.json` ({status})",
            lambda at, status=status: of_another_tool(at, status=status),
        )


def _names() -> Iterator[Kind]:
    def run_in_parent(at: Ground) -> str:
        at.copy("done")
        (at.here / "inner").mkdir()
        return f"inner/../{at.place.name}"

    def parent(at: Ground) -> str:
        at.owned |= {at.run, *at.run.rglob("*")}  # a folder that contains this run
        return ".."

    yield Kind("`there/../new`", lambda at: at.place.mkdir() or at.place / ".." / at.new)
    yield Kind("`there/../run`", run_in_parent)
    yield Kind("`.`", lambda at: ".")
    yield Kind("`..`", parent)
    yield Kind("empty text", lambda at: "")
    yield Kind("name of 300 characters", lambda at: at.here / ("n" * 300 + at.suffix))
    yield Kind("name with a line break", lambda at: at.here / f"line\n{at.new}")
    yield Kind("name with an escape character", lambda at: at.here / f"escape\x1b[2J{at.new}")


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("of the user\n")
    return path


def _second_name(at: Ground) -> None:
    os.link(at.work / "neighbour" / "precious", at.place)


def _pipe_with_reader(at: Ground) -> None:
    os.mkfifo(at.place)
    at.reader = os.open(at.place, os.O_RDONLY | os.O_NONBLOCK)
    at.at_end.callback(os.close, at.reader)
    fcntl.fcntl(at.reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _standard_output(at: Ground) -> Path:
    path = Path("/dev/stdout")

    def restored() -> None:
        if not path.is_symlink():
            path.unlink(missing_ok=True)
            path.symlink_to("/proc/self/fd/1")

    at.at_end.callback(restored)
    return path


def _in_run(at: Ground, name: str) -> Path:
    shutil.copytree(at.templates / "done", at.place)
    return at.place / name


def _job(at: Ground) -> Path:
    shutil.copytree(at.templates / "sweep", at.place)
    job = at.place / "0"
    at.owned |= {job, *job.rglob("*")}
    return job


def _run_under_way(at: Ground, folder: Path) -> None:
    """Has another process hold the lock of the run, as one that trains it does."""
    ready, is_ready = os.pipe()
    holder = os.fork()
    if holder == 0:
        with RunFolder(folder).log.open("rb+", buffering=0) as file:
            log_file.lock(file)
            os.write(is_ready, b"x")
            signal.pause()
        os._exit(0)
    at.at_end.callback(os.waitpid, holder, 0)
    at.at_end.callback(os.kill, holder, signal.SIGKILL)
    os.close(is_ready)
    os.read(ready, 1)
    os.close(ready)
    status = json.loads(RunFolder(folder).status.read_text()) | {"pid": holder}
    RunFolder(folder).status.write_text(json.dumps(status))


@contextmanager
def _disk(at: Ground) -> Iterator[Path]:
    """A file system of 1 MiB below `work`, which is full afterwards."""
    disk = at.work / DISK
    disk.mkdir()
    _call("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk)
    at.at_end.callback(_call, "umount", "--lazy", disk)
    try:
        yield disk
    finally:
        _fill(disk / "filler")


def _fill(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:  # full
                continue


def _call(*command: object) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


def obey_permissions() -> None:
    """Takes from this process what lets root write where permissions forbid it."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 bits
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    data[0] &= ~OVER_PERMISSIONS
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
