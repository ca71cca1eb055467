"""Checks the folder that a sweep begins or continues in.

The folder is untrusted: nothing is written through a link, or over files that no sweep wrote.
"""

import os
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from andiron import errors
from andiron.disk import files
from andiron.run_folder import LEDGER
from andiron.shell.run import run_record
from andiron.wings.sweep import ledger

RECORD = "multirun.yaml"  # the composition, as Hydra writes it
OF_HYDRA = b"\n  runtime:\n    version: "  # in its record, in no file of a user
LOCK = "study.jsonl.lock"  # a link of optuna's own; nothing is read or written through it
# overwritten by sweeps and searches; the search checks `study.db` and `study.jsonl`
WRITTEN = RECORD, LEDGER, f"{ledger.OUTPUT}/*.txt"


def of(config: DictConfig) -> Path:
    """The folder of the sweep with this configuration."""
    return Path(os.path.abspath(str(config.hydra.sweep.dir)))


def record(config: DictConfig) -> None:
    """Writes the composition to the sweep's folder, creating it if missing."""
    of(config).mkdir(parents=True, exist_ok=True)
    files.write(of(config) / RECORD, OmegaConf.to_yaml(config).encode())


def check(config: DictConfig) -> None:
    """Checks where a sweep would write, before anything is written.

    Raises: ConfigError for jobs outside the sweep's folder; SweepError for a sweep inside a run, or
    for entries through or over which the sweep would write.
    """
    first = OmegaConf.merge(config, {"hydra": {"job": {"id": "0", "num": 0}}})
    with suppress(OmegaConfBaseException):  # depends on options of the job, which checks it
        check_subdir(first)
    check_entries(of(config))


def check_subdir(config: Any) -> None:
    """Raises: ConfigError if the folder of a job is not inside the folder of the sweep."""
    subdir = PurePath(str(config.hydra.sweep.subdir))
    if subdir.is_absolute() or not subdir.parts or ".." in subdir.parts:
        raise errors.ConfigError(
            f"hydra.sweep.subdir={subdir}: is not inside the folder of the sweep; give a "
            "folder in it for each job, such as ${hydra.job.num}, and another place with "
            "hydra.sweep.dir"
        )


def check_entries(folder: Path) -> None:
    """Raises: SweepError for entries of the folder through or over which a sweep would write."""
    run = run_record.enclosing_run(folder)
    if run is not None:
        raise errors.SweepError(
            f"{folder}: is in the folder of a run, {run}; choose another place with hydra.sweep.dir"
        )
    if not folder.is_dir():  # missing, or not a folder
        return
    outputs = folder / ledger.OUTPUT
    for path in (*folder.glob("*"), *outputs.glob("*")):
        is_special = path.is_symlink() or not (path.is_file() or path.is_dir())
        if is_special and path.name != LOCK:
            raise _refusal(path, "is a link, a pipe or a device")
    if outputs.is_file():
        raise _refusal(outputs, "is a file, and a sweep makes a folder of that name")
    known = ledger.read(folder)
    if not (known.facts or known.jobs or _is_of_hydra(folder / RECORD)):
        for path in (path for pattern in WRITTEN for path in folder.glob(pattern)):
            if path.stat().st_size:
                raise _refusal(path, "was not written by a sweep")


def _is_of_hydra(record: Path) -> bool:
    try:
        return OF_HYDRA in files.read_bytes(record)
    except (OSError, ValueError):
        return False


def _refusal(path: Path, why: str) -> errors.SweepError:
    return errors.SweepError(
        f"{path}: {why}; a sweep writes to files and folders of its own only; move it away, or "
        "choose another sweep_name"
    )
