"""Several processes, the same run: every case trained by 1, 2, 3 and 4 of them, and compared.

    python -m proofs.several_processes [--only NAME ...] [--processes N ...] [--keep FOLDER]

Without slices, losses equal one process to rounding, and the same number of processes gives
the same bits again, stopped and resumed or not. With slices, every number of processes gives the
same bits, and so does a run that two processes begin, four continue and one ends. A number of
processes is started once for all cases (`proofs/rank_runs.py`); they are processes of torchrun.
Exits with 1 if a case fails.
"""

import argparse
import dataclasses
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.shell.config.composition import composed
from andiron_lab.ask import bit_comparison
from proofs import rank_runs
from proofs.rank_cases import Case, cases
from proofs.rank_runs import Job

ROOT = Path(__file__).resolve().parents[1]
SECONDS_AT_MOST = 3600
FLOAT_SUMS = (
    "loss", "perplexity", "bits_per_byte", "mae", "mse",
    "rmse", "r2", "explained_variance",
)  # fmt: skip
# run_dir; processes; strategy
OF_PLACE = "summary/text_summary", "provenance/text_summary", "config/text_summary"
NOT_MEASURED = "time/", "system/", "updates", "epoch"
SUM_TOLERANCE = 1e-7  # relative
SMALLEST_LOSS = 0.1  # the rounding of logits, about 1e-7, is more than 1e-6 of a smaller one


@dataclass
class Outcome:
    """How the runs of one case compare: text by column, and what is not as it should be."""

    case: Case
    columns: dict[str, str] = dataclasses.field(default_factory=dict)
    faults: list[str] = dataclasses.field(default_factory=list)

    def put(self, column: str, text: str, fault: str = "") -> None:
        """Fills a column; a fault fails the case."""
        self.columns[column] = text
        if fault:
            self.faults.append(f"{self.case.name}, {column}: {fault}")


def prove(
    names: Sequence[str], folder: Path, processes: Sequence[int]
) -> tuple[list[Outcome], list[str]]:
    """Trains the named cases in `folder` and compares their runs; also everything that is wrong."""
    chosen = [case for case in cases() if case.name in names]
    failed = train(chosen, folder, processes)
    outcomes = [compared(case, folder, processes) for case in chosen if case.name not in failed]
    faults = [f"{name}: {why}" for name, why in failed.items()]
    return outcomes, faults + [fault for outcome in outcomes for fault in outcome.faults]


def train(chosen: Sequence[Case], folder: Path, processes: Sequence[int]) -> dict[str, str]:
    """Trains all jobs of the cases in `folder`; by case, why one was not trained."""
    _write_text(folder / "text.txt")
    planned: dict[tuple[int, int], list[tuple[str, Job]]] = {}
    for case in chosen:
        config = folder / f"{case.name}.json"
        places = {"{text}": str(folder / "text.txt"), "{folder}": str(folder)}
        overrides = [_filled(override, places) for override in case.overrides]
        config.write_text(json.dumps(composed(ROOT / "conf", overrides).recorded()))
        if case.divided:
            sharded = composed(ROOT / "conf", [*overrides, *case.divided])
            (folder / f"{case.name}-fsdp.json").write_text(json.dumps(sharded.recorded()))
        for number, size, job in case.jobs(str(config), folder):
            if 2 in processes or not job.folder.endswith("-chain"):  # two processes begin it
                planned.setdefault((number, size), []).append((case.name, job))
    failed: dict[str, str] = {}
    for number, size in sorted(planned):
        if size in processes or size == 1:
            jobs = [pair for pair in planned[number, size] if pair[0] not in failed]
            failed |= _run_group(jobs, folder, size)
    return failed


