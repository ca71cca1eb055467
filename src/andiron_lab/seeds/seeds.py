"""Trains a finished run's configuration with further seeds, in folders beside its own."""

import argparse
import dataclasses
import itertools
from pathlib import Path

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain import wings
from andiron.plain.readable import printable
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers
from andiron.shell.cli.signals import Signals, installed
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import named_folder, run_record, status
from andiron.shell.training import train_run
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, TEXT, closed, list_of
from andiron.wings.commands.declaration import Command
from andiron.wings.runs import run_reader, seed_groups
from andiron.wings.runs.run_values import comparable
from andiron.wings.runs.seed_groups import ENDED
from andiron_lab.ask import bit_comparison
from andiron_lab.ask import rerun


@errors.exits_refused()
def add(path: Path, number: int, trusted: Trust) -> dict[int, Path]:
    """The folders of `number` runs that differ from the one at `path` only in the seed, by seed.

    Seeds are counted from 0, without those whose run beside it has ended. An unfinished run there
    is resumed, whoever started it. A run that diverges is a result too.
    Raises: as `rerun.rerun`; RunFolderError for an unfinished run without a checkpoint.
    """
    config = rerun.repeatable(bit_comparison.finished(path), trusted)
    beside = run_reader.read(named_folder.run_folders([path, path.parent]))
    groups = seed_groups.by_seed(beside)
    same = next(group for group in groups if any(run.path == path for run in group))
    trained = {comparable(run.options.get("seed")) for run in same if run.facts["status"] in ENDED}
    missing = (seed for seed in itertools.count() if seed not in trained)
    folders = {
        seed: path.with_name(f"{path.name}-seed{seed}")
        for seed in itertools.islice(missing, number)
    }
    unfinished = {run.path: comparable(run.options.get("seed")) for run in same}
    signals = Signals(Interrupter())
    with installed(signals), answers.given_to(None):
        for seed, into in folders.items():
            is_own = unfinished.get(into) == seed
            is_resumed = _is_resumable(into, config, is_own=is_own)
            resume = str(into) if is_resumed else None
            own = dataclasses.replace(config, seed=seed, resume=resume)
            try:
                train_run.train(own, into, {}, signals.interrupter, trusted)
            except errors.NonFiniteError as error:
                print(printable(f"{into}: diverged: {error}"))
    return folders


def _is_resumable(into: Path, config: Train, *, is_own: bool) -> bool:
    """Whether an unfinished run has a checkpoint to resume from; False if it made no update."""
    folder = RunFolder(into)
    if not run_record.holds_run(folder) or status.is_untrained(folder):
        return False
    if not is_own:
        raise errors.RunFolderError(f"{into}: holds another run; move it elsewhere")
    if not train_run.may_have_checkpoint(config, folder):
        why = "holds a run that has trained, and no checkpoint of it"
        raise errors.RunFolderError(
            f"{into}: {why}; `{wings.command(f'runs rm {into}')}` removes it, and this command "
            "then starts it"
        )
    return True


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description=__doc__)
    parser.add_argument("run", help="the folder of a finished run, or latest")
    about = "how many seeds to train"
    parser.add_argument("--add", type=declaration.count, required=True, metavar="N", help=about)
    declaration.add_trust(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    path = named_folder.run_folder_of(options.run).path
    folders = add(path, options.add, declaration.trusted(options))
    runs = [{"seed": seed, "run": str(into)} for seed, into in folders.items()]
    if not answers.give({"runs": runs}):
        print(printable("\n".join(f"seed {seed}: {into}" for seed, into in folders.items())))


ANSWERS = [closed({"runs": list_of(closed({"seed": COUNT, "run": TEXT}))})]
main = Command(_parser, ANSWERS, _run, page="differences.md", trains=True)
