"""Every command that reads a run folder, ready to be called over a hostile one."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import andiron
from andiron import errors
from andiron.run_folder import RunFolder
from andiron_lab.seeds import differ
from andiron_lab.ask import bisect as ask_bisect, recheck, replay, samples
from andiron.wings.runs import accept_changes, command as runs, plan
from andiron_lab.ask import rerun
from andiron_lab.records import import_state_dict
from andiron.wings.screen import watch
from andiron.wings.trained import evaluate, generate, predict
from andiron.wings.trained.exports import export
from proofs.attempt import SMALL, jobs_forked_here, trained
from proofs.hostile_case import (
    ACCEPT, AGAIN, BEST, BISECT, CHANGED, COMPARE, CONFIGURED, DIFF, DIFFER, EVALUATE, EXPORT, FORK,
    GENERATE, GRID_AGAIN, IMPORT, JOURNAL_AGAIN, LIST, LOAD, OVERWRITE, PLAN, PREDICT, PROGRAM,
    RACE_AGAIN, RECHECK, REMOVE, REPLAY, REQUEUED, RESUME, SAMPLES, SEARCH_AGAIN, SHOW, START,
    SWEEP, TREE, WATCH,
)  # fmt: skip

PICTURE = "picture.png"  # beside the folder: what is predicted from
DIGITS, TEXT = "digits", "text"  # the runs that hostile copies are made of
OTHER_RATE = "other-rate"  # an honest run that is compared with them
SEARCHED = "hydra/sweeper=optuna", "lr=interval(0.1,0.2)", "num_epochs=1"
SWEEPS = {  # the sweeps that hostile copies are made of; the same command again has one job more
    GRID_AGAIN: (["num_epochs=1"], ["lr=0.1,0.2"], ["lr=0.1,0.2,0.3"]),
    SEARCH_AGAIN: (
        [*SEARCHED], ["hydra.sweeper.n_trials=2"], ["hydra.sweeper.n_trials=3"],
    ),
    JOURNAL_AGAIN: (
        [*SEARCHED, "hydra.sweeper.storage=journal"],
        ["hydra.sweeper.n_trials=2"], ["hydra.sweeper.n_trials=3"],
    ),
    RACE_AGAIN: (
        ["hydra/sweeper=race", "num_epochs=2", "lr=0.1,1e-5", "hydra.sweeper.reduction_factor=2"],
        ["seed=1,2,3"], ["seed=1,2,3,4"],
    ),
}  # fmt: skip
SUFFIXES = {".pt", ".pkl", ".gz", ".json", ".mpk", ".safetensors"}  # of weights


class Place(NamedTuple):
    """Where a command works: the hostile folder, an honest one, and one that it may write."""

    folder: Path
    honest: Path
    into: Path

    @property
    def weights(self) -> Path:
        """The folder of a run, or the file of weights in a folder without one."""
        if (self.folder / RunFolder(self.folder).checkpoints.name).is_dir():
            return self.folder
        result = (path for path in sorted(self.folder.iterdir()) if path.suffix in SUFFIXES)
        return next(result, self.folder)


class Command(NamedTuple):
    """One command: its main function, its arguments, and what its answer is.

    `answer` is what it prints, the bits of the weights that it trains, or "any" if it shows,
    removes or packs what it finds. `is_writing`: it may change the folder. `honest`: the run or
    the sweep that it is given copies of.
    """

    main: Callable[[], int]
    arguments: Callable[[Place], list[object]]
    answer: str = "output"
    is_writing: bool = False
    honest: str = DIGITS


def sweep_arguments(name: str, folder: Path, *, again: bool) -> list[object]:
    """The arguments of a sweep in the folder, or of the same with one job more."""
    shared, first, more = SWEEPS[name]
    return ["-m", *SMALL, "jobs=1", *shared, *(more if again else first),
            f"hydra.sweep.dir={folder}"]  # fmt: skip


def sweep() -> int:
    """A sweep whose jobs are forked from this process, so that what they do is noted."""
    with jobs_forked_here():
        return trained()


def _sweep_again(name: str) -> Command:
    return Command(
        sweep, lambda at: sweep_arguments(name, at.folder, again=True), "any",
        is_writing=True, honest=name,
    )  # fmt: skip


def _load() -> int:
    """A user's calls in Python."""
    try:
        run = andiron.load(sys.argv[1])
        print(run, [value.label for value in run.predict(sys.argv[2])], run.data.name)
        print(isinstance(run.metrics, dict), isinstance(run.summary, dict))
    except errors.AndironError as error:
        print(f"error: {error}")
        return 1
    return 0


