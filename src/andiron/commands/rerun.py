"""A finished run repeated from its record and compared bit for bit, after listing what changed."""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from andiron import errors, files
from andiron.commands.signals import Signals, exit_code, heard
from andiron.config.leaves import leaves
from andiron.config.schema import Train
from andiron.interrupter import Interrupter
from andiron.run import comparison
from andiron.run_folder import RunFolder

EXIT_EXACT, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2
SAME_NUMBERS = ("num_workers", "render", "checkpoint", "interrupted_exit_code")  # whatever they are
UNCHANGED = "nothing that is on record"


def rerun(path: Path, into: Path) -> bool:
    """Whether the run, repeated in `into`, has the same bits; prints the first difference.

    Raises: RunFolderError if `path` holds no finished run, or one that its configuration alone does
    not describe; ConfigError, DataError or DeviceError if it cannot be trained here.
    """
    comparison.check_finished(path)
    folder = RunFolder(path)
    config = _config(folder)
    from andiron.commands import train  # after the checks: its imports take a second or two

    changed = list(changes(folder, config))
    print("\n  ".join(["changed since:", *changed] if changed else [f"changed since: {UNCHANGED}"]))
    signals = Signals(Interrupter())
    with heard(signals):
        train.train(config, into, {}, signals.interrupter)
    differences = comparison.compare(path, into)
    if not differences:
        print(f"exact: {comparison.counts(path)} are the same bits")
        return True
    print(f"not exact: {differences[0]}\nand {len(differences) - 1:,} more")
    print(f"likely cause: {_cause(changed)}")
    return False


def changes(folder: RunFolder, config: Train) -> Iterator[str]:
    """What differs now from the record of code, versions, hardware and data, a line each."""
    from andiron import devices
    from andiron.build import components
    from andiron.run import metadata, provenance

    now, patch = provenance.gather(
        seed=config.seed,
        data=metadata.data_record(components.build(config).splits),
        device=devices.resolve(config.device),
    )
    then = _provenance(folder)
    yield from _in_code(then.get("git") or {}, now.get("git") or {})
    recorded = folder.uncommitted.read_bytes() if folder.uncommitted.exists() else b""
    if recorded != patch.encode(errors="surrogateescape"):
        yield f"the uncommitted changes ({folder.uncommitted.name}) are different"
    for name in ("andiron", "python", "packages", "hardware", "data"):
        before, after = (dict(leaves({name: each.get(name)})) for each in (then, now))
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key):
                yield f"{'.'.join(key)}: {before.get(key)}, now {after.get(key)}"


def _config(folder: RunFolder) -> Train:
    """The configuration that repeats the run in another folder."""
    if not folder.config.is_file():
        raise errors.RunFolderError(
            f"{folder.config}: no such file; without it the run cannot be repeated"
        )
    for resume in _provenance(folder).get("resumes", []):
        options = [
            name
            for name in resume.get("changes", {})
            if name.partition(".")[0] not in SAME_NUMBERS
        ]
        if options:
            raise errors.RunFolderError(
                f"{folder.path}: was resumed at update {resume.get('updates')} with other options "
                f"({', '.join(options)}); no single configuration describes such a run, so it "
                "cannot be repeated from its record"
            )
    return dataclasses.replace(Train.load(folder.config), overwrite=False, resume=None)


def _provenance(folder: RunFolder) -> dict[str, Any]:
    path = folder.provenance
    try:
        record = files.read_json(path)
    except (OSError, ValueError) as error:
        why = "without it, what changed since is unknown"
        raise errors.RunFolderError(f"{path}: cannot be read ({error}); {why}") from error
    if not isinstance(record, dict):
        raise errors.RunFolderError(
            f"{path}: holds {type(record).__name__}, not a provenance; restore it from a copy"
        )
    return record


def _in_code(then: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if then.get("revision") != now.get("revision"):
        yield f"git revision: {then.get('revision')}, now {now.get('revision')}"
    before, after = set(then.get("untracked", [])), set(now.get("untracked", []))
    for name in sorted(before ^ after):
        yield f"untracked file {name}: {'gone' if name in before else 'new'}"


def _cause(changed: list[str]) -> str:
    if changed:
        return f"changed since: {'; '.join(changed)}"
    return (
        f"{UNCHANGED} has changed, so the run is not reproducible: look for nondeterministic "
        "kernels, more than one thread, uses of the time, and random generators of your own"
    )


def main() -> int:
    """Runs `python scripts/rerun.py`; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Repeat a run from its record and compare every bit.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="the folder of a finished run")
    default = Path("outputs", "rerun", datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f"))
    parser.add_argument("--into", type=Path, default=default, help="folder for the repeated run")
    options = parser.parse_args()
    folder, into = options.folder.absolute(), options.into.absolute()
    try:
        is_exact = rerun(folder, into)
    except errors.AndironError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except KeyboardInterrupt as error:
        print(f"interrupted; the unfinished repeated run is in {into}", file=sys.stderr)
        return exit_code(error)
    print(f"the repeated run is in {into}")
    return EXIT_EXACT if is_exact else EXIT_DIFFERENT
