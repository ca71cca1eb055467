"""A hostile change of a run's folder, the changes that many share, and manifests that agree."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from andiron.disk import checksums
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record

Change = Callable[[Path], None]
RESUME, CHANGED, AGAIN, REPLAY = "resume", "resume and change", "rerun", "replay"
BISECT, RECHECK = "bisect", "recheck"
LIST, SHOW, COMPARE, BEST = "runs list", "runs show", "runs compare", "runs best"
DIFF, DIFFER, REMOVE = "runs diff", "differ", "runs rm"
LOAD, EVALUATE, PREDICT, GENERATE = "andiron.load", "evaluate", "predict", "generate"
EXPORT, PROGRAM = "export --format safetensors", "export --format torch"
START, PLAN, IMPORT, CONFIGURED = "start_from", "plan", "import_state_dict", "--config-dir"
WATCH, ACCEPT, SAMPLES = "watch", "accept_changes", "samples"
SWEEP = "runs compare of a sweep"
TREE, FORK = "runs tree", "fork_from="
OVERWRITE, REQUEUED = "overwrite=true", "restart=requeued"
GRID_AGAIN, SEARCH_AGAIN = "the same sweep again", "the same search again"
JOURNAL_AGAIN, RACE_AGAIN = "the same search in a journal again", "the same race again"
SWEEPS_AGAIN = GRID_AGAIN, SEARCH_AGAIN, JOURNAL_AGAIN, RACE_AGAIN


USING = LOAD, EVALUATE, PREDICT, EXPORT, PROGRAM  # a trained run
BUILDING = CHANGED, AGAIN  # a finished run that is resumed alone builds nothing


class Case(NamedTuple):
    """A hostile change of a finished run's folder, and the commands that must refuse it.

    The others may also answer as for the honest folder; any answer is right if `is_another_run`.
    With `only`, no other command is tried. `keeps`: files in the folder that stay as they are;
    `beside`: what a command may change beside the folder.
    """

    name: str
    change: Change
    commands: tuple[str, ...] = (RESUME, CHANGED, AGAIN)
    is_another_run: bool = False
    only: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def edited(pattern: str, change: Callable[[Any], object], *, is_signed: bool = True) -> Change:
    """A change of what the JSON files of this pattern hold, which the manifests agree with."""

    def apply(folder: Path) -> None:
        for path in folder.glob(pattern):
            plain = json.loads(path.read_text())
            change(plain)
            path.write_text(filled(json.dumps(plain), folder))
        if is_signed:
            sign(folder)

    return apply


def config(options: dict[str, Any]) -> Change:
    return edited("config.json", lambda plain: plain.update(options))


def written(pattern: str, content: str | Callable[[], bytes]) -> Change:
    """Files of this pattern with another content, which the manifests agree with."""

    def apply(folder: Path) -> None:
        new = filled(content, folder).encode() if isinstance(content, str) else content()
        for path in [*folder.glob(pattern)] or [folder / pattern]:
            path.write_bytes(new)
        sign(folder)

    return apply


def file(name: str, content: bytes) -> Change:
    def apply(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return apply


def replaced(pattern: str, make: Callable[[Path], object]) -> Change:
    """Something else in place of the files, or the folders, of this pattern."""

    def apply(folder: Path) -> None:
        for path in [*folder.glob(pattern)] or [folder / pattern]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            make(path)

    return apply


def socket_at(path: Path) -> None:
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def outside(path: Path) -> Path:
    """The user's folder beside the hostile one that has this path."""
    return next(parent / "outside" for parent in path.parents if (parent / "outside").is_dir())


NO_FILE: dict[str, Callable[[Path], object]] = {  # what may lie where a file is expected
    "a pipe": os.mkfifo,
    "a socket": socket_at,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a sparse file": lambda path: sparse(path, 2**40),
    "a link to nothing": lambda path: path.symlink_to(outside(path) / "new"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a user's file": lambda path: path.symlink_to(outside(path) / "precious"),
}


def filled(text: str, folder: Path) -> str:
    """The text with the places that only this copy knows."""
    beside = folder.parent / "outside"
    names = {"canary": beside / "canary", "outside": beside, "folder": folder}
    for name, path in names.items():
        text = text.replace(f"{{{name}}}", str(path))
    return text


def sign(folder: Path) -> None:
    """Makes every manifest below the folder agree with the files beside it."""
    for path in folder.glob("checkpoints/step-*/manifest.json"):
        try:
            plain = json.loads(path.read_bytes())
            for name, entry in plain["files"].items():
                content = (path.parent / name).read_bytes()
                entry |= checksums.entry_of(content)
            with suppress(ValueError, AttributeError, RecursionError):
                updates = json.loads((path.parent / "state.json").read_bytes()).get("updates")
                plain["updates"] = updates if type(updates) is int else plain["updates"]
            path.write_text(json.dumps(checksums.signed(plain)))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue  # the damage is in the manifest itself
    try:
        run_record.accept(RunFolder(folder))
    except Exception:  # noqa: BLE001  # the damage is in the manifest itself
        return
