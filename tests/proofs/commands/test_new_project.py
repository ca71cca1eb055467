"""`andiron new` writes a project that trains; a run folder with such a file trusts nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from in_process import called

from andiron import __main__
from andiron.shell.config import project


@pytest.fixture
def mine(here, monkeypatch):
    """A new project, which is the working folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert andiron("new", "fresh_project").output == (
        f"a project in {here / 'fresh_project'}; there: andiron train\n"
    )
    monkeypatch.chdir(here / "fresh_project")
    return here / "fresh_project"


def andiron(*arguments):
    return called(__main__.main, *map(str, arguments))


def test_it_trains_evaluates_and_resumes_without_a_flag(mine):
    ended = andiron("train", "num_epochs=1", "width=8", "render=plain", "hydra.run.dir=outputs/one")
    note = f"project {mine}: {mine / 'conf'}, trust fresh_project\n"
    assert (ended.code, ended.errors) == (0, note)
    config = json.loads((mine / "outputs" / "one" / "config.json").read_text())
    assert config["model"] == {"_target_": "fresh_project.Residual", "width": 8}
    assert config["variables"] == {"width": 8}
    assert config["metrics"]["mae"]["of"] == "fresh_project.absolute_error"
    assert config["loss"]["_target_"] == "fresh_project.log_cosh"

    assert "mae" in andiron("evaluate", "outputs/one").output
    for change in ((), ("width=8",)):
        ended = andiron("train", "resume=outputs/one", "num_epochs=2", *change)
        assert ended.code == 0, ended.errors
    resumed = andiron("train", "resume=outputs/one")
    assert "all 2 epochs" in resumed.output and resumed.code == 0


@pytest.mark.slow
def test_in_a_run_folder_its_own_file_trusts_nothing(mine, tmp_path, monkeypatch):
    andiron("train", "num_epochs=1", "render=plain", "hydra.run.dir=outputs/one")
    stranger = tmp_path / "stranger"
    shutil.copytree(mine / "outputs" / "one", stranger)
    for path in ("pyproject.toml", "fresh_project.py", "conf"):
        copy = shutil.copytree if (mine / path).is_dir() else shutil.copy
        copy(mine / path, stranger / path)
    monkeypatch.chdir(stranger)
    for command in (("evaluate", "."), ("predict", ".", "x.csv"), ("train", "resume=.")):
        ended = andiron(*command)
        assert ended.code == 2 and "from which only listed classes are built" in ended.errors


@pytest.mark.parametrize("name", ["my-project", "class", "json", "torch", "andiron"])
def test_a_name_that_python_cannot_import_is_refused(here, name):
    ended = andiron("new", name)
    assert ended.code == 1 and f"error: {name}: is no name that Python can import" in ended.errors
    assert list(here.iterdir()) == []


def test_a_folder_that_is_there_is_left_as_it_is(here):
    (here / "own_project").mkdir()
    assert andiron("new", "own_project").code == 1
    assert list((here / "own_project").iterdir()) == []


def test_the_schema_has_the_projects_arguments_variables_and_groups(mine):
    (mine / "conf" / "paths").mkdir()
    (mine / "conf" / "paths" / "default.yaml").write_text("root: /data\n")
    ended = andiron("schema")
    assert ended.output == f"{mine / 'conf' / 'schema.json'} is written\n"
    validator = jsonschema.Draft202012Validator(
        json.loads((mine / "conf" / "schema.json").read_text())
    )
    own = yaml.safe_load((mine / "conf" / "project" / "default.yaml").read_text())
    for right in (own, {"paths": {"root": "/x"}}, {"model": {"width": 8}}, {"loss": {"scale": 2}}):
        assert list(validator.iter_errors(right)) == []
    for wrong in ({"widht": 8}, {"model": {"width": 0}}, {"data": {"noise": -1}}):
        assert list(validator.iter_errors(wrong))
    shipped = json.loads((project.default_conf_dir() / "schema.json").read_text())
    validator.check_schema(validator.schema)
    assert validator.schema["properties"].keys() == {*shipped["properties"], "width", "paths"}


@pytest.mark.slow
@pytest.mark.usefixtures("preloaded_processes")
def test_its_own_tests_pass(mine):
    command = [sys.executable, "-m", "pytest", "-q"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__main__.__file__).parents[1])}
    done = subprocess.run(command, cwd=mine, env=environment, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout
