"""The log file on a full disk, and shared with other processes."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from small_disks import fill, mounted

from andiron import errors
from andiron.disk.append_only import AppendOnlyFile
from andiron.shell.run import log_file
from andiron.shell.run.log_file import LogFile
from refusals import message_of

SOURCE = Path(__file__).resolve().parents[3] / "src"
HOLDER = """
import os, sys, time
from pathlib import Path
from andiron.shell.run.log_file import LogFile
holder = LogFile(Path(sys.argv[1]))
if sys.argv[2:] == ["fork"] and not os.fork():
    os.close(1)
    time.sleep(60)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", mebibytes=1) as folder:
        yield folder


@pytest.fixture
def holder(tmp_path):
    """Starts another process that has the log; all are ended afterwards."""
    started = []

    def start(*options):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, tmp_path / "experiment.log", *options],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        assert int(process.stdout.readline()) == process.pid
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.communicate(timeout=20)


def messages(path):
    """(level, message) of every line, the time checked and taken off."""
    result = [
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (\w+) (.*)", line)
        for line in path.read_text().splitlines()
    ]
    return [match.groups() for match in result]


def test_another_process_is_refused_until_the_first_has_ended(tmp_path, holder):
    first = holder()
    assert message_of(errors.RunFolderError, LogFile, tmp_path / "experiment.log") == (
        f"another process trains the run in this folder: it has {tmp_path}/experiment.log locked; "
        "end it first, or choose another hydra.run.dir"
    )
    first.communicate(b"", timeout=20)
    LogFile(tmp_path / "experiment.log").close()


def test_a_killed_process_has_it_no_more_though_its_forked_worker_lives(tmp_path, holder):
    first = holder("fork")
    with pytest.raises(
        errors.RunFolderError, match="another process trains the run in this folder"
    ):
        LogFile(tmp_path / "experiment.log")
    first.kill()
    first.wait(timeout=20)
    os.killpg(first.pid, 0)  # the worker is there
    LogFile(tmp_path / "experiment.log").close()


def test_a_forked_worker_that_ends_leaves_it_to_the_process(tmp_path):
    with closing(LogFile(tmp_path / "experiment.log")) as handler:
        child = os.fork()
        if not child:
            handler.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        refused = subprocess.run(
            [sys.executable, "-c", HOLDER, tmp_path / "experiment.log"],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert "RunFolderError: another process trains the run in this folder" in refused.stderr


def test_a_closed_log_is_anybodys(tmp_path, holder):
    LogFile(tmp_path / "experiment.log").close()
    assert holder().poll() is None


def test_a_log_made_again_is_locked_again(tmp_path, log):
    path = tmp_path / "run" / "experiment.log"
    path.parent.mkdir()
    with closing(LogFile(path)) as handler:
        log.addHandler(handler)
        shutil.rmtree(path.parent)
        log.info("continues")
        refused = subprocess.run(
            [sys.executable, "-c", HOLDER, path],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert "RunFolderError: another process trains the run in this folder" in refused.stderr
        log.removeHandler(handler)
    assert messages(path) == [  # read only now: closing the file after reading it unlocks it
        ("INFO", "continues"),
        ("WARNING", f"{path} was removed, with all that was in it; what comes goes to a new file"),
    ]


def test_where_there_are_no_locks_it_goes_without(tmp_path, holder, monkeypatch):
    holder()
    monkeypatch.setattr(log_file, "fcntl", None)
    LogFile(tmp_path / "experiment.log").close()


def test_a_full_disk_neither_raises_nor_prints_and_is_logged_later(small_disk, log, capfd):
    path = small_disk / "experiment.log"
    with (
        closing(LogFile(path)) as handler,
        closing(AppendOnlyFile(small_disk / "metrics.jsonl")) as metrics,
    ):
        log.addHandler(handler)
        log.info("before")
        filler = fill(small_disk)
        log.info("x" * 4096)
        metrics.append(b"{}\n")
        log.info("meanwhile")
        filler.unlink()
        metrics.append(b"{}\n")
        log.info("after")
        log.removeHandler(handler)
    reason = (
        "cannot be written (No space left on device); training continues; logged values stay in "
        "memory and writing is retried"
    )
    assert messages(path) == [
        ("INFO", "before"),
        ("INFO", "x" * 4096),
        ("WARNING", f"{path} {reason}"),
        ("WARNING", f"{small_disk}/metrics.jsonl {reason}"),
        ("INFO", "meanwhile"),
        ("INFO", f"{small_disk}/metrics.jsonl is written again"),
        ("INFO", f"{path} is written again"),
        ("INFO", "after"),
    ]
    assert (small_disk / "metrics.jsonl").read_bytes() == b"{}\n{}\n"
    assert capfd.readouterr().err == ""


def test_closing_on_a_full_disk_reports_to_the_other_handlers(small_disk, log, caplog):
    handler = LogFile(small_disk / "experiment.log")
    log.addHandler(handler)
    fill(small_disk)
    log.info("lost")
    handler.close()
    assert re.fullmatch(
        r".*experiment\.log still cannot be written: \d+ bytes of it are lost", caplog.messages[-1]
    )
