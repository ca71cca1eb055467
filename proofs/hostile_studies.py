"""Hostile studies: databases and journals of optuna beside the ledger of a search that is done."""

import functools
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from proofs.hostile_case import (
    JOURNAL_AGAIN, NO_FILE, SEARCH_AGAIN, Case, Change, filled, replaced,
)  # fmt: skip

DATABASE, JOURNAL = "study.db", "study.jsonl"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ESCAPE = "\x1b]0;evil\x07\x1b[2J"


def cases() -> Iterator[Case]:
    """Each for the command that continues the study."""
    for name, change in _databases():
        yield Case(f"study: {name}", change, (), is_another_run=True, only=(SEARCH_AGAIN,))
    for name, change in _journals():
        yield Case(f"study: {name}", change, (), is_another_run=True, only=(JOURNAL_AGAIN,))
    for file, name in itertools.product((DATABASE, JOURNAL), _PLACES):
        command = SEARCH_AGAIN if file == DATABASE else JOURNAL_AGAIN
        change = replaced(file, _PLACES[name])
        yield Case(f"study: {file} is {name}", change, (), is_another_run=True, only=(command,))


_PLACES: dict[str, Callable[[Path], object]] = NO_FILE | {
    "empty": Path.touch,
    "text": lambda path: path.write_text("of another kind\n"),
    "NULs": lambda path: path.write_bytes(bytes(10**5)),
}


def _databases() -> Iterator[tuple[str, Change]]:
    for name, statements in STATEMENTS.items():
        yield name, functools.partial(_changed_by, statements)
    for end in ("-journal", "-wal", "-shm"):
        for name, change in _PLACES.items():
            yield f"{DATABASE}{end} is {name}", replaced(f"{DATABASE}{end}", change)
    yield "a database that is cut off", _cut_database
    for place in (16, 18, 28, 100, 4096, 5000):
        yield f"a database with other bytes from {place} on", functools.partial(_garbled, place)


# another table, view, trigger, check or index: tests/lab/test_study_storage.py
STATEMENTS: dict[str, list[str]] = {
    "no tables": ["DROP TABLE trials", "DROP TABLE studies"],
    "another version": ["UPDATE version_info SET schema_version = 99"],
    "another revision": ["UPDATE alembic_version SET version_num = 'v9.9.9.a'"],
    "another study": ["UPDATE studies SET study_name = 'other'"],
    "two studies": ["INSERT INTO studies(study_name) VALUES ('second')"],
    "another direction": ["UPDATE study_directions SET direction = 'MINIMIZE'"],
    "an invalid direction": ["UPDATE study_directions SET direction = 'SIDEWAYS'"],
    "no direction": ["DELETE FROM study_directions"],
    "an invalid state": ["UPDATE trials SET state = 'EVIL'"],
    "numbers below 0": ["UPDATE trials SET number = -1 - number"],
    "the same numbers": ["UPDATE trials SET number = 0"],
    "huge numbers": ["UPDATE trials SET number = number + 9000000000000000000"],
    "texts for numbers": ["UPDATE trials SET number = 'x'"],
    "values of infinity": ["UPDATE trial_values SET value = 9e999"],
    "values of text": ["UPDATE trial_values SET value = 'x'"],
    "no values": ["DELETE FROM trial_values"],
    "trials under way": ["UPDATE trials SET state = 'RUNNING'"],
    "trials that wait": ["UPDATE trials SET state = 'WAITING'"],
    "times that are none": ["UPDATE trials SET datetime_start = 'x', datetime_complete = 'y'"],
    "values out of range": ["UPDATE trial_params SET param_value = 1e300"],
    "an invalid distribution": ["UPDATE trial_params SET distribution_json = '{}'"],
    "a distribution of text": ["UPDATE trial_params SET distribution_json = 'x'"],
    "a distribution of another class": [
        """UPDATE trial_params SET distribution_json = '{"name": "os.system", "attributes": {}}'""",
    ],
    "a parameter of a command": [
        """UPDATE trial_params SET param_name = 'hydra.run.dir={outside}/new'""",
    ],
    "a choice that is a command": [
        "UPDATE trial_params SET param_value = 0, distribution_json = "
        """'{"name": "CategoricalDistribution", "attributes": {"choices": """
        """["0.1 hydra.run.dir={outside}/new", "${oc.env:ANDIRON_SECRET}"]}}'""",
    ],
    "attributes in deep JSON": [
        "UPDATE study_user_attributes SET value_json = replace(hex(zeroblob(50000)), '00', '[')",
    ],
    "attributes of escapes": [
        f"""UPDATE study_user_attributes SET value_json = '{{"lr": "{ESCAPE}"}}'""",
    ],
    "attributes of text": ["UPDATE study_user_attributes SET value_json = '\"x\"'"],
    "NULs in an attribute": [
        "UPDATE study_user_attributes SET value_json = CAST(x'7b0000007d' AS TEXT)",
    ],
    "system attributes of a pickle": [
        "INSERT INTO trial_system_attributes(trial_id, key, value_json) SELECT trial_id, "
        "'cma:optimizer:0', '\"63706f730a73797374656d0a\"' FROM trials",
    ],
    "fixed values that are none": [
        "INSERT INTO trial_system_attributes(trial_id, key, value_json) SELECT trial_id, "
        "'fixed_params', '{\"lr\": \"x\", \"hydra.run.dir\": \"{outside}/new\"}' FROM trials",
        "UPDATE trials SET state = 'WAITING'",
    ],
    "a hundred thousand trials": [
        f"INSERT INTO trials(number, study_id, state) {ENDLESS} SELECT i + 10, 1, 'WAITING' "
        "FROM n LIMIT 100000",
    ],
}  # fmt: skip


