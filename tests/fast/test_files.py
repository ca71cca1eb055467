"""Files and folders that are there whole or not at all, whatever goes wrong on the way."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andiron.disk import files

DISK_FULL = OSError(errno.ENOSPC, "No space left on device")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail_in_write(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The second call of `os.write` fails; the first wrote three bytes."""
    write, calls = os.write, []

    def short_then_full(descriptor: int, content: bytes) -> int:
        calls.append(descriptor)
        if len(calls) > 1:
            raise error
        return write(descriptor, bytes(content)[:3])

    patch.setattr(os, "write", short_then_full)


def fail_in_fsync(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fsync(descriptor: int) -> None:
        raise error

    patch.setattr(os, "fsync", fsync)


def fail_in_rename(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    def rename(self: Path, target: Path) -> Path:
        raise error

    patch.setattr(Path, "replace", rename)
    patch.setattr(Path, "rename", rename)


Failure = Callable[[pytest.MonkeyPatch, BaseException], None]
each_failure = pytest.mark.parametrize("fail", [fail_in_write, fail_in_fsync, fail_in_rename])
each_error = pytest.mark.parametrize(
    "error", [DISK_FULL, KeyboardInterrupt()], ids=["disk-full", "interrupted"]
)


def test_write_replaces_the_whole_of_a_longer_file(tmp_path: Path) -> None:
    files.write(tmp_path / "status", b"a long first content")
    files.write(tmp_path / "status", b"short")
    assert (tmp_path / "status").read_bytes() == b"short"
    files.write(tmp_path / "status", b"")
    assert (tmp_path / "status").read_bytes() == b""


def test_write_continues_when_the_system_takes_only_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(
        os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:3])
    )
    files.write(tmp_path / "status", b"eleven byte")
    assert (tmp_path / "status").read_bytes() == b"eleven byte"


@each_failure
@each_error
def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    fail: Failure, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "status").write_bytes(b"the old content")
    with monkeypatch.context() as patch:
        fail(patch, error)
        with pytest.raises(type(error)) as raised:
            files.write(tmp_path / "status", b"the new content")
    assert raised.value is error
    assert (tmp_path / "status").read_bytes() == b"the old content"
    assert names(tmp_path) == ["status"]


def test_the_new_file_is_on_the_disk_before_it_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        seen.append((tmp_path / "status").read_bytes())

    (tmp_path / "status").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", watched)
    files.write(tmp_path / "status", b"new")
    assert seen == [b"old", b"new"]  # the file's content, then its folder's names


def test_a_new_file_has_the_permissions_that_open_would_give_it(tmp_path: Path) -> None:
    files.write(tmp_path / "written", b"content")
    (tmp_path / "opened").write_bytes(b"content")
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "opened").stat().st_mode


def test_write_json_is_read_back_equal_and_laid_out_for_a_reader(tmp_path: Path) -> None:
    value = {"name": "Gödel", "loss": 0.1, "counts": [1, 2], "best": None, "done": True}
    files.write_json(tmp_path / "summary.json", value)
    assert files.read_json(tmp_path / "summary.json") == value
    files.write_json(tmp_path / "short.json", {"a": [1]})
    assert (tmp_path / "short.json").read_text() == '{\n  "a": [\n    1\n  ]\n}\n'


def test_a_value_that_json_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    files.write_json(tmp_path / "summary.json", {"loss": 0.5})
    with pytest.raises(TypeError, match="not JSON serializable"):
        files.write_json(tmp_path / "summary.json", {"loss": object()})
    assert files.read_json(tmp_path / "summary.json") == {"loss": 0.5}
    assert names(tmp_path) == ["summary.json"]


def test_as_json_is_one_line_that_json_reads_back_equal() -> None:
    value = {"history": [[1, 0.1], [2, 1 / 3]], "text": "two\nlines"}
    line = files.as_json(value)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == value


CONTENTS = {"model.safetensors": bytes(range(256)), "state.json": b'{"updates": 7}\n', "empty": b""}


def pieces() -> dict[str, files.Pieces]:
    """CONTENTS, each cut in two."""
    return {
        name: iter([content[:3], memoryview(content)[3:]]) for name, content in CONTENTS.items()
    }


def test_write_folder_makes_the_folder_with_all_its_files(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "checkpoints" / "step-7", pieces())
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "checkpoints" / "step-7").iterdir()
    } == CONTENTS
    assert names(tmp_path / "checkpoints") == ["step-7"]


