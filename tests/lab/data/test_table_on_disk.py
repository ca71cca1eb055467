"""A table that is converted once into arrays on the disk: the numbers of the table in memory."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
import pytest
import torch

from andiron import errors
from andiron.data import DataLoader, csv, kfold, partial
from andiron.data.on_disk import table_files
from andiron.disk import guarded_folders
from andiron.plain import memory, wings
from andiron_lab.data import column_files

ROWS = 1_003
GIVEN = {"valid": 0.2, "split_seed": 0}
REGRESSION = {"target": "price", **GIVEN}
CASES = {
    "numbers": {"target": "price", "features": ["area", "shifted", "small"]},
    "classes": {"target": "kind", "missing": "median", "exclude": ["price", "weight"]},
    "codes": {"target": "kind", "missing": "mean", "categories": "codes", "split": "random"},
    "one of each": {**REGRESSION, "missing": 7, "missing_values": [-999],
                    "categories": {"town": "codes", "group": "one_hot"}},
    "dropped": {"target": ["price", "area"], "missing": "drop", "exclude": ["group"]},
    "weights": {**REGRESSION, "missing": "median", "weight": "weight", "split": "in_order"},
    "a gap": {**REGRESSION, "missing": "median", "split": {"gap": 7}},
    "groups": {"target": "kind", "missing": "median", "split": {"group": "group"}},
    "listed": {**REGRESSION, "missing": "drop",
               "split": {"by": "kind", "valid": ["hut"], "test": ["house"]}},
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Many groups of columns and of rows, as of a large table."""
    monkeypatch.setattr(table_files, "GROUP_CELLS", 2 * ROWS)
    monkeypatch.setattr(column_files, "BATCH_ROWS", 100)


def table():
    rng, rows = np.random.default_rng(0), range(ROWS)
    return polars.DataFrame({
        "area": rng.normal(60, 20, ROWS).round(2),
        "shifted": 1e8 + rng.normal(size=ROWS).round(3),
        "small": polars.Series(rng.normal(size=ROWS), dtype=polars.Float32),
        "rooms": [None if row % 13 == 0 else row % 7 for row in rows],
        "town": [["Bonn", "Rome", None, "Oslo"][row % 4] for row in rows],
        "group": [f"p{row % 31}" for row in rows],
        "built": [f"19{10 + row % 89}-0{1 + row % 9}-11" for row in rows],
        "weight": rng.uniform(1, 2, ROWS).round(2),
        "kind": [("flat", "house", "hut")[row % 3] for row in rows],
        "price": rng.normal(size=ROWS).round(4),
    })  # fmt: skip


