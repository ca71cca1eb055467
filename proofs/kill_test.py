"""Stress test: train uninterrupted once, then kill and resume repeatedly, and compare every bit."""

import argparse
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

from andiron import errors
from andiron.checkpoint import directory
from andiron.checkpoint.on_disk import manifest
from andiron.disk import files
from andiron.shell.config import quoting
from proofs import kill_ways, observed_phase
from proofs.exact_resume import compared_runs
from proofs.kill_times import AIMS, LATE, Aim, Lengths
from proofs.kill_ways import Terminal, Way
from proofs.observed_phase import ObservedProcess
from andiron.run_folder import RunFolder
from andiron.shell.run import status as run_status

EXIT_SAME, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2
# mostly training, little start-up, and checkpoints as often as they can be written
DEFAULT = (
    "batch_size=20", "num_epochs=40", "averages=ema", "checkpoint.every=1", "checkpoint.last=3",
    "device=cpu", "render=plain",
)  # fmt: skip
OWN = (
    "resume=", "resume_allow=", "restart=", "overwrite=", "interrupted_exit_code=",
    "hydra.run.dir=", "hydra.sweep.dir=", "-m", "--multirun",
)  # fmt: skip
PROGRAM = "import sys; from andiron.shell.training import train; sys.exit(train.script())"
# a process of a new session adopts its standard input as its controlling terminal
ON_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
REQUEUED = 75  # the exit code after a signal, once the configuration is read
SECONDS_BETWEEN_LOOKS = 0.001
SECONDS_AT_MOST = 600.0  # a process that takes longer hangs


@dataclass(frozen=True)
class Trial:
    """The test: overrides of the run, how many runs, and how each is killed."""

    overrides: Sequence[str] = ()
    runs: int = 100
    kills: int = 3  # of each run, at most
    seed: int = 0
    jobs: int = 1
    at: Sequence[str] = (*AIMS, "training", "write")

    def __post_init__(self) -> None:
        problems = [
            f"{override}: the trial says this itself; leave it out"
            for override in self.overrides
            if override.startswith(OWN)
        ]
        if min(self.runs, self.kills, self.jobs) < 1:
            problems.append(
                f"--runs {self.runs} --kills {self.kills} --jobs {self.jobs}: should be numbers "
                "from 1 up"
            )
        if problems:
            raise errors.ConfigError(problems)


@dataclass(frozen=True)
class Hit:
    """A killed process: the signal, and what the process was doing."""

    signal: str
    phase: str

    def __str__(self) -> str:
        return f"{self.signal} in {self.phase}"


@dataclass
class Outcome:
    """The result of one run: how it was killed, and its problems."""

    number: int
    hits: list[Hit] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        how = self.problems[0] if self.problems else "the same bits"
        return f"run {self.number}: {', '.join(map(str, self.hits)) or 'never hit'}: {how}"


def show(trial: Trial, below: Path) -> list[Outcome]:
    """Trains and kills the runs in a folder, prints each result, and removes those without
    problems.

    Raises: RunFolderError if the straight one fails.
    """
    straight = below / "straight"
    lengths = measured(trial, straight)
    print(
        f"straight: {lengths.whole:.1f} s, of which {lengths.start:.1f} s of start-up", flush=True
    )

    def one(number: int) -> Outcome:
        run_dir = below / f"run-{number}"
        outcome = killed(trial, number, run_dir, lengths)
        outcome.problems = outcome.problems or _differences(straight, run_dir)
        if not outcome.problems:
            shutil.rmtree(run_dir)
        print(outcome, flush=True)
        return outcome

    with ThreadPoolExecutor(trial.jobs) as pool:
        return [*pool.map(one, range(1, trial.runs + 1))]


def summary(outcomes: Sequence[Outcome]) -> str:
    """How often each signal hit, in which phase, and how many runs end bit-identical."""
    hits = [hit for outcome in outcomes for hit in outcome.hits]
    signals, actual = Counter(hit.signal for hit in hits), Counter(hit.phase for hit in hits)
    lines = [f"{number} times {name}" for name, number in signals.most_common()]
    lines += [f"{actual[phase]:5} in {phase}" for phase in observed_phase.PHASES]
    same = sum(not outcome.problems for outcome in outcomes)
    return "\n".join([*lines, f"{same} of {len(outcomes)} runs end bit-identical"])


def measured(trial: Trial, run_dir: Path) -> Lengths:
    """Trains the uninterrupted run, and measures its phases.

    Raises: RunFolderError if it fails.
    """
    first: dict[str, float] = {}
    with tempfile.TemporaryFile() as said:
        process = _started(trial, run_dir, said)
        observed = ObservedProcess(run_dir, process.pid)
        while process.poll() is None:
            observed.look()
            phase = observed.phase
            if observed.is_measured and phase != observed_phase.AFTER:
                phase = observed_phase.END  # whatever it writes there
            first.setdefault(phase, observed.seconds_running)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        whole = observed.seconds_running
        if process.returncode:
            raise errors.RunFolderError(
                f"the straight run ended with exit code {process.returncode}:\n{_text(said)}"
            )
    after = first.get(observed_phase.AFTER, whole)
    return Lengths(
        whole,
        first.get(observed_phase.TRAINING, whole),
        after - first.get(observed_phase.END, after),
        whole - after,
    )


