"""Shards of tokens: written as the tokenizer reads, windows of them by place, texts from them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from andiron import errors
from andiron.data import DataLoader
from andiron.data.splitting import fingerprint
from andiron.outputs import IGNORED
from andiron.shell.training import train
from andiron.wings.trained import evaluate
from andiron_lab.data.shard_files import check_checksums
from andiron_lab.data.shard_writing import tokenize
from andiron_lab.data.token_shards import token_shards
from andiron_lab.data.tokenizer_texts import TokenizerTexts, of_record
from andiron_lab.data.tokenizing import main
from in_process import called
from refusals import message_of

tokenizers = pytest.importorskip("tokenizers")
DOCUMENTS = [
    "To be, or not to be, that is the question.", "é", "", "Whether 'tis nobler in the mind\n" * 9,
    "a literal <|endoftext|> in a text", "\N{GRINNING FACE} — ü", *(f"line {n}" for n in range(40)),
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    model.train_from_iterator(DOCUMENTS, trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    model.save(str(path))
    return path


@pytest.fixture
def folder(tokenizer, tmp_path):
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(f"{json.dumps({'text': text})}\n" for text in DOCUMENTS))
    tokenize([source], str(tokenizer), tmp_path / "tokens", shard_tokens=100)
    return tmp_path / "tokens"


def documents_in(tokenizer):
    """The tokens of each document, with the end after it."""
    model = tokenizers.Tokenizer.from_file(str(tokenizer))
    model.encode_special_tokens = True
    return [[*model.encode(text).ids, 0] for text in DOCUMENTS]


def load(path, **options):
    given = {"context_length": 7, "valid": 0.2, "test": 0.2, **options}
    return token_shards(path=str(path), **given)


def test_shards_are_the_tokens_of_numpy_and_their_documents(folder, tokenizer):
    manifest = json.loads((folder / "manifest.json").read_text())
    whole, documents = [], 0
    for entry in manifest["shards"]:
        tokens = np.fromfile(folder / entry["tokens"], "<u2")
        ends = np.fromfile(folder / entry["ends"], "<i8")
        assert len(tokens) <= 100 or len(ends) == 1
        assert [*ends] == [*(np.flatnonzero(tokens == 0) + 1)]
        whole += tokens.tolist()
        documents += len(ends)
    assert len(manifest["shards"]) > 3 and documents == len(DOCUMENTS)
    assert whole == sum(documents_in(tokenizer), [])
    assert check_checksums(folder) == 1 + 2 * len(manifest["shards"])


def test_a_tokenizer_that_kept_its_dropout_writes_the_tokens_without_it(tokenizer, tmp_path):
    plain = tokenizers.Tokenizer.from_file(str(tokenizer))
    dropping = tokenizers.Tokenizer.from_file(str(tokenizer))
    dropping.model.dropout = 0.5
    texts = tmp_path / "texts.txt"
    texts.write_text(DOCUMENTS[0])
    for name, model in (("plain", plain), ("dropping", dropping)):
        model.save(str(tmp_path / f"{name}.json"))
        tokenize([texts], str(tmp_path / f"{name}.json"), tmp_path / name)
    written = [next((tmp_path / name).glob("*.bin")).read_bytes() for name in ("plain", "dropping")]
    assert written[0] == written[1]


def test_documents_without_a_token_between_them_are_named(tokenizer, tmp_path, capsys):
    model = json.loads(tokenizer.read_text().replace("<|endoftext|>", "<eot>"))
    (tmp_path / "own.json").write_text(json.dumps(model))
    sources = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for source in sources:
        source.write_text("To be")
    given = [*sources, "--tokenizer", tmp_path / "own.json", "--to", tmp_path / "tokens"]
    for further in [], ["--end", "<eot>"]:
        main.run(main.parser().parse_args([*map(str, given), *further]))
        given[-1] = tmp_path / "others"
        said = "; no token ends a document: --end names one" in capsys.readouterr().out
        assert said == (not further)


def test_files_without_the_separator_are_named(tokenizer, tmp_path, capsys):
    for name, content in ("dos", "To be\r\n\r\nor\r\n"), ("unix", "To be\n\nor\n"):
        (tmp_path / f"{name}.txt").write_bytes(content.encode())
    sources = [str(tmp_path / "dos.txt"), str(tmp_path / "unix.txt")]
    given = ["--tokenizer", str(tokenizer), "--to", str(tmp_path / "to"), "--separator", "\n\n"]
    main.run(main.parser().parse_args([*sources, *given]))
    said = capsys.readouterr().out
    assert said.rstrip().endswith(f"; one document, without a separator: {sources[0]}"), said


def test_the_worst_errors_of_documents_apart_end_with_their_last_token(folder, tmp_path):
    small = "model=gpt", "model.dim=8", "model.heads=1", "model.layers=1", "num_epochs=1"
    data = "data=token_shards", f"data.path={folder}", "data.documents=apart"
    options = "data.context_length=16", "loss.ignored_index=-100", "metrics=language"
    run = tmp_path / "run"
    ended = called(train.main, *small, *data, *options, f"hydra.run.dir={run}", "render=plain")
    assert ended.code == 0, ended.errors

    ended = called(evaluate.main, run, "--json", "--worst", "40")
    worst = json.loads(ended.output)["worst"]
    assert {error["true"] for error in worst} == {"<|endoftext|>"}
    assert not any("<|endoftext|>" in error["name"] for error in worst)


def test_packed_windows_are_slices_of_all_tokens(folder, tokenizer):
    whole = torch.tensor(sum(documents_in(tokenizer), []))
    splits = load(folder, stride=3)
    for begin, end, part in zip(
        [0, splits.valid.begin, splits.test.begin],
        [splits.valid.begin, splits.test.begin, len(whole)],
        (splits.train, splits.valid, splits.test), strict=True,
    ):  # fmt: skip
        expected = whole[begin:end].unfold(0, 8, 3)
        read = part.__getitems__(range(len(part)))
        assert torch.equal(read.inputs, expected[:, :-1])
        assert torch.equal(read.targets, expected[:, 1:])


@pytest.mark.parametrize("stride", [7, 3])
def test_windows_apart_stay_in_their_documents(folder, tokenizer, stride):
    splits, expected = load(folder, documents="apart", stride=stride), []
    for document in documents_in(tokenizer):
        begin = 0
        while len(document) > 1:
            window = document[begin : begin + 8]
            filled = [*window, *[0] * (8 - len(window))]
            targets = [*window[1:], *[IGNORED] * (8 - len(window))]
            expected.append((filled[:-1], targets))
            if begin + 8 >= len(document):
                break
            begin += stride
    parts = (splits.train, splits.valid, splits.test)
    read = [part.__getitems__(range(len(part))) for part in parts]
    inputs = [row for batch in read for row in batch.inputs.tolist()]
    targets = [row for batch in read for row in batch.targets.tolist()]
    assert list(zip(inputs, targets, strict=True)) == expected
    again = splits.train.__getitems__([3, 0, 3])
    assert torch.equal(again.inputs, read[0].inputs[[3, 0, 3]])


def test_plain_files_of_nanogpt_are_read_with_their_tokenizer(folder, tokenizer, tmp_path):
    whole = sum(documents_in(tokenizer), [])
    np.array(whole, np.uint16).tofile(tmp_path / "train.bin")
    given = {"tokenizer": str(tokenizer), "stride": 3}
    plain, shards = load(tmp_path / "train.bin", **given), load(folder, stride=3)
    every = range(len(shards.train))
    assert torch.equal(plain.train.__getitems__(every).inputs, shards.train.__getitems__(every)[0])
    names = "vocabulary_size", "tokenizer_sha256", "bytes_per_token", "context_length"
    assert all(plain.facts[name] == shards.facts[name] for name in names)


def test_texts_come_back_from_their_tokens(folder):
    texts, facts = of_record(load(folder).facts), load(folder).facts
    for text in filter(None, DOCUMENTS):
        tokens = texts.encode(text)
        assert texts.decode(tokens) == text == "".join(texts.pieces(iter(tokens)))
        is_special = 0 in tokens
        assert is_special or sum(facts["bytes_per_token"][n] for n in tokens) == len(text.encode())
    assert len({texts[token] for token in range(len(texts))}) == len(texts)


def test_a_text_is_continued_with_the_space_that_its_first_token_has(tmp_path):
    model = tokenizers.Tokenizer(tokenizers.models.Unigram())
    model.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    model.decoder = tokenizers.decoders.Metaspace()  # drops the first space of a text
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=60, show_progress=False)
    model.train_from_iterator(DOCUMENTS, trainer)
    path = tmp_path / "tokenizer.json"
    model.save(str(path))
    texts = TokenizerTexts(str(path), fingerprint.of_file(path))
    tokens, number = texts.encode("to be or not"), len(texts.encode("to be"))
    assert "".join(texts.pieces(iter(tokens[number:]), tokens[:number])) == " or not"


def test_batches_are_the_same_from_worker_processes(folder):
    def read(**options):
        splits = load(folder, documents="apart", stride=2)
        loader = DataLoader(splits.train, splits.batcher, batch_size=5, shuffle_seed=2, **options)
        batches = [batch.inputs.tolist() for epoch in (0, 1) for batch in loader.epoch(epoch, 3)]
        loader.close()
        return batches

    assert read() == read(num_workers=2)


def shorten(folder):
    path = next(folder.glob("00001.bin"))
    path.write_bytes(path.read_bytes()[:-2])


def overflow(folder):
    path = next(folder.glob("00000.bin"))
    path.write_bytes(b"\xff\xff" * (path.stat().st_size // 2))


@pytest.mark.parametrize(("change", "said"), [
    (shorten, "where manifest.json records"),
    (lambda folder: (folder / "manifest.json").unlink(), "has no manifest.json, so it is no whole"),
    (lambda folder: (folder / "manifest.json").write_text("{}"), "is malformed"),
    (lambda folder: (folder / "tokenizer.json").write_text("{}"), "or another tokenizer than the"),
    (overflow, "has token 65535, where the vocabulary has 300; give the"),
])  # fmt: skip
def test_a_folder_that_is_not_as_recorded_is_refused(folder, change, said):
    change(folder)
    with pytest.raises(errors.DataError, match=said.replace(".", "[.]")):
        load(folder).train.__getitems__([0])
    with pytest.raises(errors.DataError):
        check_checksums(folder)


@pytest.mark.parametrize(("options", "said"), [
    ({"context_length": 600}, "has no window of data.context_length=600"),
    ({"tokenizer": "x.json"}, "records its own tokenizer; leave the option out"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(folder, options, said):
    assert said in message_of(errors.DataError, load, folder, **options)


@pytest.mark.parametrize(("name", "content", "options", "said"), [
    ("a.jsonl", b"{", {}, "a.jsonl:1: is no JSON"),
    ("a.jsonl", b'{"t": 1}', {}, "a.jsonl:1: has no text in the field 'text'; name another one"),
    ("a.txt", b"\xff", {}, "a.txt: is not UTF-8"),
    ("a.txt", b"a", {"end": "nope"}, "--end nope: is no token of the tokenizer"),
])  # fmt: skip
def test_sources_that_are_no_texts_are_refused(tokenizer, tmp_path, name, content, options, said):
    (tmp_path / name).write_bytes(content)
    to = tmp_path / "tokens"
    message = message_of(
        errors.DataError, tokenize, [Path(tmp_path / name)], str(tokenizer), to, **options
    )
    assert said in message and not (to / "manifest.json").exists()
