"""Run folders that a stranger prepared: no command that reads one runs, imports or writes its will.

`python -m proofs.hostile_folders` makes two runs, gives each hostile copy of them to every command,
and prints what each did that it must not.
"""

import argparse
import dataclasses
import itertools
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import matplotlib.backends.backend_agg  # noqa: F401
import matplotlib.figure  # noqa: F401
import torch
import torch._dynamo
import torch.export
from PIL import Image

# imported before the commands are forked, as those above
from andiron import experiment  # noqa: F401
from andiron.exports import checked_export, programs  # noqa: F401
from andiron.run_folder import RunFolder
from andiron.trained import evaluating, other_data  # noqa: F401
from proofs import (
    hostile_bytes, hostile_configs, hostile_facts, hostile_records, hostile_sweeps,
)  # fmt: skip
from proofs.attempt import Outcome, attempt, made_run
from proofs.hostile_bytes import Runs
from proofs.hostile_case import ACCEPT, CONFIGURED, IMPORT, PACK, PLAN, START, SWEEP, Case
from proofs.hostile_commands import COMMANDS, PICTURE, Place, answer, called

MOST_MEGABYTES = 200  # of memory beyond what the command takes on the honest folder
SECONDS = 60  # for a command that takes a second, on a machine that is busy
EVIL = """import pathlib
pathlib.Path(__file__).with_name('executed').touch()
def f(*a, **k): pass
"""
FILES_ALONE = {START, PLAN, IMPORT, CONFIGURED}  # of these it may be given in a folder of no run
KINDS = (hostile_configs, hostile_records, hostile_bytes, hostile_facts, hostile_sweeps)


class Honest(NamedTuple):
    """How a command ends on the folder that nobody changed."""

    answer: object
    megabytes: float


def attempts(only: str = "", folders: int = 1) -> Iterator[tuple[Case, str]]:
    """Every n-th case whose name has this text, with every command that it is for."""
    cases = itertools.chain.from_iterable(kind.cases() for kind in KINDS)
    for case in itertools.islice((each for each in cases if only in each.name), 0, None, folders):
        of_files = case.commands if _is_of_files(case) else None
        for name in case.only or of_files or COMMANDS:
            if name in (*case.only, *case.commands) or not _is_no_business(case, name):
                yield case, name


def _is_no_business(case: Case, name: str) -> bool:
    """Packing and hashing take as long as the file is; --config-dir is the user's own word."""
    return name in (CONFIGURED, SWEEP) or (name in (PACK, ACCEPT) and "sparse" in case.name)


def _is_of_files(case: Case) -> bool:
    return bool(case.commands) and FILES_ALONE.issuperset(case.commands)


def tried(case: Case, name: str, runs: Mapping[bool, Path], work: Path) -> tuple[Outcome, object]:
    """The outcome of a command over a hostile copy of a finished run, and its answer."""
    shutil.rmtree(work, ignore_errors=True)
    honest = runs[COMMANDS[name].uses_text]
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
    # the log is opened to see whether a process has its lock
    may_write = [at.into, at.folder if COMMANDS[name].is_writing else RunFolder(at.folder).log]
    outcome = attempt(
        called(name, at), may_write=may_write, forbidden=at.folder, seconds=SECONDS
    )
    changed = sorted(path.name for path in outside.rglob("*")) != ["precious"]
    if changed or (at.folder / "executed").exists() or (work / "executed").exists():
        outcome = dataclasses.replace(outcome, deeds=[*outcome.deeds, "left something outside"])
    return outcome, answer(name, at, outcome.output) if outcome.code == 0 else None


def faults(case: Case, name: str, outcome: Outcome, found: object, honest: Honest) -> list[str]:
    """What the command did that it must not."""
    listed = outcome.faults(most_megabytes=honest.megabytes + MOST_MEGABYTES)
    if name in case.commands:
        return listed
    if "not exact: " in outcome.output:  # what `rerun` answers
        return [each for each in listed if each != "said no error"]
    if outcome.code == 0:
        listed.remove("accepted it")
        if not case.is_another_run and found != honest.answer:
            listed.append("gave another answer")
    return listed


def finished_runs(folder: Path) -> dict[bool, Path]:
    """Runs to make hostile copies of: of the digits, with an update to replay, and (True) of text.
    """
    failed = made_run(folder / "failed", "lr=1e38", code=1)
    digits = made_run(folder / "digits", "num_epochs=2")
    shutil.copytree(failed / "nonfinite", digits / "nonfinite")
    poem = folder / "poem.txt"
    poem.write_text("So much depends upon a red wheel barrow\n" * 40)
    text = made_run(
        folder / "text", "data=text", f"data.path={poem}", "data.level=characters",
        "data.context_length=16", "model.dim=16", "model.layers=1", "model.heads=2", "num_epochs=2",
    )  # fmt: skip
    return {False: digits, True: text}


def honest_end(name: str, runs: Mapping[bool, Path], work: Path) -> Honest:
    """How the command ends on the folder as it is.

    Raises: RuntimeError if it does what it must not.
    """
    outcome, found = tried(Case("nothing", lambda folder: None, ()), name, runs, work)
    expected = [] if name in (IMPORT, CONFIGURED) else ["accepted it"]
    if outcome.faults(most_megabytes=1000) != expected:
        raise RuntimeError(f"{name}: {outcome}")
    return Honest(found, outcome.megabytes)


def main() -> int:
    """Prints every fault; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--folders", type=int, default=1, help="take every n-th folder")
    parser.add_argument("--step", type=int, default=1, help="make every n-th attempt")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    options = parser.parse_args()
    number, faulty, most, folders = 0, 0, (0.0, ""), set()
    torch.set_num_threads(1)  # a forked process waits for ever for threads that its parent had
    with tempfile.TemporaryDirectory(prefix="andiron-hostile-") as scratch:
        work = Path(scratch) / "work"
        runs = finished_runs(Path(scratch))
        ends = dict[str, Honest]()
        made = attempts(options.only, options.folders)
        for case, name in itertools.islice(made, options.first, None, options.step):
            if name not in ends:
                ends[name] = honest_end(name, runs, work)
            outcome, found = tried(case, name, runs, work)
            wrong = faults(case, name, outcome, found, ends[name])
            number, faulty = number + 1, faulty + bool(wrong)
            folders.add(case.name)
            most = max(most, (outcome.megabytes - ends[name].megabytes, f"{case.name} | {name}"))
            if wrong:
                said = " ".join(outcome.output.split())[-300:]
                print(f"{case.name} | {name}: {'; '.join(wrong)}\n    {said}", flush=True)
    print(f"{number} attempts with {len(folders)} hostile folders, {faulty} with a fault")
    print(f"the most memory beyond the honest folder: {most[0]:.0f} MB ({most[1]})")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
