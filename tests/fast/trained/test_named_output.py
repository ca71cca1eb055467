"""The output files that a user names are written or refused."""

import os
import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from andiron import errors
from andiron.wings.trained import named_output
from refusals import message_of

DEVICE_NUMBERS = {"null": (stat.S_IFCHR, 1, 3), "full": (stat.S_IFCHR, 1, 7),
                  "disk": (stat.S_IFBLK, 7, 200)}  # fmt: skip


@pytest.fixture
def device(here):
    """A device node of its own, which only root can make."""

    def make(name):
        kind, major, minor = DEVICE_NUMBERS[name]
        try:
            os.mknod(name, kind | 0o666, os.makedev(major, minor))
            if kind == stat.S_IFCHR:
                os.close(os.open(name, os.O_RDONLY))
        except (OSError, AttributeError) as error:
            pytest.skip(f"no device can be made or opened here: {error}")
        return here / name

    return make


def refused(path, inputs=()):
    """The reason why nothing is written there; nothing is created."""
    before = sorted(os.listdir())

    def pieces():
        pytest.fail("a piece was made")
        yield b""

    for act in (lambda: named_output.check(path, inputs),
                lambda: named_output.write(path, pieces(), inputs)):  # fmt: skip
        with pytest.raises(errors.OutputError) as error:
            act()
        assert sorted(os.listdir()) == before
    said = str(error.value)
    assert said.startswith(f"{path}: ") and said.endswith("; name another file")
    return said.removeprefix(f"{path}: ").removesuffix("; name another file")


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_file_is_replaced_whole_or_not_at_all(here, old):
    path = here / "out.csv"
    if old is not None:
        path.write_bytes(old)

    def failing():
        yield b"new"
        raise ValueError("no more")

    assert "no more" in message_of(ValueError, named_output.write, path, failing())
    assert os.listdir() == ([] if old is None else ["out.csv"])
    assert old is None or path.read_bytes() == old

    named_output.write(path, [b"new", memoryview(b"er")])
    assert (os.listdir(), path.read_bytes()) == (["out.csv"], b"newer")


def test_a_link_is_refused_wherever_it_leads(here):
    (here / "file").write_text("kept")
    for name, target in (("to-file", "file"), ("to-nothing", "nothing"), ("to-null", os.devnull)):
        (here / name).symlink_to(target)
        assert refused(here / name) == f"is a link to {target}"
    assert (here / "file").read_text() == "kept" and not (here / "nothing").exists()


def test_folders_sockets_and_missing_folders_are_refused(here):
    (here / "folder").mkdir()
    (here / "file").write_text("kept")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        assert refused(here / "socket") == "is no file, pipe or character device"
    assert refused(here / "folder") == refused(here / "folder" / "..") == "is a folder"
    for name in ("none", "file"):
        why = f"cannot be written (there is no folder {here / name})"
        assert refused(here / name / "out.csv") == why


def test_an_input_is_refused_by_any_of_its_names(here):
    (here / "rows.csv").write_text("kept")
    os.link("rows.csv", "hard.csv")
    (here / "soft.csv").symlink_to("rows.csv")
    (here / "sub").mkdir()
    for name, given in (("rows.csv", "rows.csv"), ("hard.csv", "rows.csv"),
                        ("rows.csv", "soft.csv"), ("sub/../rows.csv", "rows.csv")):  # fmt: skip
        assert refused(here / name, ["a text", "x" * 9999, given]) == "is an input of this command"
    named_output.write(here / "other.csv", [b"x"], ["rows.csv", "-"])


def test_a_file_in_a_run_folder_is_refused_however_it_is_reached(finished_digits, here):
    (here / "link").symlink_to(finished_digits)
    before = sorted(finished_digits.rglob("*"))
    inside = f"is inside the run folder {finished_digits.resolve()}"
    for name in ("model.safetensors", "new.csv", "checkpoints/new.csv"):
        assert refused(finished_digits / name) == refused(here / "link" / name) == inside
    with pytest.raises(errors.OutputError, match="is inside the run folder"):
        named_output.check_folder(here / "link" / "a" / "b")
    assert sorted(finished_digits.rglob("*")) == before


def test_a_file_of_a_sweep_is_not_replaced(here):
    (here / "sweep.jsonl").write_text("{}\n")
    for name in ("sweep.jsonl", "study.db"):
        (here / name).write_text("kept")
        assert refused(here / name) == "is in the folder of a sweep, whose files are not replaced"
    named_output.write(here / "new.csv", [b"x"])


def test_a_pipe_is_written_to_and_stays_a_pipe(here):
    os.mkfifo("pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((here / "pipe").read_bytes()))
    reader.start()
    named_output.write(here / "pipe", [b"one", b"two"])
    reader.join()
    assert got == [b"onetwo"] and stat.S_ISFIFO(os.lstat("pipe").st_mode)
    assert os.listdir() == ["pipe"]


def test_a_character_device_is_written_to_and_stays_a_device(device):
    null, full = device("null"), device("full")
    named_output.write(null, [b"gone"])
    with pytest.raises(errors.OutputError, match=r"full: cannot be written \(No space left"):
        named_output.write(full, [b"no room"])
    for path in null, full:
        assert stat.S_ISCHR(path.lstat().st_mode)


def test_a_block_device_is_refused(device):
    assert refused(device("disk")) == "is no file, pipe or character device"


def test_an_open_descriptor_is_written_to_if_it_is_a_pipe(here):
    if not os.path.isdir("/dev/fd"):
        pytest.skip("there is no /dev/fd here")
    read, write = os.pipe()
    named_output.write(Path(f"/dev/fd/{write}"), [b"one", b"two"])
    os.close(write)
    with open(read, "rb") as pipe, open("rows.csv", "wb") as file:
        assert pipe.read() == b"onetwo"
        assert refused(Path(f"/dev/fd/{file.fileno()}")).startswith("is a link to ")


def test_a_place_that_may_not_be_written_is_refused_at_once(here):
    if shutil.which("chattr") is None:
        pytest.skip("needs chattr")
    (here / "locked").mkdir()
    (here / "file").write_text("kept")
    names = [here / "locked", here / "file"]
    if subprocess.run(["chattr", "+i", *names], capture_output=True).returncode:
        pytest.skip("nothing can be made immutable here")
    try:
        for path in here / "locked" / "out.csv", here / "file":
            assert refused(path) == "cannot be written (no permission, or read-only)"
        with pytest.raises(errors.OutputError, match="no permission, or read-only"):
            named_output.check_folder(here / "locked" / "a" / "b")
    finally:
        subprocess.run(["chattr", "-i", *names], check=True)


def test_a_folder_for_outputs_may_be_missing_and_must_not_be_a_file(here):
    (here / "file").write_text("kept")
    (here / "link").symlink_to(here)
    named_output.check_folder(here / "a" / "b")
    named_output.check_folder(here / "link")
    for path, why in ((here / "file", "is not a folder"),
                      (here / "file" / "a", f"{here / 'file'} is not a folder")):  # fmt: skip
        with pytest.raises(errors.OutputError) as error:
            named_output.check_folder(path)
        assert str(error.value) == f"{path}: {why}; name another folder"
    assert sorted(os.listdir()) == ["file", "link"]
