"""A run repeated from its record, and compared with it: what has changed since is told first."""

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from andiron import errors, files
from proofs import comparison
from andiron.commands.signals import Signals, exit_code, heard
from andiron.config.schema import Train
from andiron.interrupter import Interrupter

EXIT_EXACT, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2
OF_THE_FOLDER = (
    "overwrite",
    "resume",
)  # options that say what to do with a folder, not what to run in it
FREE = (
    "num_workers",
    "render",
    "checkpoint",
    "interrupted_exit_code",
)  # a resume may change them, and they change no number
SAME = "nothing that is on record"


def rerun(folder: Path, into: Path) -> bool:
    """Whether the run in `folder`, made again in `into`, is the same bits; prints what changed since and the first difference.

    Raises: RunFolderError if the record is not that of a finished run, or not of one that its configuration alone describes;
    ConfigError, DataError or DeviceError if it cannot be run here.
    """
    comparison.check_finished(folder)
    config = _record(folder)
    from andiron.commands import train  # after the checks: what it imports takes a second or two

    changed = list(changes(folder, config))
    print(f"changed since: {_listed(changed)}", flush=True)
    signals = Signals(Interrupter())
    with heard(signals):
        train.train(config, into, {}, signals.interrupter)
    differences = comparison.compare(folder, into)
    if not differences:
        print(f"exact: {comparison.counts(folder)} are the same bits")
        return True
    print(
        f"not exact: {differences[0]}\nand {len(differences) - 1:,} more\nlikely cause: {_cause(changed)}"
    )
    return False


def changes(folder: Path, config: Train) -> Iterator[str]:
    """What the run's record says of code, versions, hardware and data that is not so here and now, a line each."""
    from andiron import devices
    from andiron.build import components
    from andiron.run import provenance

    splits = components.build(config).splits
    sizes = {part: len(getattr(splits, part)) for part in ("train", "valid", "test")}
    data = {"name": splits.name, "sha256": splits.fingerprint, "sizes": sizes}
    now, patch = provenance.gather(
        seed=config.seed, data=data, device=devices.resolve(config.device)
    )
    then = _provenance(folder)
    yield from _of_code(then.get("git") or {}, now.get("git") or {})
    recorded = folder / "dirty.patch"
    if (recorded.read_bytes() if recorded.exists() else b"") != patch.encode(
        errors="surrogateescape"
    ):
        yield "the changes that were not committed (dirty.patch) are others"
    for name in ("andiron", "python", "packages", "hardware", "data"):
        yield from _of_values(name, then.get(name), now.get(name))


def _record(folder: Path) -> Train:
    """The configuration to make the run again by."""
    path = folder / "config.json"
    if not path.is_file():
        raise errors.RunFolderError(
            f"{path}: no such file; without it there is nothing to repeat the run by"
        )
    for resume in _provenance(folder).get("resumes", []):
        changed = [name for name in resume.get("changes", {}) if name.partition(".")[0] not in FREE]
        if changed:
            raise errors.RunFolderError(
                f"{folder}: was resumed at update {resume.get('updates')} with other options ({', '.join(changed)}); "
                "no one configuration describes such a run, so it cannot be repeated from its record"
            )
    config = Train.load(path)
    neutral = {
        field.name: field.default
        for field in dataclasses.fields(Train)
        if field.name in OF_THE_FOLDER
    }
    return dataclasses.replace(config, **neutral)  # type: ignore[arg-type]


def _provenance(folder: Path) -> dict[str, Any]:
    path = folder / "provenance.json"
    try:
        found = files.read_json(path)
    except (OSError, ValueError) as error:
        raise errors.RunFolderError(
            f"{path}: cannot be read ({error}); what changed since cannot be told without it"
        ) from error
    if not isinstance(found, dict):
        raise errors.RunFolderError(
            f"{path}: holds {type(found).__name__}, not a run's origin; restore it from a copy"
        )
    return found


def _of_code(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if then.get("revision") != now.get("revision"):
        yield f"git revision: {then.get('revision')}, now {now.get('revision')}"
    before, after = set(then.get("untracked", [])), set(now.get("untracked", []))
    for name in sorted(before | after):
        if name not in before or name not in after:
            yield f"untracked file {name}: {'gone' if name in before else 'new'}"


def _of_values(name: str, then: Any, now: Any) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*then, *now]):
            yield from _of_values(f"{name}.{key}", then.get(key), now.get(key))
    elif then != now:
        yield f"{name}: {then}, now {now}"


def _listed(changed: list[str]) -> str:
    return "\n  ".join(["", *changed]) if changed else SAME


def _cause(changed: list[str]) -> str:
    if changed:
        return f"changed since: {'; '.join(changed)}"
    return (
        f"{SAME} has changed, so the run is not reproducible by itself: look for kernels that are not deterministic, more than "
        "one thread, the time, and generators of one's own"
    )


def main() -> int:
    """What `python scripts/rerun.py` does; the exit code."""
    parser = argparse.ArgumentParser(
        description="Repeat a run from its record and compare every bit."
    )
    parser.add_argument("folder", type=Path, help="the folder of a finished run")
    now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    parser.add_argument(
        "--into",
        type=Path,
        default=Path("outputs", "rerun", now),
        help="where to make it (default: %(default)s)",
    )
    options = parser.parse_args()
    folder, into = options.folder.absolute(), options.into.absolute()
    try:
        is_exact = rerun(folder, into)
    except errors.AndironError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except KeyboardInterrupt as error:
        print(f"interrupted; what there is of the repeated run is in {into}", file=sys.stderr)
        return exit_code(error)
    print(f"the repeated run is in {into}")
    return EXIT_EXACT if is_exact else EXIT_DIFFERENT
