"""Networks and tokenizers in folders of transformers: read as transformers reads them."""

import json
import re
from pathlib import Path

import pytest
import torch

from andiron import errors
from andiron.data import ArrayBatcher, ImageBatcher
from andiron.data.kinds import recorded_kind
from andiron.data.kinds.texts import tokenised as tokenised_by
from andiron.data.splitting.described import Described
from andiron.disk import tokenizer_files
from andiron_lab import networks
from refusals import message_of

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "the"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture
def bert(tmp_path):
    """A folder with a small BERT of 16 positions, and a tokenizer that has a vocab.txt alone."""
    settings = transformers.BertConfig(
        **SIZES, intermediate_size=16, vocab_size=len(WORDS), max_position_embeddings=16
    )
    folder = tmp_path / "bert"
    settings.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


def tokenised(folder, *texts, recorded=None):
    files = tokenizer_files.checksums_in(str(folder)) if recorded is None else recorded
    return tokenised_by(texts, {"folder": str(folder), "files": files})


def test_every_file_that_a_tokenizer_of_transformers_names_is_recorded():
    sources = Path(transformers.__file__).parent.rglob("tokenization*.py")
    texts = [path.read_text(encoding="utf-8") for path in sources]
    tables = re.findall(r"VOCAB_FILES_NAMES = {(.*?)}", "".join(texts), re.DOTALL)
    names = {name for table in tables for name in re.findall(r': *"([^"]+)"', table)}
    others = {"special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
              "tekken.json", "tiktoken.model"}  # fmt: skip

    assert len(names) > 20
    is_read = tokenizer_files.OF_TOKENIZERS.fullmatch
    assert not [name for name in names | others if not is_read(name)]
    for name in ("model.safetensors", "preprocessor_config.json", "README.md", "optimizer.pt"):
        assert not is_read(name)


def test_a_text_has_one_encoding_where_words_were_split_at_random_in_training(bert):
    text = "the lowest newest widest lower newer"
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(dropout=0.3))
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=60, show_progress=False)
    trained.train_from_iterator([text] * 20, trainer)
    (bert / "vocab.txt").unlink()
    transformers.PreTrainedTokenizerFast(tokenizer_object=trained).save_pretrained(bert)
    assert len({str(tokenised(bert, text)) for _ in range(10)}) == 1


