"""The ground of one attempt at a place: a user's files and run, and what is hard to lay out there.

A run that another process trains, a full disk, permissions that root obeys too.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from andiron.run_folder import RunFolder
from andiron.shell.run import log_file

CAPABILITY_VERSION = 0x20080522  # of <linux/capability.h>
OVER_PERMISSIONS = 0b1110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER
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


def laid_out(ground: Ground) -> None:
    """The ground of every attempt: a run to read, inputs, a user's files beside the place."""
    ground.here.mkdir(parents=True)
    (ground.here / "notes.txt").write_text("of the user\n")
    (ground.work / "neighbour").mkdir()
    (ground.work / "neighbour" / "precious").write_text("of the user\n")
    shutil.copytree(ground.templates / "done", ground.run)
    for name in ("input.png", "weights.pt"):
        shutil.copy(ground.templates / name, ground.work / "source" / name)


def user_file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("of the user\n")
    return path


def run_under_way(at: Ground, folder: Path) -> None:
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
def full_disk(at: Ground) -> Iterator[Path]:
    """A file system of 1 MiB below `work`, which is full afterwards."""
    disk = at.work / DISK
    disk.mkdir()
    call("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk)
    at.at_end.callback(call, "umount", "--lazy", disk)
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


def call(*command: object) -> None:
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
