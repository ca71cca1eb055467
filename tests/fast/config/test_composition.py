"""How often Hydra composes the configuration, and that it still finds a sweep wherever one is set.
"""

import shutil
import sys

import hydra
import pytest
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from andiron import errors
from andiron.shell.config import composition
from andiron.wings.sweep import ledger
from conftest import ROOT

MODE = "hydra: {mode: MULTIRUN, sweeper: {params: {lr: '0.1,0.2'}}, output_subdir: null}"


def rates(conf_dir, *arguments):
    """The learning rate of each run that the arguments compose."""
    result = []
    composition.run(lambda config, *_: result.append(config.lr), conf_dir, [*arguments])
    return result


def test_a_single_run_is_composed_once(here, monkeypatch):
    compose, modes = Hydra.compose_config, []

    def counted(self, config_name, overrides, run_mode, **options):
        modes.append(run_mode.name)
        return compose(self, config_name, overrides, run_mode, **options)

    monkeypatch.setattr(Hydra, "compose_config", counted)
    assert (rates(ROOT / "conf", "lr=0.1"), modes) == ([0.1], ["RUN"])


@pytest.mark.parametrize("empty", ["~{}", "{}=[]"])
def test_a_group_that_is_emptied_loses_the_options_of_the_project(here, empty):
    (here / "project").mkdir()
    (here / "project" / "default.yaml").write_text(
        "# @package _global_\ndefaults: [override /early_stopping: patience]\n"
        "early_stopping: {patience: {metric: accuracy}}\ncheckpoint: {every: 2epochs}\n"
    )
    given = [f"--config-dir={here}", *map(empty.format, ("early_stopping", "checkpoint"))]
    configs = [composition.composed(ROOT / "conf", given)]
    composition.run(lambda config, *_: configs.append(config), ROOT / "conf", given)

    assert [(config.early_stopping, config.checkpoint) for config in configs] == [(None, None)] * 2
    assert composition.composed(ROOT / "conf", given[:1]).checkpoint["every"] == "2epochs"
    with pytest.raises(errors.ConfigError, match="patience: has options but no _target_"):
        composition.composed(ROOT / "conf", [*given, "early_stopping.patience.metric=loss"])


def test_a_file_of_conf_can_set_hydra_mode_and_sweep(here):
    conf = shutil.copytree(ROOT / "conf", here / "conf")
    options, line, _ = (conf / "train.yaml").read_text().partition("\nhydra:")
    (conf / "train.yaml").write_text(options + line.replace("hydra:", MODE))

    assert rates(conf, "hydra/launcher=basic") == [0.1, 0.2]
    assert rates(conf, "hydra/launcher=basic", "jobs=2") == [0.1, 0.2]
    assert rates(conf, "hydra.mode=RUN", "lr=0.5") == [0.5]


def test_options_of_a_sweep_are_refused_for_a_single_run(here):
    conf = shutil.copytree(ROOT / "conf", here / "conf")
    options, line, _ = (conf / "train.yaml").read_text().partition("\nhydra:")
    node = MODE.replace("mode: MULTIRUN, ", "")
    (conf / "train.yaml").write_text(options + line.replace("hydra:", node))
    with pytest.raises(errors.ConfigError) as caught:
        rates(conf, "jobs=2")
    why = "applies to sweeps only; add -m, or hydra.mode=RUN for one run"
    assert caught.value.problems == (f"jobs=...: {why}", f"hydra.sweeper.params=...: {why}")
    assert rates(conf, "hydra.mode=RUN", "lr=0.5") == rates(conf, "lr=0.5") == [0.5]


CHOICES = {
    "sweeper": "optuna", "launcher": "basic", "output": "default", "help": "default",
    "job_logging": "stdout", "hydra_logging": "default",
}  # fmt: skip


