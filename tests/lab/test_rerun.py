"""A run repeated from its record: the same bits, or a report of what has changed since."""

import json
import shutil
import sys

import pytest
from in_process import called

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config.schema import Train
from andiron.shell.run import run_record
from andiron.shell.training import train
from andiron_lab.ask import rerun
from proofs.exact_resume import verify_resume
from refusals import message_of


def change(path, changed):
    plain = json.loads(path.read_text())
    changed(plain)
    path.write_text(json.dumps(plain))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("made") / "run"
    options = (
        "data=partial", "num_epochs=2", "model=convnet", "model.hidden=32", "averages=ema",
        "overwrite=true",
    )  # fmt: skip
    ended = called(train.main, *options, f"hydra.run.dir={folder}", cwd=folder.parent)
    assert (ended.code, ended.errors) == (0, "")
    return folder


@pytest.fixture
def finished(made, tmp_path):
    """A copy, to be changed."""
    return shutil.copytree(made, tmp_path / "run")


def changes(folder):
    return list(rerun.changes(RunFolder(folder), Train.load(folder / "config.json")))


def test_other_results_report_the_first_difference_and_what_changed(finished, tmp_path):
    change(finished / "config.json", lambda plain: plain["data"].update(seed=1))
    change(finished / "provenance.json", lambda plain: plain["packages"].update(numpy="1.0"))
    assert run_record.accept(RunFolder(finished)) == ["config.json", "provenance.json"]
    ended = called(rerun.main, finished, "--into", "again", cwd=tmp_path)
    said = ended.output.splitlines()

    assert ended.code == 1
    first = next(line for line in said if line.startswith("not exact: "))
    assert first.startswith(
        "not exact: metrics.jsonl: train, epoch 1, of the window, update 3: loss is "
    )
    cause = next(line for line in said if line.startswith("likely cause: changed since: "))
    assert "packages.numpy: 1.0, now " in cause
    assert (
        said[-1] == f"the repeated run is in {tmp_path / 'again'}"
        and (tmp_path / "again" / "summary.json").exists()
    )


def test_a_run_resumed_with_other_workers_is_repeated_as_one(tmp_path):
    interrupted = tmp_path / "runs" / "interrupted"
    options = (
        "data=partial", "num_epochs=2", "--at", "1", "--workers", "1", "--here", "--keep", "runs",
    )  # fmt: skip
    assert called(verify_resume.main, *options, cwd=tmp_path).code == 0
    ended = called(rerun.main, interrupted, cwd=tmp_path)

    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.splitlines()[-2].startswith("exact: ")


@pytest.mark.parametrize("into", ["run/again", "run/checkpoints/../again", "link/again"])
def test_a_run_is_not_repeated_inside_of_its_own_folder(finished, into):
    (finished.parent / "link").symlink_to(finished)
    before = sorted(finished.rglob("*"))
    ended = called(rerun.main, "run", "--into", into, cwd=finished.parent)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.endswith("is inside of the run; give --into another folder\n")
    assert sorted(finished.rglob("*")) == before


def test_code_of_a_later_session_counts_as_changed(finished):
    def resume(origin):
        del origin["seed"]  # a record that a stranger made
        origin["resumes"] = [{"updates": 3, "changes": {}, "python": "3.0.0"}]

    change(finished / "provenance.json", resume)
    run_record.accept(RunFolder(finished))
    assert f"python: 3.0.0, now {sys.version.split()[0]}" in changes(finished)


def test_what_changed_since_is_listed(finished):
    result = changes(finished)
    assert [line for line in result if not line.startswith(("git", "hardware"))] == []

    def age(origin):
        patch = "dirty-0123456789abcdef.patch"
        origin["git"] |= {"revision": "0123", "untracked": ["gone.py"], "uncommitted": patch}
        origin["python"] = "3.0.0"
        origin["packages"]["torch"] = "1.0"
        origin["hardware"]["threads"] = 99
        origin["data"]["sha256"] = "beef"

    change(finished / "provenance.json", age)
    run_record.accept(RunFolder(finished))
    result = changes(finished)
    assert any(line.startswith("git.revision: 0123, now ") for line in result)
    assert "git.untracked.gone.py: there, now None" in result
    assert any(
        line.startswith("git.uncommitted: dirty-0123456789abcdef.patch, ") for line in result
    )
    assert f"python: 3.0.0, now {sys.version.split()[0]}" in result
    assert any(line.startswith("packages.torch: 1.0, now ") for line in result)
    assert any(line.startswith("hardware.threads: 99, now ") for line in result)
    assert any(line.startswith("data.sha256: beef, now ") for line in result)


def record(folder, **resume):
    """The files of a finished, resumed run that a rerun reads first."""
    folder.mkdir()
    run = RunFolder(folder)
    provenance = {"data": {"sha256": "0"}, "resumes": [resume]}
    run_record.write_json(run, {run.config: {}, run.provenance: provenance})
    run.model.write_bytes(b"")
    return folder


def test_a_run_resumed_with_other_options_is_refused_naming_them(tmp_path):
    folder = record(
        tmp_path / "run",
        updates=40,
        changes={"lr": [0.1, 0.01], "num_workers": [0, 2], "scheduler.factor": [1, 2]},
    )

    assert message_of(errors.RunFolderError, rerun.rerun, folder, tmp_path / "again") == (
        f"{folder}: was resumed with other options (lr: 0.1, from update 40 0.01; "
        "scheduler.factor: 1, from update 40 2); no single configuration describes such a run, so "
        "it cannot be repeated from its record"
    )
    assert not (tmp_path / "again").exists()


def test_what_is_no_record_of_a_finished_run_is_refused_with_the_reason(tmp_path):
    def refusal(folder):
        ended = called(rerun.main, folder, "--into", tmp_path / "again")
        assert ended.code == 2 and not (tmp_path / "again").exists()
        return ended.errors.removeprefix("error: ").removesuffix("\n")

    nowhere = tmp_path / "nowhere"
    assert refusal(nowhere) == (
        f"{nowhere}: there is no such folder; name the folder of a run that is finished"
    )
    folder = record(tmp_path / "run")
    said = refusal(folder)
    assert f"{folder / 'config.json'}: " in said or "in the configuration" in said
    origin = {"data": {"sha256": "0"}, "git": {"untracked": [3]}}
    nested = origin | {"git": None, "projects": {"a": {"b": {"c": {"d": 1}}}}}
    for damaged in ([], origin, nested, origin | {"git": None, "resumes": [{"changes": 3}]}, '{"'):
        text = damaged if isinstance(damaged, str) else json.dumps(damaged)
        (folder / "provenance.json").write_text(text)
        run_record.accept(RunFolder(folder))
        words = {
            str: "missing or damaged (", list: "is not a JSON object; restore it",
            dict: "damaged: code, data or resumes are malformed; restore it",
        }[type(damaged)]  # fmt: skip
        assert refusal(folder).startswith(f"{folder / 'provenance.json'}: {words}")
    for name, words in {
        "config.json": "config.json: no such file; without it the run cannot be repeated",
        "model.safetensors": "there is no model.safetensors in it; name the folder of a run that "
                             "is finished",
    }.items():  # fmt: skip
        (folder / name).unlink()
        assert refusal(folder).endswith(words)
