"""The project around the working folder: found once, from the user's own file, in no run folder."""

import os
import sys
from pathlib import Path

import pytest

from andiron import errors
from andiron.run_folder import LEDGER
from andiron.shell.config import composition, config_folders, project
from andiron.shell.config.project import NONE, Project

TABLE = '[tool.andiron]\nconf = "conf"\ntrust = ["mine"]\n'


@pytest.fixture
def mine(here, monkeypatch):
    """A project below the working folder, and the folder `work/deep` in it."""
    (here / "mine" / "work" / "deep").mkdir(parents=True)
    (here / "mine" / "conf").mkdir()
    (here / "mine" / "pyproject.toml").write_text(TABLE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return here / "mine"


def project_in(folder: Path, monkeypatch) -> Project:
    monkeypatch.chdir(folder)
    return project.current()


def user_dirs(arguments: list[str]) -> list[Path]:
    """The folders that a command line is composed from, without Andiron's and the lab's."""
    shipped = project.shipped_conf_dirs()
    folders = config_folders.all_dirs(shipped[0], arguments)
    return [folder for folder in folders if folder not in shipped]


def test_the_nearest_file_with_the_table_is_the_project(mine, monkeypatch):
    assert project_in(mine.parent, monkeypatch) is NONE
    (mine / "work" / "pyproject.toml").write_text('[project]\nname = "no table"\n')
    for folder in (mine, mine / "work" / "deep"):
        assert project_in(folder, monkeypatch) == Project(mine, (mine / "conf",), ("mine",))
        assert user_dirs(["lr=1"]) == [mine / "conf"]
        with pytest.raises(errors.ConfigError, match="--config-dir=other: no such folder"):
            user_dirs(["--config-dir", "other"])
        (folder / "other").mkdir()
        assert user_dirs(["--config-dir", "other"]) == [folder / "other"]
    (mine / "work" / "pyproject.toml").write_text("[tool.andiron]\n")
    assert project_in(mine / "work", monkeypatch) == Project(mine / "work", (), ())


@pytest.mark.parametrize("names", [
    ["config.json", "status.json"], ["config.json", "model.safetensors"],
    ["config.json", "data.json"], [LEDGER],
])  # fmt: skip
def test_a_run_folder_and_a_folder_in_it_have_no_project(mine, names, monkeypatch):
    for name in names:
        (mine / "work" / name).write_text("{}")
    for folder in (mine / "work", mine / "work" / "deep"):
        (folder / "pyproject.toml").write_text(TABLE)
        (folder / "conf").mkdir()
        assert project_in(folder, monkeypatch) is NONE
        assert user_dirs([]) == []
    assert project_in(mine, monkeypatch) is not NONE
    (mine / "config.json").write_text("{}")  # alone, it may be another program's
    assert project_in(mine, monkeypatch) is not NONE


@pytest.mark.parametrize("owned", ["pyproject.toml", ".", "conf"])
def test_a_file_or_folder_of_another_user_is_not_used(mine, owned, monkeypatch, capsys):
    stat, of_others = os.stat, os.stat(mine / owned).st_ino

    def other(path, **options):
        result = list(stat(path, **options))
        result[4] += result[1] == of_others
        return os.stat_result(result)

    monkeypatch.chdir(mine)
    path = [*sys.path]
    monkeypatch.setattr(project.os, "stat", other)
    assert project.current() is NONE
    project.enter(is_noted=True)
    monkeypatch.undo()
    why = "not used, because it or a folder is another user's"
    assert capsys.readouterr().err == f"{mine / 'pyproject.toml'}: {why}\n"
    assert str(mine) not in path


def test_its_code_can_be_imported_and_a_note_says_so(mine, monkeypatch, capsys):
    monkeypatch.chdir(mine / "work")
    project.enter(is_noted=True)
    project.enter(is_noted=False)
    assert sys.path.count(str(mine)) == 1 and sys.path[0] == str(mine)
    assert capsys.readouterr() == ("", f"project {mine}: {mine / 'conf'}, trust mine\n")


@pytest.mark.parametrize(("text", "problem"), [
    ("[tool.andiron\n", "pyproject.toml: cannot be read: Expected ']'"),
    ("[tool]\nandiron = 3\n", "[tool.andiron] holds 3: conf = \"a folder\" and trust"),
    ("[tool.andiron]\nconfig = 'conf'\n", "holds {'config': 'conf'}: conf = \"a folder\" and"),
    ("[tool.andiron]\nconf = ['conf']\n", "holds {'conf': ['conf']}: conf = \"a folder\" and"),
    ("[tool.andiron]\ntrust = 'mine'\n", "holds {'trust': 'mine'}: conf = \"a folder\" and trust"),
    ("[tool.andiron]\ntrust = [1]\n", "holds {'trust': [1]}: conf = \"a folder\" and trust"),
    ("[tool.andiron]\nconf = 'other'\n", "other: no such folder, and "),
    ("#" * 2**19, "pyproject.toml: cannot be read: "),
])  # fmt: skip
def test_another_entry_is_an_error(mine, text, problem, monkeypatch):
    (mine / "pyproject.toml").write_text(text)
    with pytest.raises(errors.ConfigError) as error:
        project_in(mine, monkeypatch)
    assert problem in str(error.value)


def test_choices_of_the_lab_are_looked_up_after_the_user_s_and_conf(tmp_path, monkeypatch):
    user, lab = tmp_path / "user", tmp_path / "lab"
    for folder, lr in ((user, 0.5), (lab, 0.25)):
        (folder / "experiment").mkdir(parents=True)
        text = f"# @package _global_\nlr: {lr}\n"
        (folder / "experiment" / "both.yaml").write_text(text)
    (lab / "experiment" / "of_the_lab.yaml").write_text(text)
    (lab / "signatures.json").write_text("{}")
    shipped = [project.default_conf_dir(), lab]
    monkeypatch.setattr(project, "shipped_conf_dirs", lambda: shipped)
    assert composition.composed(shipped[0], ["experiment=of_the_lab"]).lr == 0.25
    both = ["--config-dir", str(user), "experiment=both"]
    assert composition.composed(shipped[0], both).lr == 0.5
    rates = []
    for choice in (["experiment=of_the_lab"], both):
        run = [*choice, f"hydra.run.dir={tmp_path / 'run'}"]
        composition.run(lambda config, *folder: rates.append(config.lr), shipped[0], run)
    assert rates == [0.25, 0.5]