CHANGES = {
    "another word": lambda folder: ("vocab.txt", "\n".join([*WORDS[:5], "bad", "good"])),
    "an added token": lambda folder: ("added_tokens.json", '{"film": 5}'),
    "a whole tokenizer": lambda folder: ("tokenizer.json", "{}"),
    "special tokens": lambda folder: ("special_tokens_map.json", '{"cls_token": "good"}'),
    "a setting": lambda folder: ("tokenizer_config.json", '{"do_lower_case": false}'),
    "a template": lambda folder: ("chat_template.jinja", "x"),
    "another type": lambda folder: ("config.json", '{"model_type": "distilbert"}'),
    "none": lambda folder: ("vocab.txt", None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_tokenizer_with_another_file_is_refused_by_its_name(change, bert):
    recorded = tokenizer_files.checksums_in(str(bert))
    name, text = change(bert)
    (bert / name).unlink(missing_ok=True)
    if text is not None:
        (bert / name).write_text(text)

    said = message_of(errors.DataError, tokenised, bert, "good film", recorded=recorded)

    assert said.startswith(f"{bert}: ")
    assert f"{name}: missing, added or changed since the run" in said


def test_a_run_that_recorded_some_files_is_held_to_these(bert):
    old = {name: sha256 for name, sha256 in tokenizer_files.checksums_in(str(bert)).items()
           if name != "config.json"}  # fmt: skip
    (bert / "added_tokens.json").write_text("{}")
    assert tokenised(bert, "good", recorded=old)
    (bert / "vocab.txt").write_text("\n".join(reversed(WORDS)))
    assert "vocab.txt" in message_of(errors.DataError, tokenised, bert, "good", recorded=old)


def test_texts_have_the_same_fields_whatever_stands_beside_them(bert):
    (bert / "tokenizer_config.json").write_text('{"padding_side": "left"}')
    alone, long = tokenised(bert, "good film"), "the " * 60
    beside = tokenised(bert, long, "good film", "bad")

    assert beside[1] == alone[0] and "position_ids" not in alone[0]
    assert len(beside[0]["input_ids"]) == 16  # the positions; its tokenizer has no limit on file
    data = Described("x", ArrayBatcher(), {"tokenizer": {
        "folder": str(bert), "files": tokenizer_files.checksums_in(str(bert)),
    }}, 8)  # fmt: skip
    assert recorded_kind.of(data).samples(["good", "bad film"]).comes_alone


def test_pictures_of_a_folder_with_a_tokenizer_are_pictures(bert):
    facts = {"input_shape": (3, 4, 4), "tokenizer": {"folder": str(bert), "files": {}}}
    data = Described("x", ImageBatcher(0.5, 0.5), facts, 8, "uint8")
    assert type(recorded_kind.of(data).samples(["a.png"]).dataset).__name__ == "PictureFiles"


DECODERS = {
    "llama": dict(SIZES, intermediate_size=16),
    "gpt2": {"n_embd": 16, "n_layer": 1, "n_head": 2},
    "opt": dict(SIZES, ffn_dim=16, word_embed_proj_dim=16, max_position_embeddings=32),
    "gpt_neox": dict(SIZES, intermediate_size=16),
    "bart": {"d_model": 16, "decoder_layers": 1, "decoder_attention_heads": 2,
             "decoder_ffn_dim": 16, "max_position_embeddings": 32},
}  # fmt: skip


@pytest.mark.parametrize("kind", DECODERS)
def test_networks_keep_no_cache_unless_their_settings_ask_for_it(kind):
    auto, sizes = "AutoModelForCausalLM", DECODERS[kind] | {"vocab_size": 50}
    tokens = torch.randint(50, (1, 6))
    for given, has_cache in ({}, False), ({"use_cache": True}, True):
        network = networks.hf(kind, config=sizes | given, auto=auto)
        for mode in (network.train(), network.eval()):
            assert (mode(input_ids=tokens).get("past_key_values") is not None) == has_cache


def test_documents_packed_into_one_row_do_not_see_each_other():
    network = networks.hf("llama", config=DECODERS["llama"] | {"vocab_size": 50},
                          auto="AutoModelForCausalLM").train()  # fmt: skip
    one, two = torch.randint(50, (1, 6)), torch.randint(50, (1, 5))
    positions = torch.tensor([[*range(6), *range(5)]])
    packed = network(input_ids=torch.cat([one, two], 1), position_ids=positions).logits
    torch.testing.assert_close(packed[:, 6:], network(input_ids=two).logits)


NUMBERS = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6],
           "size": {"height": 16, "width": 16}}  # fmt: skip
OTHERS = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 8, "width": 8}}
PROCESSORS = {
    "inside alone": {"processor_config.json": {"image_processor": NUMBERS}},
    "inside first": {"processor_config.json": {"image_processor": NUMBERS},
                     "preprocessor_config.json": OTHERS},
    "beside": {"processor_config.json": {"processor_class": "CLIPProcessor"},
               "preprocessor_config.json": NUMBERS},
    "alone": {"preprocessor_config.json": NUMBERS},
}  # fmt: skip


@pytest.mark.parametrize("files", PROCESSORS.values(), ids=PROCESSORS)
def test_pictures_are_prepared_as_the_file_says_that_transformers_reads(files, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    own = networks.hf.preprocessing(str(tmp_path))
    assert (own["mean"], own["std"], own["size"]) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 16)


def test_the_picture_settings_of_a_saved_clip_processor_are_found(tmp_path):
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 16}, crop_size=16, image_mean=[0.1, 0.2, 0.3]
    )
    (tmp_path / "vocab.json").write_text('{"<|startoftext|>": 0, "<|endoftext|>": 1, "a": 2}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    words = transformers.CLIPTokenizer.from_pretrained(tmp_path)
    transformers.CLIPProcessor(processor, words).save_pretrained(tmp_path / "clip")

    own = networks.hf.preprocessing(str(tmp_path / "clip"))

    assert (own["mean"], own["size"]) == ((0.1, 0.2, 0.3), 16)
