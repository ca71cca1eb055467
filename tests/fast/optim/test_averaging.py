"""Averages of the weights against their closed forms and torch's own, and what swapping them in
leaves behind."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import tensor_bits
import torch
from torch import Tensor, nn
from torch.optim import swa_utils

from andiron import randomness, serialization
from andiron.optim import Ema, Swa, WeightAverage
from andiron.optim.own.averaging import Rule
from refusals import message_of


class Network(nn.Module):
    """Batch norm, a tied weight, a frozen one, a mask that is infinite, and a buffer that is not
    saved."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.embedding = nn.Embedding(6, 6)
        self.head = nn.Linear(6, 6)
        self.head.weight = self.embedding.weight
        self.stem.bias.requires_grad_(False)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self.stem(inputs)))


def network(dtype: torch.dtype = torch.float32) -> Network:
    randomness.start_stream(0, "init")
    return Network().to(dtype)


def train(model: nn.Module, update: int) -> nn.Module:
    """The model after an update of uneven size: its trainable parameters move, its statistics take
    a batch in."""
    stream = randomness.stream(0, "update", update)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += (1 + update % 5) * torch.randn(parameter.shape, generator=stream).to(
                    parameter.dtype
                )
        model(torch.randn(2 + update % 3, 4, generator=stream).to(model.stem.weight.dtype))
    return model


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of everything that `state_dict` saves."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def averaged(
    rule: Rule, updates: int, dtype: torch.dtype = torch.float32
) -> tuple[WeightAverage, list[dict[str, Tensor]]]:
    """The average after `updates`, and the weights after each of them, the initial ones
    first."""
    model = network(dtype)
    average, seen = WeightAverage(rule, model), [weights(model)]
    for update in range(1, updates + 1):
        average.update(train(model, update), update)
        seen.append(weights(model))
    return average, seen


def bits_of(average: WeightAverage) -> dict[str, object]:
    """The bits of the averages, also of NaN and -0."""
    return {name: tensor_bits.bits(tensor) for name, tensor in average.state_dict().items()}


def differing(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> list[str]:
    """The names under which the two do not hold the same bits."""
    assert list(actual) == list(expected)
    return [name for name in expected if not torch.equal(actual[name], expected[name])]


MOVING = [
    "stem.weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
    "embedding.weight", "head.bias",
]  # fmt: skip


def test_decay_warms_up_as_tensorflows() -> None:
    rule = Ema(0.75, warmup=True)
    # 1 - d by hand: d is 2/11 after the first update, 3/12 after the second, and 0.75 from (1 + 26)
    # / (10 + 26) on
    assert [rule.weight(t, 0) for t in (1, 2, 26, 27, 1000)] == [1 - 2 / 11, 0.75, 0.25, 0.25, 0.25]
    assert rule.weight(25, 0) == 1 - 26 / 35 > 0.25
    assert [Ema(0.75).weight(t, 0) for t in (1, 1000)] == [0.25, 0.25]


@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        (Swa(1), [*range(1, 18)]), (Swa(5), [*range(5, 18)]), (Swa(5, every=4), [5, 9, 13, 17]),
        (Swa(6, every=6), [6, 12]), (Swa(17), [17]),
    ],
    ids=str,
)  # fmt: skip
def test_swa_is_the_plain_mean_of_the_weights_it_takes(rule: Swa, taken: list[int]) -> None:
    average, w = averaged(rule, 17, torch.float64)
    assert average.count == len(taken)
    for name in MOVING:
        expected = torch.stack([w[update][name] for update in taken]).mean(0)
        largest = max(float(seen[name].abs().max()) for seen in w)
        # an update rounds three times, numbers below twice the largest weight, and there are 17 at
        # most
        torch.testing.assert_close(
            average.state_dict()[name], expected, rtol=0, atol=17 * 6 * 2**-53 * largest
        )


@pytest.mark.parametrize(
    ("rule", "multi_avg_fn"),
    [(Ema(0.97), swa_utils.get_ema_multi_avg_fn(0.97)), (Swa(1), swa_utils.get_swa_multi_avg_fn())],
    ids=["ema", "swa"],
)
def test_averages_equal_torch_bit_for_bit(rule: Rule, multi_avg_fn: Callable[..., None]) -> None:
    model = network()
    model.norm.num_batches_tracked = None  # torch's mean of an integer buffer fails
    average = WeightAverage(rule, model)
    expected = swa_utils.AveragedModel(model, multi_avg_fn=multi_avg_fn, use_buffers=True)
    if isinstance(rule, Ema):
        # its first call only copies: there the initial weights, here done already
        expected.update_parameters(model)
    for update in range(1, 51):
        train(model, update)
        average.update(model, update)
        expected.update_parameters(model)
    own = average.state_dict()
    assert [
        name for name in MOVING if not torch.equal(own[name], expected.module.state_dict()[name])
    ] == []


