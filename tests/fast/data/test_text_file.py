"""Text as sequences of tokens: windows by hand, parts that share no token, and files that are too
short or no text.
"""

import bz2
import errno
import gzip
import hashlib
import json
import logging
import os
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from andiron import errors
from andiron.data.kinds.texts import LastTokens
from andiron.data.on_disk import character_tokens
from andiron.data.on_disk.stored import StoredArray, StoredFile
from andiron.data.on_disk.text_file import TextBatcher, WindowDataset, text
from andiron.disk import guarded_folders
from refusals import message_of

CPU = torch.device("cpu")
# characters of one to four bytes
POEM = "".join(f"Zeile {line}: äöü – Øre 😀 und Ende\r\n" for line in range(40))
ODD = "".join(map(chr, range(0x4E00, 0x4E00 + 300))) * 3  # more characters than a byte can count


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "poem.txt"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def load(path, **options):
    return text(**{"path": path, "context_length": 7, "valid": 0.1, "test": 0.1, **options})


def refused(path, **options):
    return message_of(errors.DataError, load, path, **options).replace(path, "FILE")


def windows(part):
    """The tokens of each sample: its inputs and the last of its targets."""
    raw = part.__getitems__(range(len(part)))
    assert torch.equal(raw.inputs[:, 1:], raw.targets[:, :-1])
    return torch.cat([raw.inputs, raw.targets[:, -1:]], dim=1).tolist()


def by_hand(tokens, length, stride):
    return [tokens[begin : begin + length + 1] for begin in range(0, len(tokens) - length, stride)]


@pytest.mark.parametrize("level", ["bytes", "characters"])
@pytest.mark.parametrize(
    "context_length, stride", [(7, None), (7, 7), (7, 3), (7, 11), (1, 1), (60, 5)]
)
@pytest.mark.parametrize("content", [POEM, ODD], ids=["poem", "many characters"])
def test_the_samples_are_windows_of_three_parts_that_share_no_token(
    file, level, context_length, stride, content
):
    splits = load(file(content), level=level, context_length=context_length, stride=stride)
    names = sorted(set(content))
    tokens = (
        list(content.encode())
        if level == "bytes"
        else [names.index(character) for character in content]
    )
    tenth = round(len(tokens) / 10)
    cut = [tokens[: -2 * tenth], tokens[-2 * tenth : -tenth], tokens[-tenth:]]
    for part, expected in zip((splits.train, splits.valid, splits.test), cut, strict=True):
        assert windows(part) == by_hand(expected, context_length, stride or context_length)
        assert len(part) > 0


def test_a_batch_is_int64_of_inputs_and_of_what_comes_next(file):
    splits = load(file("abcdefghij" * 20), context_length=4, stride=1)
    raw = splits.train.__getitems__(torch.tensor([2, 0]))
    assert [bytes(row).decode() for row in raw.inputs.tolist()] == ["cdef", "abcd"]
    assert [bytes(row).decode() for row in raw.targets.tolist()] == ["defg", "bcde"]
    assert raw.inputs.dtype == raw.targets.dtype == torch.int64
    batch = splits.batcher(raw, CPU)
    assert torch.equal(batch.inputs, raw.inputs)
    assert torch.equal(batch.targets, raw.targets)


@pytest.mark.parametrize("level", ["bytes", "characters"])
def test_the_test_part_may_validate(file, level):
    splits, held_out = load(file(POEM), level=level, valid="test"), load(file(POEM), level=level)
    assert splits.validates_on_test
    assert not held_out.validates_on_test
    assert windows(splits.valid) == windows(splits.test) == windows(held_out.test)
    number = len(POEM) if level == "characters" else len(POEM.encode())
    assert len(splits.train) == (number - round(number / 10) - 1) // 7


def test_longer_windows_are_evaluated_fewer_at_once(file):
    sizes = [
        load(file(POEM), context_length=length).evaluation_batch_size
        for length in (1, 60, 100, 128)
    ]
    assert sizes == [256, 256, 163, 128]  # 2**14 tokens


def test_of_bytes_the_vocabulary_is_all_bytes(file):
    splits = load(file(POEM))
    assert splits.facts == {
        "input_shape": (7,), "context_length": 7, "vocabulary_size": 256, "vocabulary": None,
        "bytes_per_token": None,
    }  # fmt: skip
    assert (splits.name, splits.fingerprint) == (
        "poem.txt", hashlib.sha256(POEM.encode()).hexdigest(),
    )  # fmt: skip
    assert splits.batcher == TextBatcher()


