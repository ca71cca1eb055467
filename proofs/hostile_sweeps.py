"""Hostile folders of a sweep: ledgers that no sweep wrote, around a run that is done."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from andiron.sweep import ledger, sweep_results
from proofs.hostile_case import LIST, SWEEP, Case, Change, filled, sparse

ESCAPE, COMMAND = "\x1b]0;evil\x07\x1b[2J", "; touch {canary}; $(touch {canary}) `touch {canary}`"
JOB = {"event": "job", "job": "a", "number": 0, "overrides": ["lr=1"]}
DONE = {"event": "ended", "job": "a", "status": "done", "folder": "0", "objective": 1, "seconds": 1}
OTHER = {"event": "job", "job": "b", "number": 1, "overrides": ["lr=2"]}
VALUES = [
    None, True, -1, 1.5, 10**400, 1e308, "", "\ud800\0", ESCAPE + COMMAND, "x" * 2**19, [[]], {},
]  # fmt: skip
LINES = {
    "deep JSON": "[" * 10**5,
    "a deep event": '{"event": "job", "job": ' + "[" * 5000 + "]" * 5000 + "}",
    "NaN and infinity": '{"event": "ended", "job": "a", "status": "done", "folder": "0", '
    '"objective": NaN, "seconds": -Infinity}',
    "a long line": json.dumps(OTHER | {"overrides": ["x=" + "y" * 10**8]}),
    "many values": json.dumps(OTHER | {"overrides": ["x"] * 10**6}),
}


def cases() -> Iterator[Case]:
    """Each for the commands that read a ledger, or list what lies beside it."""
    for name, line in LINES.items():
        yield _case(name, _sweep(line))
    for event in (JOB, DONE):
        for fact in event.keys() - {"event"} | {"run"}:
            for value in VALUES:
                yield _case(f"{fact}={str(value)[:20]!a}", _sweep(OTHER, event | {fact: value}))
    for folder in ("{outside}", "..", "0/../..", "/", "link"):
        yield _case(f"the folder of a job is {folder}", _sweep(DONE | {"folder": folder}))
    facts = {"overrides": [f"lr={COMMAND}", ESCAPE], "threads": ESCAPE + COMMAND}
    for name, fact in facts.items():
        job = JOB | {"job": "c", name: fact}
        done = DONE | {"job": "c", name: fact}
        yield _case(f"a command in {name}", _sweep(DONE | {"status": "failed"}, job, done))
    many = [OTHER | {"job": f"{number}"} for number in range(ledger.MOST_JOBS + 1)]
    yield _case("too many jobs", _sweep(*many))
    for number in range(500):
        many[number]["overrides"] = [f"option{number}_{place}=1" for place in range(200)]
    yield _case("too many options", _sweep(*many[:500]))
    yield _case("an objective that is none", _sweep({"event": "sweep", "objective": ESCAPE}))
    for name, change in {
        "a link to a file": lambda path: path.symlink_to("/etc/passwd"),
        "a pipe": os.mkfifo,
        "a folder": Path.mkdir,
        "a sparse file": lambda path: sparse(path, 2**40),
    }.items():
        yield _case(f"{ledger.NAME} is {name}", _sweep(put={ledger.NAME: change}))
    for file in (sweep_results.SUMMARY, sweep_results.PICTURE):
        yield _case(f"{file} is a folder", _sweep(put={file: Path.mkdir}))


def _case(name: str, change: Change) -> Case:
    return Case(f"sweep: {name}", change, (), is_another_run=True, only=(SWEEP, LIST))


def _sweep(*more: Any, put: dict[str, Callable[[Path], object]] | None = None) -> Change:
    """The folder of a run becomes that of a sweep, whose job it is, with more in its ledger."""

    def apply(folder: Path) -> None:
        entries = list(folder.iterdir())
        (folder / "0").mkdir()
        for path in entries:
            path.rename(folder / "0" / path.name)
        (folder / "link").symlink_to(folder.parent / "outside")
        run = json.loads((folder / "0" / "manifest.json").read_text())["run"]
        lines = [
            each if isinstance(each, str) else json.dumps({"run": run} | each)
            for each in (JOB, DONE, *more)
        ]
        (folder / ledger.NAME).write_text(filled("\n".join(lines) + "\n", folder))
        for file, change in (put or {}).items():
            (folder / file).unlink(missing_ok=True)
            change(folder / file)

    return apply