@pytest.mark.parametrize("rule", [Ema(0.999), Swa(10)], ids=["ema", "swa"])
def test_before_anything_was_averaged_it_is_the_initial_weights(rule: Rule) -> None:
    model = network()
    initial, average = weights(model), WeightAverage(rule, model)
    assert (average.count, differing(average.state_dict(), initial)) == (0, [])
    for update in range(1, 4):
        train(model, update)
    assert differing(average.state_dict(), initial) == []  # a copy, not the model's own tensors
    if isinstance(rule, Swa):
        average.update(model, 3)
        assert (average.count, differing(average.state_dict(), initial)) == (0, [])


@pytest.mark.parametrize(("rule", "last"), [(Ema(0.9), 49), (Swa(2, every=3), 47)], ids=str)
def test_integer_buffers_are_copied_and_infinite_masks_and_frozen_weights_stay(rule, last) -> None:
    average, w = averaged(rule, 49)
    own = average.state_dict()
    assert own["norm.num_batches_tracked"].item() == last  # the newest update that is averaged
    assert own["norm.num_batches_tracked"].dtype == torch.int64
    assert torch.equal(own["mask"], w[0]["mask"])
    assert torch.equal(own["stem.bias"], w[0]["stem.bias"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("rule", [Ema(0.9), Swa(1), Ema(0.3)], ids=["ema", "swa", "short ema"])
def test_a_flag_of_1_keeps_each_bit_and_one_of_0_changes_none(
    rule: Rule, dtype: torch.dtype
) -> None:
    model = network(dtype)
    plain, flagged = WeightAverage(rule, model), WeightAverage(rule, model)
    for average in (plain, flagged):
        average.state_dict()["stem.weight"][0] = torch.tensor([-0.0, math.inf, -math.inf, 1])
    for update in range(1, 9):
        before = bits_of(flagged)
        model.norm.running_mean.fill_(math.nan)  # of an update that is undone
        flagged.update(model, update, torch.ones(()))
        assert bits_of(flagged) == before
        flagged.count = plain.count
        model.norm.running_mean.fill_(update)
        train(model, update)
        plain.update(model, update)
        weight = torch.tensor(rule.weight(update, flagged.count), dtype=torch.float64)
        flagged.blend(model, weight, torch.zeros(()))  # as a graph does
        assert bits_of(flagged) == bits_of(plain)


def test_a_tied_weight_is_averaged_once_under_both_names() -> None:
    average, _ = averaged(Ema(0.5), 3)
    own = average.state_dict()
    assert own["head.weight"] is own["embedding.weight"]
    assert list(own) == list(network().state_dict())
    assert "scratch" not in own


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_averaged_in_float32(dtype: torch.dtype) -> None:
    model = nn.Linear(3, 2).to(dtype)
    average = WeightAverage(Ema(0.999), model)
    start = model.weight.detach().float()
    expected = start.clone()
    for update in range(1, 6):
        with torch.no_grad():
            model.weight += 2**-6
        average.update(model, update)
        expected.lerp_(model.weight.detach().float(), 1 - 0.999)
    assert {tensor.dtype for tensor in average.state_dict().values()} == {torch.float32}
    assert torch.equal(average.state_dict()["weight"], expected)
    # as it would stay in half precision: 0.001 of 2**-6 is lost in it
    assert not torch.equal(expected, start)
    with average.swapped_in(model):
        assert torch.equal(model.weight, expected.to(dtype))


def test_an_update_reads_nothing_back_from_the_device(host_reads) -> None:
    model = network()
    average = WeightAverage(Ema(0.9), model)
    with host_reads() as reads:
        average.update(model, 1)
    assert reads.number == 0


def test_swapped_in_the_model_has_the_averages_and_afterwards_its_own_bits() -> None:
    model = network()
    average = WeightAverage(Ema(0.9), model)
    for update in range(1, 8):
        average.update(train(model, update), update)
    before, identities = (
        weights(model),
        [id(tensor) for tensor in model.state_dict(keep_vars=True).values()],
    )
    own = weights(model) | {name: tensor.clone() for name, tensor in average.state_dict().items()}
    with average.swapped_in(model):
        assert differing(weights(model), own) == []
        assert set(differing(weights(model), before)) == {*MOVING, "head.weight"}
        assert model.head.weight is model.embedding.weight
    assert differing(weights(model), before) == []
    assert [id(tensor) for tensor in model.state_dict(keep_vars=True).values()] == identities


def test_own_weights_return_after_an_exception_and_after_training() -> None:
    model = network()
    average = WeightAverage(Ema(0.9), model)
    average.update(train(model, 1), 1)
    before, own = (
        weights(model),
        {name: tensor.clone() for name, tensor in average.state_dict().items()},
    )
    with pytest.raises(KeyError, match="inside"), average.swapped_in(model):
        train(model, 2)  # moves parameters and statistics
        model.norm.running_mean = torch.ones(6)  # a buffer that is replaced
        raise KeyError("inside")
    assert differing(weights(model), before) == []
    assert differing(average.state_dict(), own) == []


def test_swapping_in_under_inference_mode_leaves_a_model_that_trains() -> None:
    model = network()
    average = WeightAverage(Ema(0.9), model)
    average.update(train(model, 1), 1)
    with torch.inference_mode(), average.swapped_in(model):
        pass
    model(torch.ones(3, 4)).sum().backward()
    assert model.stem.weight.grad is not None


def test_one_average_swapped_in_within_another_gives_each_its_turn() -> None:
    model = network()
    ema, swa = WeightAverage(Ema(0.9), model), WeightAverage(Swa(1), model)
    for update in range(1, 4):
        train(model, update)
        ema.update(model, update)
        swa.update(model, update)
    before = weights(model)
    with ema.swapped_in(model):
        inner = weights(model)
        with swa.swapped_in(model):
            assert torch.equal(model.stem.weight, swa.state_dict()["stem.weight"])
        assert differing(weights(model), inner) == []
    assert differing(weights(model), before) == []


@pytest.mark.parametrize("rule", [Ema(0.9, warmup=True), Swa(3, every=2)], ids=["ema", "swa"])
def test_saved_and_gone_on_in_a_fresh_average_it_is_the_same_as_straight(
    rule: Rule, tmp_path: Path
) -> None:
    straight, _ = averaged(rule, 20)
    first, _ = averaged(rule, 10)
    serialization.save_tensors(tmp_path / "average.safetensors", first.state_dict())
    saved = serialization.load_tensors(tmp_path / "average.safetensors")

    model, loaded = network(), network()
    loaded.load_state_dict(saved)
    assert differing(loaded.state_dict(), first.state_dict()) == []
    resumed = WeightAverage(rule, model)
    resumed.load_state_dict(saved, first.count)
    for update in range(1, 21):
        train(model, update)
        if update > 10:
            resumed.update(model, update)
    assert resumed.count == straight.count
    assert differing(resumed.state_dict(), straight.state_dict()) == []
    again = serialization.load_tensors(tmp_path / "average.safetensors")
    assert differing(saved, again) == []  # what was loaded is a copy


def test_a_state_of_half_precision_is_converted() -> None:
    average = WeightAverage(Ema(0.9), nn.Linear(3, 2))
    halves = {name: tensor.half() for name, tensor in average.state_dict().items()}
    average.load_state_dict(halves, 7)
    assert differing(average.state_dict(), {n: half.float() for n, half in halves.items()}) == []


def test_a_state_of_another_model_is_refused_and_nothing_is_loaded() -> None:
    average = WeightAverage(Ema(0.9), nn.Linear(3, 2))
    before = {name: tensor.clone() for name, tensor in average.state_dict().items()}
    cases: list[tuple[dict[str, Tensor], str]] = [
        ({"weight": torch.zeros(2, 3)}, "'bias' is missing"),
        ({**before, "scale": torch.zeros(2)}, "'scale' is not known"),
        ({"wieght": torch.zeros(2, 3), "bias": torch.zeros(2)},
         "'weight' is missing; 'wieght' is not known"),
        ({"bias": torch.zeros(2), "weight": torch.zeros(5, 3)},
         "'weight' is float32 [5, 3], not float32 [2, 3]"),
    ]  # fmt: skip
    for state, words in cases:
        message = message_of(ValueError, average.load_state_dict, state, 7)
        assert message == f"saved averages belong to another model: {words}"
        assert (average.count, differing(average.state_dict(), before)) == (0, [])


def test_another_model_than_its_own_is_refused() -> None:
    average, other = WeightAverage(Ema(0.9), nn.Linear(3, 2)), nn.Linear(3, 2, bias=False)
    problem = "not the model that is averaged: only one of them has 'bias'"
    assert message_of(ValueError, average.update, other, 1) == problem
    assert message_of(ValueError, average.swapped_in, other) == problem
    assert average.count == 0


@pytest.mark.parametrize("decay", [1.0, 1, -0.1, 1.5, float("nan")])
def test_a_decay_outside_zero_to_one_is_refused(decay: float) -> None:
    allowed = "greater than or equal to 0" if decay < 0 else "less than 1"
    assert message_of(ValueError, Ema, decay) == f"decay={decay}: should be {allowed} (Ema)"


@pytest.mark.parametrize("arguments", [{"start": 0}, {"start": -3}, {"start": 5, "every": 0}])
def test_a_count_of_updates_below_one_is_refused(arguments: dict[str, int]) -> None:
    name, value = list(arguments.items())[-1]
    words = f"{name}={value}: should be 1 or more; give it as a whole number of updates"
    assert message_of(ValueError, Swa, **arguments).startswith(words)
