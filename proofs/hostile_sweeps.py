"""Hostile folders of a sweep: ledgers that no sweep wrote, and job folders that hold another thing.

For the commands that read a ledger, around a run that is done; and for the same command again.
"""

import functools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from andiron.run_folder import LEDGER, RunFolder
from andiron.wings.sweep import ledger
from proofs.hostile_case import (
    GRID_AGAIN, LIST, NO_FILE, RACE_AGAIN, SEARCH_AGAIN, SWEEP, SWEEPS_AGAIN, Case, Change, filled,
    outside, replaced, sign, sparse,
)  # fmt: skip

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
    """Ledgers for the commands that read one, and for sweeps; job folders for sweeps."""
    yield from _read_ledgers()
    for number, (name, lines) in enumerate(_ledgers_again()):
        commands = SWEEPS_AGAIN if number % 9 == 0 else (GRID_AGAIN,)
        yield _again(f"ledger: {name}", functools.partial(_appended, lines), commands)
    for name, change in FILES.items():
        for file in SWEEP_FILES:
            yield _again(f"{file} is {name}", functools.partial(_put, file, change), (GRID_AGAIN,))
        for file in SEARCH_FILES:
            change_of = functools.partial(_put, file, change)
            yield _again(f"{file} is {name}", change_of, (SEARCH_AGAIN,))
    for name, of_job in JOBS.items():
        yield _again(f"job: {name}", of_job, (GRID_AGAIN, SEARCH_AGAIN, RACE_AGAIN))


def _read_ledgers() -> Iterator[Case]:
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
    yield _case("an invalid objective", _sweep({"event": "sweep", "objective": ESCAPE}))
    for name, make in NO_FILE.items():
        yield _case(f"{LEDGER} is {name}", _sweep(put={LEDGER: make}))


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
            value if isinstance(value, str) else json.dumps({"run": run} | value)
            for value in (JOB, DONE, *more)
        ]
        (folder / LEDGER).write_text(filled("\n".join(lines) + "\n", folder))
        for file, change in (put or {}).items():
            (folder / file).unlink(missing_ok=True)
            change(folder / file)

    return apply


SWEEP_FILES = (
    "sweep.jsonl", "output", "output/0.txt", "output/2.txt", "multirun.yaml", "2",
)  # fmt: skip
SEARCH_FILES = "multirun.yaml", "output"
FILES: dict[str, Callable[[Path], object]] = NO_FILE | {
    "a link to a user's folder": lambda path: path.symlink_to(outside(path)),
    "a file": lambda path: path.write_text("of another kind\n"),
}


def _again(name: str, change: Change, commands: tuple[str, ...]) -> Case:
    return Case(f"sweep again: {name}", change, (), is_another_run=True, only=commands)


def _put(file: str, make: Callable[[Path], object], folder: Path) -> None:
    if (folder / file).parent.is_dir():  # some sweeps have no folder of outputs
        replaced(file, make)(folder)


def _ledgers_again() -> Iterator[tuple[str, list[Any]]]:
    """Lines after the sweep's; {job} is the identity of its first job."""
    job, done = JOB | {"job": "{job}"}, DONE | {"job": "{job}"}
    for name, line in LINES.items():
        yield name, [line]
    for event in (job, done):
        for fact in event.keys() - {"event"}:
            for value in VALUES:
                yield f"{fact}={str(value)[:20]!a}", [event | {fact: value}]
    for folder in ("{outside}", "{outside}/mine", "..", "0/../..", "/", "1", "output"):
        yield f"the folder of a job is {folder}", [done | {"folder": folder}]
    for status in ("paused", "failed", "killed", "timed out", ESCAPE):
        yield f"a job is {status!a}", [done | {"status": status}]
    started = {"event": "started", "job": "{job}", "folder": "0", "pause_at": 1}
    for fact in ("folder", "pause_at", "threads"):
        for value in (*VALUES, "{outside}"):
            yield f"started with {fact}={str(value)[:20]!a}", [started | {fact: value}]
    yield "half a line", ['{"event": "job", "job": "{job}", "num']
    yield "NULs", ["\0" * 1000]
    many = [OTHER | {"job": f"{number}"} for number in range(ledger.MOST_JOBS + 1)]
    yield "too many jobs", many


