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
from andiron.shell.run import code_origin, provenance, run_record, status
from andiron.shell.training.stored_checkpoints import store_of
from andiron.wings.comparison import run_search
from andiron.wings.runs import rerun


def copied(root: Path, config: Train, into: RunFolder) -> RunFolder | None:
    """The run at or below `root` that was copied to `into`, because training gives the same bits.

    Configuration, code, versions, hardware and data are the same, and it was never resumed. None if
    there is no such run, its checkpoints are elsewhere, or `into` has files.
    """
    if config.overwrite or store_of(config.checkpoint) or any(into.path.iterdir()):
        return None
    trust = Trust(tuple(config.trust)).with_config(dataclasses.asdict(config))
    for run in _same_configuration(root, config):
        with suppress(errors.AndironError):  # damaged
            origin = provenance.read(run)
            is_other = run_record.changed(run) or [*rerun.changes(run, config, trust)]
            if not (is_other or origin["resumes"]) and _is_known(origin):
                _copy(run, into.path)
                return run
    return None


def _copy(run: RunFolder, into: Path) -> None:
    """Copies the files of a run, but no link; the record of the copy names the origin."""

    def left_out(path: str, names: list[str]) -> list[str]:
        return [name for name in names if os.path.islink(Path(path, name))
                or (path == str(run.path) and not run.owns(name))]  # fmt: skip

    partial = RunFolder(into.with_name(f".{into.name}.copied"))  # of a killed process too
    shutil.rmtree(partial.path, ignore_errors=True)
    shutil.copytree(run.path, partial.path, ignore=left_out)
    origin = {"copied_from": {"path": str(run.path), "run": run_record.identity(run)}}
    run_record.write_json(partial, {partial.provenance: {**provenance.read(partial), **origin}})
    partial.path.rename(into)


def _same_configuration(root: Path, config: Train) -> Iterator[RunFolder]:
    """The finished runs with equal records of the options that decide their bits."""
    apart = dict.fromkeys(APART)
    own = files.parsed_json(files.as_indented_json(config.recorded())) | apart
    for run in run_search.run_folders([root]):
        with suppress(OSError, ValueError, TypeError):  # missing, or damaged
            is_same = {**files.read_json(run.config), **apart} == own
            if is_same and status.read(run).get("status") == State.DONE:
                yield run


def _is_known(origin: dict[str, Any]) -> bool:
    """Whether a record that is as now, but for places, identifies the code and the data.

    Not if git gave no patch of a change, or untracked modules may be more than are recorded.
    """
    code = filter(None, (origin.get("git"), *origin.get("projects", {}).values()))
    has_patches = all(each.get("uncommitted") or not each.get("dirty", True) for each in code)
    are_all = len(origin.get("modules", {})) < code_origin.MOST_MODULES // 2
    return has_patches and are_all and origin["data"]["sha256"] is not None
