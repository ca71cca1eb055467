"""The results and failures of the launchers of Hydra and its plugins."""

import json
from unittest.mock import Mock

import pytest
from hydra.core.config_loader import ConfigLoader
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron.wings.sweep.launching import HydraSweep


class Broken(Launcher):
    def setup(self, **parts):
        pass

    def launch(self, overrides, initial_job_idx):
        raise RuntimeError("a worker was killed")


def test_a_launcher_that_fails_names_itself_and_the_runs_that_are_not_done(tmp_path):
    for job, status in {"1": "failed", "2": "running"}.items():
        (tmp_path / job).mkdir()
        run_record.begin(RunFolder(tmp_path / job))
        (tmp_path / job / "config.json").write_text("{\"lr\": 1}")
        (tmp_path / job / "status.json").write_text(json.dumps({"status": status}))

    hydra = {"sweep": {"dir": str(tmp_path)}, "runtime": {"choices": {"hydra/launcher": "joblib"}}}
    config = OmegaConf.create({"hydra": hydra})
    with pytest.raises(errors.SweepError) as failed:
        HydraSweep(Mock(spec=ConfigLoader), config, Broken()).launch([], 0)

    assert str(failed.value).splitlines() == [
        "hydra/launcher=joblib: RuntimeError: a worker was killed",
        f"{tmp_path}/1: failed",
        f"{tmp_path}/2: killed",
    ]


def test_hydra_offers_only_sweepers_that_can_be_made():
    names = {each.__name__ for each in Plugins.instance().discover(Sweeper)}
    assert names >= {"AndironSweeper", "OptunaSweeper", "AshaSweeper"}
    assert not any(name.startswith("_") for name in names)
