"""Weights as other libraries save them: loaded with at most one option, with the logits of the
library, or refused with the line that loads them.
"""

import json
import shlex

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from safetensors.torch import save_file
from torch import nn
from torchvision import models as torchvision

from andiron import errors, serialization
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.tasks import Classifier
from andiron.wings.trained import start_from
from refusals import message_of

PICTURES = (3, 64, 64)
WORDS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50,
         "intermediate_size": 24, "max_position_embeddings": 20}  # fmt: skip


def lab():
    """The lab's networks of libraries; skips the test where the lab is deleted."""
    return pytest.importorskip("andiron_lab.networks", reason="needs andiron_lab")


def squeezenet(outputs=7):
    return torchvision.squeezenet1_1(num_classes=outputs)


def of_timm(name="test_resnet", **options):
    timm = pytest.importorskip("timm")
    return timm.create_model(name, **{"num_classes": 7, **options})


def of_transformers(kind="BertForSequenceClassification"):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    return getattr(transformers, kind)(transformers.BertConfig(**WORDS, num_labels=7))


def bert():
    pytest.importorskip("transformers")
    return lab().hf("bert", config=WORDS, num_outputs=7)


def inputs_of(network):
    torch.manual_seed(3)
    if hasattr(network, "config"):
        return torch.randint(0, 50, (5, 9))
    return torch.randn(5, *PICTURES)


def logits(network, inputs):
    with torch.inference_mode():
        result = network.eval()(inputs)
    return getattr(result, "logits", result)


def prefixed(source, prefix):
    return {prefix + name: tensor for name, tensor in source.state_dict().items()}


def loaded(given, network, trusted=None, facts=None, **buffers):
    """The task with the weights that `given` names, and the record of it."""
    names = "data", "task", "model", "metrics", "optimizer", "scheduler"
    empty = {name: {} for name in names}
    config, task = Train(lr=1.0, **empty, start_from=given), Classifier(network)
    for name, tensor in buffers.items():
        task.register_buffer(name, tensor)
    files = start_from.weights_of(config, trusted)
    return task, start_from.load(config, files, task, facts or {})


def line_of(message):
    """The option in the first line to add of a message."""
    word = next(word for word in shlex.split(message) if word.startswith("start_from={"))
    return OverridesParser.create().parse_override(word.rstrip(";")).value()


def saved(tmp_path, content, name="weights.pth"):
    torch.save(content, tmp_path / name)
    return tmp_path / name


def of_lightning(tmp_path):
    source = of_timm()
    optimizer = torch.optim.Adam(source.parameters())
    source(inputs_of(source)).sum().backward()
    optimizer.step()
    content = {
        "epoch": 2, "global_step": 9, "pytorch-lightning_version": "2.5.0", "loops": {},
        "state_dict": prefixed(source, "net.") | {"criterion.weight": torch.ones(7)},
        "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [], "callbacks": {},
        "hyper_parameters": {"lr": 0.1},
    }  # fmt: skip
    return source, saved(tmp_path, content, "epoch=2.ckpt"), lab().timm("test_resnet", PICTURES, 7)


def in_folder(tmp_path, **options):
    source = of_transformers()
    source.save_pretrained(tmp_path, **options)
    return source, tmp_path, bert()


def in_pytorch_model(tmp_path):
    source = of_transformers()
    saved(tmp_path, source.state_dict(), "pytorch_model.bin")
    (tmp_path / "config.json").write_text(source.config.to_json_string())
    return source, tmp_path, lab().hf(str(tmp_path), num_outputs=7)


def of_timm_folder(tmp_path):
    source = of_timm("test_vit", img_size=64)
    save_file(source.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "test_vit"}))
    return source, tmp_path, lab().timm("test_vit", PICTURES, 7)


def under(prefix):
    def layout(tmp_path):
        source = squeezenet()
        return source, saved(tmp_path, prefixed(source, prefix)), squeezenet()

    return layout


def of_trainer(tmp_path):
    source = of_transformers()
    save_file(source.bert.state_dict(), tmp_path / "body.safetensors")
    target = bert()
    target.classifier.load_state_dict(source.classifier.state_dict())
    return source, tmp_path / "body.safetensors", target


