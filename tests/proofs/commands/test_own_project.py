"""A project of the user's own: its code is on record, and `rerun` and `resume` compare it."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from in_process import called

from andiron.shell.training import train
from andiron.wings.runs import command as runs
from andiron.wings.trained import evaluate
from proofs.lab_parts import bisect, bit_comparison, recheck, replay, rerun, samples, seeds

OWN = """from torch import nn

class Net(nn.Sequential):
    def __init__(self, input_shape, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(64, num_classes))
"""
RUN = ("--config-dir", "conf", "model=net", "num_epochs=1", "data=partial", "render=plain")


def git(folder, *arguments):
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", folder, *person, *arguments], check=True, capture_output=True)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The user's repository, which is the working folder."""
    folder = tmp_path / "my_project"
    (folder / "conf" / "model").mkdir(parents=True)
    (folder / "conf" / "model" / "net.yaml").write_text("_target_: project_parts.Net\n")
    (folder / "project_parts.py").write_text(OWN)
    git(tmp_path, "init", "-q", folder)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    monkeypatch.syspath_prepend(folder)
    return folder


def trained(here, *arguments):
    ended = called(train.main, *arguments, cwd=here)
    assert ended.code == 0, ended.errors
    return ended.output


def project(run_dir):
    return json.loads((run_dir / "provenance.json").read_text())["projects"]["my_project"]


def test_runs_with_other_uncommitted_code_have_other_records(here):
    trained(here, *RUN, "hydra.run.dir=one")
    (here / "project_parts.py").write_text(f"{OWN}# changed\n")
    trained(here, *RUN, "hydra.run.dir=two")

    assert project(here / "one")["uncommitted"] is None
    name = project(here / "two")["uncommitted"]
    assert "+# changed" in (here / "two" / name).read_text()
    assert name in json.loads((here / "two" / "manifest.json").read_text())["files"]
    assert project(here / "two")["untracked"] == []
    shown = called(runs.main, "diff", "one", "two", cwd=here).output
    assert "projects.my_project.uncommitted" in shown and name in shown


def test_rerun_and_resume_name_the_changed_code(here):
    trained(here, *RUN, "hydra.run.dir=run")
    (here / "project_parts.py").write_text(f"{OWN}# changed\n")
    ended = called(rerun.main, "run", "--into", "again", "--trust", "project_parts", cwd=here)
    name = project(here / "again")["uncommitted"]
    assert f"projects.my_project.uncommitted: None, now {name}" in ended.output

    resumed = trained(here, "--config-dir", "conf", "resume=run", "num_epochs=2")
    assert f"not guaranteed: my_project.uncommitted None -> {name}" in resumed
    assert (here / "run" / name).is_file()
    resumed = trained(here, "--config-dir", "conf", "resume=run", "num_epochs=3")
    assert "not guaranteed" not in resumed  # it is the same as at the last resume


def test_seeds_of_a_run_are_added_from_outside_of_its_project(here, tmp_path):
    trained(here, *RUN, "seed=0", "hydra.run.dir=runs/0")
    trained(here, *RUN, "seed=1", "hydra.run.dir=alone")
    given = here / "runs" / "0", "--add", "1"

    refused = called(seeds.main, *given, cwd=tmp_path)
    ended = called(seeds.main, *given, "--trust", "project_parts", cwd=tmp_path)
    sys.modules.pop("project_parts")
    sys.path.remove(str(here))
    missing = called(seeds.main, *given, "--trust", "project_parts", cwd=tmp_path)

    assert refused.code == 2 and "project_parts.Net" in refused.errors
    assert ended.code == 0, ended.errors
    assert bit_comparison.compare(here / "alone", here / "runs" / "0-seed1") == []
    assert project(here / "runs" / "0-seed1") == project(here / "runs" / "0")
    assert missing.code == 2 and "project_parts" in missing.errors
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["0", "0-seed1"]


