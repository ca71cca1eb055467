"""Run folders that a stranger prepared: no command that reads one runs, imports or writes its will.

`python -m proofs.hostile_folders` makes runs and sweeps, gives each hostile copy of them to every
command, and prints what each did that it must not.
"""

import argparse
import dataclasses
import functools
import itertools
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import matplotlib.backends.backend_agg  # noqa: F401
import matplotlib.figure  # noqa: F401
import torch._dynamo
import torch.export  # noqa: F401
from PIL import Image

# imported before the commands are forked, as those above
from andiron.run_folder import RunFolder
from andiron.shell.training import experiment  # noqa: F401
from andiron.wings.trained import evaluating, other_data  # noqa: F401
from andiron.wings.trained.exports import checked_export, programs  # noqa: F401
from proofs import (
    hostile_asides, hostile_bytes, hostile_configs, hostile_records, hostile_studies,
    hostile_sweeps,
)  # fmt: skip
from proofs.attempt import Outcome, attempt, fingerprints, forks, made_run, write_only_in
from proofs.hostile_bytes import Runs
from proofs.hostile_case import (
    ACCEPT, CONFIGURED, IMPORT, OVERWRITE, PLAN, REQUEUED, START, SWEEP, SWEEPS_AGAIN, Case,
)  # fmt: skip
from proofs.hostile_commands import (
    COMMANDS, DIGITS, OTHER_RATE, PICTURE, TEXT, Place, answer, called, sweep, sweep_arguments,
)  # fmt: skip

MOST_MEGABYTES = 200  # of memory beyond what the command takes on the honest folder
SECONDS = 60  # for a command that takes a second, on a machine that is busy
EVIL = """import pathlib
pathlib.Path(__file__).with_name('executed').touch()
def f(*a, **k): pass
"""
FILES_ALONE = {START, PLAN, IMPORT, CONFIGURED}  # of these it may be given in a folder of no run
IF_NAMED = {CONFIGURED, SWEEP, OVERWRITE, REQUEUED, *SWEEPS_AGAIN}  # tried where a case has them
KINDS = (
    hostile_configs, hostile_records, hostile_bytes, hostile_sweeps, hostile_studies,
    hostile_asides,
)  # fmt: skip


class Honest(NamedTuple):
    """How a command ends on the folder that nobody changed."""

    answer: object
    megabytes: float


def attempts(
    only: str = "", folders: int = 1, commands: str = ""
) -> Iterator[tuple[Case, str]]:
    """Every n-th case whose name has one of these texts, with the commands that it is for."""
    cases = itertools.chain.from_iterable(kind.cases() for kind in KINDS)
    chosen = (case for case in cases if any(text in case.name for text in only.split("|")))
    for case in itertools.islice(chosen, 0, None, folders):
        of_files = case.commands if _is_of_files(case) else None
        for name in case.only or of_files or COMMANDS:
            if commands and name not in commands.split("|"):
                continue
            if name in (*case.only, *case.commands) or not _is_no_business(case, name):
                yield case, name


def _is_no_business(case: Case, name: str) -> bool:
    """Packing and hashing take as long as the file is; --config-dir is the user's own word."""
    return name in IF_NAMED or (name == ACCEPT and "sparse" in case.name)


def _is_of_files(case: Case) -> bool:
    return bool(case.commands) and FILES_ALONE.issuperset(case.commands)


def tried(case: Case, name: str, honest: Path, work: Path) -> tuple[Outcome, object]:
    """The outcome of a command over a hostile copy of a finished run or sweep, and its answer."""
    shutil.rmtree(work, ignore_errors=True)
    at = Place(work / "run", honest, work / "into")
    outside = work / "outside"
    outside.mkdir(parents=True)
    (outside / "precious").write_text("kept")
    if _is_of_files(case):
        at.folder.mkdir()
    else:
        shutil.copytree(honest, at.folder)
        (at.folder / "evil.py").write_text(EVIL)
        (at.folder / "evil.pickle").write_bytes(pickle.dumps(Runs(os.system, "true")))
        (at.folder / "evil.yaml").write_text("# @package hydra.job\nenv_set: {A: b}\n")
    Image.new("L", (8, 8)).save(work / PICTURE)
    os.chdir(work)
    case.change(at.folder)
    os.chdir(work)
    kept = [outside, *(at.folder / keep for keep in case.keeps)]
    before = fingerprints(*kept)
    # the log is opened to see whether a process has its lock
    may_write = [at.into, at.folder if COMMANDS[name].is_writing else RunFolder(at.folder).log]
    may_write += [work / value for value in case.beside]
    if name in (OVERWRITE, REQUEUED):  # the run is moved aside first
        may_write.append(work)
    outcome = attempt(
        called(name, at), may_write=may_write, forbidden=at.folder, seconds=SECONDS
    )
    if fingerprints(*kept) != before:
        outcome = dataclasses.replace(outcome, deeds=[*outcome.deeds, "changed a user's file"])
    if (at.folder / "executed").exists() or (work / "executed").exists():
        outcome = dataclasses.replace(outcome, deeds=[*outcome.deeds, "left something outside"])
    return outcome, answer(name, at, outcome.output) if outcome.code == 0 else None


