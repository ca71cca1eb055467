"""The record of a run: changes are detected, and accepted only on purpose."""

import json

import pytest

from andiron import errors
from andiron.disk import checksums, files
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from refusals import message_of

RUN = "0123456789abcdef"
ENTRY = {"bytes": 0, "sha256": "0"}


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path)
    run_record.begin(folder)
    run_record.write_json(folder, {folder.config: {"lr": 0.1}, folder.summary: {"loss": 1.5}})
    return folder


def test_written_files_are_read_back(folder):
    assert run_record.read_json(folder, folder.config) == {"lr": 0.1}
    assert run_record.changed(folder) == []


def test_every_run_has_an_identity_of_its_own(folder, tmp_path):
    (tmp_path / "other").mkdir()
    other = RunFolder(tmp_path / "other")
    run_record.begin(other)
    assert run_record.identity(folder) != run_record.identity(other)


@pytest.mark.parametrize("content", ['{"lr": 0.2}', "", "{", '{"lr": 0.1}\n\n'])
def test_a_change_is_refused_until_it_is_accepted(folder, content):
    folder.config.write_text(content)
    with pytest.raises(errors.DataError, match="was changed since .*accept-changes"):
        run_record.read_json(folder, folder.config)
    assert run_record.accept(folder) == ["config.json"]
    run_record.check(folder, folder.config)
    run_record.check(folder, folder.summary)


@pytest.mark.parametrize("content", ["[]", "null", '"lr"', "1"])
def test_a_record_of_options_that_is_no_mapping_is_refused(folder, content):
    folder.config.write_text(content)
    run_record.accept(folder)
    refusal = message_of(errors.DataError, run_record.read_json, folder, folder.config)
    assert refusal == f"{folder.config}: is not a JSON object; restore it from a copy"


def test_a_file_of_another_size_is_refused_unread(folder):
    with folder.config.open("wb") as file:
        file.truncate(10**12)
    assert "was changed" in message_of(errors.DataError, run_record.check, folder, folder.config)


def test_a_file_that_is_gone_or_was_never_written_is_refused(folder):
    folder.summary.unlink()
    with pytest.raises(errors.DataError, match=r"summary.json: missing or damaged"):
        run_record.check(folder, folder.summary)
    folder.model.write_bytes(b"x")
    assert "not on record" in message_of(errors.DataError, run_record.check, folder, folder.model)


@pytest.mark.parametrize("is_last", [False, True])
def test_a_kill_between_the_files_leaves_a_record_that_is_accepted(folder, monkeypatch, is_last):
    """The manifest allows the old and the new content of a file until all are replaced."""
    real, written = files.write, []

    def write(path, content):
        if path != folder.manifest and len(written) == int(is_last):
            raise KeyboardInterrupt
        written.extend([path] if path != folder.manifest else [])
        real(path, content)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(KeyboardInterrupt):
        run_record.write_json(folder, {folder.config: {"lr": 0.3}, folder.summary: {"loss": 1.0}})
    monkeypatch.undo()
    assert run_record.changed(folder) == []


@pytest.mark.parametrize("plain", [
    [], {}, {"run": 1, "files": {}}, {"run": RUN, "files": []},
    {"run": RUN, "files": {"../../etc/passwd": [ENTRY]}},
    {"run": RUN, "files": {"/etc/passwd": [ENTRY]}}, {"run": RUN, "files": {"x": ENTRY}},
    {"run": RUN, "files": {"x": [0]}},
    {"run": RUN, "files": {"x": [{"bytes": "1"}]}}, {"run": "../../mine", "files": {}},
])  # fmt: skip
def test_a_manifest_of_another_shape_is_refused_though_it_is_signed(folder, plain):
    if isinstance(plain, dict):
        plain["sha256"] = checksums.own(plain)
    folder.manifest.write_text(json.dumps(plain))
    with pytest.raises(errors.DataError, match=r"manifest.json: missing or damaged"):
        run_record.manifest_of(folder)


def test_a_changed_manifest_is_noticed(folder):
    text = folder.manifest.read_text()
    folder.manifest.write_text(text.replace("config.json", "conf1g.json"))
    with pytest.raises(errors.DataError, match="its own SHA-256 differs"):
        run_record.check(folder, folder.config)


def test_a_run_is_what_a_sound_manifest_says(folder, tmp_path):
    run = run_record.identity(folder)
    assert run_record.holds_run(folder) and run_record.holds_run(folder, run)
    assert not run_record.holds_run(folder, "0" * 16)
    with pytest.raises(FileExistsError):
        run_record.begin(folder)
    text = folder.manifest.read_text()
    folder.manifest.write_text(text.replace(run, "0" * 16))
    assert not run_record.holds_run(folder)
    folder.manifest.unlink()
    folder.status.write_text('{"status": "done"}')
    assert not run_record.holds_run(folder)


def test_files_that_the_manifest_does_not_list_are_not_the_runs(folder):
    for name in ("model.safetensors", "model-ema.safetensors", "data.json", "notes.txt"):
        (folder.path / name).write_text("of another program")
    folder.hydra.mkdir()
    (folder.hydra / "config.yaml").write_text("of another program")
    folder.metrics.write_text("grows, and is the run's by its name")

    assert run_record.unlisted(folder) == [
        ".hydra/config.yaml", "data.json", "model-ema.safetensors", "model.safetensors",
    ]  # fmt: skip
    run_record.announce(folder, folder.model)
    assert "model.safetensors" not in run_record.unlisted(folder)
    assert "not on record" in message_of(errors.DataError, run_record.check, folder, folder.model)
