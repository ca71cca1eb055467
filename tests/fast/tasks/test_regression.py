"""Values as targets, against a plain loop."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import errors, inference
from andiron.data.dataset import Batch
from andiron.outputs import IGNORED
from andiron.tasks.regressor import Regressor
from refusals import message_of

MEAN, STD = [100.0, -2.0], [50.0, 0.25]


def network(outputs=2, *last):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, outputs), *last)


def batch(size=31, outputs=2):
    stream = torch.Generator().manual_seed(1)
    inputs, noise = (
        torch.randn(size, 6, generator=stream),
        torch.randn(size, outputs, generator=stream),
    )
    return Batch(inputs, noise * torch.tensor(STD[:outputs]) + torch.tensor(MEAN[:outputs]))


@pytest.mark.parametrize(
    "loss",
    [None, nn.HuberLoss(delta=0.5), nn.L1Loss(), functional.smooth_l1_loss],
    ids=["mse", "huber", "l1", "function"],
)
def test_training_is_in_standardised_units_and_output_in_target_units(loss):
    model, plain = Regressor(network(), loss, target_mean=MEAN, target_std=STD), network()
    inputs, targets = batch(7)
    mean, std = torch.tensor(MEAN), torch.tensor(STD)
    standardised = plain(inputs)
    expected = (loss or functional.mse_loss)(standardised, (targets - mean) / std)
    expected.backward()
    output = model.train_step(batch(7))
    for name, parameter in plain.named_parameters():
        assert torch.equal(output.gradients[f"network.{name}"], parameter.grad)
    assert torch.equal(output.item.loss, expected)
    assert torch.equal(output.item.output, mean + std * standardised)
    assert torch.equal(output.item.output, model(inputs)) and torch.equal(
        output.item.targets, targets
    )
    assert output.weight == 14  # values, which the loss is a mean over
    with inference.valid(model):
        assert torch.equal(model.valid_step(batch(7)).loss, expected)


def test_without_a_mean_and_a_spread_the_units_are_the_targets_own():
    model, plain = Regressor(network()), network()
    item = model.predict(batch(7))
    assert torch.equal(item.output, plain(batch(7).inputs))
    assert torch.equal(item.loss, functional.mse_loss(plain(batch(7).inputs), batch(7).targets))


@pytest.mark.parametrize("last", [[], [nn.Flatten(0)]], ids=["[batch 1]", "[batch]"])
@pytest.mark.parametrize("is_column", [True, False])
def test_one_value_a_sample_is_a_column_in_any_shape(last, is_column):
    inputs, targets = batch(7, outputs=1)
    plain = network(1)(inputs)
    item = Regressor(network(1, *last)).predict(
        Batch(inputs, targets if is_column else targets[:, 0])
    )
    assert torch.equal(item.loss, functional.mse_loss(plain, targets))  # over 7 pairs, not over 49
    assert torch.equal(item.targets, targets) and torch.equal(item.output, plain)


def test_whole_numbers_are_targets_too():
    item = Regressor(network(1)).predict(Batch(batch(3).inputs, torch.tensor([1, 2, 3])))
    assert item.targets.tolist() == [[1.0], [2.0], [3.0]]


FAR = torch.tensor([[15600.0, 0.0], [19800.0, 1.0], [IGNORED, 0.5]])
ONE = "add task.target_mean=17700 task.target_std=2100 (of this batch"


@pytest.mark.parametrize(
    ("targets", "given", "warned"),
    [
        (FAR[:2, 0], {}, ONE),
        (FAR[:1, 0], {}, "add task.target_mean=15600 task.target_std=... (of"),
        (FAR[:2, 0] - 17700, {}, "add task.target_mean=0 task.target_std=2100 "),
        (FAR[:2, 0], {"target_mean": 17700.0}, ONE),
        (FAR, {}, "add 'task.target_mean=[17700,0.5]' 'task.target_std=[2100,0.4082]' (of"),
        (FAR.repeat(1, 5), {}, "add task.target_mean=7080.3 task.target_std=8772 (of"),
        (FAR[:2, 0], {"target_mean": 0.0, "target_std": 1.0}, None),
        (FAR[:2, 0] - 17699, {"target_std": 2100.0}, None),
        (FAR[:, 1], {}, None),
        (FAR[2:, :1], {}, None),
        (FAR[:2, 0], {"loss": nn.PoissonNLLLoss(log_input=False)}, None),
    ],
)
def test_targets_far_from_standard_are_warned_of_once(caplog, targets, given, warned):
    outputs = targets.shape[1] if targets.dim() == 2 else 1
    task = Regressor(nn.Sequential(nn.Linear(3, outputs), nn.Softplus()), **given)
    for _ in range(2):
        task.train_step(Batch(torch.zeros(len(targets), 3), targets))
    assert [warned in record.getMessage() for record in caplog.records] == [True] * bool(warned)


def test_images_are_targets_too():
    images = torch.rand(3, 1, 4, 4)
    task = Regressor(nn.Conv2d(1, 1, 1), target_mean=0.5, target_std=0.25)
    item = task.predict(Batch(images, images))
    assert item.output.shape == item.targets.shape == images.shape
    expected = functional.mse_loss(task.network(images), (images - 0.5) / 0.25)
    assert torch.equal(item.loss, expected)
    several = Regressor(nn.Conv2d(1, 1, 1), target_mean=[0.5] * 4, target_std=[0.25] * 4)
    with pytest.raises(errors.DataError, match="^target_mean has 4 numbers and target_std 4 for 1"):
        several.predict(Batch(images, images))


@pytest.mark.parametrize(
    ("outputs", "shape"), [(3, (7,)), (3, (7, 1)), (1, (7, 3)), (2, (6, 2)), (2, (7, 2, 1))]
)
def test_shapes_that_would_broadcast_or_fail_are_refused(outputs, shape):
    shapes = rf"\[7, {outputs}\] for targets \{list(shape)}"
    words = f"^Regressor: the network gives {shapes}; should be a value for every target"
    with pytest.raises(errors.DataError, match=words.replace("]; should", r"\]; should")):
        Regressor(network(outputs)).predict(Batch(batch(7).inputs, torch.zeros(shape)))


def test_a_loss_that_ignores_targets_knows_them_standardised_too():
    def loss(output, targets, ignored_index=-1):
        known = targets != ignored_index
        return (output - targets)[known].square().mean()

    model = Regressor(nn.Identity(), loss, target_mean=2.0, target_std=2.0)
    values = torch.tensor([[4.0, -1.0], [-1.0, 0.0]])
    item = model.predict(Batch(torch.zeros(2, 2), values))
    assert (item.loss, item.weight, item.has_ignored) == (1, 2, True)
    assert item.targets.tolist() == [[4, IGNORED], [IGNORED, 0]]


def test_a_mean_for_other_outputs_than_the_networks_is_refused():
    task = Regressor(network(1), target_mean=MEAN)
    assert message_of(errors.DataError, task.predict, batch(7, outputs=1)).startswith(
        "target_mean has 2 numbers and target_std 1 for 1 outputs; should be one number"
    )


@pytest.mark.parametrize("std", [0.0, [1.0, 0.0], -1])
def test_a_spread_that_is_not_positive_is_refused(std):
    message = message_of(ValueError, Regressor, network(), target_std=std)
    assert "should be greater than 0; a constant target cannot be learned" in message


def test_mean_and_spread_follow_the_model_and_are_no_part_of_its_state():
    model = Regressor(network(), target_mean=MEAN, target_std=STD)
    assert list(model.state_dict()) == [f"network.{name}" for name in network().state_dict()]
    assert model.to("meta")(torch.zeros(3, 6, device="meta")).device.type == "meta"


def test_half_precision_does_not_round_the_answer():
    model = Regressor(network(1), target_mean=1000.0, target_std=1.0)
    inputs = batch(7).inputs
    with torch.autocast("cpu", torch.bfloat16):
        item, half = model.predict(Batch(inputs, torch.full((7,), 1000.0))), model.network(inputs)
    assert half.dtype == torch.bfloat16 and item.output.dtype == torch.float32
    assert torch.equal(item.output, 1000 + half.float())  # in bfloat16 all would be 1000


@pytest.mark.parametrize(
    ("log_input", "spread"),
    [(True, {}), (False, {"target_mean": 3.0}), (False, {"target_std": 2.0})],
)
def test_a_loss_of_counts_that_are_standardised_is_refused(log_input, spread):
    loss = nn.PoissonNLLLoss(log_input=log_input)
    message = message_of(ValueError, lambda: Regressor(network(), loss, **spread))
    assert "set task.target_mean=0 task.target_std=1 +loss.log_input=false" in message


def test_rates_are_learned_in_the_unit_of_the_counts():
    loss, rates = nn.PoissonNLLLoss(log_input=False), nn.Sequential(network(1), nn.Softplus())
    item = Regressor(rates, loss).valid_step(Batch(batch(7).inputs, torch.arange(7.0)))
    assert torch.equal(item.loss, loss(item.output, torch.arange(7.0)[:, None]))
