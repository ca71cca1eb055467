"""Jobs of a sweep: their configurations, limits and shares of the machine, and launchers."""

import logging
import os
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from hydra.core.config_loader import ConfigLoader
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf

from andiron import errors
from andiron.plain import processor
from andiron.shell.cli import command_line
from andiron.shell.config import composition, violations
from andiron.shell.training import train
from andiron.wings.sweep import job, job_process, shares
from andiron.wings.sweep.launching import HydraSweep
from andiron.wings.sweep.scheduling import Limits

CONF = Path(__file__).resolve().parents[3] / "conf"


def test_a_job_is_refused_alone_and_the_next_job_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained, data = [], ["data=csv_regression", "data.path=t.csv", "data.target=2020,a"]
    sweep = ["-m", *data, "hydra/launcher=basic", "hydra.sweep.dir=sweep"]
    with pytest.raises(errors.SweepError, match="'data.target=.2020.'"):
        composition.run(lambda config, *_: trained.append(config.data), CONF, sweep)
    assert [data["target"] for data in trained] == ["a"]


def checked(**given):
    return violations.checked(Limits, given, prefix="hydra.launcher.")


def test_valid_limits_are_kept():
    assert checked(jobs=2, job_minutes=60) == Limits(2, 60, 30)


def test_all_invalid_limits_are_reported_together():
    wrong = {"jobs": 0, "job_minutes": 0, "grace_seconds": None}
    with pytest.raises(errors.ConfigError) as refused:
        checked(**wrong)
    assert [problem.partition("=")[0] for problem in refused.value.problems] == [
        f"hydra.launcher.{name}" for name in wrong
    ]


@pytest.mark.parametrize(
    ("visible", "of_each_job"),
    {
        "numbers": ("2,5", ["2", "5", "2", "5"]),
        "as a person types them": (" 0, 1,", ["0", "1", "0", "1"]),
        "identities": ("GPU-8932f937,GPU-11", ["GPU-8932f937", "GPU-11"] * 2),
        "parts of GPUs": ("MIG-a,MIG-b,MIG-c", ["MIG-a", "MIG-b", "MIG-c", "MIG-a"]),
        "what CUDA reads as the end": ("0,1,-1,2", ["0", "1", "0", "1"]),
        "one": ("3", [None] * 4),  # all jobs use it, as the sweep's own environment says
        "none": ("", [None] * 4),
    }.values(),
)
def test_each_job_gets_one_gpu_in_turn_and_all_get_the_only_one(visible, of_each_job):
    gpus = shares.visible_gpus({shares.GPUS: visible})

    got = [shares.environment_of(place, gpus=gpus, sharing=4) for place in range(4)]

    assert [value.get(shares.GPUS) for value in got] == of_each_job
    assert shares.environment_of(0, gpus=gpus, sharing=1) == {}


def test_threads_are_shared_out_unless_the_user_chose_them(monkeypatch):
    monkeypatch.setattr(processor, "cores", lambda: 8)

    assert [shares.threads(jobs, {}) for jobs in (1, 3, 16)] == [None, "2", "1"]
    assert shares.threads(4, {shares.THREADS: "7"}) == "7"


@pytest.mark.parametrize(
    ("arguments", "environment", "started"),
    [
        (["-m", "seed=1,2", "jobs=2"], {}, ["2"]),
        (["seed=1,2", "jobs=3", "--multirun"], {}, ["1"]),
        (["-m", "seed=1,2", "jobs=2"], {shares.THREADS: "5"}, ["5"]),
        (["-m", "seed=1,2"], {shares.THREADS: "5"}, ["5"]),
        (["-m", "seed=1,2", "jobs=1"], {}, [None]),
        (["-m", "seed=1,2"], {}, []),  # a file may say how many
        (["-m", "seed=1,2", "jobs=2,3"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "jobs=3"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "hydra/launcher=basic"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "hydra.launcher.jobs=1"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "hydra.launcher.job_minutes=1"], {}, ["2"]),
        (["-m", "seed=1,2", "jobs=2", "--config-dir", "mine"], {}, []),
        (["seed=1", "jobs=2"], {}, []),
        (["--help"], {shares.THREADS: "5"}, []),
    ],
)
def test_it_is_started_if_the_arguments_determine_its_threads(
    arguments, environment, started, monkeypatch
):
    actual, called = [], []
    monkeypatch.setattr(processor, "cores", lambda: 4)
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(job_process, "start_clean_process", actual.append)
    monkeypatch.setattr(command_line, "main", lambda *parts, **options: called.append(parts[2]))

    assert train.main() == 0
    assert called == [arguments]
    assert actual == started


class Broken(Launcher):
    def setup(self, **parts):
        pass

    def launch(self, overrides, initial_job_idx):
        raise RuntimeError("a worker was killed")


def test_a_sweep_shows_the_warnings_of_a_job_and_its_end_once():
    replies = []
    handler = job._Warnings(replies.append)
    log = logging.getLogger("andiron.job")
    log.addHandler(handler)
    try:
        log.warning("few %s", "rows")
        log.error("%s: %s", "interrupted", "SIGTERM")  # of a pruned job, whose line says so
    finally:
        log.removeHandler(handler)
    assert replies == [{"warnings": {"few %s": "few rows"}}]


def test_a_launcher_that_fails_names_itself(tmp_path):
    hydra = {"sweep": {"dir": str(tmp_path)}, "runtime": {"choices": {"hydra/launcher": "joblib"}}}
    config = OmegaConf.create({"hydra": hydra})
    with pytest.raises(errors.SweepError) as failed:
        HydraSweep(Mock(spec=ConfigLoader), config, Broken()).launch([], 0)

    assert str(failed.value) == "hydra/launcher=joblib: RuntimeError: a worker was killed"


def test_hydra_offers_only_sweepers_that_can_be_made():
    names = {value.__name__ for value in Plugins.instance().discover(Sweeper)}
    assert names >= {"AndironSweeper", "OptunaSweeper", "RaceSweeper"}
    assert not any(name.startswith("_") for name in names)
