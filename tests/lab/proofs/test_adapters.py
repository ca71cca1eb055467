"""LoRA by a rule of param_groups: trained, resumed, evaluated, merged, and as peft loads it."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("peft")
from peft import PeftModel  # noqa: E402

import andiron  # noqa: E402
from andiron import serialization  # noqa: E402
from andiron.models import MLP  # noqa: E402
from andiron.shell.training import train  # noqa: E402
from andiron.wings.trained import evaluate  # noqa: E402
from andiron.wings.trained.exports import export  # noqa: E402
from andiron_lab.adapters import adapter_files, low_rank as adapters  # noqa: E402
from in_process import called  # noqa: E402

LORA = "+param_groups.lora={match:{module:Linear,name:'layers.[13]'},adapter:{rank:4,alpha:8}}"
TEXTS = ("data=text", "data.path=play.txt", "data.context_length=16")
RUN = ("num_epochs=3", "model.hidden=[32,16]", "lr=0.01", "render=plain")


def trained(*options):
    ran(*RUN, *options)


def ran(*options):
    ended = called(train.main, *options)
    assert (ended.code, ended.errors) == (0, "")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run `base`, and a run `run` with adapters that starts from its weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("adapters"))
        trained("hydra.run.dir=base")
        trained("hydra.run.dir=run", "start_from=base", LORA)
        yield


def weights(folder, file="model.safetensors"):
    return serialization.load_tensors(Path(folder, file))


def logits(model):
    inputs = andiron.load("run").preprocessing.batcher
    run = andiron.load("run")
    batch = inputs(run.data.test.__getitems__(range(9)), run.device)
    with torch.no_grad():
        return model(batch.inputs)


def test_adapted_layers_stay_and_their_adapters_and_the_rest_train(runs):
    before, after = weights("base"), weights("run")
    for name in ("layers.1", "layers.3"):
        for kind in ("weight", "bias"):
            kept = after[f"network.{name}.base_layer.{kind}"]
            assert torch.equal(kept, before[f"network.{name}.{kind}"])
        assert after[f"network.{name}.lora_B.lora.weight"].count_nonzero()
    assert not torch.equal(after["network.layers.5.weight"], before["network.layers.5.weight"])
    groups = json.loads(Path("run/param_groups.json").read_text())
    assert list(groups) == ["lora", "base"] and groups["lora"]["num_parameters"] == 4 * (96 + 48)


def test_a_resumed_run_with_adapters_has_the_bits_of_a_whole_one(runs):
    trained("hydra.run.dir=half", "start_from=base", LORA, "num_epochs=1")
    trained("resume=half", "num_epochs=3")
    assert {name: t.tolist() for name, t in weights("half").items()} == {
        name: t.tolist() for name, t in weights("run").items()
    }


def test_merged_weights_load_into_the_plain_network_with_the_same_outputs(runs):
    assert called(evaluate.main, "run").code == 0
    ended = called(export.main, "run", "--format", "safetensors", "--output", "merged", "--json")
    assert ended.code == 0, ended.errors
    assert json.loads(ended.output)["largest_difference"] < 1e-5
    network = MLP([1, 8, 8], 10, hidden=[32, 16])
    network.load_state_dict(weights("merged"))
    expected = logits(andiron.load("run").model)
    torch.testing.assert_close(logits(network), expected, rtol=0, atol=1e-5)  # other order of sums


def test_peft_loads_the_adapter_with_the_same_outputs(runs):
    ended = called(export.main, "run", "--format", "adapter", "--output", "adapter")
    assert ended.code == 0, ended.errors
    names = weights("adapter", "adapter_model.safetensors")
    beside = {name for name in names if "lora" not in name}
    assert beside == {f"base_model.model.layers.5.{kind}" for kind in ("weight", "bias")}
    network = andiron.load("base").model.network
    loaded = PeftModel.from_pretrained(network, "adapter").eval()
    assert torch.equal(logits(loaded), logits(andiron.load("run").model))


PARTS = """import torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, n):
        return {"left": torch.eye(6)[n % 6], "right": torch.eye(4)[n % 4], "labels": n % 3}

