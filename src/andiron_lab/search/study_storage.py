"""The study of a sweep on disk, untrusted: checked before optuna reads it.

`study.db` has the tables of optuna and nothing else. `study.jsonl` has a record on each line.
"""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from andiron import errors
from andiron.disk import files
from andiron.ranges import MOST_TRIALS

FILES = {"sqlite": "study.db", "journal": "study.jsonl"}
MOST_BYTES = 256 * 2**20
MOST_STEPS = 10**6  # of sqlite's virtual machine, to list the tables: optuna's take 100
# ends a rollback journal that names another file, which sqlite would delete; a single database
# never writes one (sqlite.org/fileformat2.html, The Rollback Journal)
NAMES_A_FILE = bytes.fromhex("d9d505f920a163d7")
LONG_LINE = re.compile(rb"^[^\n]{1000000}", re.MULTILINE)  # parsed, it takes much memory
NEW_TRIAL = re.compile(rb'"op_code": *4\b')  # in a line of a journal
UNWRITTEN = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY
)  # fmt: skip


def storage(path: Path) -> BaseStorage:
    """The storage of a study file, for the process that has locked the sweep.

    Raises: ValueError for a file that no search wrote, or the errors of sqlite and optuna.
    """
    _check_size(path)
    return JournalStorage(_Lines(path)) if path.suffix == ".jsonl" else _database(path)


def why_unwritten(error: BaseException | None) -> str | None:
    """The reason if the disk caused the storage's error, else None."""
    while error is not None:
        if isinstance(error, OSError):
            return files.reason(error)
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in UNWRITTEN:  # the other bits say more
            return errors.first_line(error)
        error = error.__cause__
    return None


class _Lines(JournalFileBackend):
    """Records in a file of lines; removes a last line cut off by a kill or a full disk."""

    def __init__(self, path: Path):
        super().__init__(str(path))
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)  # left by a killed process
        self._cut()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Adds records, all or none."""
        try:
            super().append_logs(logs)
        except OSError:
            self._cut()
            raise

    def _cut(self) -> None:
        content = files.read_bytes(Path(self._file_path), MOST_BYTES)
        if LONG_LINE.search(content):
            raise ValueError("a line has more than 1,000,000 bytes")
        _check_number(len(NEW_TRIAL.findall(content)))
        os.truncate(self._file_path, content.rfind(b"\n") + 1)


def _database(path: Path) -> RDBStorage:
    """The storage in a file of sqlite, which rolls back an unfinished commit."""
    journal, *others = (path.with_name(f"{path.name}-{name}") for name in ("journal", "wal", "shm"))
    _check_size(journal)
    for beside in (*others, journal):
        if beside.exists() and (beside != journal or beside.read_bytes().endswith(NAMES_A_FILE)):
            raise ValueError(f"{beside.name} was not written by a search")
    with closing(sqlite3.connect(path)) as database:
        _check(database)
    return RDBStorage("sqlite://", {"creator": lambda: sqlite3.connect(path)})


def _check(database: sqlite3.Connection) -> None:
    """Raises: ValueError for anything but intact tables of optuna."""
    with closing(sqlite3.connect(":memory:")) as memory:
        RDBStorage("sqlite://", {"creator": lambda: memory})
        known = _definitions(memory)
    database.set_progress_handler(lambda: 1, MOST_STEPS)  # aborts longer statements
    tables = _definitions(database)
    if others := tables - known:
        raise ValueError(f"not a table of optuna: {min(others)}")
    if tables:
        _check_number(*database.execute("SELECT count(*) FROM trials").fetchone())
    database.set_progress_handler(None, 0)
    for name, expected in {"journal_mode": "delete", "quick_check(1)": "ok"}.items():
        ((state,),) = database.execute(f"PRAGMA {name}")
        if state != expected:
            raise ValueError(f"{name} is {state}")


def _definitions(database: sqlite3.Connection) -> set[str]:
    """The SQL of all tables and indexes; empty for an index that a table implies."""
    rows = database.execute("SELECT sql FROM sqlite_master")
    return {" ".join((sql or "").split()) for (sql,) in rows}


def _check_number(trials: int) -> None:
    """Raises: ValueError for more than `MOST_TRIALS`."""
    if trials > MOST_TRIALS:
        raise ValueError(f"it has {trials:,} trials, and a search at most {MOST_TRIALS:,}")


def _check_size(path: Path) -> None:
    """Raises: ValueError for more than `MOST_BYTES`."""
    if path.exists() and path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has more than {MOST_BYTES:,} bytes")
