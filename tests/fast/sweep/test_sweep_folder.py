"""The folder of a sweep: what may be there when a sweep begins or continues in it."""

import contextlib
import os
import socket

import pytest
from omegaconf import OmegaConf

from andiron import errors
from andiron.run_folder import LEDGER
from andiron.wings.sweep import ledger, sweep_folder
from andiron.wings.sweep.ledger import Ledger


@pytest.fixture
def sweep(tmp_path):
    """The folder of a sweep that has begun."""
    book = Ledger(tmp_path)
    book.add("sweep", command=[])
    book.close()
    (tmp_path / ledger.OUTPUT).mkdir()
    (tmp_path / ledger.OUTPUT / "0.txt").write_text("printed")
    sweep_folder.check_entries(tmp_path)
    return tmp_path


def bound(path):
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # the whole path may be too long for a socket


@pytest.mark.parametrize("place", ["multirun.yaml", "0", "output/0.txt", "output/3.txt"])
@pytest.mark.parametrize(
    "put",
    {
        "a link to a file": lambda path: path.symlink_to("/etc/passwd"),
        "a link to nothing": lambda path: path.symlink_to("nowhere"),
        "a link to a folder": lambda path: path.symlink_to(path.parent.parent),
        "a link to a device": lambda path: path.symlink_to("/dev/null"), "a pipe": os.mkfifo,
        "a socket": bound,
    }.values(),
)  # fmt: skip
def test_a_sweep_never_writes_through_a_link(place, put, sweep):
    (sweep / place).unlink(missing_ok=True)
    put(sweep / place)

    with pytest.raises(errors.SweepError, match=f"{place}: is a link, a pipe or a device; a sweep"):
        sweep_folder.check_entries(sweep)


def test_a_lock_of_optuna_left_by_a_killed_process_is_allowed(sweep):
    (sweep / sweep_folder.LOCK).symlink_to(sweep / "study.jsonl")

    sweep_folder.check_entries(sweep)


def test_a_sweep_without_a_ledger_is_recognised_by_hydras_record(tmp_path):
    (tmp_path / ledger.OUTPUT).mkdir()
    (tmp_path / ledger.OUTPUT / "0.txt").write_text("mine")
    with pytest.raises(errors.SweepError, match="0.txt: was not written by a sweep; "):
        sweep_folder.check_entries(tmp_path)

    made = {"hydra": {"sweep": {"dir": "."}, "runtime": {"version": "1.3.8"}}}
    OmegaConf.save(OmegaConf.create(made), tmp_path / sweep_folder.RECORD)
    sweep_folder.check_entries(tmp_path)


def test_an_empty_ledger_and_unrelated_files_are_allowed(tmp_path):
    (tmp_path / LEDGER).touch()  # of a sweep that was killed as it began
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ledger.OUTPUT).mkdir()
    (tmp_path / ledger.OUTPUT / "notes.md").write_text("mine")

    sweep_folder.check_entries(tmp_path)