@pytest.mark.parametrize("options", [[], ["hydra/sweeper=race", "hydra/launcher=andiron"]])
@pytest.mark.parametrize("file", ["experiment/own.yaml", "own.yaml"])
def test_hydras_parts_chosen_in_a_file_take_effect(here, file, options):
    conf = shutil.copytree(ROOT / "conf", here / "conf")
    overrides = [f"override /hydra/{group}: {choice}" for group, choice in CHOICES.items()]
    is_primary = file == "own.yaml"
    first = ["train", "_self_"] if is_primary else []
    (conf / file).write_text(
        f"# @package _global_\ndefaults: [{', '.join([*first, *overrides])}]\nnum_epochs: 7\n"
    )
    composition.register_resolvers()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(conf), version_base="1.3"):
        name, chosen = ("own", options) if is_primary else ("train", ["experiment=own", *options])
        config = hydra.compose(name, overrides=chosen, return_hydra_config=True)

    given = dict(option.removeprefix("hydra/").split("=") for option in options)
    choices = config.hydra.runtime.choices
    assert {group: choices[f"hydra/{group}"] for group in CHOICES} == CHOICES | given
    assert config.num_epochs == 7


def test_a_log_file_in_the_run_folder_is_refused_with_what_works(here):
    with pytest.raises(errors.ConfigError, match="job_logging=default: .*; give .*=stdout, or"):
        rates(ROOT / "conf", "lr=0.1", "hydra/job_logging=default")
    assert rates(ROOT / "conf", "lr=0.1", "hydra/job_logging=stdout") == [0.1]


def test_a_job_that_exits_or_raises_is_a_failure_and_ends_no_other_job(here):
    begun = []

    def task(config, *_):
        begun.append(config.lr)
        if config.lr == 0.1:
            sys.exit(0)
        if config.lr == 0.2:
            raise RuntimeError

    with pytest.raises(errors.SweepError) as failed:
        composition.run(task, ROOT / "conf", [
            "-m", "lr=0.1,0.2,0.3", "hydra/launcher=basic", "hydra.sweep.dir=sweep",
        ])  # fmt: skip

    assert begun == [0.1, 0.2, 0.3]
    assert [line.rpartition("): ")[2] for line in str(failed.value).splitlines()] == [
        "ended the process (sys.exit(0)); raise an error there instead", "RuntimeError"
    ]  # fmt: skip


def test_a_folder_named_by_what_is_trained_says_nothing_else():
    conf = OmegaConf.load(ROOT / "conf" / "train.yaml")

    assert set(conf.hydra.job.config.override_dirname.exclude_keys) == ledger.APART


@pytest.mark.parametrize(
    ("folder", "left"), [("outputs/2026-01-02/a", ["outputs"]), ("runs/a", ["runs"])]
)
def test_a_start_that_fails_leaves_no_empty_folder_of_its_date(folder, left, tmp_path):
    (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(ValueError, match="fails"), composition._remove_if_empty(tmp_path / folder):
        raise ValueError("fails")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == left


def test_a_process_of_a_sweep_that_is_gone_is_not_taken_for_a_folder():
    error = composition.user_error(BrokenPipeError(32, "Broken pipe"), ["-m"], ROOT / "conf")
    assert str(error).startswith("the sweep cannot go on (Broken pipe): a process ended before its")


PLUGIN = "hydra_plugins.hydra_optuna_sweeper.optuna_sweeper.OptunaSweeper"


@pytest.mark.parametrize(("arguments", "words"), [
    (["loss=[mean_squared_error,huber]"],
     "loss=[mean_squared_error,huber]: Hydra would merge them; -m loss=mean_squared_error,huber t"),
    (["hydra.run.dirr=a"], "no such option of Hydra; --cfg hydra prints all"),
    (["-m", "hydra/sweeper=optuna", "hydra/sweeper/sampler=tpe"], "no such option of Hydra; --cfg"),
    (["-m", "hydra/launcher=basic", "optimizer=sgd,adam", "optimizer.momentum=0.5,0.9"],
     "optimizer=adam optimizer.momentum=0.5: Could not override 'optimizer.momentum'. If some cho"),
    (["-m", f"hydra.sweeper._target_={PLUGIN}"], "leave _target_ out: `override /hydra/sweeper: o"),
])  # fmt: skip
def test_what_hydra_merges_or_does_not_know_is_refused_with_what_works(arguments, words, here):
    with pytest.raises(errors.ConfigError) as refused:
        rates(ROOT / "conf", *arguments)
    assert words in str(refused.value) and "To append" not in str(refused.value)