def test_a_changed_package_is_named(here, monkeypatch):
    trained(here, *RUN, "hydra.run.dir=run")
    from andiron.shell.run import provenance

    versions = provenance.versions()
    monkeypatch.setattr(provenance, "versions", lambda: {**versions, "torch": "9", "new-one": "1"})
    resumed = trained(here, "--config-dir", "conf", "resume=run", "num_epochs=2")
    assert f"torch {versions['torch']} -> 9" in resumed and "new-one None -> 1" in resumed


PARTS = """import torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"left": torch.eye(6)[index % 6], "labels": index % 3}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(6, 3)

    def forward(self, left):
        return self.head(left)
"""
COLLATE = """import torch

def pad(samples):
    return {"left": torch.stack([each["left"] for each in samples]),
            "labels": torch.tensor([each["labels"] for each in samples])}
"""
PAIRS = """# @package _global_
defaults:
  - override /data: torch_dataset
  - override /task: forward
  - override /loss: cross_entropy
  - override /metrics: classification
  - override /model: null
data: {train: {_target_: pair_parts.Rows}, collate: pair_padding.pad, num_classes: 3}
model: {_target_: pair_parts.Net}
"""


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    """A folder with an experiment, its classes in one module and its function in another."""
    folder = tmp_path / "place"
    (folder / "conf" / "experiment").mkdir(parents=True)
    (folder / "conf" / "experiment" / "pairs.yaml").write_text(PAIRS)
    (folder / "pair_parts.py").write_text(PARTS)
    (folder / "pair_padding.py").write_text(COLLATE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    return folder


def test_all_commands_in_a_project_build_what_its_conf_names(pairs):
    (pairs / "pyproject.toml").write_text('[tool.andiron]\nconf = "conf"\n')
    run = "num_epochs=1", "render=plain", "checkpoint.every=1", "checkpoint.last=9"
    for main, *arguments in (
        (train.main, "experiment=pairs", *run, "hydra.run.dir=one"),
        (train.main, "resume=one", "num_epochs=2", "render=plain"),
        (train.main, "resume=one"),
        (train.main, "fork_from=one", "num_epochs=3", "hydra.run.dir=two"),
        (evaluate.main, "one"), (recheck.main, "one"), (samples.main, "one", "--update", "2"),
        (replay.main, "one", "--update", "2"), (seeds.main, "two", "--add", "1"),
        (bisect.main, "one", "log_every=2"), (rerun.main, "two", "--into", "again"),
        (train.main, "experiment=pairs", *run, "start_from=one"),
    ):  # fmt: skip
        ended = called(main, *arguments)
        assert ended.code == 0, (arguments, ended.errors)


def test_without_a_project_one_message_has_a_line_that_works(pairs):
    ended = called(train.main, "--config-dir", "conf", "experiment=pairs", "num_epochs=1",
                   "render=plain", "hydra.run.dir=one")  # fmt: skip
    assert ended.code == 0, ended.errors
    for main, *arguments in (
        (train.main, "resume=one"), (train.main, "resume=one", "num_epochs=2", "render=plain"),
        (train.main, "fork_from=one", "num_epochs=3", "hydra.run.dir=two"),
        (train.main, "fork_from=one@latest", "num_epochs=3", "lr=1e-4", "hydra.run.dir=three"),
        (evaluate.main, "one"), (recheck.main, "two"), (samples.main, "one", "--update", "1"),
    ):  # fmt: skip
        refused = called(main, *arguments)
        assert refused.code in (1, 2) and refused.output == "", arguments
        way = r"--config-dir \S+( trust=\S+)?|--trust \S+ \S+|trust=\S+"
        remedy = re.search(way, refused.errors)
        ended = called(main, *arguments, *shlex.split(remedy[0]))
        assert ended.code == 0, (arguments, remedy[0], ended.errors)
    trusting = ("resume=one", "num_epochs=4", "trust=[pair_parts,pair_padding]")
    assert called(train.main, *trusting).code == 0  # no folder is needed then