class Net(torch.nn.Module):
    def __init__(self, is_named=False):
        super().__init__()
        self.left, self.right = torch.nn.Linear(6, 8), torch.nn.Linear(4, 8)
        self.head = torch.nn.Linear(8, 3)
        self.is_named = is_named

    def forward(self, left, right):
        logits = self.head(torch.relu(self.left(left) + self.right(right)))
        return {"logits": logits} if self.is_named else logits
"""
ROWS = ("data=torch_dataset", "data.train={_target_: parts.Rows}", "data.num_classes=3",
        "task=forward", "loss=cross_entropy", "task.targets=labels", "metrics=classification",
        "task.inputs=[left,right]", "num_epochs=1", "render=plain")  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("net", "layers"), [
    ("{_target_: parts.Net}", "left|right"), ("{_target_: parts.Net, is_named: true}", "head"),
    ("{_target_: parts.Net}", "left|right|head"),
])  # fmt: skip
def test_adapters_of_a_network_on_mappings_are_exported(net, layers, here, monkeypatch):
    Path("parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(here)
    Path("conf/model").mkdir(parents=True)
    Path("conf/model/own.yaml").write_text(f"{net}\n")
    options = ("--config-dir=conf", "model=own", *ROWS)
    ran(*options, "hydra.run.dir=base")
    lora = f"+param_groups.lora={{match:{{name:'{layers}'}},adapter:{{rank:2}}}}"
    ran(*options, lora, "start_from=base", "optimizer=adamw", "lr=0.1", "hydra.run.dir=run")
    batch = {name: torch.randn(5, size) for name, size in (("left", 6), ("right", 4))}
    base, run = (andiron.load(name, trust=["parts"]).model for name in ("base", "run"))
    with torch.no_grad():
        expected = run(batch)
    for kind in "adapter", "safetensors":
        ended = called(export.main, "run", "--format", kind, "--output", kind, "--trust", "parts")
        assert ended.code == 0, ended.errors
        assert "Inputs: a mapping of left float32" in Path(kind, "README.md").read_text()
    network = base.network
    network.load_state_dict(weights("safetensors"))
    torch.testing.assert_close(base(batch), expected, rtol=0, atol=1e-5)
    base = andiron.load("base", trust=["parts"]).model
    loaded = PeftModel.from_pretrained(base.network, "adapter").eval()(**batch)
    assert torch.equal(loaded["logits"] if "is_named" in net else loaded, expected)


ENCODER = """import torch

