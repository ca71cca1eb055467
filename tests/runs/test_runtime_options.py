"""The options that change how a run computes and not what: the same numbers, as far as they should
be.
"""

from pathlib import Path

import torch
from hydra import compose, initialize_config_dir

from andiron.disk import files
from andiron.shell.config import resolution
from andiron.shell.config.schema import Train
from andiron.shell.run import metadata
from andiron.shell.training import experiment

CONF = Path(__file__).resolve().parents[2] / "conf"
SHORT = (
    "device=cpu", "num_epochs=1", "batch_size=256", "checkpoint=last_and_best", "~render",
    "~checkpoint",
)  # fmt: skip


def trained(folder, *overrides):
    """The weights after an epoch, and the experiment."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("train", overrides=[*SHORT, *overrides])
    folder.mkdir()
    config = Train(**resolution.checked(composed))
    files.write_json(folder / "config.json", config.recorded())
    built = experiment.build(config, folder)
    model = built.run()
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, built


def test_activations_computed_again_give_the_same_bits_with_dropout(tmp_path):
    plain, _ = trained(tmp_path / "plain", "model=convnet")
    again, _ = trained(tmp_path / "again", "model=convnet", "activation_checkpointing=features")
    assert plain.keys() == again.keys() and all(
        torch.equal(plain[name], again[name]) for name in plain
    )


def test_channels_last_gives_the_same_numbers_to_rounding(tmp_path):
    plain, _ = trained(tmp_path / "plain", "model=convnet", "model.dropout=0.0", "optimizer=sgd")
    last, built = trained(
        tmp_path / "last", "model=convnet", "model.dropout=0.0", "optimizer=sgd",
        "channels_last=true",
    )  # fmt: skip
    for name in plain:
        # six updates; convolutions sum their products in another order
        torch.testing.assert_close(last[name], plain[name], rtol=0, atol=1e-5)
    weight = built.learner.model.network.features[2].weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    batch = next(built.components.train.epoch(0))
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)


def test_only_options_that_were_set_are_hyperparameters(tmp_path):
    _, built = trained(
        tmp_path / "run", "param_groups=muon", "clip=1.0", "averages=ema", "precision=bf16"
    )
    config = Train.load(built.folder.config)
    result = metadata.hyperparameters(vars(config))
    assert {
        name: result[name]
        for name in ("clip", "precision", "param_groups.hidden.lr", "param_groups.hidden.optimizer")
    } == {
        "clip": 1.0, "precision": "bf16", "param_groups.hidden.lr": 0.02,
        "param_groups.hidden.optimizer": "Muon",
    }  # fmt: skip
    assert (
        result["averages.ema"] == "Ema"
        and "sam" not in result
        and "grads_accumulation" not in result
    )
    assert sorted(path.name for path in (tmp_path / "run").glob("*.safetensors")) == [
        "model-ema.safetensors", "model.safetensors",
    ]  # fmt: skip
