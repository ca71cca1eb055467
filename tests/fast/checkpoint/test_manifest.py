"""A checkpoint's folder is what its manifest says, or it is refused by the name of what is not."""

import hashlib
import json
import os

import pytest
from checkpoints_made import ALL_FILES, checkpoint, equal, rich

from andiron import errors
from andiron.checkpoint import load, write
from andiron.checkpoint.on_disk import manifest
from refusals import message_of


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "step-10", rich(10))
    return tmp_path / "step-10"


def rewritten(folder, **changes):
    """The manifest with other values, and a SHA-256 of itself that is right again."""
    path = folder / "manifest.json"
    plain = {**json.loads(path.read_text()), **changes}
    plain.pop("sha256")
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**plain, "sha256": digest}))


def refusal(folder):
    return message_of(errors.DataError, load, folder)


def test_the_manifest_has_name_updates_and_checksums_of_other_files(folder):
    contents = {name: (folder / name).read_bytes() for name in ALL_FILES - {"manifest.json"}}
    record = json.loads((folder / "manifest.json").read_text())
    assert set(record) == {"name", "updates", "files", "sha256"}
    assert (record["name"], record["updates"]) == ("step-10", 10)
    assert record["files"] == {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }


@pytest.mark.parametrize("name", ["step-10", "the good one"])
def test_a_manifest_laid_out_otherwise_and_a_copy_of_no_checkpoints_name_load(folder, name):
    path = folder / "manifest.json"
    plain = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(plain.items())), indent=4))
    assert equal(load(folder.rename(folder.with_name(name))), rich(10))


def test_a_folder_that_was_renamed_is_refused_by_the_name_it_had(folder):
    renamed = folder.rename(folder.with_name("step-20"))
    assert refusal(renamed) == (
        f"{renamed / 'manifest.json'}: belongs to step-10: the folder was renamed; restore its name"
    )


def test_a_step_kept_elsewhere_is_a_checkpoint_too(tmp_path):
    write(tmp_path / "nonfinite" / "update-7", checkpoint(7))
    assert equal(load(tmp_path / "nonfinite" / "update-7"), checkpoint(7))


@pytest.mark.parametrize("changes, why", [
    ({"files": {}}, "does not list model.safetensors"),
    ({"files": {"../../secret": {"bytes": 1, "sha256": "0"}}},
     "lists '../../secret', not a file of a checkpoint"),
    ({"files": {"model-../x.safetensors": {"bytes": 1, "sha256": "0"}}},
     "lists 'model-../x.safetensors', not a file of a checkpoint"),
    ({"files": {"model-\ud800.safetensors": {"bytes": 1, "sha256": "0"}}},
     "not a file of a checkpoint"),
    ({"files": {"manifest.json": {"bytes": 1, "sha256": "0"}}},
     "lists 'manifest.json', not a file of a checkpoint"),
    ({"files": {"model.safetensors": {"bytes": True, "sha256": "0"}}},
     "bytes and sha256 of model.safetensors are missing"),
    ({"files": {"model.safetensors": [1, "0"]}},
     "bytes and sha256 of model.safetensors are missing"),
    ({"files": 7}, "name, updates or files have another type"),
    ({"updates": "10"}, "name, updates or files have another type"),
    ({"updates": True}, "name, updates or files have another type"),
    ({"name": None}, "name, updates or files have another type"),
])  # fmt: skip
def test_a_manifest_that_somebody_made_up_is_refused(folder, changes, why):
    rewritten(folder, **changes)
    said = refusal(folder)
    assert said.startswith(f"{folder / 'manifest.json'}: damaged (") and why in said
    assert said.endswith("; use another checkpoint")


def test_the_state_must_be_that_of_the_manifests_updates(folder):
    rewritten(folder, updates=11)
    words = "updates are 10, not 11: damaged; use another checkpoint"
    assert refusal(folder) == f"{folder / 'state.json'}: {words}"