LAYOUTS = {
    "torchvision": under(""),
    "DDP": under("module."),
    "compile": under("_orig_mod."),
    "DDP of a compiled one": under("module._orig_mod."),
    "Lightning": of_lightning,
    "timm, a folder": of_timm_folder,
    "transformers": in_folder,
    "transformers, sharded": lambda path: in_folder(path, max_shard_size="8KB"),
    "transformers, pytorch_model.bin": in_pytorch_model,
    "the body of transformers": of_trainer,
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_weights_of_a_library_give_its_logits_without_an_option(layout, tmp_path):
    source, path, network = layout(tmp_path)

    task, record = loaded(str(path), network)

    assert torch.equal(logits(task, inputs_of(source)), logits(source, inputs_of(source)))
    assert record["left"] == (["criterion.weight"] if path.suffix == ".ckpt" else [])
    assert all("classifier" in name for name in record["new"])
    is_sharded = path.is_dir() and (path / "model.safetensors.index.json").exists()
    assert (len(record["files"]) > 1) == is_sharded


def test_a_new_head_starts_new_and_stands_in_the_record(tmp_path):
    source, target = squeezenet(1000), squeezenet()
    before = target.classifier[1].weight.clone()

    task, record = loaded(str(saved(tmp_path, source.state_dict())), target)

    assert torch.equal(task.network.classifier[1].weight, before)
    assert torch.equal(task.network.features[0].weight, source.features[0].weight)
    assert record["left"] == []
    assert record["new"] == ["network.classifier.1.weight", "network.classifier.1.bias"]


def test_strict_weights_fit_wholly_or_but_for_what_is_excepted(tmp_path):
    path = str(saved(tmp_path, squeezenet(1000).state_dict()))
    given = {"path": path, "partial": False}

    said = message_of(errors.ConfigError, loaded, given, squeezenet())
    _, record = loaded({**given, "except": ["classifier"]}, squeezenet())

    assert "both have, in other shapes, 2: network.classifier.1.weight, network." in said
    assert sorted(record["except"]) == ["network.classifier.1.bias", "network.classifier.1.weight"]
    assert loaded(line_of(said), squeezenet())[1]["loaded"] == record["loaded"]


def test_what_is_excepted_is_not_loaded_though_it_fits(tmp_path):
    source, target = squeezenet(), squeezenet()
    before = target.classifier[1].weight.clone()

    task, record = loaded({
        "path": str(saved(tmp_path, source.state_dict())), "except": ["classifier[.]1[.]weight"]
    }, target)  # fmt: skip

    assert torch.equal(task.network.classifier[1].weight, before)
    assert torch.equal(task.network.classifier[1].bias, source.classifier[1].bias)
    assert record["new"] == record["except"] == ["network.classifier.1.weight"]


def test_another_head_by_another_name_is_refused_with_the_line_that_leaves_it_out(tmp_path):
    source = of_transformers("BertForMaskedLM")
    source.save_pretrained(tmp_path)
    target = bert()
    before = {name: tensor.clone() for name, tensor in target.state_dict().items()}

    said = message_of(errors.ConfigError, loaded, str(tmp_path), target)

    assert "only the model has 4: network.bert.pooler.dense.weight" in said
    assert "only the file has 5: network.cls.predictions.bias" in said and len(said) < 1000
    assert all(torch.equal(before[name], value) for name, value in target.state_dict().items())
    task, record = loaded(line_of(said), target)
    words = inputs_of(source)
    assert torch.equal(task.eval().network.bert(words)[0], source.eval().bert(words)[0])
    assert [name for name in record["new"] if "pooler" not in name] == [
        "network.classifier.weight", "network.classifier.bias",
    ]  # fmt: skip


def test_one_of_two_bodies_is_chosen_by_the_line_of_the_message(tmp_path):
    source, other = squeezenet(), squeezenet()
    path = saved(tmp_path, prefixed(other, "encoder_k.") | prefixed(source, "encoder_q."))

    said = message_of(errors.ConfigError, loaded, str(path), squeezenet())
    line = line_of(said)
    renamed = {key.replace("_k", "_q"): line["rename"][key] for key in line["rename"]}
    task, record = loaded({**line, "rename": renamed}, squeezenet())

    assert "it has 104: encoder_k.classifier.1.bias" in said and "and 98 more" in said
    assert "the model has 52: network.features.0.weight" in said
    assert list(line["rename"]) == [r"\Aencoder_k."]
    assert torch.equal(logits(task, inputs_of(source)), logits(source, inputs_of(source)))
    assert len(record["left"]) == 52 and record["new"] == []


def test_a_part_by_another_name_is_renamed_by_the_line_of_the_message(tmp_path):
    def parts(name):
        body = nn.Sequential(nn.Linear(3, 4), nn.ModuleDict({"dae": nn.Linear(4, 2)}))
        return nn.ModuleDict({name: body, "proxies": nn.Linear(2, 3)})

    source = parts("dae")
    path = str(saved(tmp_path, prefixed(source, "network.")))
    inner, hasty = r"\Anetwork.body.1.body.", {"dae": "body"}
    for given, mapping in (
        (path, {r"\Anetwork.dae.": "network.body."}),
        ({"path": path, "rename": hasty}, {**hasty, inner: "network.body.1.dae."}),
    ):
        said = message_of(errors.ConfigError, loaded, given, parts("body"))
        line = line_of(said.partition("if they have other names: ")[2])
        task, _ = loaded(line, parts("body"))
        assert line["rename"] == mapping
        assert all(map(torch.equal, task.state_dict().values(), source.state_dict().values()))
    state = prefixed(source["dae"], "body.") | prefixed(source["proxies"], "network.proxies.")
    said = message_of(errors.ConfigError, loaded, str(saved(tmp_path, state)), parts("body"))
    assert 'rename: {OLD: "NEW"}' in said  # nothing before a name would be before all


def layers():
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))


