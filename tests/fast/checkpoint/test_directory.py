"""The newest checkpoint that is whole is found, whatever lies beside it."""

import os
import shutil

import pytest
from checkpoints_made import checkpoint, equal, names

from andiron import errors
from andiron.checkpoint import LocalStore, contents, directory, load, newest_whole, write
from refusals import message_of


@pytest.fixture
def folder(tmp_path):
    """Four checkpoints, two of them at the same number of updates."""
    for name in ("step-9", "step-10", "step-10.2", "step-10.10"):
        write(tmp_path / name, checkpoint(int(name[5:].partition(".")[0])))
    return tmp_path


def damage(path):
    (path / "model.safetensors").write_bytes(b"")


def test_newest_is_by_numbers_and_not_by_letters(folder):
    assert newest_whole(folder)[0].name == "step-10.10"
    for newest, next_one in (
        ("step-10.10", "step-10.2"),
        ("step-10.2", "step-10"),
        ("step-10", "step-9"),
    ):
        shutil.rmtree(folder / newest)
        path, actual = newest_whole(folder)
        assert path == folder / next_one
        assert equal(actual, checkpoint(int(next_one[5:].partition(".")[0])))


def test_a_damaged_newer_one_is_reported_set_aside_and_kept(folder, caplog):
    damage(folder / "step-10.10")
    damage(folder / "step-10.2")
    assert newest_whole(folder)[0].name == "step-10"
    assert names(folder) == {"step-9", "step-10", "step-10.2.damaged", "step-10.10.damaged"}
    words = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(words) == 2
    file = folder / "step-10.10" / "model.safetensors"
    assert words[0].startswith(f"checkpoint step-10.10 is damaged and ignored: {file}: has 0")
    assert words[0].endswith("use another checkpoint; it is kept as step-10.10.damaged")
    caplog.clear()
    assert newest_whole(folder)[0].name == "step-10"
    assert not caplog.records


def test_what_was_set_aside_before_is_not_lost(folder):
    for expected in ("step-9.damaged", "step-9.damaged.2", "step-9.damaged.3"):
        shutil.rmtree(folder / "step-9")
        write(folder / "step-9", checkpoint(9))
        damage(folder / "step-9")
        taken = names(folder)
        assert directory.set_aside(LocalStore(folder), "step-9", "damaged", taken) == expected
        assert expected in taken
        write(folder / "step-9", checkpoint(9))
    assert {"step-9", "step-9.damaged", "step-9.damaged.2", "step-9.damaged.3"} < names(folder)


def test_many_damaged_checkpoints_are_listed_once(tmp_path, monkeypatch):
    for number in range(1, 301):
        (tmp_path / f"step-{number}").mkdir()
    store = LocalStore(tmp_path)
    listed = []
    entries = store.names
    monkeypatch.setattr(store, "names", lambda: listed.append(1) or entries())

    assert "nothing to resume from" in message_of(errors.DataError, directory.newest_whole, store)
    assert len(listed) == 1
    assert names(tmp_path) == {f"step-{number}.damaged" for number in range(1, 301)}


def test_if_renaming_fails_that_is_only_logged(folder, monkeypatch, caplog):
    damage(folder / "step-10.10")

    def refuse(self, target):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(type(folder), "rename", refuse)
    assert newest_whole(folder)[0].name == "step-10.2"
    assert "could not be renamed to step-10.10.damaged (Read-only file system)" in caplog.text


def test_none_at_all_is_an_error_that_says_what_to_do(tmp_path):
    assert message_of(errors.DataError, newest_whole, tmp_path / "checkpoints") == (
        f"no checkpoint in {tmp_path / 'checkpoints'}: nothing to resume from; restore one there, "
        "give the checkpoint.store that has one, or start another run"
    )


def test_none_that_is_whole_is_an_error_that_names_those_set_aside(folder):
    for name in names(folder):
        damage(folder / name)
    with pytest.raises(errors.DataError) as raised:
        newest_whole(folder)
    assert str(raised.value).startswith(
        f"no checkpoint in {folder} (step-10.10.damaged, step-10.2.damaged, step-10.damaged, "
        "step-9.damaged: damaged): nothing"
    )


def test_what_has_no_checkpoints_name_is_left_alone(folder, caplog):
    foreign = (
        "step-11.damaged", "step-011", "step-11.1", "step-11.02", "step--11",
        ".step-11.01234567.partial", "step-١٢",
    )  # fmt: skip
    for name in (*foreign, "mine"):
        (folder / name).mkdir()
    # of an earlier version, for people: it decides nothing
    (folder / "latest.json").write_text('{"name": "step-9", "updates": 9}')
    before = names(folder)
    assert newest_whole(folder)[0].name == "step-10.10"
    assert names(folder) == before and not caplog.records


def test_a_file_or_an_empty_folder_under_a_checkpoints_name_is_set_aside(folder):
    (folder / "step-12").write_text("a file")
    (folder / "step-11").mkdir()
    assert newest_whole(folder)[0].name == "step-10.10"
    assert (folder / "step-12.damaged").read_text() == "a file" and (
        folder / "step-11.damaged"
    ).is_dir()


def test_a_file_in_place_of_the_folder_is_no_checkpoint(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(errors.DataError, match="nothing to resume from"):
        newest_whole(tmp_path / "checkpoints")


def test_a_folder_that_cannot_be_read_is_reported(folder, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(folder), "iterdir", refuse)
    with pytest.raises(
        errors.DataError,
        match="cannot be read \\(Permission denied\\); make it readable, or resume from a copy",
    ):
        newest_whole(folder)


@pytest.mark.parametrize("updates, number, name", [
    (0, 1, "step-0"), (7, 1, "step-7"), (7, 2, "step-7.2"), (120, 31, "step-120.31"),
])  # fmt: skip
def test_a_name_and_its_place_are_each_others(updates, number, name):
    assert contents.step_name(updates, number) == name
    assert contents.step_place(name) == (updates, number)


def test_a_checkpoint_read_from_a_link_is_the_one_it_leads_to(folder):
    os.symlink(folder / "step-9", folder / "the best")
    assert equal(load(folder / "the best"), checkpoint(9))