def write(path):
    """The table in a file of the kind that its name says."""
    text = table().write_csv()
    if path.suffix == ".parquet":
        table().write_parquet(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.name == "quoted.csv":  # quotes, a blank line and one of another length
        path.write_text(text.replace("Rome", '"Rome"').replace("\n", "\n\n", 1) + "1,2\n")
    else:
        path.write_text(text, encoding="utf-16" if path.name == "wide.csv" else "utf-8")
    return str(path)


def assert_same(one, other):
    assert json.dumps(one.facts) == json.dumps(other.facts)
    assert (one.batcher, one.fingerprint) == (other.batcher, other.fingerprint)
    for name, part in one.by_name.items():
        loaders = (DataLoader(data, one.batcher, batch_size=37, shuffle_seed=3)
                   for data in (part, other.by_name[name]))  # fmt: skip
        for batch, twin in zip(*(loader.epoch(1) for loader in loaders), strict=True):
            assert len(batch) == len(twin)
            for tensor, same in zip(batch, twin, strict=True):
                assert tensor.dtype == same.dtype and torch.equal(tensor, same)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_the_rows_on_disk_are_those_in_memory(tmp_path, options):
    options = {**GIVEN, **options}
    for name in ("table.csv", "table.parquet"):
        path = write(tmp_path / name)
        expected = csv(path=path, **options)
        assert_same(csv(path=path, in_memory=False, **options), expected)
        again = csv(path=path, in_memory=False, **options)  # reads what the first has written
        assert_same(again, expected)
    fold = {"fold": 1, "num_folds": 2, "split_seed": 5}
    assert_same(kfold(again, **fold), kfold(expected, **fold))
    few = {"fraction": 0.5, "seed": 0}
    assert_same(partial(again, **few), partial(expected, **few))


@pytest.mark.parametrize("name", ["quoted.csv", "table.csv.gz", "wide.csv"])
def test_a_text_that_polars_does_not_read_as_it_is_becomes_a_file(tmp_path, name):
    options = {**GIVEN, "target": "kind", "missing": "median", "max_bad_lines": 1}
    path = write(tmp_path / name)
    assert_same(csv(path=path, in_memory=False, **options), csv(path=path, **options))


def test_other_files_are_encoded_as_the_training_rows(tmp_path):
    path, other = write(tmp_path / "table.csv"), tmp_path / "other.csv"
    table().head(40).with_columns(area=polars.col("area") + 0.5).write_csv(other)
    options = {"path": path, **REGRESSION, "missing": "median", "test": str(other)}
    options["valid_sets"] = {"night": str(other)}
    assert_same(csv(in_memory=False, **options), csv(**options))


def test_a_table_is_converted_once(tmp_path, caplog):
    path = write(tmp_path / "table.parquet")
    options = {"path": path, "in_memory": False, **REGRESSION, "missing": "median"}
    caplog.set_level("INFO")
    times = []
    there = {"cache": str(tmp_path / "there")}
    for more in ({}, {}, {"split_seed": 1}, {"missing": "mean"}, there):
        caplog.clear()
        csv(**{**options, **more})
        times.append(sum("converting it once" in record.message for record in caplog.records))
    assert times == [1, 0, 0, 1, 1]
    folders = sorted(path.name for path in (tmp_path / ".andiron").iterdir())
    assert [name[:6] for name in folders] == ["lock", "table-", "table-"]


def test_a_table_larger_than_memory_names_the_way_out_that_reads_it(tmp_path, monkeypatch):
    path, options = write(tmp_path / "table.csv"), {**REGRESSION, "missing": "median"}
    expected = csv(path=path, **options)
    monkeypatch.setattr(memory, "of_machine", lambda: 1_000)
    with pytest.raises(errors.DataError, match="of memory, and .* set data.in_memory=false"):
        csv(path=path, **options)
    assert_same(csv(path=path, in_memory=False, **options), expected)


def test_without_the_lab_the_error_names_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr(wings, "optional", lambda name: None)
    with pytest.raises(errors.DataError, match=r"data.in_memory=false .* pip install"):
        csv(path=write(tmp_path / "table.csv"), in_memory=False, **REGRESSION)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    options = {"path": write(tmp_path / "table.csv"), **REGRESSION, "missing": "median"}
    with guarded_folders.writing_refused("evaluation writes nothing"):
        with pytest.raises(errors.DataError, match="evaluation writes nothing.*, or convert"):
            csv(in_memory=False, **options)
    csv(in_memory=False, **options)
    with guarded_folders.writing_refused("evaluation writes nothing"):
        csv(in_memory=False, **options)


def test_a_damaged_column_names_the_folder_to_remove(tmp_path):
    options = {"path": write(tmp_path / "table.csv"), **REGRESSION, "missing": "median"}
    csv(in_memory=False, **options)
    (folder,) = (tmp_path / ".andiron").glob("table-*")
    for column in folder.glob("column-*"):
        column.write_bytes(b"ARROW1")
    with pytest.raises(errors.DataError, match=f"remove the folder {folder}"):
        csv(in_memory=False, **options)


KILLED = """
import os, signal, sys
from andiron.data import csv
from andiron.data.on_disk import table_checks
from andiron_lab.data import table_on_disk
module, name = {"columns": (table_checks, "checked"), "inputs": (table_on_disk, "_write_inputs")}[
    sys.argv[2]]
done = getattr(module, name)
def killed(*arguments, **options):
    done(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(module, name, killed)
csv(path=sys.argv[1], target="price", valid=0.2, split_seed=0, missing="median", in_memory=False)
"""


@pytest.mark.usefixtures("preloaded_processes")
@pytest.mark.parametrize("moment", ["columns", "inputs"])
def test_a_conversion_that_is_killed_leaves_nothing_that_is_used(tmp_path, moment):
    path = write(tmp_path / "table.csv")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.run([sys.executable, "-c", KILLED, path, moment], env=environment)
    assert process.returncode == -signal.SIGKILL
    root = Path(path).parent / ".andiron"
    assert [*root.glob("unfinished-*")] and not [*root.glob("table-*/inputs-*")]
    options = {"path": path, **REGRESSION, "missing": "median"}
    assert_same(csv(in_memory=False, **options), csv(**options))
    assert not [*root.glob("unfinished-*")]