@pytest.mark.parametrize("prefix", ["net.", ""])
def test_a_prefix_is_replaced_though_a_buffer_of_the_task_fits(prefix, tmp_path):
    source, step, zero = layers(), torch.tensor(7.0), torch.tensor(0.0)
    state = prefixed(source, prefix) | {"kl_step": step, "network.kl_step": step}
    path = str(saved(tmp_path, state))

    for options, value in (({}, 7), ({"partial": True}, 7), ({"except": ["^kl_step$"]}, 0)):
        task, record = loaded({"path": path, **options}, layers(), kl_step=zero.clone())
        assert task.kl_step == value and record["prefix"] == [prefix, "network."]
        assert all(map(torch.equal, task.network.parameters(), source.parameters()))
        assert len(record["left"]) == 1
    given = {"path": path, "except": ["^kl_step", "network.[01]"]}
    said = message_of(errors.ConfigError, loaded, given, layers(), kl_step=zero)
    assert "no tensor fits by shape: 'kl_step' is excepted, 'network.0.weight' is" in said


def test_a_name_that_fits_is_not_overwritten_by_one_with_another_prefix(tmp_path):
    source, module, step = layers(), layers(), torch.tensor(7.0)
    module.register_buffer("step", torch.tensor(0.0))
    state = prefixed(source, "net.") | {"net.step": step - 1, "step": step}

    save_file(state, tmp_path / "a.safetensors")

    differences = serialization.load_file(module, tmp_path / "a.safetensors", partial=True)

    assert module.step == step and torch.equal(module[0].weight, source[0].weight)
    assert differences.unexpected == ("net.step",)


def test_names_of_another_kind_are_mapped_by_one_option(tmp_path):
    source = of_transformers()
    old = {"gamma": "weight", "beta": "bias"}  # as files of the first BERT have them
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in source.state_dict().items()
    }
    path = str(saved(tmp_path, state, "pytorch_model.bin"))

    said = message_of(errors.ConfigError, loaded, path, bert())
    task, _ = loaded({"path": path, "rename": {f"{name}$": old[name] for name in old}}, bert())

    assert "OLD: " in said and "NEW" in said
    assert torch.equal(logits(task, inputs_of(source)), logits(source, inputs_of(source)))


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "whole.pth"])
def test_an_adapter_of_peft_is_refused_with_the_line_that_merges_it(name, tmp_path):
    state = {
        "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight": torch.ones(2),
        "base_model.model.bert.encoder.layer.0.attention.self.query.lora_B.weight": torch.ones(2),
    }
    is_safe = name.endswith("safetensors")
    save_file(state, tmp_path / name) if is_safe else torch.save(state, tmp_path / name)
    given = tmp_path if is_safe else tmp_path / name

    said = message_of(errors.DataError, loaded, str(given), nn.Linear(2, 2))

    assert "merge_and_unload().save_pretrained('merged'), then start_from=merged" in said


def test_two_dicts_of_weights_are_named_with_the_command_that_writes_one(tmp_path):
    state = of_timm().state_dict()
    content = {"state_dict": state, "state_dict_ema": dict(state), "optimizer": {"a": dict(state)}}
    path = saved(tmp_path, content)

    said = message_of(errors.DataError, loaded, str(path), lab().timm("test_resnet", PICTURES, 7))

    assert "dicts of tensors, state_dict, state_dict_ema: write one with python" in said
    assert f"import-state-dict {path} out.safetensors --key state_dict" in said