def with_file(folder, name, content):
    """The checkpoint with another file, and a manifest that vouches for it."""
    (folder / name).write_bytes(content)
    entries = json.loads((folder / "manifest.json").read_text())["files"]
    entries[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewritten(folder, files=entries)


@pytest.mark.parametrize("content, why", [
    (b"[" * 100_000 + b"]" * 100_000, "damaged (is nested too deeply"),
    (b'{"updates": ' + b"1" * 5000 + b"}", "damaged (Exceeds the limit"),
    (b'{"updates": "\xff"}', "damaged ('utf-8' codec can't decode"),
    (b"\xff\xfe{\x00}\x00", "damaged ('utf-8' codec can't decode"),
    (b"", "damaged (Expecting value"),
    (b"null", "updates are None, not 10: damaged"),
    (b"[10]", "updates are None, not 10: damaged"),
    (b"{}", "updates are None, not 10: damaged"),
    (b'{"updates": 10.0}', "updates are 10.0, not 10: damaged"),
    (b'{"updates": 1e999}', "updates are inf, not 10: damaged"),
])  # fmt: skip
def test_an_absurd_state_is_refused_even_with_a_valid_manifest(folder, content, why):
    with_file(folder, "state.json", content)
    said = refusal(folder)
    assert said.startswith(f"{folder / 'state.json'}: ") and why in said
    assert said.endswith("; use another checkpoint")


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"7", b"{}", b'{"files": NaN}', b"9" * 5000, b" " * (2**20 + 1)]
)
def test_a_manifest_that_is_absurd_is_refused(folder, content):
    (folder / "manifest.json").write_bytes(content)
    assert refusal(folder).startswith(f"{folder / 'manifest.json'}: damaged (")


def test_unparsable_tensors_are_refused_even_with_a_valid_manifest(folder):
    with_file(folder, "model.safetensors", b"no safetensors file, but the announced bytes")
    words = f"{folder / 'model.safetensors'}: not a whole safetensors file"
    assert refusal(folder).startswith(words)


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


def replace_by_dead_link(path):
    path.unlink()
    path.symlink_to("nowhere")


DAMAGES = {
    "missing": (os.unlink, "missing; use another checkpoint"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-3]),
                  "; use another checkpoint"),
    "folder": (replace_by_folder, "cannot be read (Is a directory); use another checkpoint"),
    "pipe": (replace_by_pipe, "damaged (not a file); use another checkpoint"),
    "dead link": (replace_by_dead_link, "missing; use another checkpoint"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", sorted(ALL_FILES))
def test_a_damaged_checkpoint_is_refused_by_the_name_of_its_file(folder, name, damage):
    act, said = DAMAGES[damage]
    act(folder / name)
    assert refusal(folder).startswith(f"{folder / name}: ") and refusal(folder).endswith(said)


def test_one_bit_that_turned_is_reported_by_both_hashes(folder):
    path = folder / "optimizer.safetensors"
    content = bytearray(path.read_bytes())
    whole = hashlib.sha256(content).hexdigest()
    content[-1] ^= 1
    path.write_bytes(content)
    words = f"SHA-256 is {hashlib.sha256(content).hexdigest()}, not {whole}: damaged"
    assert refusal(folder) == f"{path}: {words}; use another checkpoint"


def test_sizes_are_looked_at_before_anything_is_read(folder, monkeypatch):
    with (folder / "state.json").open("ab") as file:
        file.write(b" ")
    monkeypatch.setattr(manifest, "_digest", lambda path, past_cache: pytest.fail("read"))
    size = (folder / "state.json").stat().st_size
    assert refusal(folder) == (
        f"{folder / 'state.json'}: has {size} bytes, not {size - 1}: damaged; use another "
        "checkpoint"
    )


def test_a_file_that_nobody_listed_is_named_and_not_read(folder, caplog):
    (folder / "model-evil.safetensors").write_bytes(b"no safetensors at all")
    (folder / "notes.txt").write_text("mine")
    result = load(folder)
    assert equal(result, rich(10)) and set(result.averages) == {"ema"}
    assert [record.getMessage() for record in caplog.records] == [
        f"{folder}: not part of the checkpoint, not read: model-evil.safetensors, notes.txt"
    ]


def test_pieces_are_digested_as_one(monkeypatch):
    monkeypatch.setattr(manifest, "PIECE_BYTES", 4)
    content = bytes(range(11))
    digested = manifest.Digested([content[:5], b"", memoryview(content)[5:]])
    assert [bytes(piece) for piece in digested] == [
        content[:4], content[4:5], content[5:9], content[9:],
    ]  # fmt: skip
    assert digested.entry == {"bytes": 11, "sha256": hashlib.sha256(content).hexdigest()}
