"""`strategy=fsdp`: its blocks and its refusals before the first update."""

from types import SimpleNamespace

import pytest
import torch
import yaml
from torch import nn

from andiron import errors, models
from andiron.distributed import World
from andiron.optim import GroupedOptimizer, Optimizer
from andiron.plain import wings
from andiron.shell.assembly import components, division
from andiron.shell.config.composition import composed
from andiron.shell.run import lab_options
from andiron_lab.sharded import fully_sharded

WRONG_WITH_PARTS = {"adafactor", "kron", "lbfgs", "muon", "soap"}
REFUSED = {
    "precision=fp16": "precision=fp16", "compile=true": "compile=true",
    "channels_last=true": "channels_last=true", "histograms=true": "histograms",
    "activation_checkpointing=layers": "activation_checkpointing",
}  # fmt: skip


@pytest.fixture
def conf(pytestconfig):
    return pytestconfig.rootpath / "conf"


def test_blocks_are_the_items_of_lists_of_one_class():
    gpt = models.GPT(9, 8, layers=2, heads=2, dim=8)
    nested = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Sequential())

    assert [*fully_sharded.blocks(gpt)] == ["blocks.0", "blocks.1"]
    assert [*fully_sharded.blocks(models.MLP((4,), 2, hidden=[3]))] == []
    assert [*fully_sharded.blocks(nested)] == ["0", "1"]


@pytest.mark.parametrize("name", sorted(WRONG_WITH_PARTS) + ["adamw", "lion", "lamb"])
def test_every_optimizer_that_parts_would_make_wrong_is_refused_by_name(conf, name):
    places = conf, conf.parent / "src" / "andiron_lab" / "conf"
    (file,) = (path for place in places for path in place.glob(f"optimizer/{name}.yaml"))
    target = yaml.safe_load(file.read_text())["optimizer"]
    module, _, kind = target["_target_"].rpartition(".")
    model = nn.Linear(2, 2, bias=False)
    options = {"lr": 0.1} if "pytorch_optimizer" in module else {}
    optimizer_class = getattr(pytest.importorskip(module), kind)
    optimizer = GroupedOptimizer.of(Optimizer(optimizer_class, model, **options), model)
    sharding = object.__new__(fully_sharded.FullySharded)

    if name in WRONG_WITH_PARTS:
        with pytest.raises(errors.ConfigError, match=f"{kind} is not known to step every element"):
            sharding.check(optimizer)
    else:
        sharding.check(optimizer)


@pytest.mark.parametrize("override", REFUSED)
def test_options_that_do_not_work_with_parts_are_refused(conf, override):
    config = composed(conf, [override, "strategy=fsdp"])
    splits = SimpleNamespace(by_name={}, evaluation_batch_size=8)

    with pytest.raises(errors.ConfigError, match=f"{REFUSED[override]}: does not work with"):
        fully_sharded.shard_configured(nn.Linear(1, 1), splits, config, World(0, 2))


@pytest.mark.parametrize(("overrides", "size", "problem"), [
    (["shards=3"], 4, "shards=3: 4 processes do not make copies"),
    (["shards=1"], 4, "shards=1: 4 processes do not make copies"),
    (["shards=8"], 4, "shards=8: 4 processes do not make copies"),
    (["shards=2", "checkpoint.files=rank"], 4, "checkpoint.files=rank: does not work with copies"),
])  # fmt: skip
def test_copies_that_cannot_be_made_are_refused(conf, overrides, size, problem):
    config = composed(conf, [*overrides, "strategy=fsdp"])
    splits = SimpleNamespace(by_name={}, evaluation_batch_size=8)

    with pytest.raises(errors.ConfigError, match=problem):
        fully_sharded.shard_configured(nn.Linear(1, 1), splits, config, World(0, size))


def test_shards_without_parts_are_refused(conf):
    config = composed(conf, ["shards=2"])

    assert [*division.option_problems(config, World(0, 4))] == [
        "shards=2: belongs to strategy=fsdp; give it too, or shards=null"
    ]


def test_a_last_batch_with_too_few_samples_is_refused(conf):
    config = composed(conf, ["batch_size=8", "strategy=fsdp"])
    splits = SimpleNamespace(by_name={"train": range(16), "valid": range(17)},
                             evaluation_batch_size=16)  # fmt: skip

    with pytest.raises(errors.ConfigError, match="the last valid batch has 1 samples") as caught:
        fully_sharded.shard_configured(nn.Linear(1, 1), splits, config, World(0, 2))

    assert "the last train batch" not in str(caught.value)


def test_one_process_and_a_lab_that_is_missing_are_named(conf, monkeypatch):
    config = composed(conf, ["strategy=fsdp"])

    assert [*division.option_problems(config, World())] == [
        "strategy=fsdp: this is one process; start several with torchrun, or give auto"
    ]
    monkeypatch.setattr(wings, "optional", lambda name: None)
    with pytest.raises(errors.ConfigError, match="strategy=fsdp is in the package andiron_lab"):
        lab_options.module(components.SHARDED, "strategy=fsdp")


def test_training_without_it_does_not_import_torch_distributed():
    assert World().sharding is None
    assert World().whole({"a": torch.ones(1)}).keys() == {"a"}
