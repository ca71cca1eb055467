"""Networks of libraries prepare pictures and texts as their own configuration says, everywhere."""

import json
import shutil

import pytest
import torch
from in_process import called
from PIL import Image

import andiron
from andiron import errors
from andiron.data import image_folder
from andiron.shell.training import train
from andiron.wings.trained import evaluate, predict
from refusals import message_of

RUN = ("num_updates=1", "batch_size=5", "render=plain")
SHAPES = ((61, 40), (40, 77), (50, 50))
PROCESSORS = {  # of transformers: the class, and what differs from its own defaults
    "squashed": ("ViTImageProcessor", {"size": {"height": 32, "width": 32}}),
    "cropped": ("CLIPImageProcessor", {"size": {"shortest_edge": 40}, "crop_size": 32}),
    "squashed and cropped": ("DeiTImageProcessor", {"size": {"height": 37, "width": 37},
                                                    "crop_size": 32}),
    "a part": ("ConvNextImageProcessor", {"size": {"shortest_edge": 32}, "crop_pct": 0.8}),
}  # fmt: skip


@pytest.fixture
def photos(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    for number in range(18):
        width, height = SHAPES[number % 3]
        pixels = torch.randint(90, 166, (height, width, 3), generator=generator, dtype=torch.uint8)
        path = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy()).save(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    return tmp_path


def of_timm(folder):
    timm = pytest.importorskip("timm")
    described = timm.get_pretrained_cfg("test_vit").to_dict()
    described = timm.data.resolve_data_config(pretrained_cfg=described)
    assert described["crop_pct"] < 1
    return ["model=timm", "model.name=test_vit"], timm.data.create_transform(**described)


def of_torchvision(folder):
    from torchvision.models import get_model, get_model_weights

    (folder / "hub/checkpoints").mkdir(parents=True)
    weights = get_model_weights("squeezenet1_1").DEFAULT
    name = weights.url.rpartition("/")[2]
    torch.save(get_model("squeezenet1_1").state_dict(), folder / "hub/checkpoints" / name)
    return (
        ["model=torchvision", "model.name=squeezenet1_1", "model.weights=DEFAULT"],
        weights.transforms(),
    )


def of_transformers(folder, kind="cropped"):
    transformers = pytest.importorskip("transformers")
    name, options = PROCESSORS[kind]
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 8}
    transformers.ViTConfig(**sizes, image_size=32, intermediate_size=24).save_pretrained(folder)
    processor = getattr(transformers, name)(**options)
    processor.save_pretrained(folder)

    def transform(picture):
        return processor(picture, return_tensors="pt")["pixel_values"][0]

    auto = "model.auto=AutoModelForImageClassification"
    return ["model=hf", f"model.name={folder}", auto], transform


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("library", [of_timm, of_torchvision, of_transformers])
def test_predict_and_evaluate_prepare_raw_pictures_as_the_library_does(photos, library):
    (photos / "net").mkdir()
    options, transform = library(photos / "net" if library is of_transformers else photos)
    chosen = ("data=image_folder", "data.path=photos", *options, "hydra.run.dir=run")
    ended = called(train.main, *RUN, *chosen)
    assert ended.code == 0, ended.errors

    run, files = andiron.load("run"), sorted((photos / "photos").rglob("*.png"))
    wanted = torch.stack([transform(Image.open(file)) for file in files])
    with torch.inference_mode():
        expected = run.model(wanted)
    outputs = torch.stack([prediction.output for prediction in run.predict(files)])
    # of one float32 operation on pixels, through the layers
    torch.testing.assert_close(outputs, expected, rtol=1e-3, atol=1e-4)
    resizing = json.loads((photos / "run/data.json").read_text())["resizing"]
    assert resizing["crop"] < 1

    kept = image_folder(path="photos", size=wanted.shape[-1], resizing=resizing, valid=0.1,
                        test=0.1, split_seed=0)  # fmt: skip
    assert torch.equal(run.data.valid.__getitems__([0]).inputs, kept.valid.__getitems__([0]).inputs)
    shutil.copytree("photos", "others")
    of_same, of_others = (
        called(evaluate.main, "run", "split=all", *others, "--json")
        for others in ((), ("data=image_folder", "data.path=others"))
    )
    assert of_same.errors == of_others.errors == ""
    assert json.loads(of_same.output)["metrics"] == json.loads(of_others.output)["metrics"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", PROCESSORS)
def test_the_file_of_an_image_processor_is_read_as_transformers_reads_it(photos, kind):
    _, transform = of_transformers(photos, kind)
    own = pytest.importorskip("andiron_lab.networks").hf.preprocessing(name=str(photos))

    dataset = image_folder(path="photos", size=own["size"], resizing=own["resizing"], valid=0.1,
                           test=0.1, split_seed=0).train  # fmt: skip
    for index in range(3):
        pixels = dataset.__getitems__([index]).inputs[0] / 255
        mean, std = (torch.tensor(own[name]).view(3, 1, 1) for name in ("mean", "std"))
        wanted = transform(Image.open(dataset.root / dataset.names[index]))
        # transformers resizes tensors, which rounds a few pixels the other way
        off_by = ((pixels - mean) / std - wanted).mul(255 * std).round().int().abs()
        assert off_by.amax() <= 1


def test_given_options_stand_above_what_the_network_says(photos):
    pytest.importorskip("timm")
    options = ("data.size=48", "data.resizing={interpolation: nearest}")
    data = ("data=image_folder", "data.path=photos", "model=timm", "model.name=test_resnet")
    assert called(train.main, *RUN, *data, *options, "hydra.run.dir=run").code == 0

    recorded = json.loads((photos / "run/data.json").read_text())
    assert recorded["input_shape"] == [3, 48, 48]
    assert recorded["resizing"] == {"interpolation": "nearest"}
    refused = called(train.main, *RUN, *data, "data.resizing={crop: 0.1}", "hydra.run.dir=no")
    assert "should be {crop: 0.875, interpolation: bicubic, squash: true}" in refused.errors


@pytest.mark.filterwarnings("ignore")
def test_predict_repeats_the_tokenizer_of_the_folder_and_refuses_another(tmp_path, monkeypatch):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokenizer = run_of_texts(
        tmp_path, monkeypatch, "BertConfig", sizes | {"intermediate_size": 24}, model_max_length=6
    )

    run = andiron.load("run", trust=["rows_of_tokens"])
    texts = ["to be or not", "that is to be or not to be"]
    (one, other) = run.predict(texts)
    fields = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        expected = run.model.network(**fields).logits
    assert fields["input_ids"].shape == (2, 6)
    torch.testing.assert_close(torch.stack([one.output, other.output]), expected)
    said = called(predict.main, "run", "to be", "--trust", "rows_of_tokens", "--json")
    assert json.loads(said.output)["label"] == run.predict("to be")[0].label

    (tmp_path / "net/tokenizer.json").write_text("{}")
    said = message_of(errors.DataError, run.predict, texts)
    assert "tokenizer.json: missing, added or changed since the run" in said


SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 24, "max_position_embeddings": 16, "pad_token_id": 0}  # fmt: skip
OF_TEXTS = {
    "GPT2Config": {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "pad_token_id": 0},
    "OPTConfig": {**SMALL, "ffn_dim": 16, "word_embed_proj_dim": 16},
    "BertConfig": SMALL, "RobertaConfig": SMALL, "LlamaConfig": SMALL,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", OF_TEXTS)
def test_a_text_is_predicted_as_it_is_alone_and_a_long_one_is_named_or_cut(
    kind, tmp_path, monkeypatch, capsys
):
    run_of_texts(tmp_path, monkeypatch, kind, OF_TEXTS[kind], padding_side="left")
    run = andiron.load("run", trust=["rows_of_tokens"])
    (tmp_path / "long.txt").write_text("to be or not " * 15)

    (alone,) = run.predict("that is")
    _, beside, _ = run.predict(["to be or not to be that is", "that is", "to"])
    said = called(predict.main, "run", "that is", "long.txt", "to be", "--trust", "rows_of_tokens")

    assert torch.equal(alone.output, beside.output)
    is_named = kind == "RobertaConfig"  # the first two of its positions are for no token
    assert (said.code, len(said.output.splitlines())) == ((1, 3) if is_named else (0, 4))
    assert is_named == ("long.txt: the network does not take this text" in said.errors)
    assert "Traceback" not in said.errors


def run_of_texts(folder, monkeypatch, kind, settings, **options):
    """Trains a run of token ids in `folder`; returns the tokenizer of its network's folder."""
    transformers, tokenizers = map(pytest.importorskip, ("transformers", "tokenizers"))
    monkeypatch.chdir(folder)
    words = ["[PAD]", "[UNK]", *"to be or not that is".split()]
    tokens = tokenizers.Tokenizer(tokenizers.models.WordLevel(
        {word: number for number, word in enumerate(words)}, unk_token="[UNK]"
    ))  # fmt: skip
    tokens.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]", **options
    )
    tokenizer.save_pretrained("net")
    getattr(transformers, kind)(vocab_size=8, **settings).save_pretrained("net")
    (folder / "rows_of_tokens.py").write_text(
        "samples = [{'input_ids': [n % 8, 3, 4], 'attention_mask': [1, 1, 1], 'labels': n % 2}\n"
        "           for n in range(40)]\n\ndef rows():\n    return samples\n"
    )
    monkeypatch.syspath_prepend(folder)
    ended = called(
        train.main, *RUN, "data=torch_dataset", "data.train={_target_: rows_of_tokens.rows}",
        "model=hf", "data.num_classes=2", "task=forward", f"model.name={folder}/net",
        "hydra.run.dir=run",
    )  # fmt: skip
    assert ended.code == 0, ended.errors
    return tokenizer
