"""A finished run that a job need not train again: all that decides its bits is the same.

    python train.py -m seed=1,2,3 hydra.launcher.reuse=multirun
"""

import dataclasses
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.config.schema import APART, Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import provenance, run_record, status
from andiron.shell.training.stored_checkpoints import store_of
from andiron.wings.comparison import run_search
from andiron.wings.runs import rerun


def copied(root: Path, config: Train, into: RunFolder) -> RunFolder | None:
    """The run at or below `root` that was copied to `into`, because training gives the same bits.

    Configuration, code, versions, hardware and data are the same. None if there is no such run, its
    checkpoints are elsewhere, or `into` has files.
    """
    if config.overwrite or store_of(config.checkpoint) or any(into.path.iterdir()):
        return None
    trust = Trust(tuple(config.trust)).with_config(dataclasses.asdict(config))
    for run in _same_configuration(root, config):
        with suppress(errors.AndironError):  # damaged, or resumed with other options: trained again
            rerun.repeatable(run, trust)
            is_known = not run_record.changed(run) and _is_known(provenance.read(run))
            if is_known and not [*rerun.changes(run, config, trust)]:
                _copy(run, into.path)
                return run
    return None


def _copy(run: RunFolder, into: Path) -> None:
    """Copies the files of a run, but no link; the record of the copy names the origin."""

    def left_out(path: str, names: list[str]) -> list[str]:
        is_top = path == str(run.path)
        return [name for name in names
                if os.path.islink(Path(path, name)) or (is_top and not run.owns(name))]  # fmt: skip

    partial = RunFolder(into.with_name(f".{into.name}.copied"))
    shutil.rmtree(partial.path, ignore_errors=True)  # of a killed process
    shutil.copytree(run.path, partial.path, ignore=left_out)
    origin = {"copied_from": {"path": str(run.path), "run": run_record.identity(run)}}
    run_record.write_json(partial, {partial.provenance: {**provenance.read(partial), **origin}})
    partial.path.rename(into)


def _same_configuration(root: Path, config: Train) -> Iterator[RunFolder]:
    """The finished runs with equal records of the options that decide their bits."""
    own = _decisive(files.parsed_json(files.as_indented_json(config.recorded())))
    for folder in run_search.run_folders([root]):
        with suppress(OSError, ValueError):
            is_same = _decisive(files.read_json(folder.config)) == own
            if is_same and status.read(folder).get("status") == State.DONE:
                yield folder


def _decisive(record: Any) -> dict[str, Any]:
    names = {*record} if isinstance(record, dict) else set()
    return {name: record[name] for name in names - APART}


def _is_known(origin: dict[str, Any]) -> bool:
    """Whether the record identifies code and data: git gave each patch, and data a checksum."""
    code = [code for code in (origin["git"], *origin["projects"].values()) if code]
    return bool(origin["data"]["sha256"]) and all(
        each["uncommitted"] or not each["dirty"] for each in code
    )
