"""Repeats a finished run from its record and compares it bit for bit; lists what changed."""

import argparse
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path

from andiron import errors, serialization
from andiron.distributed import World
from andiron.interrupter import Interrupter
from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, configured_store
from andiron.shell.assembly.components import Components
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.cli import answers
from andiron.shell.cli.signals import Signals, exit_code, installed
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import LIST_ALONE, Trust
from andiron.shell.run import resume_policy, metadata, named_folder, provenance, run_record
from andiron.shell.training import train_run
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import FLAG, TEXT, closed, list_of
from andiron.wings.commands.declaration import Command
from andiron_lab.ask import bit_comparison
from andiron_lab.forks import fork_point

EXIT_EXACT, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2
SAME_NUMBERS = ("num_workers", "render", "checkpoint", "interrupted_exit_code")  # may differ
UNCHANGED = "nothing that is on record"
IRREPRODUCIBLE = (
    f"likely cause: {UNCHANGED} changed, so the run is not reproducible: look for "
    "nondeterministic kernels, more than one thread, the clock, and your own random "
    "generators"
)


@errors.exits_refused()
def rerun(path: Path, into: Path, trusted: Trust = LIST_ALONE) -> bool:
    """Whether the run, repeated in `into`, has the same bits; prints the first difference.

    Raises: RunFolderError if `path` has no finished run, or its options changed during the run;
    ConfigError, DataError or DeviceError if it cannot be trained here.
    """
    folder = bit_comparison.finished(path)
    if Path(os.path.realpath(into)).is_relative_to(os.path.realpath(path)):
        raise errors.RunFolderError(f"{into}: is inside of the run; give --into another folder")
    config = repeatable(folder, trusted)
    changed = list(changes(folder, config, trusted))
    report = "\n  ".join(["changed since:", *changed]) if changed else f"changed since: {UNCHANGED}"
    print(readable.printable(report))
    signals = Signals(Interrupter())
    with installed(signals), answers.given_to(None):
        train_run.train(config, into, {}, signals.interrupter, trusted)
    repeated = RunFolder(into)
    known = {"rerun": {"path": str(path), "run": run_record.identity(folder)}}
    origin = {**provenance.read(repeated), **known}
    run_record.write_json(repeated, {repeated.provenance: origin})
    stores = partial(configured_store.store, config.checkpoint)
    differences = bit_comparison.compare(path, into, stores)
    answer = {"run": str(path), "repeated": str(into), "same_bits": not differences,
              "differences": [*map(str, differences)], "changed": changed}  # fmt: skip
    if not differences:
        print(f"exact: {bit_comparison.counts(path, stores)} are the same bits")
        answers.give(answer)
        return True
    answers.give(answer)
    print(readable.printable(f"not exact: {differences[0]}\nand {len(differences) - 1:,} more"))
    cause = f"likely cause: changed since: {'; '.join(changed)}" if changed else IRREPRODUCIBLE
    print(readable.printable(cause))
    return False


def changes(folder: RunFolder, config: Train, trusted: Trust = LIST_ALONE) -> Iterator[str]:
    """A line for each fact of code, versions, hardware or data, of any session, that differs now.
    """
    size_limit = SizeLimit.of(serialization.load_tensors(folder.model), str(folder.model))
    if forked := config.fork_from:
        parts = fork_point.named(forked, trusted).build(config, trusted, World())
    else:
        parts = components.build(config, trusted, size_limit)
    first = provenance.read(folder)
    yield from changes_since([first, *({**first, **later} for later in first["resumes"])], parts)


def changes_since(records: Sequence[Mapping[str, object]], parts: Components) -> Iterator[str]:
    """A line for each fact in these records of a run that differs now, with these `parts` of it."""
    seed = {"seed": 0}  # is not compared
    record = metadata.Record(
        seed, parts.splits, parts.device, {}, parts.world.size, started=parts.started
    )
    origin, _ = record.origin()
    differing = (provenance.differences(record, origin).items() for record in records)
    yield from dict.fromkeys(f"{n}: {was}, now {is_now}" for n, (was, is_now) in chain(*differing))


def repeatable(folder: RunFolder, trusted: Trust) -> Train:
    """The configuration that repeats the run in another folder."""
    if not folder.config.is_file():
        raise errors.RunFolderError(
            f"{folder.config}: no such file; without it the run cannot be repeated"
        )
    changed = [
        f"{name}: {values}"
        for name, values in resume_policy.texts(provenance.read(folder)["resumes"]).items()
        if name.partition(".")[0] not in SAME_NUMBERS
    ]
    if changed:
        raise errors.RunFolderError(
            f"{folder.path}: was resumed with other options ({'; '.join(changed)}); no single "
            "configuration describes such a run, so it cannot be repeated from its record"
        )
    config = run_record.config(folder, trusted)
    checkpoint = dict(config.checkpoint or {})
    checkpoint |= dict.fromkeys(checkpoint.keys() & {"mirror"})  # which is the run's own
    return dataclasses.replace(config, checkpoint=checkpoint or None)


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(
        description="Repeat a run from its record and compare every bit.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="the folder of a finished run, or latest")
    default = Path("outputs", "rerun", datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f"))
    parser.add_argument("--into", type=Path, default=default, help="folder of the repeated run")
    declaration.add_trust(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    is_latest = str(options.folder) == named_folder.LATEST
    folder = named_folder.newest("") if is_latest else options.folder.absolute()
    into = options.into.absolute()
    try:
        is_exact = rerun(folder, into, declaration.trusted(options))
    except KeyboardInterrupt as error:
        ended = errors.Interrupted(str(error), exit_code(error))
        ended.add(readable.printable(f"the unfinished repeated run is in {into}"))
        raise ended from error
    print(readable.printable(f"the repeated run is in {into}"))
    return EXIT_EXACT if is_exact else EXIT_DIFFERENT


ANSWERS = [closed({
    "run": TEXT, "repeated": TEXT, "same_bits": FLAG, "differences": list_of(TEXT),
    "changed": list_of(TEXT),
})]  # fmt: skip
main = Command(
    _parser, ANSWERS, _run, page="run_folder.md", trains=True, failed=EXIT_UNUSABLE
)