def faults(case: Case, name: str, outcome: Outcome, actual: object, honest: Honest) -> list[str]:
    """Forbidden effects of the command."""
    listed = outcome.faults(most_megabytes=honest.megabytes + MOST_MEGABYTES)
    if name in case.commands:
        return listed
    # rerun, recheck, bisect, samples
    answers = "not exact: ", "# Recheck\n", "the same up to update", "compared, different: "
    if outcome.code and any(text in outcome.output for text in answers):
        return [value for value in listed if value != "said no error"]
    if outcome.code == 0:
        listed.remove("accepted it")
        if not case.is_another_run and actual != honest.answer:
            listed.append("gave another answer")
    return listed


@functools.cache
def honest_copy(kind: str, folder: Path) -> Path:
    """The run or sweep in the folder that hostile copies are made of; it is made once.

    A run of the digits, with an update to replay; of text; or a sweep, by the name of its command.
    """
    path = folder / kind.replace(" ", "-")
    if kind == DIGITS:
        failed = made_run(folder / "failed", "lr=1e38", code=1)
        made_run(path, "num_epochs=2")
        made_run(folder / OTHER_RATE, "num_epochs=2", "lr=0.01")
        shutil.copytree(failed / "nonfinite", path / "nonfinite")
    elif kind == TEXT:
        poem = folder / "poem.txt"
        poem.write_text("So much depends upon a red wheel barrow\n" * 40)
        made_run(
            path, "data=text", f"data.path={poem}", "data.level=characters",
            "data.context_length=16", "model.dim=16", "model.layers=1", "model.heads=2",
            "num_epochs=2",
        )  # fmt: skip
    else:
        sys.argv = ["train", *map(str, sweep_arguments(kind, path, again=False))]
        made = attempt(sweep, may_write=[path], forbidden=folder / "none", seconds=120)
        if made.code != 0:
            raise RuntimeError(made.output)
    return path


@functools.cache
def honest_end(name: str, folder: Path) -> Honest:
    """How the command ends on the folder as it is.

    Raises: RuntimeError if it does what it must not.
    """
    honest = honest_copy(COMMANDS[name].honest, folder)
    work = folder / f"work-{os.getpid()}"
    outcome, actual = tried(Case("nothing", lambda folder: None, ()), name, honest, work)
    expected = [] if name in (IMPORT, CONFIGURED) else ["accepted it"]
    if outcome.faults(most_megabytes=1000) != expected:
        raise RuntimeError(f"{name}: {outcome}")
    return Honest(actual, outcome.megabytes)


class Ended(NamedTuple):
    """The result of an attempt: faults, exit message, memory and time."""

    wrong: list[str]
    said: str
    megabytes: float
    seconds: float


def _made(folder: Path, chosen: tuple[str, int, str], number: int) -> Ended:
    """The attempt of this number; cases are functions, which no other process can be sent."""
    write_only_in(folder)
    case, name = _attempts(*chosen)[number]
    started = time.perf_counter()
    honest = honest_end(name, folder)
    work = folder / f"work-{os.getpid()}"
    outcome, actual = tried(case, name, honest_copy(COMMANDS[name].honest, folder), work)
    wrong = faults(case, name, outcome, actual, honest)
    said = " ".join(outcome.output.split())[-300:]
    took = time.perf_counter() - started
    return Ended(wrong, said, outcome.megabytes - honest.megabytes, took)


@functools.cache
def _attempts(only: str, folders: int, commands: str) -> list[tuple[Case, str]]:
    return list(attempts(only, folders, commands))


def main() -> int:
    """Prints every fault; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="A|B",
        help="cases whose name has one of these; several slices have a --step each",
    )  # fmt: skip
    parser.add_argument("--commands", default="", help="these commands alone: recheck|replay")
    parser.add_argument("--folders", type=int, default=1, help="take every n-th folder")
    parser.add_argument("--step", nargs="+", type=int, default=[1], help="make every n-th attempt")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    parser.add_argument("--jobs", type=int, default=1, help="attempts side by side")
    options = parser.parse_args()
    faulty, most, seconds = 0, (0.0, ""), Counter[str]()
    numbered = [
        (chosen, number) for only, step in zip(options.only, options.step, strict=True)
        for chosen in [(only, options.folders, options.commands)]
        for number in range(options.first, len(_attempts(*chosen)), step)
    ]  # fmt: skip
    made = [_attempts(*chosen)[number] for chosen, number in numbered]
    with tempfile.TemporaryDirectory(prefix="andiron-hostile-") as scratch:
        for kind in sorted({COMMANDS[name].honest for _, name in made}):
            honest_copy(kind, Path(scratch))
        attempt_of = functools.partial(_made, Path(scratch))
        with forks(options.jobs) as pool:
            ends = pool.map(attempt_of, *zip(*numbered, strict=True))
            for (case, name), ended in zip(made, ends, strict=True):
                seconds[name] += ended.seconds
                most = max(most, (ended.megabytes, f"{case.name} | {name}"))
                if ended.wrong:
                    faulty += 1
                    print(f"{case.name} | {name}: {'; '.join(ended.wrong)}", flush=True)
                    print(f"    {ended.said}", flush=True)
    folders = {case.name for case, _ in made}
    print(f"{len(made)} attempts with {len(folders)} hostile folders, {faulty} with a fault")
    print(f"the most memory beyond the honest folder: {most[0]:.0f} MB ({most[1]})")
    longest = ", ".join(f"{name} {took:.0f} s" for name, took in seconds.most_common(5))
    print(f"{seconds.total():.0f} s, of which: {longest}")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
