"""Every command that writes or deletes, at every kind of place: what it changes, and how it ends.

`python -m proofs.places` tries each pair in a forked process, on ground made for it, and prints
each that breaks the law: nothing changes that the user did not name as the output; with exit code
0 the result is there; otherwise there is one line that begins with `error: `, and nothing changed.
`--check` also compares the table with that of proofs/places.md, `--write` writes it there.
"""

import argparse
import itertools
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib.backends.backend_agg  # noqa: F401
import matplotlib.figure  # noqa: F401
import torch.export  # noqa: F401

# imported before the commands are forked, as those above
from andiron.run_folder import RunFolder
from andiron.shell.training import train  # noqa: F401
from andiron.shell.training import experiment  # noqa: F401
from andiron.wings.runs import run_list  # noqa: F401
from andiron.wings.sweep import clean_process  # noqa: F401
from andiron_lab.views import loss_curve  # noqa: F401
from andiron.wings.trained import evaluating  # noqa: F401
from andiron.wings.trained.exports import checked_export  # noqa: F401
from proofs import place_ground, place_kinds, place_table
from proofs.attempt import Fingerprints, Outcome, attempt, fingerprints, forks, write_only_in
from proofs.place_commands import RESULTS, Command, called, is_delivered
from proofs.place_ground import Ground
from proofs.place_kinds import Kind
from proofs.place_templates import make_templates

SECONDS_OF_WAITING = 15  # for a reader that never comes
SECONDS = 60  # for a command that takes a second, on a machine that is busy
LEAST_WORDS = 3  # of a clear error
ERROR = re.compile(r"^(?:\S+: )?error: ", re.MULTILINE)  # argparse names the program first
UNTRIED, NO_CHANGE, REFUSED, FAULT = "", "nothing", "refused", "**FAULT**"
WRITTEN, REPLACED, DELIVERED, FAILED = "written", "replaced", "delivered", "failed"
WAITS = "waits"


class Tried(NamedTuple):
    """The effect of a command at a place: the word for the table, and the faults."""

    word: str
    faults: Sequence[str] = ()


class Named(NamedTuple):
    """Where the place lies, and the paths below which something new may be made.

    With `..` behind a link a new place may be read in two ways, as the system and as a shell does;
    what lies there already is what the system finds.
    """

    place: Path
    paths: tuple[Path, ...]


def pairs() -> Iterator[tuple[Kind, Command]]:
    """Every kind of place with every command."""
    return itertools.product(place_kinds.kinds(), itertools.chain(*place_table.TABLES.values()))


def tried(kind: Kind, command: Command, templates: Path, work: Path) -> Tried:
    """The effect of the command at a fresh place of this kind."""
    with ExitStack() as at_end:
        at_end.callback(shutil.rmtree, work)
        ground = Ground(work, templates, at_end, command.suffix)
        place_ground.laid_out(ground)
        if command.own_input is not None and kind.only:
            made: object = command.own_input(ground)
        else:
            made = kind.make(ground)
        text = str(ground.place if made is None else made)
        named = _named(text, ground, command)
        if command.prepare is not None and ground.owned:
            command.prepare(named.place)
        before = fingerprints(work)
        outcome = _outcome(kind, command, ground, text)
        return _judged(kind, command, ground, named, outcome, before)


def _named(text: str, ground: Ground, command: Command) -> Named:
    """The place as the system finds it, through links; a file is never written through one."""
    if not text:
        return Named(ground.work / "no place", ())
    given = ground.here / text
    real = Path(os.path.realpath(given))
    itself = Path(os.path.realpath(given.parent), given.name)
    is_dotted = given.name == ".." or text == "."
    paths = (real,) if is_dotted else (itself,) if command.is_file else (itself, real)
    as_typed = Path(os.path.abspath(given))
    return Named(real, paths if os.path.exists(real) else (*paths, as_typed))


def _outcome(kind: Kind, command: Command, ground: Ground, text: str) -> Outcome:
    run = called(command, ground, text)

    def by_user() -> int:
        if kind.is_plain_user:
            place_ground.obey_permissions()
        return run()

    return attempt(
        by_user, may_write=[ground.work], forbidden=ground.work / "none",
        seconds=SECONDS_OF_WAITING if _waits(kind, command) else SECONDS,
    )  # fmt: skip


def _waits(kind: Kind, command: Command) -> bool:
    """Whether the command waits for a reader, as a shell does that writes to such a pipe."""
    return kind.name == place_kinds.PIPE_ALONE and command.is_file


def _judged(
    kind: Kind,
    command: Command,
    ground: Ground,
    named: Named,
    outcome: Outcome,
    before: Fingerprints,
) -> Tried:
    after = fingerprints(ground.work)
    changed = {path for path in before if before[path] != after.get(path)}
    new = after.keys() - before.keys()
    if _waits(kind, command) and outcome.code is None and not (changed or new):
        return Tried(WAITS, [])
    is_binary = kind.name == place_kinds.STDOUT and command.is_file
    expected = {"accepted it", "printed control characters" if is_binary else ""}
    faults = [fault for fault in outcome.faults() if fault not in expected]
    may_change = ground.owned if command.word else set()
    if command.is_file and _is_plain_file(before.get(named.place)):
        may_change = may_change | ({named.place} - _read(ground))
    if beside := sorted(changed - may_change):
        faults.append(f"changed {_listed(beside, ground)}")
    is_whole = outcome.code == 0
    if beside := sorted(path for path in new if not _is_at(path, named.paths, with_above=is_whole)):
        faults.append(f"made {_listed(beside, ground)}")
    if not is_whole:
        return _refused(kind, command, ground, outcome, [*sorted(changed), *sorted(new)], faults)
    delivered = _delivered(kind, command, ground, named, outcome)
    if not delivered and not _is_there(command, ground, named):
        faults.append("exit code 0 without a result")
    word = REPLACED if changed and command.is_file else WRITTEN if new else NO_CHANGE
    if command.word and changed:
        word = command.word
    return Tried(FAULT if faults else DELIVERED if delivered else word, faults)


