"""Kinds of places that a user may name for what a command writes, each made freshly."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from proofs.hostile_case import socket_at
from proofs.place_ground import DISK, Ground, call, full_disk, run_under_way, user_file

UNUSED_MAJOR = 4000  # no driver has it: opening such a block device fails, and does nothing
PIPE_BYTES = 2**20  # that a pipe takes before anybody reads
STDOUT = "`/dev/stdout`"
PIPE_ALONE = "pipe without a reader"
CHARACTER, BLOCK = 0o020000, 0o060000  # stat.S_IFCHR and S_IFBLK
OWN_INPUTS = ("rerun --into", "predict", "import", "png", "export")
# the names of what some of the commands write
OUTPUTS = ("multirun.yaml", "find_lr.json", "find_lr.png")


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


def kinds() -> list[Kind]:
    """All of them, in the order of the table."""
    return [*_plain(), *_links(), *_special(), *_disks(), *_runs(), *_foreign(), *_names()]


def _plain() -> Iterator[Kind]:
    def named_alike(at: Ground) -> None:
        for name in OUTPUTS:
            user_file(at.place / name)

    yield Kind("missing", lambda at: at.place)
    yield Kind("missing, below a missing folder", lambda at: at.place / "inner" / at.new)
    yield Kind("empty folder", lambda at: at.place.mkdir())
    yield Kind("file", lambda at: user_file(at.place))
    yield Kind("empty file", lambda at: at.place.touch())
    yield Kind("file with a second name", _second_name)
    yield Kind("folder with a user's files", lambda at: user_file(at.place / "mine.txt").parent)
    yield Kind("folder with files named as the output", named_alike)
    yield Kind("below a file", lambda at: user_file(at.place) / "inner")
    yield Kind("its own input", lambda at: "", only=OWN_INPUTS)


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
        user_file(at.copy("done", at.work / "mine") / "inner" / "mine.txt")
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
    yield Kind(PIPE_ALONE, lambda at: os.mkfifo(at.place))
    yield Kind("socket", lambda at: socket_at(at.place))
    yield Kind("null device", device(1, 3, CHARACTER), needs_root=True)
    yield Kind("full device", device(1, 7, CHARACTER), needs_root=True)
    yield Kind("link to a null device", linked_device, needs_root=True)
    yield Kind("block device", device(UNUSED_MAJOR, 0, BLOCK), needs_root=True)
    yield Kind(STDOUT, _standard_output, needs_root=True)  # of a /dev of its own


def _disks() -> Iterator[Kind]:
    def missing(at: Ground) -> Path:
        with full_disk(at) as disk:
            return disk / at.new

    def run(at: Ground) -> Path:
        with full_disk(at) as disk:
            return at.copy("interrupted", disk / "mine")

    def read_only(make: Callable[[Ground], Path]) -> Callable[[Ground], Path]:
        def made(at: Ground) -> Path:
            place = make(at)
            call("mount", "-o", "remount,ro", at.work / DISK)
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
        user_file(at.copy("done") / "notes.txt")
        user_file(at.place / "checkpoints" / "notes.txt")
        user_file(at.place / "tensorboard" / "notes.txt")

    def with_aside(at: Ground) -> None:
        at.copy("done")
        shutil.copytree(at.templates / "other", at.work / "mine")
        at.here.joinpath(f".{at.place.name}.replaced").symlink_to(at.work / "mine")

    def with_aside_of_links(at: Ground) -> None:
        at.copy("done")
        shutil.copytree(at.templates / "other", at.work / "mine")
        aside = at.here / f".{at.place.name}.replaced"
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
        run_under_way(at, at.copy("killed"))

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
            user_file(at.place / name)
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
