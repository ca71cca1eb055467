"""Folders that pass for a run of Andiron's or for one that was moved aside, and are none.

Beside the hostile folder lies a run of the user's, to which their links lead.
"""

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from andiron.run_folder import RunFolder
from proofs.hostile_case import (
    ACCEPT, AGAIN, CHANGED, OVERWRITE, REMOVE, REQUEUED, RESUME, Case, Change,
)  # fmt: skip

ASIDE = ".run.replaced"  # beside the folder, as a run that is being replaced
COMMANDS = CHANGED, OVERWRITE, REQUEUED, REMOVE
OTHERS = "config.json", "model.safetensors", "metrics.jsonl", "tensorboard/events", "checkpoints/a"


def cases() -> Iterator[Case]:
    """Asides, which any of the commands may ignore; and foreign folders, which all refuse."""
    for kind, make in ASIDES.items():
        change = functools.partial(_with_aside, make)
        # what passes for the run that this one replaced goes, but nothing that a link leads to
        beside = (ASIDE,) if kind in REPLACED else ()
        yield Case(f"{ASIDE}: {kind}", change, (), True, only=COMMANDS, beside=beside)
        # a run that was killed before it began leaves the run that it replaces there
        begun = functools.partial(_without_checkpoints, change)
        again = OVERWRITE, REQUEUED
        yield Case(f"{ASIDE}: {kind}, nothing saved", begun, (), True, only=again, beside=beside)
    refusing = RESUME, CHANGED, AGAIN, OVERWRITE, REQUEUED, REMOVE
    for kind, mark in MARKS.items():
        change = functools.partial(_foreign, mark)
        yield Case(f"another tool's folder {kind}", change, refusing, only=refusing, keeps=OTHERS)
    for names in (["manifest.json"], ["manifest.json", "status.json"]):
        # whole, they make it a run, some of whose files were changed; the others are not its own
        change = functools.partial(_foreign, _copied(*names))
        name = f"another tool's folder with {' and '.join(names)} of a run"
        yield Case(name, change, (), True, only=(*refusing, ACCEPT), keeps=OTHERS[-2:])


def _mine(folder: Path) -> Path:
    """A run of the user's, beside the folder of a stranger's."""
    mine = folder.parent / "outside" / "mine"
    if not mine.exists():
        shutil.copytree(folder, mine)
        for name in ("evil.py", "evil.pickle", "evil.yaml"):
            (mine / name).unlink(missing_ok=True)
    return mine


def _with_aside(make: Callable[[Path, Path], object], folder: Path) -> None:
    mine = _mine(folder)
    make(folder.with_name(ASIDE), mine)


def _without_checkpoints(change: Change, folder: Path) -> None:
    change(folder)
    shutil.rmtree(RunFolder(folder).checkpoints)
    RunFolder(folder).status.write_text('{"status": "running"}')


def _folder_of_links(aside: Path, mine: Path) -> None:
    aside.mkdir()
    for entry in mine.iterdir():
        (aside / entry.name).symlink_to(entry)


def _links_in(name: str, aside: Path, mine: Path) -> None:
    """A copy of the user's run, with its manifest, in which one folder has links for entries."""
    shutil.copytree(mine, aside)
    shutil.rmtree(aside / name)
    (aside / name).mkdir()
    for entry in (mine / name).iterdir():
        (aside / name / entry.name).symlink_to(entry)


def _linked_folder(name: str, aside: Path, mine: Path) -> None:
    shutil.copytree(mine, aside)
    shutil.rmtree(aside / name)
    (aside / name).symlink_to(mine / name)


def _manifest_that_leads_out(aside: Path, mine: Path) -> None:
    """The checkpoints list files of the user's run."""
    shutil.copytree(mine, aside)
    for path in (*aside.glob("checkpoints/*/manifest.json"), aside / "manifest.json"):
        plain = json.loads(path.read_text())
        entry = next(iter(plain["files"].values()))
        outside = os.path.relpath(mine / "config.json", path.parent)
        plain["files"] |= {outside: entry, str(mine / "config.json"): entry}
        path.write_text(json.dumps(plain))


ASIDES: dict[str, Callable[[Path, Path], object]] = {
    "a link to a user's run": lambda aside, mine: aside.symlink_to(mine),
    "a link to a user's folder": lambda aside, mine: aside.symlink_to(mine.parent),
    "a link to itself": lambda aside, mine: aside.symlink_to(aside),
    "a folder of links": _folder_of_links,
    "links to checkpoints": functools.partial(_links_in, "checkpoints"),
    "links to curves": functools.partial(_links_in, "tensorboard"),
    "checkpoints that are a link": functools.partial(_linked_folder, "checkpoints"),
    "curves that are a link": functools.partial(_linked_folder, "tensorboard"),
    "a manifest that leads out": _manifest_that_leads_out,
    "a pipe": lambda aside, mine: os.mkfifo(aside),
    "a file": lambda aside, mine: aside.write_text("of another kind\n"),
    "an empty folder": lambda aside, mine: aside.mkdir(),
}
REPLACED = {
    "a folder of links", "an empty folder",
    "links to checkpoints", "links to curves", "checkpoints that are a link",
    "curves that are a link", "a manifest that leads out",
}  # fmt: skip


def _foreign(mark: Callable[[Path, Path], object], folder: Path) -> None:
    """Another tool's folder in place of the run's, with what makes it pass for a run."""
    mine = _mine(folder)
    shutil.rmtree(folder)
    for name in OTHERS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("of the user\n")
    mark(folder, mine)


def _status(text: str) -> Callable[[Path, Path], object]:
    return lambda folder, mine: RunFolder(folder).status.write_text(text)


def _copied(*names: str) -> Callable[[Path, Path], object]:
    def copy(folder: Path, mine: Path) -> None:
        for name in names:
            shutil.copy(mine / name, folder / name)

    return copy


MARKS: dict[str, Callable[[Path, Path], object]] = {
    "with a status.json of a done run": _status('{"status": "done"}'),
    "with a status.json of a running run": _status('{"status": "running", "pid": 1}'),
    "with a status.json of a failed run": _status('{"status": "failed", "reason": "x"}'),
    "with an empty status.json": _status(""),
    "with a status.json of a list": _status("[]"),
    "with a status.json that is a folder": lambda folder, mine: RunFolder(folder).status.mkdir(),
    "with a status.json that is a link": lambda folder, mine: RunFolder(folder).status.symlink_to(
        mine / "status.json"
    ),
    "with an empty manifest": lambda folder, mine: RunFolder(folder).manifest.write_text("{}"),
    "with an experiment.log": lambda folder, mine: RunFolder(folder).log.touch(),
}  # fmt: skip