def _run_group(jobs: Sequence[tuple[str, Job]], folder: Path, size: int) -> dict[str, str]:
    """Runs the jobs in one group of processes, and in another those after a job that failed."""
    failed: dict[str, str] = {}
    done = folder / f"done-{size}"
    while jobs:
        done.unlink(missing_ok=True)
        plain = [dataclasses.asdict(job) for _, job in jobs]
        (folder / f"jobs-{size}.json").write_text(json.dumps(plain))
        code, output = _run_processes(folder, size)
        completed = len(done.read_text().splitlines()) if done.exists() else 0
        if code == 0:
            break
        name = jobs[min(completed, len(jobs) - 1)][0]
        failed[name] = f"{size} processes: exit code {code}: {output}"
        jobs = [pair for pair in jobs[completed + 1 :] if pair[0] not in failed]
    return failed


def _run_processes(folder: Path, size: int) -> tuple[int, str]:
    """The exit code of torchrun, or of Python for one process, and the end of what it printed."""
    launcher = [sys.executable]
    if size > 1:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        launcher = [*torchrun, f"--nproc-per-node={size}"]
    paths = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    with (folder / f"output-{size}").open("w+") as output:
        done = subprocess.run(
            [*launcher, str(ROOT / "proofs" / "rank_runs.py"), str(folder)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=SECONDS_AT_MOST,
        )
        output.seek(0)
        return done.returncode, output.read()[-3000:]


def _write_text(path: Path) -> None:
    """196 sequences of 16 bytes, and a tenth of the file for each other split."""
    draw = random.Random(0)
    path.write_text("".join(chr(97 + draw.randrange(23)) for _ in range(3930)))


def _filled(override: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        override = override.replace(place, value)
    return override


def compared(case: Case, folder: Path, processes: Sequence[int]) -> Outcome:
    """Compares the runs of a case in `folder`."""
    outcome = Outcome(case)
    compare: Callable[[Outcome, Path, Path, str], None] = {
        "rounded": _compare_rounded,
        "resized": _compare_rounded,
        "first": _compare_rounded,
        "measured": _compare_measured,
        "sliced": _compare_bits,
    }[case.kind]
    alone = folder / f"{case.name}-1"
    sizes = sorted({*processes} & ({2, 4, 8} if case.slices else {2, 3, 4}))
    several = {str(size): folder / f"{case.name}-{size}" for size in sizes}
    chain = [str(size) for size in (2, 4 if case.slices else 3, 1) if size in (1, *processes)]
    several[", ".join(chain)] = folder / f"{case.name}-chain"
    for column, run in several.items():
        if run.exists():
            compare(outcome, alone, run, column)
            if rank_runs.samples(run) != rank_runs.samples(alone):
                fault = "other samples, or in another order"
                outcome.faults.append(f"{case.name}, {column}: {fault}")
    if case.kind == "rounded":
        again = [f"{case.name}-{size}" for size in (1, *sizes)]
        _put_bits(outcome, "again", [(folder / name, folder / f"{name}-again") for name in again])
    return outcome


def _compare_rounded(outcome: Outcome, alone: Path, several: Path, column: str) -> None:
    """The largest relative difference of a loss in training, of all updates also in validations."""
    case, expected, actual = outcome.case, _values(alone), _values(several)
    updates = {place[1] for place in expected if place[0] == "train"}
    if expected.keys() != actual.keys() or case.updates not in updates:
        outcome.put(column, "other lines", "the lines of metrics.jsonl are of other updates")
        return
    largest, place = max(
        (abs(actual[place] - value) / max(abs(value), SMALLEST_LOSS), place)
        for place, value in expected.items()
        if place[3] == "loss" and (case.kind != "first" or place[0] == "train")
    )
    fault = f"loss {largest:.1e} off at {place}" if largest > case.tolerance else ""
    outcome.put(column, f"{largest:.1e}", fault)


def _compare_measured(outcome: Outcome, alone: Path, several: Path, column: str) -> None:
    """Counts and ranks are equal; sums of floats have the difference of their order."""
    expected, actual = (
        {
            place[3]: math.log(value) if place[3] == "perplexity" else value
            for place, value in _values(run).items()
            if place[:2] == ("valid", 0)
        }
        for run in (alone, several)
    )
    sums = {name for name in expected if name.partition("/")[0] in FLOAT_SUMS}
    faults = [name for name in expected.keys() - sums if expected[name] != actual.get(name)]
    largest = max((_relative(actual[name], expected[name]), name) for name in sums)
    if largest[0] > SUM_TOLERANCE:
        faults.append(f"{largest[1]} is {largest[0]:.1e} off")
    text = f"{len(expected) - len(sums)} counts equal, {len(sums)} sums {largest[0]:.1e}"
    outcome.put(column, text, ", ".join(faults))


def _compare_bits(outcome: Outcome, alone: Path, several: Path, column: str) -> None:
    _put_bits(outcome, column, [(alone, several)])


def _put_bits(outcome: Outcome, column: str, pairs: Sequence[tuple[Path, Path]]) -> None:
    """Whether each pair of runs has the same bits: weights, states, logged values and pictures."""
    differences = [
        f"{other.name}: {difference}"
        for straight, other in pairs
        for difference in [*_bits_differences(straight, other)][:3]
    ]
    outcome.put(column, "differs" if differences else "equal", "; ".join(differences))


def _bits_differences(straight: Path, other: Path) -> Iterator[str]:
    try:
        yield from map(str, bit_comparison.compare(straight, other))
    except errors.AndironError as error:
        yield str(error)
        return
    expected, actual = _pictures(straight), _pictures(other)
    yield from (f"{place} differs" for place in expected if expected[place] != actual.get(place))
    worst, theirs = (
        json.loads((run / "summary.json").read_text())["worst_classes"] for run in (straight, other)
    )
    if worst != theirs:
        yield f"worst classes are {theirs}, not {worst}"


def _pictures(run: Path) -> dict[tuple[str, str, str, int], str]:
    """The images, histograms and texts in TensorBoard's files, by folder, tag and update."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    kinds = {"images": "Images", "histograms": "Histograms", "tensors": "Tensors"}
    shown = {}
    for below in sorted({path.parent for path in run.rglob("*tfevents*")}):
        events: Any = EventAccumulator(str(below), size_guidance=dict.fromkeys(kinds, 0)).Reload()
        for kind, read in kinds.items():
            for tag in events.Tags()[kind]:
                for event in getattr(events, read)(tag) if tag not in OF_PLACE else ():
                    place = str(below.relative_to(run)), kind, tag, event.step
                    value = {**vars(event), "wall_time": None}
                    shown[place] = repr(value)
    return shown


def _values(run: Path) -> dict[tuple[str, int, str, str], float]:
    """By split, update, kind of mean and name: the numbers of metrics.jsonl."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return {
        (line["split"], line["updates"], line["over"], name): value
        for line in lines
        for name, value in line.items()
        if isinstance(value, int | float) and not name.startswith(NOT_MEASURED)
    }


def _relative(value: float, expected: float) -> float:
    return abs(value - expected) / abs(expected) if value != expected else 0.0


def table(outcomes: Sequence[Outcome]) -> str:
    """A Markdown table for each kind of case."""
    parts = []
    for kind in ("rounded", "resized", "first", "measured", "sliced"):
        rows = [outcome for outcome in outcomes if outcome.case.kind == kind]
        names = list(dict.fromkeys(name for outcome in rows for name in outcome.columns))
        if rows:
            lines = [["case", *names], ["---"] * (1 + len(names))]
            lines += [[o.case.name, *(o.columns.get(n, "-") for n in names)] for o in rows]
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def main() -> int:
    """Runs `python -m proofs.several_processes`; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in cases()]
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--processes", nargs="+", type=int, default=[2, 3, 4, 8])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keeps all runs there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        outcomes, faults = prove(arguments.only, folder, arguments.processes)
    print(table(outcomes), *faults, sep="\n\n")
    print(f"{len(arguments.only)} cases, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
