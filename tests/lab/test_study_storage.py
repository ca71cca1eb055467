"""The study on disk: what somebody put there is refused before optuna reads it, what a kill or a
full disk left is repaired.
"""

import contextlib
import errno
import os
import shutil
import sqlite3
import struct

import pytest

from andiron import errors
from andiron_lab.search import study_storage
from andiron.wings.sweep.objectives import Objective
from andiron_lab.search.search_options import SearchOptions
from andiron_lab.search.search_space import search_space
from andiron_lab.search.study import SweepStudy
from refusals import message_of

SPACE = search_space(["lr=interval(0,1)"], None)
# slow to read, and more memory than there is, if optuna were to
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
HUGE = "zeroblob(999999999)"
SCHEMAS = {
    "a view": f"CREATE VIEW extra AS {ENDLESS}",
    "a view in place of a table": "DROP TABLE trial_heartbeats; "
    f"CREATE VIEW trial_heartbeats AS SELECT i AS trial_id, i AS heartbeat FROM ({ENDLESS})",
    "a trigger": f"CREATE TRIGGER t AFTER INSERT ON trials BEGIN SELECT {HUGE}; END",
    "another table": "CREATE TABLE extra (x)",
    "a computed column": f"ALTER TABLE trials ADD COLUMN x AS (length({HUGE}))",
    "a column with a default": "ALTER TABLE trials ADD COLUMN x DEFAULT 1",
    "an index of an expression": "CREATE INDEX i ON trials (abs(number))",
    "a part of an index": "CREATE INDEX i ON trials (number) WHERE number > 1",
    "a virtual table": "CREATE VIRTUAL TABLE extra USING fts5(x)",
    "a condition": f"CREATE TABLE extra (x CHECK (length({HUGE})))",
    "another journal": "PRAGMA journal_mode = WAL",
}


def study_in(folder, storage="sqlite"):
    options = SearchOptions(n_trials=8, storage=storage)
    return SweepStudy(folder, SPACE, [Objective("valid/loss", "lowest")], options)


def refused(study):
    return message_of(errors.DataError, study_in, study.parent)


@pytest.fixture
def study(tmp_path):
    """The path of a study in sqlite, with one trial."""
    made = study_in(tmp_path)
    made.tell(made.ask()[0], [1.0], pruned=False)
    return tmp_path / "study.db"


@pytest.mark.parametrize("sql", SCHEMAS.values(), ids=SCHEMAS)
def test_a_database_with_more_than_the_tables_of_optuna_is_refused(study, sql):
    with contextlib.closing(sqlite3.connect(study)) as database:
        database.executescript(sql)
    before = study.read_bytes()

    assert "study.db: is not a readable optuna study" in refused(study)
    assert study.read_bytes() == before


def test_a_table_with_shared_pages_is_refused(study):
    with contextlib.closing(sqlite3.connect(study)) as database:
        ((size,),) = database.execute("PRAGMA page_size")
        ((root,),) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'trials'")
    content = study.read_bytes()
    pages = [content[start : start + size] for start in range(0, len(content), size)]
    child = len(pages) + 1
    pages.append(pages[root - 1])
    for _ in range(12):  # of 300 rows each that are the same page: 300 to the 12th rows
        cells = b"".join(struct.pack(">IB", child, 1) for _ in range(300))
        places = b"".join(struct.pack(">H", size - len(cells) + 5 * cell) for cell in range(300))
        head = struct.pack(">BHHHBI", 5, 0, 300, size - len(cells), 0, child) + places
        pages.append(head + bytes(size - len(head) - len(cells)) + cells)
        child = len(pages)
    pages[root - 1] = pages[-1]
    pages[0] = pages[0][:28] + struct.pack(">I", len(pages)) + pages[0][32:]
    study.write_bytes(b"".join(pages))

    with pytest.raises(errors.DataError, match=r"is not a readable .*quick_check\(1\) is "):
        study_in(study.parent)


def test_a_journal_that_names_a_file_is_refused_and_the_file_stays(study):
    victim = study.with_name("mine.txt")
    victim.write_text("mine")
    unfinished_commit(study)
    name = os.fsencode(victim)
    journal = study.with_name("study.db-journal")
    with journal.open("ab") as file:  # as sqlite ends a journal of several databases
        file.write(struct.pack(">I", 2**18 + 1) + name + struct.pack(">II", len(name), sum(name)))
        file.write(study_storage.NAMES_A_FILE)
    copy = shutil.copytree(study.parent, study.parent / "copy")
    with contextlib.closing(sqlite3.connect(copy / study.name)) as database:
        database.execute("SELECT count(*) FROM trials")
    assert not victim.exists()  # sqlite does what the journal says
    victim.write_text("mine")

    assert "study.db-journal was not written by" in refused(study)
    assert victim.read_text() == "mine" and journal.exists()


def test_an_unfinished_commit_is_rolled_back(study):
    before = study.read_bytes()
    unfinished_commit(study)
    assert study.read_bytes() != before

    again = study_in(study.parent)

    assert again.left == 7
    assert not study.with_name("study.db-journal").exists()