def killed(trial: Trial, number: int, run_dir: Path, lengths: Lengths) -> Outcome:
    """Repeats one command until it ends by itself; the kills are a function of seed and number."""
    draw = random.Random(f"{trial.seed} {number}")
    chosen = sorted(draw.choices(trial.at, k=trial.kills), key=LATE.__contains__)
    outcome = Outcome(number)
    for aim in [*(AIMS[name](draw, lengths) for name in chosen), None]:
        way = kill_ways.drawn(draw)
        with tempfile.TemporaryFile() as said:
            terminal = Terminal() if way.on_terminal and aim is not None else None
            process = _started(trial, run_dir, said, terminal)
            hit = _hit(process, ObservedProcess(run_dir, process.pid), aim, way, terminal, said)
            text = _text(said)
        code = process.returncode
        outcome.hits += [hit] if hit else []
        outcome.problems += _not_whole(run_dir)
        if code not in _expected(hit, way):
            outcome.problems.append(
                f"a process ended with exit code {code} ({hit or 'by itself'}):\n{text}"
            )
        if outcome.problems or code == 0:
            break
    return outcome


def _hit(
    process: "subprocess.Popen[bytes]",
    observed: ObservedProcess,
    aim: Aim | None,
    way: Way,
    terminal: Terminal | None,
    said: IO[bytes],
) -> Hit | None:
    """Waits for the end of the process; returns how it was killed, if it was."""
    phase = None
    try:
        while process.poll() is None and observed.seconds_running < SECONDS_AT_MOST:
            observed.look()
            if aim is not None and phase is None and aim.is_time(observed):
                time.sleep(aim.seconds_late)
                observed.look()
                phase = observed.phase
                way.hit(process, terminal)
            if terminal is not None:
                terminal.drain(said)
            time.sleep(SECONDS_BETWEEN_LOOKS)
    finally:
        if terminal is not None:
            terminal.close()
        if process.poll() is None:
            process.kill()
        process.wait()
    observed.look()
    if phase is None or (process.returncode == 0 and way.name != kill_ways.CONTINUES):
        return None
    # after SIGKILL the files show what the process was doing
    return Hit(way.name, observed.phase if way.name == kill_ways.KILL else phase)


def _expected(hit: Hit | None, way: Way) -> tuple[int, ...]:
    """The exit codes of a process that was hit so."""
    if hit is None:
        return (0,)
    if way.name in (kill_ways.KILL, kill_ways.CONTINUES):
        return way.codes
    # no handler is installed at the start
    return (REQUEUED, *way.codes) if hit.phase == observed_phase.START else (REQUEUED,)


def _started(
    trial: Trial, run_dir: Path, said: IO[bytes], terminal: Terminal | None = None
) -> "subprocess.Popen[bytes]":
    # a plain checkout needs no install of its own
    package = str(Path(__file__).resolve().parents[1] / "src")
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    # one thread: with two, a tiny step waits for a busy neighbour many times its own length
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}
    place = f"hydra.run.dir={quoting.quoted(str(run_dir))}"
    overrides = [*DEFAULT, *trial.overrides, "restart=requeued", place]
    own = None if terminal is None else terminal.theirs
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM if own is None else ON_TERMINAL + PROGRAM, *overrides],
        stdin=subprocess.DEVNULL if own is None else own,
        stdout=subprocess.DEVNULL if own is None else own,
        stderr=said if own is None else own,
        env=environment,
        start_new_session=own is not None,
    )
    if own is not None:
        os.close(own)
    return process


def _text(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace").strip() or "it said nothing"


def _not_whole(run_dir: Path) -> list[str]:
    """Checkpoints that are damaged or not whole."""
    result = RunFolder(run_dir).checkpoints
    problems = [str(path) for path in sorted(result.glob("step-*.damaged*"))]
    for name in directory.names(result):
        try:
            manifest.verified(result / name)
        except errors.DataError as error:
            problems.append(str(error))
    return problems


def _differences(straight: Path, run_dir: Path) -> list[str]:
    folder = RunFolder(run_dir)
    status = run_status.read(folder).get("status")
    if status != "done":
        return [f"{folder.status} says {status}, not done"]
    try:
        result = [str(difference) for difference in compared_runs.compare(straight, run_dir)]
    except errors.AndironError as error:
        return [str(error)]
    left = [*files.partials(run_dir), *files.partials(folder.checkpoints)]
    return result + [f"{path} was left behind" for path in left]


def main() -> int:
    """Runs `python scripts/kill_test.py`, also as a module; returns the exit code."""
    options, overrides = _parser().parse_known_args(sys.argv[1:])
    now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    below = (options.keep or Path("outputs", "kill_test", now)).absolute()
    seed = options.seed if options.seed is not None else secrets.randbelow(2**32)
    try:
        trial = Trial(overrides, options.runs, options.kills, seed, options.jobs, options.at)
        below.mkdir(parents=True)
        print(f"moments are drawn with --seed {seed}")
        outcomes = show(trial, below)
    except (errors.AndironError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    print(summary(outcomes))
    if any(outcome.problems for outcome in outcomes):
        print(f"those that do not are in {below}")
        return EXIT_DIFFERENT
    if not options.keep:
        shutil.rmtree(below)
    return EXIT_SAME


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Trains once without interruption, then kills runs at random moments, resumes "
        "them until they finish, and compares every bit. Overrides, as for train.py, come first.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--runs", type=int, default=100, metavar="N", help="number of killed runs (default: 100)")
    add("--kills", type=int, default=3, metavar="K", help="maximum kills per run (default: 3)")
    add("--at", nargs="+", choices=AIMS, default=Trial.at, help="phases in which to kill "
        "(default: all)")  # fmt: skip
    add("--seed", type=int, help="seed of the random moments (default: a new one each time, which "
        "is printed)")  # fmt: skip
    add("--jobs", type=int, default=1, metavar="N", help="runs in parallel (default: 1)")
    add("--keep", type=Path, metavar="FOLDER", help="create the runs there, and keep the "
        "uninterrupted one")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
