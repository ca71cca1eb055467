"""Evaluation mode for as long as a `with` lasts."""

import pytest
import torch
from torch import nn

from andiron import inference, randomness


def network() -> nn.Sequential:
    """A model in training that holds a frozen batch norm, and a part in evaluation that holds one
    in training.
    """
    randomness.start_stream(0, "init")
    model = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6),
        nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(6), nn.Sequential(nn.Dropout(0.9))),
        nn.Linear(6, 3),
    )  # fmt: skip
    model.train()
    model[1].eval()
    model[2].eval()
    model[2][2].train()
    return model


def modes(model: nn.Module) -> dict[str, bool]:
    return {name: module.training for name, module in model.named_modules()}


MIXED = {
    "": True, "0": True, "1": False, "2": False, "2.0": False, "2.1": False, "2.2": True,
    "2.2.0": True, "3": True,
}  # fmt: skip
INPUTS = torch.arange(20.0).reshape(5, 4)


def test_inside_the_model_is_in_evaluation_and_afterwards_as_it_was() -> None:
    model = network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert modes(model) == MIXED
    with inference.valid(model) as inside:
        assert inside is model and set(modes(model).values()) == {False}
        result = inside(INPUTS)
    assert modes(model) == MIXED and not torch.is_inference_mode_enabled()
    after = model.state_dict()
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert model(INPUTS).requires_grad
    assert result.is_inference() and not result.requires_grad
    assert torch.equal(result, model.eval()(INPUTS))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_every_submodule_has_its_own_mode_back_after_an_exception(error) -> None:
    model = network()
    with pytest.raises(error), inference.valid(model):
        raise error
    assert modes(model) == MIXED
    assert not torch.is_inference_mode_enabled()


def test_within_another_it_changes_nothing_for_the_outer_one() -> None:
    model = network()
    with inference.valid(model):
        with inference.valid(model):
            pass
        assert set(modes(model).values()) == {False}
        assert torch.is_inference_mode_enabled()
    assert modes(model) == MIXED


def test_an_encoder_of_torch_computes_what_it_computes_in_training() -> None:
    randomness.start_stream(0, "init")
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2)
    padding = torch.tensor([[False] * 5, [False, False, True, True, True]])
    distances = -torch.cdist(torch.arange(5.0)[:, None], torch.arange(5.0)[:, None])  # added
    inputs = torch.linspace(-2, 2, 80).reshape(2, 5, 8).sin()
    given: dict[str, torch.Tensor]
    for given in ({"src_key_padding_mask": padding}, {"mask": distances}):
        trained = encoder(inputs, **given)
        with inference.valid(encoder):
            assert torch.allclose(encoder(inputs, **given), trained, atol=1e-5), given
    assert torch.backends.mha.get_fastpath_enabled()