def test_tables_restored_by_a_rollback_are_checked(study):
    with contextlib.closing(sqlite3.connect(study)) as database:
        database.execute("CREATE VIEW extra AS SELECT 1")
        database.commit()
    with_view = study.read_bytes()
    unfinished_commit(study, "DROP VIEW extra")
    assert study.read_bytes() != with_view

    assert "not a table of optuna: CREATE VIEW extra" in refused(study)


def unfinished_commit(path, sql="CREATE TABLE extra (x)"):
    """A database as a kill leaves it in the middle of a commit, with its journal."""
    copy, journal = path.with_name("copy.db"), path.with_name(f"{path.name}-journal")
    shutil.copy(path, copy)
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")  # so that pages are written before the commit
        database.execute("BEGIN")
        database.execute(sql)
        database.execute("CREATE TABLE more (x)")
        for _ in range(200):
            database.execute("INSERT INTO more VALUES (randomblob(500))")
        shutil.copy(copy.with_name("copy.db-journal"), journal)
        shutil.copy(copy, path)
        database.execute("ROLLBACK")
    copy.unlink()


@pytest.mark.parametrize("ending", ["wal", "shm"])
def test_a_write_ahead_log_that_no_search_wrote_is_refused(study, ending):
    beside = study.with_name(f"study.db-{ending}")
    beside.write_bytes(b"mine")

    with pytest.raises(errors.DataError, match=f"study.db-{ending} was not written by"):
        study_in(study.parent)
    assert beside.read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["study.db", "study.db-journal", "study.jsonl"])
def test_an_oversized_file_is_not_read(tmp_path, name):
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(errors.DataError, match=f"{name} has more than 268,435,456 bytes"):
        study_in(tmp_path, "journal" if name.endswith("l") and "db" not in name else "sqlite")


def test_a_line_cut_off_by_a_kill_loses_only_that_line(tmp_path):
    study = study_in(tmp_path, "journal")
    for value in (1.0, 2.0):
        study.tell(study.ask()[0], [value], pruned=False)
    path = tmp_path / "study.jsonl"
    content = path.read_bytes()
    before = content.count(b"\n")
    path.write_bytes(content[:-7])

    again = study_in(tmp_path, "journal")
    again.tell(again.ask()[0], [3.0], pruned=False)

    assert content[:-7].rpartition(b"\n")[0] in path.read_bytes()
    assert path.read_bytes().count(b"\n") > before
    values = [trial.values for trial in study_in(tmp_path, "journal").trials() if trial.values]
    assert values == [[1.0], [3.0]]


def test_a_stale_lock_is_removed_but_not_the_file_it_links_to(tmp_path):
    victim, lock = tmp_path / "mine.txt", tmp_path / "study.jsonl.lock"
    victim.write_text("mine")
    lock.symlink_to(victim)

    study_in(tmp_path, "journal").ask()

    assert not lock.is_symlink() and victim.read_text() == "mine"


def test_a_failed_write_is_reported_and_leaves_whole_lines(tmp_path, monkeypatch):
    study = study_in(tmp_path, "journal")
    path = tmp_path / "study.jsonl"
    trial, _ = study.ask()
    before = path.read_bytes()

    def half_written(_):
        with path.open("ab") as file:
            file.write(b'{"op_code": 6, "trial')
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", half_written)
        with pytest.raises(errors.SweepError) as refused:
            study.tell(trial, [1.0], pruned=False)
    assert str(refused.value) == (
        f"{path} could not be written (No space left on device); free space there, or make it "
        "writable: the same command then continues the search"
    )
    assert path.read_bytes().startswith(before) and path.read_bytes().endswith(b"\n")
    assert study_in(tmp_path, "journal").left in (7, 8)


def test_a_study_in_a_folder_of_any_name_is_continued(tmp_path):
    folder = tmp_path / "a?b{c}%20#d"
    folder.mkdir()
    made = study_in(folder)
    made.tell(made.ask()[0], [1.0], pruned=False)

    assert study_in(folder).left == 7 and [path.name for path in folder.iterdir()] == ["study.db"]


def test_a_study_of_too_many_trials_is_refused(study):
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000)"
    with contextlib.closing(sqlite3.connect(study)) as database, database:
        database.execute(
            f"INSERT INTO trials(number, study_id, state) {rows} SELECT i, 1, 'WAITING' FROM n"
        )

    assert "10,001 trials, and a search at most 10,000" in refused(study)


def test_a_journal_of_too_many_trials_is_refused(tmp_path):
    study_in(tmp_path, "journal")
    with (tmp_path / "study.jsonl").open("a") as file:
        file.write('{"op_code": 4, "worker_id": "x", "study_id": 0}\n' * 10_001)

    with pytest.raises(errors.DataError, match="10,001 trials, and a search at most 10,000"):
        study_in(tmp_path, "journal")


def test_a_journal_with_a_long_line_is_refused(tmp_path):
    study_in(tmp_path, "journal")
    with (tmp_path / "study.jsonl").open("a") as file:
        file.write('{"op_code": 2, "worker_id": "' + "x" * 10**6 + '"}\n')

    with pytest.raises(errors.DataError, match="a line has more than 1,000,000 bytes"):
        study_in(tmp_path, "journal")
