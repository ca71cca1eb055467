"""Where a run comes from: the commit, a patch that applies, versions, data."""

import importlib.metadata
import json
import subprocess

import pytest
import torch

import andiron
from andiron.data import digits
from andiron.shell.config.schema import Train
from andiron.shell.run import code_origin, provenance
from andiron.shell.training import experiment

CONFIG = Train(
    lr=0.1,
    data={"_target_": "andiron.data.digits", "valid": 0.1, "split_seed": 0},
    task={"_target_": "andiron.tasks.Classifier"},
    model={"_target_": "andiron.models.MLP", "hidden": [3]},
    optimizer={"_target_": "torch.optim.SGD"},
    scheduler={"_target_": "andiron.schedules.Constant", "lr": 0.1},
    metrics={"loss": {"_target_": "andiron.metrics.Loss"}},
    device="cpu",
)


def git(folder, *arguments):
    command = [
        "git", "-C", folder, "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments,
    ]  # fmt: skip
    return subprocess.run(
        command, check=True, capture_output=True, text=True, errors="replace"
    ).stdout


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with a package in it, which provenance takes for Andiron."""
    package = tmp_path / "repository" / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("lr = 1\n")
    git(tmp_path / "repository", "init", "-q")
    git(tmp_path / "repository", "add", ".")
    git(tmp_path / "repository", "commit", "-qm", "first")
    monkeypatch.setattr(andiron, "__file__", str(package / "__init__.py"))
    return tmp_path / "repository"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def gather():
    code, patches = code_origin.gather()
    data = digits(valid=0.1, split_seed=0)
    return provenance.of_run(code, 7, data, torch.device("cpu")), patches


def test_a_clean_checkout_is_its_commit(checkout):
    record, patches = gather()
    assert record["git"] == {
        "root": str(checkout),
        "revision": git(checkout, "rev-parse", "HEAD").strip(), "dirty": False, "uncommitted": None,
        "untracked": [],
    }  # fmt: skip
    assert record["git"]["uncommitted"] not in patches


def test_commit_and_patch_make_the_code_that_ran(checkout, tmp_path):
    (checkout / "src" / "package" / "__init__.py").write_text("lr = 2\n")
    (checkout / "notes").mkdir()
    (checkout / "notes" / "new.py").touch()
    record, patches = gather()
    assert record["git"]["dirty"] and record["git"]["untracked"] == ["notes/"]

    git(tmp_path, "clone", "-q", checkout, "again")
    git(tmp_path / "again", "checkout", "-q", record["git"]["revision"])
    (tmp_path / "dirty.patch").write_bytes(patches[record["git"]["uncommitted"]])
    git(tmp_path / "again", "apply", tmp_path / "dirty.patch")
    assert (tmp_path / "again" / "src" / "package" / "__init__.py").read_text() == "lr = 2\n"


def test_the_recorded_patch_restores_any_bytes_under_any_git_settings(checkout, tmp_path):
    package = checkout / "src" / "package"
    (package / "latin.txt").write_bytes("naïve\n".encode("latin-1"))
    (package / "weights.bin").write_bytes(bytes(range(256)))
    (package / "gone.txt").write_text("gone\n")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "second")
    for name, value in {
        "color.ui": "always", "diff.noprefix": "true", "diff.external": "true",
    }.items():  # fmt: skip
        git(checkout, "config", name, value)
    (package / "latin.txt").write_bytes("naïve café\r\n".encode("latin-1"))
    (package / "weights.bin").write_bytes(bytes(reversed(range(256))))
    (package / "gone.txt").unlink()
    (package / "added.txt").write_text("added and staged\n")
    git(checkout, "add", "src/package/added.txt")

    (tmp_path / "run").mkdir()
    experiment.build(CONFIG, tmp_path / "run").run()

    git(tmp_path, "clone", "-q", checkout, "again")
    record = json.loads((tmp_path / "run" / "provenance.json").read_text())
    git(tmp_path / "again", "apply", tmp_path / "run" / record["git"]["uncommitted"])
    assert contents(tmp_path / "again" / "src" / "package") == contents(package)


def test_untracked_files_are_listed_by_their_true_names(checkout):
    for name in ("größe.py", "two words.py"):
        (checkout / name).touch()

    assert sorted(gather()[0]["git"]["untracked"]) == ["größe.py", "two words.py"]


def test_outside_a_checkout_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(andiron, "__file__", str(tmp_path / "__init__.py"))
    record, _ = gather()
    assert record["git"] is None


def test_the_rest_is_what_was_there():
    record, _ = gather()
    for name in ("torch", "hydra-core", "safetensors"):
        assert record["packages"][name] == importlib.metadata.version(name)
    assert (record["seed"], record["data"]["sizes"], record["hardware"]["device"]) == (
        7, {"train": 1295, "valid": 143, "test": 359}, "cpu",
    )  # fmt: skip
    assert record["hardware"]["threads"] == torch.get_num_threads()