def _refused(
    kind: Kind,
    command: Command,
    ground: Ground,
    outcome: Outcome,
    changes: Sequence[Path],
    faults: list[str],
) -> Tried:
    """A full disk may leave what a run has written of itself; nothing else leaves anything."""
    _, *texts = ERROR.split(outcome.output)
    if len(texts) != 1 or len(texts[0].split()) < LEAST_WORDS or texts[0].startswith("None"):
        faults.append(f"no single clear error: {[text[:80] for text in texts]}")
    keeps = kind.is_full and command not in RESULTS
    if changes and not keeps and not faults:
        faults.append(f"refused, after it changed {_listed(changes, ground)}")
    return Tried(FAULT if faults else FAILED if changes else REFUSED, faults)


def _delivered(
    kind: Kind, command: Command, ground: Ground, named: Named, outcome: Outcome
) -> bool:
    """Whether a pipe's reader, standard output or a null device has got the whole result."""
    if not command.is_file:
        return False
    if kind.name == place_kinds.STDOUT:
        return is_delivered(command, ground, outcome.output.encode())
    if not os.path.lexists(named.place):
        return False
    if ground.reader is not None:
        return is_delivered(command, ground, os.read(ground.reader, place_kinds.PIPE_BYTES))
    mode = named.place.lstat()
    return stat.S_ISCHR(mode.st_mode) and mode.st_rdev == os.makedev(1, 3)


def _is_there(command: Command, ground: Ground, named: Named) -> bool:
    for place in dict.fromkeys([named.place, *named.paths]):
        with suppress(OSError, ValueError, LookupError):
            is_special = place.exists() and not (place.is_file() or place.is_dir())
            if not is_special and command.is_there(ground, place):  # a pipe would wait
                return True
    return False


def _is_plain_file(entry: tuple[object, ...] | None) -> bool:
    return entry is not None and isinstance(entry[0], int) and stat.S_ISREG(entry[0])


def _read(ground: Ground) -> set[Path]:
    """Inputs of a command, and files of a run: no output may be written there."""
    of_runs = (path for path in ground.work.rglob("*") if RunFolder(path.parent).manifest.exists())
    return {*(ground.work / "source").rglob("*"), *of_runs}


def _is_at(path: Path, places: Sequence[Path], *, with_above: bool) -> bool:
    """Whether the path is one of the places or below one; or, of a result, a folder above one."""
    return any(
        path.is_relative_to(place) or (with_above and place.is_relative_to(path))
        for place in places
    )


def _listed(paths: Sequence[Path], ground: Ground) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(str(path.relative_to(ground.work))[:80] for path in paths[:3]) + more


def main() -> int:
    """Prints every fault; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="pairs whose `kind | command` has this text")
    parser.add_argument("--step", type=int, default=1, help="try every n-th pair")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--check", action="store_true", help="compare with proofs/places.md")
    parser.add_argument("--write", action="store_true", help="write the table there")
    options = parser.parse_args()
    chosen = [pair for pair in pairs() if options.only in f"{pair[0].name} | {pair[1].name}"]
    chosen = chosen[:: options.step]
    words, faulty = place_table.words_of(place_table.on_page()), 0
    with tempfile.TemporaryDirectory(prefix="andiron-places-") as scratch:
        for pair, done in _all_tried(chosen, Path(scratch), options.jobs):
            faults = list(done.faults)
            if options.check and done.word not in (UNTRIED, words.get(pair)):
                faults.append(f"{done.word}, and proofs/places.md has {words.get(pair)}")
            if done.word != UNTRIED:
                words[pair] = done.word
            if faults:
                faulty += 1
                print(f"{' | '.join(pair)}: {'; '.join(faults)}", flush=True)
    if options.write:
        place_table.write(words)
    print(f"{len(chosen)} pairs of a place and a command, {faulty} with a fault")
    return int(faulty > 0)


def _all_tried(
    chosen: Sequence[tuple[Kind, Command]], scratch: Path, jobs: int
) -> Iterator[tuple[tuple[str, str], Tried]]:
    make_templates(scratch)
    with forks(jobs) as pool:
        names = [(kind.name, command.name) for kind, command in chosen]
        yield from zip(names, pool.map(partial(_tried, scratch), names), strict=True)


def _tried(scratch: Path, names: tuple[str, str]) -> Tried:
    """The task of a process of the pool; it was sent names, because a kind is a function."""
    is_safe = write_only_in(scratch)
    kind, command = next(
        pair for pair in pairs() if (pair[0].name, pair[1].name) == names
    )
    if kind.only and command.name not in kind.only:
        return Tried(place_table.NONE)
    if kind.needs_root and not is_safe:
        return Tried(UNTRIED)
    return tried(kind, command, scratch, scratch / f"work-{os.getpid()}")


if __name__ == "__main__":
    sys.exit(main())
