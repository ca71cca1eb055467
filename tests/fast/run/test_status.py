"""The status of a run is restored, and keeps the times of earlier sessions."""

import os
from datetime import UTC, datetime, timedelta

from andiron.run import status
from andiron.run_folder import RunFolder

START = datetime(2026, 11, 22, 7, 10, tzinfo=UTC)


def at(minutes):
    return (START + timedelta(minutes=minutes)).isoformat()


def test_a_file_that_is_too_large_is_not_read_to_be_put_back(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "status.json").touch()
    os.truncate(tmp_path / "status.json", 100 * 2**30)  # sparse
    paths = [tmp_path / name for name in ("config.json", "status.json", "none.json")]
    assert status.contents(paths) == {paths[0]: b"{}"}


def test_each_resume_adds_the_time_of_the_session_before_it(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log.touch()
    assert status.earlier_sessions(folder) == {"first_started": None, "earlier_seconds": 0.0}
    earlier = {}
    for first, last, total in ((0, 2, 120.0), (60, 61, 180.0), (90, 95, 480.0)):
        report = status.Report(lambda: None, started=at(first), earlier=earlier)
        report.write(folder, status="done", ended=at(last))
        earlier = status.earlier_sessions(folder)
        assert earlier == {"first_started": at(0), "earlier_seconds": total}


def test_a_killed_session_ended_with_the_last_line_of_its_log(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log.touch()
    last = (START + timedelta(minutes=5)).timestamp()
    os.utime(folder.log, (last, last))
    status.Report(lambda: None, started=at(0)).write(folder)
    assert status.earlier_sessions(folder)["earlier_seconds"] == 300.0
    folder.log.unlink()
    assert status.earlier_sessions(folder)["earlier_seconds"] == 0.0


def test_what_a_stranger_wrote_is_no_time(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log.touch()
    os.utime(folder.log, (10**12, 10**12))  # beyond the year 9999, where the disk can hold it
    for first in ("x" * 10**6, ["2026"], 10**30, "2026-11-22"):
        status.write(folder, {"started": at(0), "first_started": first})
        earlier = status.earlier_sessions(folder)
        assert earlier["first_started"] is None