def test_shards_elsewhere_and_missing_ones_are_refused(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    for name, words in (
        ("../other.safetensors", f"{tmp_path}/other.safetensors: no such file"),
        ("/etc/passwd", f"{tmp_path}/passwd: no record format has this suffix"),
        (["x"], "not an index of shards"),
        ("absent.safetensors", "absent.safetensors: no such file"),
        ("absent.bin", "absent.bin: no such file"),
    ):
        index.write_text(json.dumps({"weight_map": {"weight": name}}))
        assert words in message_of(errors.DataError, loaded, str(tmp_path), nn.Linear(2, 2))
    index.write_text(json.dumps({"weight_map": {}}))
    assert "it names none" in message_of(errors.DataError, loaded, str(tmp_path), nn.Linear(2, 2))


@pytest.mark.parametrize("is_run", [False, True])
def test_a_folder_in_the_place_of_a_file_of_weights_is_refused(tmp_path, is_run):
    for name in ("model.safetensors", "checkpoints"):
        (tmp_path / name).mkdir()
    if not is_run:
        (tmp_path / "checkpoints").rmdir()

    said = message_of(errors.DataError, loaded, str(tmp_path), nn.Linear(2, 2))

    assert said.startswith(f"{tmp_path}/model.safetensors: ")


def test_a_file_of_torch_that_a_run_folder_names_is_read_if_the_user_names_it_too(tmp_path):
    path = str(saved(tmp_path, squeezenet().state_dict()))

    trusted = Trust(spelling="--trust {}")
    said = message_of(errors.ConfigError, loaded, path, squeezenet(), trusted)
    loaded(path, squeezenet(), Trust(packages=(path,)))

    assert f"allow it for this file with --trust {path}" in said


def test_an_object_in_a_file_of_torch_is_never_made(tmp_path):
    class Ran:
        def __reduce__(self):
            return (print, ("ran",))

    class Saved(dict):
        __reduce__ = Ran.__reduce__

    path = saved(tmp_path, {"state_dict": Saved()})
    said = message_of(errors.DataError, loaded, str(path), squeezenet())
    assert "cannot be read without running code from the file" in said


def test_an_expression_that_matches_nothing_is_refused(tmp_path):
    path = str(saved(tmp_path, squeezenet().state_dict()))
    for given in ({"except": ["head"]}, {"rename": {"head": "x"}}, {"except": ["("]}):
        said = message_of(errors.ConfigError, loaded, {"path": path, **given}, squeezenet())
        assert "match" in said or "not a valid regex" in said


def test_a_network_of_timm_takes_no_file_and_no_address_of_weights():
    pytest.importorskip("timm")
    for settings in ({"checkpoint_path": "x"}, {"pretrained": True}, {"no_such": 1}):
        said = message_of(ValueError, lab().timm, "test_resnet", PICTURES, 7, settings=settings)
        assert f"settings={settings}: test_resnet: " in said and [*settings][0] in said
    for name in ("hf-hub:x/y", "local-dir:/tmp", "test_resne"):
        said = message_of(ValueError, lab().timm, name, PICTURES, 7)
        assert f"name={name}: timm has no network of that name" in said


def test_a_folder_of_transformers_gives_the_mean_and_deviation_of_its_pixels(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32}
    described = transformers.ViTConfig(**sizes, intermediate_size=24, num_labels=5)
    (tmp_path / "config.json").write_text(described.to_json_string())
    processor = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "size": 224}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))

    network = lab().hf(str(tmp_path), auto="AutoModelForImageClassification", num_outputs=7)

    own = lab().hf.preprocessing(str(tmp_path))
    assert (own["mean"], own["std"]) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    assert network(pixel_values=torch.zeros(2, 3, 32, 32)).logits.shape == (2, 7)


def test_unknown_classes_types_and_folders_of_transformers_are_named(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text("[1, 2")
    monkeypatch.chdir(tmp_path.parent)
    for kind, arguments, words in (
        (ValueError, {"name": "bertt"}, "transformers has no type 'bertt'; did you mean 'bert'?"),
        (ValueError, {"name": "bert", "auto": "pipeline"}, "auto=pipeline: transformers has no"),
        (ValueError, {"name": tmp_path.name}, f"the folder of that name is given as {tmp_path}"),
        (errors.DataError, {"name": str(tmp_path)}, f"{tmp_path}/config.json: "),
    ):
        assert words in message_of(kind, lab().hf, **arguments)