COMMANDS = {
    # of a run that says it is done, it trains and reads nothing more
    RESUME: Command(trained, lambda at: [f"resume={at.folder}"], "any", is_writing=True),
    CHANGED: Command(
        trained, lambda at: [f"resume={at.folder}", "num_epochs=3", "render=plain"],
        "weights", is_writing=True,
    ),
    FORK: Command(
        trained, lambda at: [f"fork_from={at.folder}", "num_epochs=3", "render=plain",
                             f"hydra.run.dir={at.into}"], "weights",
    ),
    BISECT: Command(
        ask_bisect.main, lambda at: [at.folder, "log_every=3", "--updates", 1, 2], "any"
    ),
    AGAIN: Command(rerun.main, lambda at: [at.folder, "--into", at.into], "weights"),
    RECHECK: Command(recheck.main, lambda at: [at.folder, "--from-start"], "any"),
    SAMPLES: Command(
        samples.main, lambda at: [at.folder, "--hardest", "2", "--from-start"], "any",
    ),
    REPLAY: Command(replay.main, lambda at: [next(at.folder.glob("nonfinite/*"), at.folder)]),
    START: Command(
        trained, lambda at: [f"start_from={at.weights}", "num_epochs=1", "render=plain",
                             f"hydra.run.dir={at.into}"], "weights",
    ),
    PLAN: Command(
        plan.main, lambda at: [f"start_from={at.weights}", "num_epochs=1",
                               f"hydra.run.dir={at.into}"],
        "any",  # it names the file that has the weights; START compares their bits
    ),
    CONFIGURED: Command(
        trained, lambda at: [f"--config-dir={at.folder / 'conf'}", "model=mine", "num_epochs=1",
                             "render=plain", f"hydra.run.dir={at.into}"], "weights",
    ),
    LOAD: Command(_load, lambda at: [at.folder, at.folder.with_name(PICTURE)]),
    EVALUATE: Command(evaluate.main, lambda at: [at.folder]),
    PREDICT: Command(predict.main, lambda at: [at.folder, at.folder.with_name(PICTURE)]),
    GENERATE: Command(generate.main, lambda at: [at.folder, "--length", "8"], honest=TEXT),
    EXPORT: Command(
        export.main, lambda at: [at.folder, "--format", "safetensors", "--output", at.into / "x"],
    ),
    PROGRAM: Command(
        export.main, lambda at: [at.folder, "--format", "torch", "--output", at.into / "x"],
    ),
    IMPORT: Command(
        import_state_dict.main, lambda at: [at.weights, at.into / "weights.safetensors"],
    ),
    LIST: Command(runs.main, lambda at: ["list", at.folder, at.honest], "any"),
    SHOW: Command(runs.main, lambda at: ["show", at.folder], "any"),
    COMPARE: Command(runs.main, lambda at: ["compare", at.folder, at.honest], "any"),
    BEST: Command(runs.main, lambda at: ["best", at.folder, at.honest], "any"),
    DIFF: Command(runs.main, lambda at: ["diff", at.folder, at.honest], "any"),
    DIFFER: Command(
        differ.main, lambda at: [at.folder, at.honest.with_name(OTHER_RATE)], "any"
    ),
    TREE: Command(runs.main, lambda at: ["tree", at.folder, at.honest], "any"),
    WATCH: Command(watch.main, lambda at: [at.folder, "--once"], "any"),
    REMOVE: Command(runs.main, lambda at: ["rm", at.folder, "--yes"], "any", is_writing=True),
    SWEEP: Command(runs.main, lambda at: ["compare", at.folder], "any", is_writing=True),
    ACCEPT: Command(accept_changes.main, lambda at: [at.folder], "any", is_writing=True),
    OVERWRITE: Command(
        trained, lambda at: [*SMALL, "num_epochs=1", f"hydra.run.dir={at.folder}",
                             "overwrite=true"],
        "any", is_writing=True,
    ),
    REQUEUED: Command(
        trained, lambda at: ["num_epochs=2", "render=plain", f"hydra.run.dir={at.folder}",
                             "restart=requeued"],
        "any", is_writing=True,
    ),
    **{name: _sweep_again(name) for name in SWEEPS},
}  # fmt: skip


def called(name: str, at: Place) -> Callable[[], int]:
    """The command as a function that returns its exit code."""
    command = COMMANDS[name]
    arguments = [str(argument) for argument in command.arguments(at)]

    def run() -> int:
        sys.argv = [name, *arguments]
        return command.main()

    return run


def answer(name: str, at: Place, output: str) -> object:
    """The command's answer; None if any answer is right."""
    kind = COMMANDS[name].answer
    if kind == "weights":
        weights = RunFolder(at.into if at.into.exists() else at.folder).model
        return weights.read_bytes() if weights.is_file() else output
    return output if kind == "output" else None