def _appended(lines: list[Any], folder: Path) -> None:
    path = folder / LEDGER
    job = next(iter(ledger.read(folder).jobs))
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    with path.open("a") as file:
        file.write(filled("\n".join(texts), folder).replace("{job}", job))
        file.write("" if texts[-1].startswith('{"event": "job", "job": "{job}", "num') else "\n")


def _without_weights(folder: Path) -> None:
    next(folder.glob("*/model.safetensors")).unlink()  # jobs that pause have none


def _another_run(folder: Path) -> None:
    """The second job's run in the folder of the first, as it is."""
    shutil.rmtree(folder / "0")
    shutil.copytree(folder / "1", folder / "0")


def _nested_sweep(folder: Path) -> None:
    inner = folder / "0" / "inner"
    shutil.copytree(folder, folder.parent / "copied", symlinks=True)
    (folder.parent / "copied").rename(inner)


def _ledger_in_job(folder: Path) -> None:
    shutil.copy(folder / LEDGER, folder / "0" / LEDGER)


def _linked_job(folder: Path) -> None:
    shutil.move(folder / "0", folder.parent / "outside" / "mine")
    (folder / "0").symlink_to(folder.parent / "outside" / "mine")


def _linked_in_job(name: str, folder: Path) -> None:
    mine = folder.parent / "outside" / "mine"
    shutil.copytree(folder / "0", mine)
    _unfinished(folder)
    shutil.rmtree(folder / "0" / name)
    (folder / "0" / name).symlink_to(mine / name)


def _unfinished(folder: Path) -> None:
    """The first job has to be trained again."""
    status = RunFolder(folder / "0").status
    status.write_text(json.dumps(json.loads(status.read_text()) | {"status": "failed"}))


def _of_another_tool(status: str | None, folder: Path) -> None:
    shutil.rmtree(folder / "0")
    (folder / "0" / "tensorboard").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tensorboard/events"):
        (folder / "0" / name).write_text("of the user\n")
    if status is not None:
        (folder / "0" / "status.json").write_text(json.dumps({"status": status}))


def _evil_job(folder: Path) -> None:
    """The first job's recorded configuration names a class of the folder."""
    path = RunFolder(folder / "0").config
    plain = json.loads(path.read_text()) | {"model": {"_target_": "evil.f"}}
    path.write_text(json.dumps(plain))
    _unfinished(folder)
    sign(folder / "0")


def _other_metrics(folder: Path) -> None:
    text = json.dumps({"split": "valid", "updates": 1, "epoch": 1, "over": "epoch", ESCAPE: 1})
    for run in (folder / "0", folder / "1"):
        RunFolder(run).metrics.write_text(f"{text}\n" * 1000)


def _huge_summary(folder: Path) -> None:
    for run in (folder / "0", folder / "1"):
        sparse(RunFolder(run).summary, 2**40)


JOBS: dict[str, Change] = {
    "no weights": _without_weights,
    "another run": _another_run,
    "a sweep in it": _nested_sweep,
    "a ledger in it": _ledger_in_job,
    "a link to a user's run": _linked_job,
    "a link to a user's checkpoints": functools.partial(_linked_in_job, "checkpoints"),
    "a link to a user's curves": functools.partial(_linked_in_job, "tensorboard"),
    "not done": _unfinished,
    "no run": lambda folder: shutil.rmtree(folder / "0"),
    "another tool's model": functools.partial(_of_another_tool, None),
    "another tool's model, done": functools.partial(_of_another_tool, "done"),
    "another tool's model, failed": functools.partial(_of_another_tool, "failed"),
    "a class of the folder": _evil_job,
    "metrics of escapes": _other_metrics,
    "a sparse summary": _huge_summary,
}