def _changed_by(statements: list[str], folder: Path) -> None:
    """The database after these statements."""
    with sqlite3.connect(folder / DATABASE) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            connection.execute(filled(statement, folder))
    connection.close()


def _cut_database(folder: Path) -> None:
    os.truncate(folder / DATABASE, (folder / DATABASE).stat().st_size // 2)


def _garbled(place: int, folder: Path) -> None:
    content = bytearray((folder / DATABASE).read_bytes())
    content[place : place + 8] = b"\xff" * 8
    (folder / DATABASE).write_bytes(content)


CREATED = {"op_code": 4, "worker_id": "x", "study_id": 0, "datetime_start": "2020-01-01T00:00:00"}
LINES: dict[str, Any] = {
    "deep JSON": "[" * 10**5,
    "a deep value": '{"op_code": 2, "study_id": 0, "user_attr": ' + "[" * 5000 + "]" * 5000 + "}",
    "text": "of another kind",
    "NULs": "\0" * 1000,
    "a list": [],
    "an empty object": {},
    "an invalid operation": {"op_code": 99, "worker_id": "x"},
    "an operation of text": {"op_code": "x", "worker_id": "x"},
    "an invalid study": CREATED | {"study_id": 10**30},
    "a study below 0": CREATED | {"study_id": -1},
    "an invalid time": CREATED | {"datetime_start": ESCAPE},
    "a trial of another kind": CREATED | {"trial_id": [[]]},
    "an invalid state": {"op_code": 6, "worker_id": "x", "trial_id": 0, "state": 99},
    "a value of text": {"op_code": 6, "worker_id": "x", "trial_id": 0, "state": 1, "values": "x"},
    "an invalid distribution": {
        "op_code": 5, "worker_id": "x", "trial_id": 0, "param_name": "lr",
        "param_value_internal": 1e300, "distribution": '{"name": "os.system", "attributes": {}}',
    },
    "a removed study": {"op_code": 1, "worker_id": "x", "study_id": 0},
    "another study of this name": {
        "op_code": 0, "worker_id": "x", "study_name": "sweep", "directions": [1],
    },
    "attributes of escapes": {
        "op_code": 2, "worker_id": "x", "study_id": 0, "user_attr": {"searched": {ESCAPE: ESCAPE}},
    },
    "attributes of text": {
        "op_code": 2, "worker_id": "x", "study_id": 0, "user_attr": {"searched": "x"},
    },
    "a number of many digits": '{"op_code": ' + "9" * 10**5 + "}",
    "infinity": '{"op_code": Infinity}',
    "a long line": json.dumps({"op_code": 2, "worker_id": "x" * 10**8, "study_id": 0}),
}  # fmt: skip


def _journals() -> Iterator[tuple[str, Change]]:
    for name, line in LINES.items():
        text = line if isinstance(line, str) else json.dumps(line)
        yield f"{JOURNAL} with {name}", functools.partial(_with_line, text + "\n")
    yield f"{JOURNAL} with half a line", functools.partial(_with_line, '{"op_code": 4, "wor')
    yield f"{JOURNAL} of 100,000 trials", functools.partial(
        _with_line, (json.dumps(CREATED) + "\n") * 10**5
    )
    yield f"{JOURNAL} cut off", lambda folder: os.truncate(
        folder / JOURNAL, (folder / JOURNAL).stat().st_size - 20
    )
    yield f"{JOURNAL} without its beginning", _beheaded
    for name, change in _PLACES.items():
        yield f"{JOURNAL}.lock is {name}", replaced(f"{JOURNAL}.lock", change)


def _with_line(text: str, folder: Path) -> None:
    with (folder / JOURNAL).open("a") as file:
        file.write(text)


def _beheaded(folder: Path) -> None:
    lines = (folder / JOURNAL).read_text().splitlines(keepends=True)
    (folder / JOURNAL).write_text("".join(lines[1:]))
