"""Commands that write or delete at a place that the user names, and how their result is known."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from andiron.run_folder import RunFolder
from andiron.shell.config.quoting import quoted
from andiron.wings.runs import accept_changes, command as runs
from andiron_lab.ask import rerun
from andiron_lab.records import import_state_dict
from andiron_lab.views import find_lr
from andiron.wings.trained import predict
from andiron.wings.trained.exports import export
from proofs.attempt import SMALL, jobs_forked_here, trained
from proofs.place_kinds import Ground

QUICK = (*SMALL, "num_epochs=1")
PNG = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
Arguments = Callable[[Ground, str], list[object]]
IsThere = Callable[[Ground, Path], bool]


class Command(NamedTuple):
    """One command.

    `is_there`: whether the result lies at the place, after exit code 0. `file`: it writes a single
    file, known by the content. `word`: what it does with the run at the place. `own_input`: what it
    reads, given as the place.
    """

    name: str
    main: Callable[[], int]
    arguments: Arguments
    is_there: IsThere
    is_file: bool = False
    suffix: str = ""
    word: str = ""
    own_input: Callable[[Ground], Path] | None = None
    prepare: Callable[[Path], None] | None = None


def called(command: Command, at: Ground, place: str) -> Callable[[], int]:
    """The command as a function that returns its exit code."""
    arguments = [str(argument) for argument in command.arguments(at, place)]

    def run() -> int:
        os.chdir(at.here)
        sys.argv = [command.name.split()[0], *arguments]
        with jobs_forked_here():
            return command.main()

    return run


def is_delivered(command: Command, at: Ground, content: bytes) -> bool:
    """Whether a pipe, or standard output, got the whole result of a command that writes a file."""
    expected = at.templates / "expected" / f"{command.name}{command.suffix}"
    if not command.is_file:
        return False
    if command.name == "png":
        return PNG[1][:4] in content  # as text, without the bytes that are none
    return expected.read_bytes() in content


def _is_done(at: Ground, place: Path) -> bool:
    folder = RunFolder(place)
    status = json.loads(folder.status.read_text())["status"] if folder.status.is_file() else None
    return status == "done" and folder.model.is_file()


def _is_resumed(at: Ground, place: Path) -> bool:
    return _is_done(at, place) and json.loads(RunFolder(place).summary.read_text())["epochs"] == 2


def _has_curve(at: Ground, place: Path) -> bool:
    return (place / "find_lr.json").is_file() and _is_png((place / "find_lr.png").read_bytes())


def _is_swept(at: Ground, place: Path) -> bool:
    return '"status": "done"' in (place / "sweep.jsonl").read_text() and _is_done(at, place / "0")


def _is_exported(at: Ground, place: Path) -> bool:
    return (place / "model.safetensors").is_file() and (place / "README.md").is_file()


def _is_as_expected(name: str, at: Ground, place: Path) -> bool:
    return place.read_bytes() == (at.templates / "expected" / name).read_bytes()


def _is_picture(at: Ground, place: Path) -> bool:
    return _is_png(place.read_bytes())


def _is_png(content: bytes) -> bool:
    return content.startswith(PNG[0]) and content.endswith(PNG[1])


def _is_gone(at: Ground, place: Path) -> bool:
    statuses = {path for path in at.owned if path.name == "status.json"}
    there = {path for path in statuses if path.is_relative_to(place)}
    return bool(there) and not any(path.exists() for path in there)


def _anything(at: Ground, place: Path) -> bool:
    return True


def _edit(place: Path) -> None:
    """Changes a file that the manifest lists, so that there is a change to accept."""
    data = RunFolder(place).data
    if data.is_file():
        with suppress(OSError), data.open("a") as file:  # on a full disk, or a read-only one
            file.write("\n")


def _run_folder(at: Ground) -> Path:
    return at.run


FOLDERS = (  # a run, or what is like one, in a folder
    Command("train", trained, lambda at, to: [*QUICK, f"hydra.run.dir={quoted(to)}"], _is_done),
    Command(
        "overwrite=true", trained,
        lambda at, to: [*QUICK, "overwrite=true", f"hydra.run.dir={quoted(to)}"], _is_done,
        word="replaced",
    ),
    Command(
        "restart=requeued", trained,
        lambda at, to: [*QUICK, "restart=requeued", f"hydra.run.dir={quoted(to)}"], _is_done,
        word="resumed",
    ),
    Command(
        "-m", trained,
        lambda at, to: [*QUICK, "-m", "seed=1", "jobs=1", f"hydra.sweep.dir={quoted(to)}"],
        _is_swept, word="continued",
    ),
    Command(
        "find_lr", find_lr.main,
        lambda at, to: ["--updates", "10", *SMALL, f"hydra.run.dir={quoted(to)}"], _has_curve,
    ),
    Command(
        "rerun --into", rerun.main, lambda at, to: [at.run, "--into", to], _is_done,
        own_input=_run_folder,
    ),
)  # fmt: skip
RESULTS = (  # a file, or a folder of files
    Command(
        "predict", predict.main,
        lambda at, to: [at.run, "../source/input.png", "--output", to],  # a row begins with it
        partial(_is_as_expected, "predict"), is_file=True,
        own_input=lambda at: at.work / "source" / "input.png",
    ),
    Command(
        "import", import_state_dict.main,
        lambda at, to: [at.work / "source" / "weights.pt", to],
        partial(_is_as_expected, "import.safetensors"), is_file=True, suffix=".safetensors",
        own_input=lambda at: at.work / "source" / "weights.pt",
    ),
    Command(
        "png", runs.main, lambda at, to: ["compare", at.run, "--png", to], _is_picture,
        is_file=True, own_input=lambda at: RunFolder(at.run).metrics,
    ),
    Command(
        "export", export.main,
        lambda at, to: [at.run, "--format", "safetensors", "--output", to], _is_exported,
        own_input=_run_folder,
    ),
)  # fmt: skip
CHANGES = (  # of what lies there
    Command(
        "resume=", trained, lambda at, to: [f"resume={quoted(to)}", "num_epochs=2"], _is_resumed,
        word="resumed",
    ),
    Command("rm", runs.main, lambda at, to: ["rm", "--yes", to], _is_gone, word="removed"),
    Command(
        "accept", accept_changes.main, lambda at, to: [to], _anything, word="accepted",
        prepare=_edit,
    ),
    Command("compare", runs.main, lambda at, to: ["compare", to], _anything, word="written"),
)  # fmt: skip
