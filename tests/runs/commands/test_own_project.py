"""A project of the user's own: its code is on record, and `rerun` and `resume` compare it."""

import json
import subprocess
import sys

import pytest
from in_process import called

from andiron.shell.training import train
from andiron.wings.runs import command as runs, rerun

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
    yield folder
    sys.modules.pop("project_parts", None)


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


def test_a_changed_package_is_named(here, monkeypatch):
    trained(here, *RUN, "hydra.run.dir=run")
    from andiron.shell.run import provenance

    versions = provenance.versions()
    monkeypatch.setattr(provenance, "versions", lambda: {**versions, "torch": "9", "new-one": "1"})
    resumed = trained(here, "--config-dir", "conf", "resume=run", "num_epochs=2")
    assert f"torch {versions['torch']} -> 9" in resumed and "new-one None -> 1" in resumed
