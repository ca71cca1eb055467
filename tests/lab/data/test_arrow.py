"""`data=arrow`: rows by place equal pyarrow's, exactly, for any workers, ranks and resume."""

import hashlib
import itertools
import json
import os

import pytest
import torch
from refusals import lacking, message_of

from andiron import errors
from andiron.data import DataLoaderBuilder
from andiron.distributed import World

pa = pytest.importorskip("pyarrow")
import arrow_made  # noqa: E402

from andiron_lab.data import arrow_dataset, arrow_files, large_file  # noqa: E402
from andiron_lab.data.arrow import arrow  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(arrow_made.folder(tmp_path_factory.mktemp("arrow") / "weather"))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 8 rows, 4 of which are mixed."""
    monkeypatch.setattr(arrow_dataset, "BLOCKS_OF_WINDOW", 4)
    monkeypatch.setattr(arrow_dataset, "WINDOW_ROWS", 32)


KINDS = "x", "word", "tokens", "flag", "half", "small", "letters", "label", "site"


def listed(values):
    return values.tolist() if isinstance(values, torch.Tensor) else [
        value.tolist() if isinstance(value, torch.Tensor) else value for value in values
    ]  # fmt: skip


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("batch", [1, 64, 700])
def test_rows_of_every_kind_equal_what_pyarrow_takes(tmp_path, is_stream, batch):
    table = arrow_made.table()
    path = arrow_made.write(tmp_path / "rows.arrow", table, is_stream=is_stream, batch=batch)
    rows = torch.cat([torch.randint(700, (90,)), torch.arange(300, 500), torch.tensor([3, 3, 0])])
    read = arrow_files.opened([path], table.column_names).read(table.column_names, rows)
    expected = table.take(rows.numpy())
    for name in table.column_names:
        wanted = expected[name].to_pylist()
        if name == "image":
            wanted = [value["bytes"] for value in wanted]
        assert listed(read[name]) == wanted, name


@pytest.mark.parametrize("order", ["full", "blocks"])
def test_batches_are_the_same_for_workers_ranks_and_resumes(folder, order, small_blocks):
    data = arrow(path=folder, inputs="x", targets="label", order=order)
    assert data.facts["order_of_samples"]["name"] == order

    def batches(workers=0, rank=0, ranks=1, first=0):
        builder = DataLoaderBuilder(data.batcher).batch_size(13).shuffle(5).num_workers(workers)
        loader = builder.world(World(rank, ranks)).build(data.train)
        try:
            return [*loader.epoch(2, first)]
        finally:
            loader.close()

    whole = batches()
    bits = digest(whole)
    assert sorted(sum((batch.targets.tolist() for batch in whole), [])) == sorted(
        data.train.read_targets().tolist()
    )
    assert digest(batches(workers=1)) == bits
    for first in (0, len(whole) * 37 // 100, len(whole) * 9 // 10):
        assert digest(batches(first=first)) == digest(whole[first:])
        for ranks in (2, 3):
            divided = zip(*(batches(0, rank, ranks, first) for rank in range(ranks)), strict=True)
            slices = [
                dict(sorted({n: part for sliced in parts for n, part in sliced.items()}.items()))
                for parts in divided
            ]
            joined = [part for batch in slices for part in batch.values()]
            assert digest(joined) == digest(whole[first:])


def digest(batches):
    content = hashlib.sha256()
    inputs, targets = (torch.cat([*part]) for part in zip(*batches))
    content.update(inputs.numpy().tobytes() + targets.numpy().tobytes())
    return content.hexdigest()


def test_both_orders_read_the_same_samples_from_files_and_from_blocks(folder, small_blocks):
    full, blocks = (
        arrow(path=folder, inputs=[*KINDS], targets="y", order=order)
        for order in ("full", "blocks")
    )
    for indices in (torch.randperm(len(full.train)), torch.arange(40, 49), [7, 7]):
        one, other = (data.train.__getitems__(indices) for data in (full, blocks))
        assert {name: listed(one[name]) for name in one} == {
            name: listed(other[name]) for name in other
        }


def test_a_pair_a_mapping_and_padded_lists_make_their_batches(folder):
    pair = arrow(path=folder, inputs="x", targets="y")
    assert pair.facts["num_outputs"] == 1 and pair.facts["input_shape"] == [4]
    assert pair.train.__getitems__([0, 5]).targets.shape == (2, 1)
    assert {"target_mean", "target_std"} <= {*pair.facts}
    classes = arrow(path=folder, inputs="small", targets="label")
    assert classes.facts["class_names"] == arrow_made.CLASSES
    assert sum(classes.class_counts) == len(classes.train)
    mapping = arrow(path=folder, inputs=["uneven", "word"], targets=None, collate="padded")
    batch = mapping.train.subset(range(4)).__getitems__([3, 1])
    lengths = [int(mapping.train.rows[place]) % 4 for place in (3, 1)]
    assert batch["uneven"].shape == (2, max(lengths))
    assert batch["uneven"].sum(1).tolist() == lengths
    grouped = arrow(path=folder, inputs="x", targets="label", split={"group": "site"})
    sites = [{int(row) % 7 for row in part.rows} for part in
             (grouped.train, grouped.valid, grouped.test)]  # fmt: skip
    assert not any(one & other for one, other in itertools.combinations(sites, 2))
    in_order = arrow(path=folder, inputs="x", targets="label", split="in_order")
    assert isinstance(in_order.train.rows, range)  # nothing is as long as the data


def test_pictures_are_decoded_as_in_a_folder_of_images(folder, tmp_path):
    from andiron.data.on_disk import image_decoding

    data = arrow(path=folder, inputs="image", targets="label", size=8)
    (tmp_path / "one.png").write_bytes(arrow_made.picture(int(data.train.rows[2]) % 9))
    expected = image_decoding.of_file(tmp_path / "one.png", (3, 8, 8))
    assert torch.equal(data.train.__getitems__([2]).inputs[0], expected)
    assert data.facts["input_shape"] == [3, 8, 8]


def test_folders_of_parts_are_the_parts(tmp_path):
    for name, size in (("train", 90), ("validation", 40), ("test", 50)):
        arrow_made.folder(tmp_path / name, arrow_made.table(size))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "validation", "test"]}')
    data = arrow(path=str(tmp_path), inputs="x", targets="label")
    assert [len(part) for part in (data.train, data.valid, data.test)] == [90, 40, 50]
    held_out = arrow(path=str(tmp_path), inputs="x", targets="label", valid="test")
    assert held_out.valid is held_out.test and len(held_out.test) == 50
    sets = {"more": str(tmp_path / "test")}
    further = arrow(path=str(tmp_path), inputs="x", targets="label", valid_sets=sets)
    assert len(further.more["more"]) == 50


NULL = pa.array([None, *range(1, 700)], pa.int64())
REFUSED = {
    "nulls": ({"label": NULL}, "rows.arrow ... 'label' has 1 missing values ... row 0"),
    "nested": ({"x": pa.array([[[1]]] * 700)}, "'x' is of type list<item: list ... lists of"),
    "dates": ({"x": pa.array([1] * 700, pa.timestamp("s"))}, "timestamp[s] ... cast it to int64"),
    "views": ({"x": pa.array(["a"] * 700, pa.string_view())}, "string_view ... compat_level"),
    "maps": ({"x": pa.array([[("a", 1)]] * 700, pa.map_(pa.string(), pa.int8()))}, "map<"),
    "big numbers": ({"x": pa.array([1] * 700, pa.uint64())}, "uint64 ... cast it to int64"),
    "texts as targets": ({"label": pa.array(["a"] * 700)}, "data.targets=label has text ... class"),
    "missing": ({"lable": NULL, "label": pa.nulls(700)}, "'label' is of type null"),
    "negative classes": ({"label": pa.array([-1] * 700)}, "'label' has whole numbers from -1"),
    "more classes than names": ({"label": pa.array([3] * 700)}, "from 3 to 3 ... from 0 to 2"),
    "nan": ({"label": pa.array([float("nan")] * 700)}, "rows.arrow:0: 'label' has a NaN"),
    "uneven": ({"x": arrow_made.columns()["uneven"]}, "lists of 'x' have several ... padded"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_columns_that_cannot_be_read_are_refused_by_name(tmp_path, case):
    changed, words = REFUSED[case]
    path = arrow_made.write(tmp_path / "rows.arrow", arrow_made.table(**changed))
    message = message_of(errors.DataError, arrow, path=str(path), inputs="x", targets="label")
    assert not lacking(words, message), message


def test_files_that_cannot_be_read_are_refused_by_name(tmp_path):
    from pyarrow import feather

    table, path = arrow_made.table(), tmp_path / "rows.arrow"

    def problem(**options):
        chosen = {"inputs": "x", "targets": "label"} | options
        return message_of(errors.DataError, arrow, path=str(path), **chosen)

    assert not lacking("rows.arrow: has no files ... train/", problem())
    path.write_bytes(b"")
    assert not lacking("rows.arrow: is empty", problem())
    path.write_bytes(b"neither stream nor file")
    assert not lacking("rows.arrow: cannot be read as Arrow", problem())
    feather.write_feather(table, path)
    assert not lacking("'x' is compressed ... compression='uncompressed'", problem())
    feather.write_feather(table, path, compression="uncompressed")
    assert len(arrow(path=str(path), inputs="x", targets="label").train) == 567
    assert not lacking("no single column 'z' ... word (string)", problem(inputs="z"))
    assert not lacking("data.mean and data.std", problem(inputs="tokens", mean=1.0))
    os.truncate(path, 3000)
    assert not lacking("rows.arrow: cannot be read as Arrow", problem())


def test_a_file_that_shrinks_or_changes_ends_the_reading_with_its_name(tmp_path):
    path = arrow_made.write(tmp_path / "rows.arrow", arrow_made.table())
    train = arrow(path=str(path), inputs="x", targets="label").train
    os.utime(path, (1, 1))
    changed = message_of(errors.DataError, train.__getitems__, [1, 2])
    assert not lacking("rows.arrow: changed while a run reads it", changed)
    train = arrow(path=str(path), inputs="x", targets="label").train
    os.truncate(path, 3000)
    shrunk = message_of(errors.DataError, train.__getitems__, [500])
    assert not lacking("rows.arrow: changed while a run reads it", shrunk)


NAMED = {"label": {"_type": "ClassLabel", "names": ["warm", "mild", "cold"]}}
OTHERS = {
    "names": ({}, NAMED, "rows.arrow ... 'label' has other categories"),
    "classes": ({"label": pa.array([5, 0] * 350)}, {}, "'label' has whole numbers from 0 to 5"),
    "a type": ({"x": pa.array([[1.0]] * 700)}, {}, "'x' has type list ... in the first file"),
    "a length": ({"tokens": pa.array([[1]] * 700)}, {}, "'tokens' have several lengths ... padded"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_a_part_of_other_columns_or_classes_is_refused(tmp_path, case):
    changed, features, words = OTHERS[case]
    train = arrow_made.table() if features else arrow_made.table().replace_schema_metadata(None)
    arrow_made.write(tmp_path / "train" / "rows.arrow", train)
    said = json.dumps({"info": {"features": features}}).encode()
    test = arrow_made.table(**changed).replace_schema_metadata({b"huggingface": said})
    arrow_made.write(tmp_path / "test" / "rows.arrow", test)
    options = {"path": str(tmp_path), "inputs": ["x", "tokens"], "targets": "label"}
    message = message_of(errors.DataError, arrow, **options)
    assert not lacking(words, message), message


def test_the_checksum_of_large_files_covers_sizes_ends_and_spans(tmp_path, monkeypatch):
    path = tmp_path / "large"
    content = bytearray(os.urandom(3 * 2**20))
    path.write_bytes(content)
    whole, covers = large_file.checksum_of([path])
    assert (whole, covers) == (hashlib.sha256(content).hexdigest(), None)
    monkeypatch.setattr(large_file, "READ_WHOLE", 2**20)
    sampled, covers = large_file.checksum_of([path])
    assert covers == "sizes, and 64 spans of 64 KiB of each file"
    assert sampled == large_file.checksum_of([path])[0] != whole
    seen = {sampled}
    for place in (0, len(content) // 2, -1):
        content[place] ^= 1
        path.write_bytes(content)
        seen.add(large_file.checksum_of([path])[0])
    path.write_bytes(content + b"\0")
    seen.add(large_file.checksum_of([path])[0])
    assert len(seen) == 5
    folder = arrow_made.folder(tmp_path / "folder")
    monkeypatch.setattr(large_file, "READ_WHOLE", 1)
    facts = arrow(path=str(folder), inputs="x", targets="label").facts
    assert facts["fingerprint_covers"] == large_file.SAMPLED
