"""How often Hydra composes the configuration, and that it still finds a sweep wherever one is set.
"""

import shutil
import sys

import pytest
from hydra._internal.hydra import Hydra
from omegaconf import OmegaConf

from andiron import errors
from andiron.config import composition
from andiron.sweep import ledger
from conftest import ROOT

MODE = "hydra: {mode: MULTIRUN, sweeper: {params: {lr: '0.1,0.2'}}, output_subdir: null}"


def rates(conf_dir, *arguments):
    """The learning rate of each run that the arguments compose."""
    found = []
    composition.run(lambda config, *_: found.append(config.lr), conf_dir, [*arguments])
    return found


def test_a_single_run_is_composed_once(here, monkeypatch):
    compose, modes = Hydra.compose_config, []

    def counted(self, config_name, overrides, run_mode, **options):
        modes.append(run_mode.name)
        return compose(self, config_name, overrides, run_mode, **options)

    monkeypatch.setattr(Hydra, "compose_config", counted)
    assert (rates(ROOT / "conf", "lr=0.1"), modes) == ([0.1], ["RUN"])


def test_a_file_of_conf_can_set_hydra_mode_and_sweep(here):
    conf = shutil.copytree(ROOT / "conf", here / "conf")
    options, line, _ = (conf / "train.yaml").read_text().partition("\nhydra:")
    (conf / "train.yaml").write_text(options + line.replace("hydra:", MODE))

    assert rates(conf, "hydra/launcher=basic") == [0.1, 0.2]


def test_a_job_that_exits_or_raises_is_a_failure_and_ends_no_other_job(here):
    begun = []

    def task(config, *_):
        begun.append(config.lr)
        if config.lr == 0.1:
            sys.exit(0)
        if config.lr == 0.2:
            raise RuntimeError

    with pytest.raises(errors.SweepError) as failed:
        composition.run(
            task,
            ROOT / "conf",
            ["-m", "lr=0.1,0.2,0.3", "hydra/launcher=basic", "hydra.sweep.dir=sweep"],
        )

    assert begun == [0.1, 0.2, 0.3]
    assert [line.rpartition("): ")[2] for line in str(failed.value).splitlines()] == [
        "ended the process (sys.exit(0)); raise an error there instead", "RuntimeError"
    ]  # fmt: skip


def test_a_folder_named_by_what_is_trained_says_nothing_else():
    conf = OmegaConf.load(ROOT / "conf" / "train.yaml")

    assert set(conf.hydra.job.config.override_dirname.exclude_keys) == ledger.APART