@each_failure
@each_error
def test_a_folder_that_fails_to_be_written_is_not_there_at_all(
    fail: Failure, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail(patch, error)
        with pytest.raises(type(error)) as raised:
            files.write_folder(tmp_path / "step-7", pieces())
    assert raised.value is error
    assert names(tmp_path) == []


def test_the_folder_has_its_name_only_when_every_file_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        seen.append((tmp_path / "step-7").exists())

    monkeypatch.setattr(os, "fsync", watched)
    files.write_folder(tmp_path / "step-7", pieces())
    # three files, their names in the folder, the folder's own name
    assert seen == [False, False, False, False, True]


def test_write_folder_refuses_a_folder_that_holds_something_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "step-7").mkdir()
    (tmp_path / "step-7" / "notes").write_bytes(b"somebody's")
    with pytest.raises(OSError, match="Directory not empty"):
        files.write_folder(tmp_path / "step-7", pieces())
    assert (tmp_path / "step-7" / "notes").read_bytes() == b"somebody's"
    assert names(tmp_path / "step-7") == ["notes"]
    assert names(tmp_path) == ["step-7"]


def test_write_folder_refuses_the_name_of_a_file_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "step-7").write_bytes(b"somebody's")
    with pytest.raises(NotADirectoryError):
        files.write_folder(tmp_path / "step-7", pieces())
    assert (tmp_path / "step-7").read_bytes() == b"somebody's"
    assert names(tmp_path) == ["step-7"]


def test_write_folder_takes_the_place_of_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "step-7").mkdir()
    files.write_folder(tmp_path / "step-7", pieces())
    assert {path.name: path.read_bytes() for path in (tmp_path / "step-7").iterdir()} == CONTENTS


def test_a_file_of_a_folder_may_depend_on_what_was_written_before_it(tmp_path: Path) -> None:
    seen = []

    def first() -> Iterator[bytes]:
        seen.append("first")
        yield b"first"

    def second() -> Iterator[bytes]:
        yield f"after {seen}".encode()

    files.write_folder(tmp_path / "step-7", {"a": first(), "b": second()})
    assert (tmp_path / "step-7" / "b").read_bytes() == b"after ['first']"


def test_a_folder_whose_own_name_is_not_durable_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, calls = os.fsync, []

    def fail_at_last(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 5:
            raise DISK_FULL
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_at_last)
    with pytest.raises(OSError, match="No space left on device"):
        files.write_folder(tmp_path / "step-7", pieces())
    assert names(tmp_path) == []


def test_remove_folder_removes_named_files_and_the_folder_only(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "step-7", pieces())
    files.write_folder(tmp_path / "step-8", pieces())
    assert files.remove_folder(tmp_path / "step-7", CONTENTS) == []
    assert names(tmp_path) == ["step-8"]
    assert names(tmp_path / "step-8") == sorted(CONTENTS)


def test_remove_folder_leaves_what_is_not_named_where_it_was_and_says_what(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "step-7", pieces())
    (tmp_path / "step-7" / "notes").mkdir()
    (tmp_path / "step-7" / "notes" / "state.json").write_bytes(b"somebody's")
    (tmp_path / "step-7" / "thoughts").write_bytes(b"somebody's")
    assert files.remove_folder(tmp_path / "step-7", [*CONTENTS, "never there"]) == [
        "notes", "thoughts",
    ]  # fmt: skip
    assert names(tmp_path) == ["step-7"]
    assert names(tmp_path / "step-7") == ["notes", "thoughts"]
    assert (tmp_path / "step-7" / "notes" / "state.json").read_bytes() == b"somebody's"


def test_a_folder_in_the_place_of_a_file_that_is_to_be_removed_stays(tmp_path: Path) -> None:
    (tmp_path / "step-7" / "empty").mkdir(parents=True)
    assert files.remove_folder(tmp_path / "step-7", ["empty"]) == ["empty"]
    assert names(tmp_path / "step-7") == ["empty"]


def test_a_folder_half_removed_has_its_name_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_folder(tmp_path / "step-7", pieces())
    unlink, removed = Path.unlink, []

    def fail_at_second(self: Path, missing_ok: bool = False) -> None:
        if removed:
            raise OSError(errno.EIO, "Input/output error")
        removed.append(self.name)
        unlink(self)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail_at_second)
        with pytest.raises(OSError, match="Input/output error"):
            files.remove_folder(tmp_path / "step-7", CONTENTS)
    ((partial, name),) = files.partials(tmp_path).items()
    assert name == "step-7" and names(tmp_path) == [partial.name]
    files.remove_partial(partial, CONTENTS)
    assert names(tmp_path) == []
