"""The log of a run: one process at a time holds it, and no disk error in it ends the run."""

import errno
import logging
import re
from contextlib import closing


from andiron import errors
from andiron.shell.run import log_file
from andiron.shell.run.log_file import LogFile
from refusals import message_of


def messages(path):
    """(level, message) of every line, without the time, which is checked."""
    result = [
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (\w+) (.*)", line)
        for line in path.read_text().splitlines()
    ]
    return [match.groups() for match in result]


def test_a_line_has_the_time_the_level_and_the_message(tmp_path, log, monkeypatch):
    monkeypatch.setattr(log, "propagate", False)  # pytest-xdist cannot pass on what is not Unicode
    with closing(LogFile(tmp_path / "experiment.log")) as handler:
        log.addHandler(handler)
        log.info("epoch %d of %d", 1, 3)
        log.debug("naïve \udcff")
        assert messages(tmp_path / "experiment.log") == [
            ("INFO", "epoch 1 of 3"),
            ("DEBUG", "naïve \\udcff"),
        ]
        log.removeHandler(handler)


def test_a_log_that_cannot_be_written_is_refused_with_the_reason(tmp_path):
    (tmp_path / "experiment.log").mkdir()
    assert message_of(errors.RunFolderError, LogFile, tmp_path / "experiment.log") == (
        f"{tmp_path}/experiment.log cannot be written (Is a directory); choose another place with "
        "hydra.run.dir=..."
    )


def test_a_file_system_that_cannot_lock_is_warned_of(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(log_file.fcntl, "lockf", refuse)
    LogFile(tmp_path / "experiment.log").close()
    assert caplog.messages == [
        f"{tmp_path}/experiment.log cannot be locked (No locks available): a second process could "
        "train this run too"
    ]


def test_arguments_that_do_not_fit_their_message_are_not_the_callers_end(
    tmp_path, log, capsys, monkeypatch
):
    monkeypatch.setattr(logging, "raiseExceptions", True)
    with closing(LogFile(tmp_path / "experiment.log")) as handler:
        handler.emit(logging.LogRecord("andiron", logging.INFO, __file__, 1, "%d", ("word",), None))
        log.addHandler(handler)
        log.info("continues")
        log.removeHandler(handler)
    assert "--- Logging error ---" in capsys.readouterr().err
    assert messages(tmp_path / "experiment.log") == [("INFO", "continues")]
