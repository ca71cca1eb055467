"""Files that only grow: on the disk as soon as they can be, whole, in order, once."""

import errno
import logging
import shutil
import threading

import pytest

from andiron.disk.append_only import AppendOnlyFile

LINES = [f"line {number} {'x' * (number % 97)}\n".encode() for number in range(2000)]


@pytest.fixture
def said(caplog):
    """The log's records, as (level, message)."""
    caplog.set_level(logging.DEBUG, logger="andiron")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def test_every_append_is_in_the_file_when_it_returns(tmp_path):
    file = AppendOnlyFile(tmp_path / "log")
    for number in range(1, 8):
        file.append(LINES[number])
        assert (tmp_path / "log").read_bytes() == b"".join(LINES[1 : number + 1])
        assert file.size == file.end == len(b"".join(LINES[1 : number + 1]))
    file.close()


def test_what_was_there_stays_and_a_header_begins_only_a_new_file(tmp_path):
    for line in (b"one\n", b"two\n"):
        file = AppendOnlyFile(tmp_path / "log", header=b"header\n")
        file.append(line)
        file.close()
    assert (tmp_path / "log").read_bytes() == b"header\none\ntwo\n"


def test_a_removed_folder_is_made_again_and_the_file_continues(tmp_path, said):
    path = tmp_path / "run" / "deep" / "log"
    path.parent.mkdir(parents=True)
    file = AppendOnlyFile(path, header=b"header\n")
    file.append(b"one\n")
    shutil.rmtree(tmp_path / "run")
    for line in (b"two\n", b"three\n"):
        file.append(line)
    assert path.read_bytes() == b"header\ntwo\nthree\n"
    assert said() == [
        ("WARNING", f"{path} was removed, with all that was in it; what comes goes to a new file")
    ]
    assert file.size == file.end == 17
    file.close()


def test_closing_makes_no_removed_file_again(tmp_path, said):
    file = AppendOnlyFile(tmp_path / "log", header=b"header\n")
    file.append(b"one\n")
    (tmp_path / "log").unlink()
    file.close()
    assert list(tmp_path.iterdir()) == []
    assert said() == []


def test_a_path_that_leads_to_another_file_is_followed(tmp_path, said):
    path = tmp_path / "log"
    file = AppendOnlyFile(path)
    file.append(b"one\n")
    path.rename(tmp_path / "log.1")
    path.write_bytes(b"other\n")
    file.append(b"two\n")
    file.close()
    assert (path.read_bytes(), (tmp_path / "log.1").read_bytes()) == (b"other\ntwo\n", b"one\n")
    assert [level for level, _ in said()] == ["WARNING"]


def test_a_folder_that_became_a_file_is_waited_for(tmp_path, said):
    path = tmp_path / "run" / "log"
    path.parent.mkdir()
    file = AppendOnlyFile(path)
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    for line in (b"one\n", b"two\n"):
        file.append(line)
    assert (file.size, file.pending) == (0, 8)
    path.parent.unlink()
    file.append(b"three\n")
    file.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert [level for level, _ in said()] == ["WARNING", "WARNING", "INFO"]


def test_a_file_that_cannot_be_opened_is_an_error_unless_it_can_wait(tmp_path, said):
    (tmp_path / "run").write_text("in the way")
    with pytest.raises(NotADirectoryError):
        AppendOnlyFile(tmp_path / "run" / "log")
    file = AppendOnlyFile(tmp_path / "run" / "log", required=False)
    file.append(b"one\n")
    assert "cannot be written (" in said()[0][1]
    (tmp_path / "run").unlink()
    file.append(b"two\n")
    file.close()
    assert (tmp_path / "run" / "log").read_bytes() == b"one\ntwo\n"


def test_cutting_back_and_going_on_is_never_having_gone_further(tmp_path, said):
    file = AppendOnlyFile(tmp_path / "log")
    for line in LINES[:7]:
        file.append(line)
    size = file.end
    for line in LINES[7:12]:
        file.append(line)
    file.truncate(size)
    assert file.size == size
    for line in LINES[7:20]:
        file.append(line)
    file.close()
    assert (tmp_path / "log").read_bytes() == b"".join(LINES[:20])
    assert said() == []


def test_bytes_that_are_not_there_to_be_kept_are_warned_of(tmp_path, said):
    file = AppendOnlyFile(tmp_path / "log")
    file.append(b"12345")
    file.truncate(12)
    file.append(b"6")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"123456"
    assert said() == [("WARNING", f"{tmp_path}/log: 7 logged bytes are missing")]


def test_threads_never_mix_their_lines(tmp_path):
    file = AppendOnlyFile(tmp_path / "log")
    threads = [
        threading.Thread(
            target=lambda k=k: [file.append(f"{k} {n}\n".encode()) for n in range(500)]
        )
        for k in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{k} {n}" for k in range(5) for n in range(500))
    assert all(
        [line for line in lines if line[0] == str(k)] == [f"{k} {n}" for n in range(500)]
        for k in range(5)
    )


def test_a_file_that_is_refused_is_closed_and_raises(tmp_path):
    refused = []

    def claim(file):
        refused.append(file)
        raise BlockingIOError(errno.EAGAIN, "held")

    with pytest.raises(BlockingIOError, match="held"):
        AppendOnlyFile(tmp_path / "log", claim=claim)
    assert refused[0].closed


def test_each_newly_opened_file_is_claimed(tmp_path):
    claimed = []
    file = AppendOnlyFile(tmp_path / "log", claim=lambda file: claimed.append(file.name))
    (tmp_path / "log").unlink()
    file.append(b"one\n")
    file.close()
    assert claimed == [tmp_path / "log"] * 2