class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(28, 2, 16, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(28, 10)

    def forward(self, inputs):
        return self.head(self.layer(inputs[:, 0]).mean(1))
"""


def test_adapters_in_an_encoder_of_torch_count_in_evaluation(here, monkeypatch):
    Path("encoder.py").write_text(ENCODER)
    monkeypatch.syspath_prepend(here)
    Path("conf/model").mkdir(parents=True)
    Path("conf/model/own.yaml").write_text("_target_: encoder.Encoder\n")
    lora = "+param_groups.lora={match:{name:'linear[12]'},adapter:{rank:2}}"
    options = ("--config-dir=conf", "model=own", *PICTURES, "num_epochs=1", "render=plain")
    ran(*options, lora, "optimizer=adamw", "lr=0.1", "hydra.run.dir=run")
    network = andiron.load("run", trust=["encoder"]).model.network
    pictures = torch.randn(3, 1, 28, 28)
    with torch.no_grad():
        evaluated, expected = network.eval()(pictures), network.train()(pictures)
    torch.testing.assert_close(evaluated, expected, rtol=0, atol=1e-5)
    ended = called(export.main, "run", "--format", "safetensors", "--output", "o",
                   "--trust", "encoder")  # fmt: skip
    assert ended.code == 0, ended.errors


def test_a_group_named_as_a_part_of_the_network_is_exported(runs):
    trained("hydra.run.dir=named", "start_from=base", LORA.replace("groups.lora", "groups.1"))
    for run in ("run", "named"):
        ended = called(export.main, run, "--format", "adapter", "--output", f"{run}-adapter")
        assert ended.code == 0, ended.errors
    file = "adapter_model.safetensors"
    assert {*weights("named-adapter", file)} == {*weights("run-adapter", file)}


PICTURES = ("data=synthetic", "data.input_shape=[1,28,28]", "data.num_samples=60")
STARTS = {
    "all layers": (RUN, "{match:{module:Linear},adapter:{rank:2,alpha:6}}"),
    "two rules": (RUN, "{match:{name:'layers.1'},adapter:{rank:3}}",
                  "{match:{name:'layers.3'},adapter:{rank:2,alpha:8}}"),
    "convolutions": ((*PICTURES, "model=lenet"),
                     "{match:{module:Conv2d},adapter:{rank:2,alpha:6}}"),
    "Conv1D": ((*TEXTS, "model=hf", "model.name=gpt2", "model.auto=AutoModelForCausalLM",
                "model.config={n_embd:16,n_layer:1,n_head:2,n_positions:16,vocab_size:256}"),
               "{match:{name:c_attn},adapter:{rank:2,alpha:6}}"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "rules"), [(o, r) for o, *r in STARTS.values()], ids=STARTS)
def test_a_run_starts_from_the_merged_layers_of_one_with_adapters(options, rules, here):
    Path("play.txt").write_text("To be, or not to be, that is the question.\n" * 20)
    rules = [f"+param_groups.lora_{number}={rule}" for number, rule in enumerate(rules)]
    once = (*options, "render=plain", "num_epochs=1")
    ran(*once, *rules, "optimizer=adamw", "lr=0.05", "hydra.run.dir=a")
    newest = max(Path("a/checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    for path in ("a", "a/model.safetensors", newest / "model.safetensors"):
        ran(*once, f"start_from={path}", "lr=1e-30", "hydra.run.dir=b", "overwrite=true")
        start = json.loads(Path("b/provenance.json").read_text())["start_from"]
        assert start["new"] == start["left"] == []
        assert any("lora_B" in name for name in start["loaded"])
        assert not [name for name in weights("b") if "lora" in name]
        one, two = (andiron.load(name) for name in ("a", "b"))
        batch = one.preprocessing.batcher(one.data.test.__getitems__(range(3)), one.device)
        with torch.no_grad():
            expected, actual = (run.model(batch.inputs) for run in (one, two))
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)  # other order of sums


def test_a_run_with_adapters_starts_from_one_with_adapters(runs):
    trained("hydra.run.dir=again", "start_from=run", LORA, "num_epochs=1")
    after = weights("again")
    ended = called(export.main, "run", "--format", "safetensors", "--output", "whole")
    assert ended.code == 0, ended.errors
    for name in ("layers.1", "layers.3"):
        kept = after[f"network.{name}.base_layer.weight"]
        assert torch.equal(kept, weights("whole")[f"{name}.weight"])


def test_only_parameters_that_were_never_frozen_for_good_have_trained():
    model = torch.nn.Linear(2, 3)
    whole = {"frozen": True, "parameters": {"weight": [3, 2]}}
    adapter_files.mark_trained(model, {"a": whole, "b": {"frozen": 5, "parameters": {"bias": [3]}}})
    assert (model.weight.requires_grad, model.bias.requires_grad) == (False, True)


def test_lora_layers_of_ones_own_are_exported_as_they_are():
    own = torch.nn.Module()
    own.lora_A = torch.nn.Linear(2, 3)
    adapters.merge(torch.nn.Sequential(own))
    assert isinstance(own.lora_A, torch.nn.Linear)


@pytest.mark.parametrize(("rule", "problem"), [
    ("{match:{name:nothing},adapter:{rank:4}}", "no layer has a parameter that matches"),
    ("{match:{module:Linear},adapter:{rang:4}}", "adapter.rang: no such option; did you mean"),
    ("{match:{module:Linear},adapter:{rank:0}}", "adapter.rank=0: should be greater"),
    ("{match:{module:Linear},adapter:{},frozen:true}", "a frozen group needs no adapter"),
    ("{match:{module:Sequential},adapter:{}}", "no layer has a parameter that matches"),
])  # fmt: skip
def test_a_wrong_adapter_is_refused_before_the_first_step(here, rule, problem):
    ended = called(train.main, *RUN, f"+param_groups.lora={rule}", "hydra.run.dir=wrong")
    assert ended.code == 2 and problem in ended.errors, ended.errors
    assert not (here / "wrong").exists()