@pytest.mark.parametrize("content", [POEM, ODD], ids=["poem", "many characters"])
def test_the_vocabulary_restores_the_text_of_characters_and_bytes_add_up(file, content):
    splits = load(file(content), level="characters", context_length=1, stride=1)
    vocabulary, of_bytes = splits.facts["vocabulary"], splits.facts["bytes_per_token"]
    assert vocabulary == sorted(set(content))
    assert splits.facts["vocabulary_size"] == len(vocabulary)
    parts = [windows(part) for part in (splits.train, splits.valid, splits.test)]
    tokens = [token for part in parts for token in [*(first for first, _ in part), part[-1][1]]]
    assert "".join(vocabulary[token] for token in tokens) == content
    assert sum(of_bytes[token] for token in tokens) == len(content.encode())
    assert json.loads(json.dumps(splits.facts))["bytes_per_token"] == of_bytes


def test_tokens_are_stored_once_and_read_from_their_file(file, tmp_path, monkeypatch):
    path = file(POEM)
    first = load(path, level="characters")
    (kept,) = tmp_path.glob("*.safetensors")
    assert (
        kept.name
        == f"poem.txt.{hashlib.sha256(POEM.encode()).hexdigest()[:16]}.characters.safetensors"
    )
    assert isinstance(first.train.tokens, StoredArray)
    monkeypatch.setattr(character_tokens, "decoded", None)  # nobody reads the text again
    again = load(path, level="characters")
    assert windows(again.train) == windows(first.train)
    assert again.facts == first.facts


def test_another_text_of_the_same_name_has_tokens_of_its_own(file, tmp_path):
    load(file(POEM), level="characters")
    splits = load(file(POEM.upper()), level="characters")
    assert splits.facts["vocabulary"] == sorted(set(POEM.upper()))
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-5], lambda content: b"", lambda content: b"x" * 100]
)
def test_tokens_whose_file_is_damaged_are_made_again(file, tmp_path, damage):
    path = file(POEM)
    expected = windows(load(path, level="characters").train)
    (kept,) = tmp_path.glob("*.safetensors")
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    assert windows(load(path, level="characters").train) == expected
    assert kept.read_bytes() == whole


def test_tokens_lie_in_the_folder_that_is_named(file, tmp_path):
    splits = load(file(POEM), level="characters", cache=str(tmp_path / "made" / "here"))
    assert len(list((tmp_path / "made" / "here").iterdir())) == 1
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["poem.txt"]
    assert windows(splits.train) == windows(load(file(POEM), level="characters").train)


