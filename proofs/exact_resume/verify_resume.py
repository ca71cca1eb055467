"""Proof of exact resume: one run uninterrupted, one stopped again and again, compared bit by bit.
"""

import argparse
import itertools
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from andiron import errors
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers
from andiron.shell.cli.signals import exit_code
from andiron.shell.config import arguments as command_arguments, quoting
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, FLAG, TEXT, closed, list_of, or_null
from andiron.wings.commands.declaration import Command, with_overrides
from andiron_lab.ask.bit_comparison import Difference

from . import compared_runs, stop_points
from .segment import Ended, Piece, run_apart, run_here
from .stop_points import Stop

EXIT_EXACT, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2
STOPPED = (130, 143)  # exit codes of a segment: stopped by the interrupter, by SIGTERM
OWN = re.compile(
    r"(resume|resume_allow|overwrite|interrupted_exit_code|hydra\.run\.dir|hydra\.sweep\.dir)="
    r"|(-m|--multirun)$"
)
RunPiece = Callable[[Piece], Ended]


@dataclass(frozen=True)
class Trial:
    """The run to prove: its overrides, where it is stopped, and the workers of each resume."""

    overrides: Sequence[str]
    points: Sequence[str]
    at_random: int = 0  # further moments to stop at, drawn by the seed
    seed: int = 0
    workers: Sequence[int] = ()  # of the first resume, the second, ..., in a cycle
    conf_dir: Path | None = None

    def __post_init__(self) -> None:
        stop_points.check(self.points)
        refused = [override for override in self.overrides if OWN.match(override)]
        if refused:
            raise errors.ConfigError(
                f"{override}: the proof says this itself; leave it out" for override in refused
            )
        if any(number < 0 for number in self.workers) or self.at_random < 0:
            given = f"--workers {' '.join(map(str, self.workers))} --random {self.at_random}"
            raise errors.ConfigError([f"{given}: should be numbers from 0 up"])
        if not self.points and not self.at_random:
            raise errors.ConfigError(
                ["--at: names no point, and --random no number of them; give one"]
            )


def verify(trial: Trial, folder: Path, run_piece: RunPiece = run_apart) -> Sequence[Difference]:
    """The bits of the run that interruptions change; prints the first difference.

    Raises: ConfigError for points that this run does not pass; RunFolderError if a segment fails.
    """
    straight, interrupted = folder / "straight", folder / "interrupted"
    ended = _ran(run_piece, Piece(_fresh(trial, straight), conf_dir=trial.conf_dir), "straight")
    stops = stop_points.chosen(
        trial.points, ended.moments, at_random=trial.at_random, seed=trial.seed
    )
    stopped = _interrupted(trial, interrupted, stops, ended.moments, run_piece)
    differences = compared_runs.compare(straight, interrupted)
    if not differences:
        print(f"exact: {compared_runs.counts(straight)} are the same bits")
        return []
    first = differences[0]
    print(f"not exact: {first}\nand {len(differences) - 1:,} more")
    again = folder / "straight_again"
    _ran(run_piece, Piece(_fresh(trial, again), conf_dir=trial.conf_dir), "straight again")
    trusted = Trust(tuple(_packages(straight)))
    by_itself = compared_runs.compare(straight, again)
    print(f"likely cause: {_cause(folder, first, by_itself, stopped, trusted)}")
    return differences


def _fresh(trial: Trial, run_dir: Path) -> list[str]:
    return [*trial.overrides, f"hydra.run.dir={quoting.quoted(str(run_dir))}"]


def _ran(run_piece: RunPiece, piece: Piece, name: str) -> Ended:
    """Runs a segment to its stop or to the end, and prints how it ended.

    Raises: RunFolderError if it ended otherwise.
    """
    ended = run_piece(piece)
    if ended.code not in ((0, *STOPPED) if piece.stop else (0,)):
        said = ended.said.strip() or "it said nothing"
        raise errors.RunFolderError(
            f"`{name}` ended with exit code {ended.code}, so there is nothing to compare:\n{said}"
        )
    print(
        f"{name}: {'to the end' if ended.code == 0 else _where(ended)}, {ended.seconds:.1f} s",
        flush=True,
    )
    return ended


def _where(ended: Ended) -> str:
    return f"stopped at {ended.moments[-1]}" if ended.moments else "stopped before its first update"


def _interrupted(
    trial: Trial,
    run_dir: Path,
    stops: Sequence[Stop],
    passed: Sequence[stop_points.Moment],
    run_piece: RunPiece,
) -> list[Stop]:
    """Runs the segments in turn; returns the stops that were made, where they were.

    A signal takes effect some time after its moment: stops that the run has passed by then are
    left out.
    """
    made: list[Stop] = []
    arguments, workers = _fresh(trial, run_dir), itertools.cycle(trial.workers or [None])
    reached = -1  # the number of the last moment that the chain has come to
    for stop in stops:
        if passed.index(stop.moment) <= reached:
            print(f"{stop}: left out, the run was there before the signal was heard")
            continue
        ended = _ran(
            run_piece,
            Piece(arguments, stop, trial.conf_dir),
            f"piece {len(made) + 1} ({stop.point})",
        )
        if ended.code == 0:
            print(f"{stop}: the run was at its end before it could be stopped")
            return made
        last = ended.moments[-1]
        made.append(stop._replace(moment=last))
        reached = passed.index(last) if last in passed else reached
        if run_dir.exists():  # before the first update nothing is left: the run starts anew
            arguments = _going_on(run_dir, next(workers), trial.overrides)
    _ran(run_piece, Piece(arguments, conf_dir=trial.conf_dir), f"piece {len(made) + 1} (the rest)")
    return made


