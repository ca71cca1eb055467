"""A Lightning and Hydra template's tree runs with the changes that docs/from_lightning.md lists."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from in_process import called

from andiron.shell.training import train
from andiron.wings.runs import command as runs
from andiron.wings.sweep import sweep_results

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "from_lightning.md").read_text()
TEMPLATE = {  # after ashleve/lightning-hydra-template, reduced to one choice of each group
    "paths/default": """
root_dir: ${oc.env:PROJECT_ROOT}
data_dir: ${paths.root_dir}/data/
log_dir: ${paths.root_dir}/logs/
output_dir: ${hydra:runtime.output_dir}
work_dir: ${hydra:runtime.cwd}
""",
    "model/net": """
_target_: src.models.MNISTLitModule
optimizer: {_target_: torch.optim.Adam, _partial_: true, lr: 0.001}
net: {_target_: src.models.SimpleDenseNet, lin1_size: 64}
""",
    "logger/csv": """
csv:
  _target_: lightning.pytorch.loggers.csv_logs.CSVLogger
  save_dir: ${paths.output_dir}
""",
    "hydra/default": """
defaults: [override hydra_logging: colorlog, override job_logging: colorlog]
run:
  dir: ${paths.log_dir}/${task_name}/runs/${now:%Y-%m-%d}_${now:%H-%M-%S}
sweep:
  dir: ${paths.log_dir}/${task_name}/multiruns/${now:%Y-%m-%d}_${now:%H-%M-%S}
  subdir: ${hydra.job.num}
""",
    "experiment/example": """
# @package _global_
defaults: [override /data: mnist, override /model: net, override /callbacks: default]
tags: [mnist]
trainer: {max_epochs: 10}
model: {optimizer: {lr: 0.002}, net: {lin1_size: 128}}
data: {batch_size: 64}
""",
    "hparams_search/search": """
# @package _global_
defaults: [override /hydra/sweeper: optuna]
optimized_metric: val/acc_best
hydra:
  mode: MULTIRUN
  sweeper:
    _target_: hydra_plugins.hydra_optuna_sweeper.optuna_sweeper.OptunaSweeper
    n_trials: 2
    params: {model.optimizer.lr: "interval(0.0001, 0.1)"}
""",
}
CHANGED = {
    "project/default": re.search(r"# conf/project/default.yaml\n(.*?)```", PAGE, re.DOTALL)[1],
    "model/net": "_target_: andiron.models.MLP\nhidden: [8]\n",
    "writers/table": "table: {_target_: andiron.writers.CsvWriter}\n",
    "hydra/output/mine": "# @package hydra\n"
    + re.sub("defaults.*\n", "", TEMPLATE["hydra/default"]),
    "experiment/example": """
# @package _global_
defaults: [override /data: digits, override /model: net]
num_epochs: 1
lr: 0.002
model: {hidden: [4]}
batch_size: 300
""",
    "hparams_search/search": """
# @package _global_
defaults: [override /hydra/sweeper: optuna]
objective: valid/accuracy
num_epochs: 1
hydra:
  mode: MULTIRUN
  sweeper: {n_trials: 2, params: {lr: "interval(0.0001, 0.1)"}}
""",
}
MOVED = ("logger/csv", "hydra/default")


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Runs `train.py` with the changed tree."""
    for name, text in (TEMPLATE | CHANGED).items():
        if name not in MOVED:
            path = tmp_path / "conf" / f"{name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.removeprefix("\n"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROJECT_ROOT", str(tmp_path))

    def train_with(*arguments):
        ended = called(train.main, "--config-dir", "conf", "render=plain", *arguments)
        assert ended.code == 0, ended.errors
        return sorted((tmp_path / "logs" / "train").rglob("config.json"))

    return train_with


def test_the_page_names_each_folder_of_the_template():
    section = PAGE.partition("## A Hydra template's tree")[2].partition("\n## ")[0]
    for name in (*TEMPLATE, *CHANGED):
        folder = name.removesuffix("/default") if name != "project/default" else name
        assert folder.rpartition("/")[0] in section or f"`{folder}/`" in section, name


def test_it_trains_with_its_folders_loggers_and_experiment_and_resumes(trained):
    (path,) = trained("experiment=example", "writers=[table,json_lines]", "lr=0.003")
    config = json.loads(path.read_text())
    assert path.parent.parent.name == "runs" and (path.parent / "metrics.csv").is_file()
    assert (config["lr"], config["batch_size"], config["seed"]) == (0.003, 300, 12345)
    assert config["model"]["hidden"] == [4] and config["num_epochs"] == 1
    assert config["variables"]["task_name"] == "train"
    paths = config["variables"]["paths"]
    assert paths["output_dir"] == str(path.parent) and paths["work_dir"] == paths["root_dir"]

    trained(f"resume={path.parent}", "num_epochs=2")
    assert json.loads(path.read_text()) == {**config, "num_epochs": 2}


@pytest.mark.slow
def test_it_sweeps_and_searches(trained):
    pytest.importorskip("optuna")
    two = trained("hparams_search=search", "model.hidden=[4]", "writers=json_lines")
    lrs = {json.loads(path.read_text())["lr"]: path.parent for path in two}
    assert len(lrs) == 2
    assert all(path.parent.parent.parent.name == "multiruns" for path in two)

    line = sweep_results.of_folder(two[0].parents[1]).as_text().partition("the best again: ")[2]
    command = shlex.split(line.splitlines()[0])
    arguments = command[[value.endswith("train.py") for value in command].index(True) + 1 :]
    assert called(train.main, *arguments, "hydra.run.dir=again").code == 0  # and no search again
    best = lrs[json.loads(Path("again/config.json").read_text())["lr"]]
    weights = "model.safetensors"
    assert Path("again", weights).read_bytes() == (best / weights).read_bytes()

    trained(f"resume={best}", "num_epochs=2")  # and no search again
    assert json.loads((best / "status.json").read_text())["status"] == "done"
    assert json.loads((best / "config.json").read_text())["num_epochs"] == 2
    assert len(trained(f"fork_from={best}", "num_epochs=3")) == 3


@pytest.mark.slow
def test_a_variable_is_swept_shown_by_diff_and_restored(trained, tmp_path):
    small = ("num_epochs=1", "writers=json_lines", "hydra.sweep.dir=sweep", "data=partial")
    trained("-m", "+width=4,6", "model.hidden=[${width}]", *small)
    widths = [json.loads((tmp_path / f"sweep/{n}/config.json").read_text()) for n in (0, 1)]
    assert [(width["model"]["hidden"], width["variables"]["width"]) for width in widths] == [
        ([4], 4), ([6], 6),
    ]  # fmt: skip
    shown = called(runs.main, "diff", "sweep/0", "sweep/1").output
    assert "variables.width" in shown and "model.hidden" in shown

    start = ("+rate=0.01", "lr=${rate}", "hydra.run.dir=one", "data=partial", "num_epochs=1")
    trained(*start)
    recorded = tmp_path / "one" / ".hydra" / "overrides.yaml"
    ended = called(train.main, "--config-dir", "conf", "resume=one", "num_epochs=2", "rate=0.02")
    assert ended.problems[0].startswith("lr=0.02: the run was recorded with 0.01")
    trained("resume=one", "num_epochs=2", "rate=0.02", "resume_allow=[lr]")
    assert "+rate=0.02" in yaml.safe_load(recorded.read_text())
    trained("resume=one", "num_epochs=3")
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert (config["lr"], config["variables"]["rate"]) == (0.02, 0.02)