@pytest.fixture
def read_only(monkeypatch):
    """A file system on which nothing can be opened for writing, and every place that was tried."""
    tried, genuine = [], os.open

    def refuse(path, flags, *more, **options):
        if flags & os.O_CREAT:
            tried.append(path)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return genuine(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    return tried


@pytest.mark.parametrize("content", [POEM, ODD], ids=["poem", "many characters"])
def test_tokens_are_held_in_memory_with_a_warning_if_not_writable(
    file, tmp_path, caplog, read_only, content
):
    path = file(content)
    splits = load(path, level="characters", stride=3)
    assert len(read_only) == 1
    assert isinstance(splits.train.tokens, torch.Tensor)
    assert [entry.name for entry in tmp_path.iterdir()] == ["poem.txt"]
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "Read-only file system" in warning.getMessage()
    assert warning.getMessage().endswith(
        "tokens are held in memory; set data.cache to another folder"
    )
    tokens = [sorted(set(content)).index(character) for character in content]
    assert windows(splits.train) == by_hand(tokens[: -2 * round(len(tokens) / 10)], 7, 3)


def test_a_named_folder_that_cannot_be_written_is_refused(file, tmp_path, read_only):
    message = refused(file(POEM), level="characters", cache=str(tmp_path))
    assert message.startswith(f"data.cache={tmp_path}: cannot be written (")
    assert message.endswith("); name another folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["poem.txt"]


def test_where_nothing_is_to_be_written_the_named_folder_is_not_made(file, tmp_path):
    with guarded_folders.writing_refused("the configuration is a stranger's"):
        message = refused(file(POEM), level="characters", cache=str(tmp_path / "new"))
    assert "the configuration is a stranger's" in message
    assert not (tmp_path / "new").exists()


def test_a_write_that_fails_half_way_leaves_nothing_behind(file, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    splits = load(file(POEM), level="characters")
    assert isinstance(splits.train.tokens, torch.Tensor)
    assert [entry.name for entry in tmp_path.iterdir()] == ["poem.txt"]


def test_characters_that_a_chunk_cuts_through_are_read_whole(file, monkeypatch):
    expected = load(file(POEM), level="characters")
    for size in (1, 3):
        monkeypatch.setattr(character_tokens, "CHUNK_CHARACTERS", size)
        tokens, vocabulary = character_tokens.tokens(
            Path(file(POEM)), sha256=f"{size}" * 16, cache=None
        )
        assert vocabulary == expected.facts["vocabulary"]
        listed = tokens.read(range(len(tokens))).tolist()
        assert "".join(vocabulary[token] for token in listed) == POEM


@pytest.mark.parametrize("chunk", [1, 4, 2**20])
@pytest.mark.parametrize("content, offset, reason", [
    (b"good text \xff and more" * 9, 10, "invalid start byte"),
    ("äöü".encode() * 50 + b"\xc3(" + b"x" * 300, 300, "invalid continuation byte"),
    (b"x" * 300 + "😀".encode()[:3], 300, "unexpected end of data"),
    ("ä".encode() * 9000 + b"x\xc3(" + b"x" * 9000, 18001, "invalid continuation byte"),
])  # fmt: skip
def test_a_byte_outside_utf_8_is_reported(file, monkeypatch, chunk, content, offset, reason):
    monkeypatch.setattr(character_tokens, "CHUNK_CHARACTERS", chunk)
    assert refused(file(content), level="characters") == (
        f"FILE: is not UTF-8 at byte offset {offset} ({reason}); convert it, or use "
        "data.level=bytes"
    )
    assert load(file(content)).facts["vocabulary_size"] == 256


def test_a_byte_outside_utf_8_is_reported_with_the_text_of_a_folder(tmp_path):
    (tmp_path / "texts").mkdir()
    for name, encoding in [("a", "utf-8"), ("b", "latin-1"), ("c", "utf-8")]:
        (tmp_path / "texts" / f"{name}.txt").write_text("naïve " * 40, encoding=encoding)
    said = refused(str(tmp_path / "texts"), level="characters")
    assert "b.txt: is not UTF-8 at byte offset 2 " in said


@pytest.mark.parametrize("level", ["bytes", "characters"])
@pytest.mark.parametrize("number, options, said", [
    (74, {}, "has 74 tokens, of which data.valid gets 7, where data.context_length=7 takes 8"),
    (74, {"valid": "test"},
     "has 74 tokens, of which data.valid gets 7, where data.context_length=7 takes 8"),
    (74, {"valid": 0.5},
     "has 74 tokens, of which data.test gets 7, where data.context_length=7 takes 8"),
    (100, {"valid": 0.5, "test": 0.5},
     "has 100 tokens, of which training gets 0, where data.context_length=7 takes 8"),
    (100, {"valid": 0.9, "test": 0.5},
     "has 100 tokens, of which training gets 0, where data.context_length=7 takes 8"),
])  # fmt: skip
def test_a_part_too_short_for_a_window_is_refused(file, level, number, options, said):
    path = file("ab" * (number // 2))
    valid, test = options.get("valid", 0.1), options.get("test", 0.1)
    assert refused(path, level=level, **options) == (
        f"FILE: {said}; shorten it, choose other fractions (valid={valid}, test={test}), or give "
        "more text"
    )


@pytest.mark.parametrize("level", ["bytes", "characters"])
def test_a_part_of_exactly_a_window_is_one_sample(file, level):
    splits = load(file("ab" * 40), level=level)
    assert (len(splits.valid), len(splits.test)) == (1, 1)


@pytest.mark.parametrize("level", ["bytes", "characters"])
def test_an_empty_file_and_a_missing_one_are_refused(file, tmp_path, level):
    assert refused(file(""), level=level) == "FILE: is empty; there is nothing to learn from"
    assert refused(str(tmp_path / "none.txt"), level=level) == (
        "FILE: cannot be read (No such file or directory); put the file there"
    )


def test_tokens_of_a_part_in_memory_and_in_a_file_are_the_same_windows(tmp_path):
    tokens = torch.arange(100, dtype=torch.uint8)
    (tmp_path / "x").write_bytes(tokens.numpy().tobytes())
    stored = StoredArray(StoredFile(tmp_path / "x"), "x", 0, torch.uint8, (100,))
    made = [
        WindowDataset(source, 13, 61, context_length=6, stride=4) for source in (stored, tokens)
    ]
    assert windows(made[0]) == windows(made[1]) == by_hand(list(range(13, 61)), 6, 4)
    assert [len(value) for value in made] == [11, 11]
    for dataset in made:  # the tokens after the part are those of another
        with pytest.raises(IndexError):
            dataset.__getitems__([11])


@pytest.mark.parametrize("level", ["bytes", "characters"])
def test_a_folder_of_texts_is_read_as_their_joined_content(tmp_path, level):
    pieces = {"0.txt": "zero\n", "1.TXT": "one", "10.txt": "ten é", "b/2.txt": "two\n" * 9}
    for name, content in pieces.items():
        (tmp_path / "stories" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stories" / name).write_text(content)
    (tmp_path / "stories" / "notes.pdf").write_bytes(b"\0")
    (tmp_path / "stories" / ".hidden.txt").write_text("hidden")
    whole = tmp_path / "whole.txt"
    whole.write_text("".join(pieces.values()))
    cache = str(tmp_path / "cache")
    for _ in range(2):
        joined, one = (
            load(str(path), level=level, context_length=2, cache=cache,
                 valid_sets={"again": str(path)})
            for path in (tmp_path / "stories", whole)
        )  # fmt: skip
        assert (joined.facts, joined.fingerprint) == (one.facts, one.fingerprint)
        for part, dataset in joined.by_name.items():
            rows = range(len(dataset))
            for own, expected in zip(
                dataset.__getitems__(rows), one.by_name[part].__getitems__(rows), strict=True
            ):
                assert torch.equal(own, expected)
    assert len([*(tmp_path / "cache").glob("stories.*.txt")]) == 1
    assert sorted(path.name for path in (tmp_path / "stories").rglob("*.txt")) == [
        ".hidden.txt", "0.txt", "10.txt", "2.txt",
    ]  # fmt: skip


@pytest.mark.parametrize("train, held_out", [
    ("train.txt", "test.txt"),
    ("wiki.train.txt", "wiki.valid.txt"),
    ("Training/1.txt", "dev/1.txt"),
])  # fmt: skip
def test_texts_of_other_parts_are_never_joined_with_those_that_train(tmp_path, train, held_out):
    for name in (train, held_out, "LICENSE.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a text of some length, " * 9)
    with pytest.raises(errors.DataError, match="read as one, which is divided anew") as raised:
        load(str(tmp_path), context_length=4)
    path, sets = str(raised.value).split("data.path=")[1].split(" 'data.valid_sets=")
    ((name, other),) = OmegaConf.create(sets.rstrip("'")).items()
    splits = load(path, context_length=4, valid_sets={name: other})
    assert (path, other) == (f"{tmp_path / train}", f"{tmp_path / held_out}")
    assert len(splits.by_name[name]) == 51


@pytest.mark.parametrize("names", [("train.txt", "train_2.txt"), ("trains.txt", "test.txt")])
def test_texts_of_one_part_are_joined(tmp_path, names):
    for name in names:
        (tmp_path / "texts" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "texts" / name).write_text(POEM)
    assert len(load(str(tmp_path / "texts"), context_length=4).train)


def test_a_byte_order_mark_is_no_character(tmp_path):
    parts = []
    for name, mark in {"plain": "", "marked": "\ufeff"}.items():
        (tmp_path / f"{name}.txt").write_text(mark + POEM, encoding="utf-8")
        splits = load(f"{tmp_path}/{name}.txt", level="characters", context_length=4)
        samples = range(len(splits.train))
        parts.append((splits.facts["vocabulary"], splits.train.__getitems__(samples).inputs))
    (plain, inputs), (marked, same) = parts
    assert marked == plain and torch.equal(inputs, same)
    prompts = LastTokens([tmp_path / "plain.txt", tmp_path / "marked.txt"], plain, 4)
    assert prompts.tokens[0].tolist() == prompts.tokens[1].tolist()


def test_the_marks_of_joined_files_are_no_characters(tmp_path):
    (tmp_path / "texts").mkdir()
    for name in "ab":
        (tmp_path / "texts" / f"{name}.txt").write_text("\ufeff" + POEM, encoding="utf-8")
    (tmp_path / "whole.txt").write_text(POEM * 2, encoding="utf-8")
    joined, whole = (
        load(f"{tmp_path}/{name}", level="characters") for name in ("texts", "whole.txt")
    )
    assert joined.facts["vocabulary"] == whole.facts["vocabulary"]
    assert windows(joined.train) == windows(whole.train)


@pytest.mark.parametrize("level", ["bytes", "characters"])
@pytest.mark.parametrize(
    "changed",
    [gzip.compress(b"a" * 99, mtime=0), bz2.compress(b"a" * 99), ("a" * 99).encode("utf-16")],
)
def test_a_compressed_text_and_utf_16_are_refused(file, level, changed):
    said = refused(file(changed), level=level)
    assert said.startswith("FILE: is compressed, or in UTF-16; decompress it, or convert it")


def test_a_folder_without_a_text_is_refused(tmp_path):
    (tmp_path / "notes.md").write_text("no text")
    with pytest.raises(errors.DataError, match="has no text that ends in .txt; rename its texts"):
        load(str(tmp_path))