def _going_on(run_dir: Path, num_workers: int | None, overrides: Sequence[str]) -> list[str]:
    more = [] if num_workers is None else [f"num_workers={num_workers}"]
    more += command_arguments.of_the_configuration([*overrides]) if more else []
    packages = ",".join(_packages(run_dir))
    more += [f"trust=[{packages}]"] if packages else []
    return [f"resume={quoting.quoted(str(run_dir))}", *more]


def _packages(run_dir: Path) -> list[str]:
    """The packages that the record names: this user's command has written it."""
    names = Trust().with_config(files.read_json(RunFolder(run_dir).config)).names
    known = {"andiron", "torch", "torchvision", *sys.stdlib_module_names}
    return sorted({name.partition(".")[0] for name in names} - known)


def _cause(
    folder: Path,
    first: Difference,
    by_itself: Sequence[Difference],
    stopped: Sequence[Stop],
    trusted: Trust,
) -> str:
    if by_itself:
        return (
            "the run is not reproducible by itself: made straight a second time it differs too, "
            f"first in {by_itself[0]}. Look for kernels that are not deterministic, more than one "
            "thread, the time, and generators of one's own"
        )
    from . import unsaved_state  # imports torch, which an exact resume need not wait for

    result = unsaved_state.found(Train.load(RunFolder(folder / "straight").config, trusted), folder)
    causes = (
        "; ".join(result)
        or "none was found in the modules: look at metrics, losses and schedules of one's own"
    )
    why = "state that is not saved (made straight a second time the run is the same)"
    return f"{why}. {_begins(first, stopped)}{causes}"


def _begins(first: Difference, stopped: Sequence[Stop]) -> str:
    """How long after the last stop the first difference was logged."""
    before = [
        stop
        for stop in stopped
        if first.updates is not None and stop.moment.updates <= first.updates
    ]
    if first.updates is None or not before:
        return ""
    stop = before[-1]
    later = first.updates - stop.moment.updates
    updates = "update" if later == 1 else "updates"
    return f"The first difference was logged {later} {updates} after the resume at {stop}. "


def _run(options: argparse.Namespace) -> int:
    now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    folder = (options.keep or Path("outputs", "verify_resume", now)).absolute()
    given = options.at is not None or options.random is not None
    points = options.at if options.at is not None else [] if given else list(stop_points.DEFAULT)
    at_random = options.random if options.random is not None else 0 if given else 2
    seed = options.seed if options.seed is not None else secrets.randbelow(2**32)
    trial = Trial(options.overrides, points, at_random, seed, options.workers)
    _claim(folder)
    try:
        print(f"stops are drawn with --seed {seed}")
        differences = verify(trial, folder, run_here if options.here else run_apart)
    except errors.AndironError:
        _remove_if_empty(folder)
        raise
    except KeyboardInterrupt as error:
        ended = errors.Interrupted(str(error), exit_code(error))
        ended.outcome = f"the runs are in {folder}"
        raise ended from error
    is_exact = not differences
    is_kept = options.keep is not None or not is_exact
    if is_kept:
        print(f"the runs are in {folder}")
    else:
        shutil.rmtree(folder)
    answers.give({
        "same_bits": is_exact, "folder": str(folder) if is_kept else None, "seed": seed,
        "differences": [*map(str, differences)],
    })  # fmt: skip
    return EXIT_EXACT if is_exact else EXIT_DIFFERENT


def _claim(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        why = (
            "is there already"
            if isinstance(error, FileExistsError)
            else f"cannot be made ({error.strerror})"
        )
        raise errors.RunFolderError(f"{folder} {why}; name another with --keep") from error


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(
        description="Trains once without and once with interruptions, compares every bit; "
        "--here is faster. Overrides, as for train.py, come first.",
        allow_abbrev=False,
    )
    defaults = f"{' '.join(stop_points.DEFAULT)} and two random ones"
    parser.add_argument(
        "--at",
        nargs="+",
        metavar="POINT",
        help=f"where to stop: {stop_points.KINDS} (default: {defaults})",
    )
    parser.add_argument("--random", type=int, metavar="K", help="also stop at K random moments")
    parser.add_argument(
        "--seed",
        type=int,
        help="seed of the random moments (default: a new one each time, which is printed)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="num_workers for each resume in turn",
    )
    here = "train all pieces in this process: faster, but they share its global state"
    parser.add_argument("--here", action="store_true", help=here)
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="create the runs there, and keep them"
    )
    return parser


ANSWERS = [closed({
    "same_bits": FLAG, "folder": or_null(TEXT), "seed": COUNT, "differences": list_of(TEXT),
})]  # fmt: skip
main = Command(
    _parser, ANSWERS, _run, page="resuming.md", parse=with_overrides, trains=True,
    failed=EXIT_UNUSABLE,
)  # fmt: skip
