"""Files that only grow, on a full disk and when the process is killed."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_disks import fill, mounted

from andiron.disk.append_only import AppendOnlyFile

SOURCE = Path(__file__).resolve().parents[2] / "src"
LINES = [f"line {number} {'x' * (number % 97)}\n".encode() for number in range(2000)]


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", mebibytes=1) as folder:
        yield folder


@pytest.fixture
def said(caplog):
    """The log's records, as (level, message)."""
    caplog.set_level(logging.DEBUG, logger="andiron")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_full_disk_is_reported_once_and_loses_nothing_once_freed(small_disk, said):
    file = AppendOnlyFile(small_disk / "log")
    filler = fill(small_disk, leave=8192)
    written = 0
    for line in LINES:  # 116 kB: the disk fills up in the midst of one
        file.append(line)
        written += len(line)
        on_disk = (small_disk / "log").read_bytes()
        # no half line
        assert on_disk == b"".join(LINES)[: len(on_disk)] and on_disk.endswith(b"\n")
        assert (file.size, file.size + file.pending, file.end) == (len(on_disk), written, written)
    assert 8192 - len(max(LINES, key=len)) < file.size <= 8192
    assert said() == [(
        "WARNING",
        f"{small_disk}/log cannot be written (No space left on device); training continues; "
        "logged values stay in memory and writing is retried",
    )]  # fmt: skip

    filler.unlink()
    file.append(b"the last\n")

    assert (small_disk / "log").read_bytes() == b"".join(LINES) + b"the last\n"
    assert said()[1:] == [("INFO", f"{small_disk}/log is written again")]
    assert file.pending == 0
    file.close()


def test_a_disk_that_fills_up_again_is_said_again(small_disk, said):
    file = AppendOnlyFile(small_disk / "log")
    for _ in range(2):
        filler = fill(small_disk)
        for line in LINES[:100]:
            file.append(line)
        filler.unlink()
        file.append(b"\n")
    file.close()
    assert (small_disk / "log").read_bytes() == 2 * (b"".join(LINES[:100]) + b"\n")
    assert [level for level, _ in said()] == ["WARNING", "INFO", "WARNING", "INFO"]


def test_closing_tries_once_more(small_disk, said):
    file = AppendOnlyFile(small_disk / "log")
    filler = fill(small_disk)
    file.append(bytes(5000))
    filler.unlink()
    file.close()
    file.close()
    assert (small_disk / "log").read_bytes() == bytes(5000)
    assert said()[1:] == [("INFO", f"{small_disk}/log is written again")]


def test_what_is_lost_in_the_end_is_said(small_disk, said):
    file = AppendOnlyFile(small_disk / "log")
    fill(small_disk)
    file.append(bytes(5000))
    file.close()
    assert said()[1:] == [
        ("WARNING", f"{small_disk}/log still cannot be written: 5000 bytes of it are lost")
    ]
    with pytest.raises(ValueError, match="was closed: nothing can be appended to it"):
        file.append(b"more")


def test_a_header_waits_for_space_too(small_disk):
    filler = fill(small_disk)
    file = AppendOnlyFile(small_disk / "log", header=b"header\n")
    file.append(b"one\n")
    assert (file.size, file.end) == (0, 11)
    filler.unlink()
    file.append(b"two\n")
    file.close()
    assert (small_disk / "log").read_bytes() == b"header\none\ntwo\n"


def test_cutting_back_forgets_what_waits(small_disk):
    file = AppendOnlyFile(small_disk / "log")
    file.append(b"one\n")
    filler = fill(small_disk)
    for _ in range(3):
        file.append(bytes(4096))
    file.truncate(2)
    filler.unlink()
    file.append(b"!")
    file.close()
    assert (small_disk / "log").read_bytes() == b"on!"


def test_a_signal_in_the_midst_of_an_append_may_append_too(small_disk):
    file = AppendOnlyFile(small_disk / "log")
    filler = fill(small_disk)  # what waits is written in a loop that the signals break into
    for line in LINES:
        file.append(line)
    seen = []

    def handler(number, frame):
        line = f"signal {len(seen)}\n".encode()  # another signal may come before the next line
        seen.append(line)
        file.append(line)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
        filler.unlink()
        deadline = time.monotonic() + 60
        while len(seen) < 50 and time.monotonic() < deadline:
            file.append(b"plain\n")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    file.close()
    lines = (small_disk / "log").read_bytes().splitlines(keepends=True)
    assert [line for line in lines if line.startswith(b"line")] == LINES
    # a handler may break into itself
    assert sorted(line for line in lines if line.startswith(b"signal")) == sorted(seen)
    assert len(seen) >= 50


SCRIPT_THAT_IS_KILLED = """
import sys
from pathlib import Path
from andiron.disk.append_only import AppendOnlyFile
file = AppendOnlyFile(Path(sys.argv[1]))
for number in range(10**9):
    file.append(b"%d\\n" % number)
    print(number, flush=True)
"""


def test_what_a_killed_process_appended_is_there(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT_THAT_IS_KILLED, tmp_path / "log"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    for _ in range(1000):
        process.stdout.readline()
    process.kill()
    output, _ = process.communicate(timeout=60)
    numbers = [int(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 1000 + output.count(b"\n")


def test_a_forked_process_leaves_what_waits_to_its_parent(small_disk):
    file = AppendOnlyFile(small_disk / "log")
    filler = fill(small_disk)
    file.append(b"of the parent\n" * 1000)
    filler.unlink()
    child = os.fork()
    if not child:
        file.append(b"of the child\n")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    file.append(b"the last\n")
    file.close()
    assert (
        small_disk / "log"
    ).read_bytes() == b"of the child\n" + b"of the parent\n" * 1000 + b"the last\n"
