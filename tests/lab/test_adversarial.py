"""A generator against a discriminator, against a loop written by hand."""

import pytest
import torch
from kept_points import Kept
from torch import nn
from torch.nn import functional

from andiron import data, errors, gradients, inference, randomness
from andiron.data.dataset import Batch
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import Group, GroupedOptimizer, GradientsAccumulator, Optimizer
from andiron.protocols import Shows, TrainStep, ValidStep
from andiron_lab import adversarial
from andiron_lab.adversarial import GAN, Adversarial, AdversarialOutput
from refusals import message_of

DIGITS = data.digits(valid=0.1, split_seed=0)
MEAN, STD = 0.3053, 0.3760  # of the digits' pixels, as their batcher has them
SHAPE, SEED = (1, 8, 8), 5
SIZES = (5, 2, 7, 3)
RATES = {"generator": 2e-3, "discriminator": 5e-4}


def network(shape=SHAPE, **sizes):
    torch.manual_seed(1)
    return GAN(shape, **{"latent": 6, "width": 4, **sizes})


def model(shape=SHAPE, **sizes):
    return Adversarial(network(shape, **sizes), input_mean=MEAN, input_std=STD)


def images(size=17, shape=SHAPE):
    return torch.rand(size, *shape, generator=torch.Generator().manual_seed(2)) * 2 - 1


def latents(size=17, latent=6):
    return torch.randn(size, latent, generator=torch.Generator().manual_seed(3))


def batch(size=17, shape=SHAPE):
    """The images as a batcher gives them."""
    return Batch(((images(size, shape) + 1) / 2 - MEAN) / STD, torch.zeros(size))


def by_hand(gan, real, noise):
    """Both losses and their gradients by torch.autograd.grad, each for its own network."""
    ones = torch.ones(len(real))
    fake = gan.generator(noise)
    judged = gan.discriminator(fake).flatten()
    generator_loss = functional.binary_cross_entropy_with_logits(judged, ones)
    generators = torch.autograd.grad(generator_loss, [*gan.generator.parameters()])
    on_real, on_fake = gan.discriminator(real).flatten(), gan.discriminator(fake.detach()).flatten()
    discriminator_loss = functional.binary_cross_entropy_with_logits(on_real, ones)
    discriminator_loss = discriminator_loss + functional.binary_cross_entropy_with_logits(
        on_fake, 0 * ones
    )
    discriminators = torch.autograd.grad(discriminator_loss, [*gan.discriminator.parameters()])
    return generator_loss, discriminator_loss, generators, discriminators


@pytest.mark.parametrize("shape", [SHAPE, (1, 28, 28)], ids=["linear", "convolutional"])
def test_each_network_gets_the_gradients_of_its_own_loss_only(shape):
    task, plain = model(shape), network(shape)
    output = task.train_on(images(shape=shape), latents())
    generator_loss, discriminator_loss, generators, discriminators = by_hand(
        plain, images(shape=shape), latents()
    )
    assert [*output.gradients] == [name for name, _ in task.named_parameters()]
    assert {name.partition(".")[0] for name in output.gradients} == {"generator", "discriminator"}
    for gradient, expected in zip(
        output.gradients.values(), [*generators, *discriminators], strict=True
    ):
        assert torch.equal(gradient, expected)
    assert torch.equal(output.item.loss, generator_loss) and torch.equal(
        output.item.discriminator_loss, discriminator_loss
    )
    assert torch.equal(output.gradients.loss, generator_loss + discriminator_loss)
    assert output.weight == output.item.weight == 17
    for name, buffer in plain.named_buffers():  # the statistics of batch norms
        assert torch.equal(dict(task.named_buffers())[name], buffer)


@pytest.mark.parametrize("shape", [SHAPE, (1, 28, 28)], ids=["linear", "convolutional"])
def test_a_step_leaves_no_grad_and_restores_requires_grad(shape):
    task = model(shape)
    task.discriminator[1].requires_grad_(False)
    before = {name: parameter.requires_grad for name, parameter in task.named_parameters()}
    item = task.train_step(batch(shape=shape)).item
    assert [name for name, p in task.named_parameters() if p.grad is not None] == []
    assert {name: parameter.requires_grad for name, parameter in task.named_parameters()} == before
    assert not any(
        tensor.requires_grad
        for tensor in (item.loss, item.discriminator_loss, item.real, item.generated)
    )


def test_a_frozen_network_has_no_gradients_and_the_other_its_own():
    for frozen, trained in (("generator", "discriminator"), ("discriminator", "generator")):
        whole, task = model().train_on(images(), latents()).gradients, model()
        getattr(task, frozen).requires_grad_(False)
        result = task.train_on(images(), latents()).gradients
        assert [*result] == [name for name in whole if name.startswith(trained)]
        assert all(torch.equal(result[name], whole[name]) for name in result)


def test_twenty_updates_with_two_adams_equal_a_manual_loop_bit_for_bit(tmp_path):
    loader = data.DataLoader(
        DIGITS.train.subset(range(67)), DIGITS.batcher, batch_size=7, shuffle_seed=3
    )
    valid = data.DataLoader(DIGITS.valid.subset(range(17)), DIGITS.batcher, batch_size=5)
    task, plain, kept = model(), network(), Kept()
    names = {
        part: [name for name, _ in task.named_parameters() if name.startswith(part)]
        for part in RATES
    }
    tensors = dict(task.named_parameters())
    groups = [
        Group(name=part, parameters={name: tensors[name] for name in names[part]}, lr_scale=rate,
              optimizer=Optimizer(torch.optim.Adam, task, names[part], betas=(0.5, 0.999)))
        for part, rate in RATES.items()
    ]  # fmt: skip
    builder = (
        LearnerBuilder(tmp_path)
        .with_writers(kept)
        .metric_train_numeric(Loss())
        .metric_valid_numeric(Loss())
    )
    learner = builder.options(num_epochs=2, seed=SEED).build(
        task, GroupedOptimizer(task, groups), 1.0
    )
    learner.fit(loader, valid)

    # as a run has it: the same formula, rounded in another order
    fused = {"betas": (0.5, 0.999), "fused": True}
    adams = [
        torch.optim.Adam(getattr(plain, part).parameters(), rate, **fused)
        for part, rate in RATES.items()
    ]
    updates = 0
    for epoch in range(2):
        for inputs, _ in loader.epoch(epoch):
            randomness.start_stream(SEED, "update", updates)
            noise, real = (
                torch.randn(len(inputs), 6),
                torch.addcmul(task.offset, inputs, task.slope),
            )
            _, _, generators, discriminators = by_hand(plain, real, noise)
            for adam, part, result in zip(adams, RATES, (generators, discriminators), strict=True):
                for parameter, gradient in zip(
                    getattr(plain, part).parameters(), result, strict=True
                ):
                    parameter.grad = gradient
                adam.step()
            updates += 1
    assert learner.updates == updates == 20
    start = network().state_dict()
    for name, tensor in plain.state_dict().items():
        assert torch.equal(task.state_dict()[name], tensor) and not torch.equal(start[name], tensor)
    assert any(point.split == "valid" for point in kept)


def test_uneven_micro_batches_equal_one_batch_to_rounding():
    # without a batch norm, which knows its batch
    task, accumulator = (model(), GradientsAccumulator())
    for real, noise in zip(images().split(SIZES), latents().split(SIZES), strict=True):
        output = task.train_on(real, noise)
        accumulator.add(output.gradients, output.weight)
    actual, whole = accumulator.mean(), task.train_on(images(), latents())
    for name, gradient in whole.gradients.items():
        # float32: sums of 17 terms of order 1, and a handful of roundings each to make a term
        torch.testing.assert_close(actual[name], gradient, rtol=0, atol=64 * 2**-24)


@pytest.mark.parametrize("scale", [2.0**16, 8.0])
def test_both_losses_are_scaled_and_both_gradients_scaled_back(scale):
    plain = model().train_on(images(), latents())
    with gradients.loss_scaled(scale):
        scaled = model().train_on(images(), latents())
    for name, gradient in plain.gradients.items():
        assert torch.equal(scaled.gradients[name], gradient)  # by powers of two, which is exact
    overflowing = model()
    with gradients.loss_scaled(1e38):
        result = overflowing.train_on(1e3 * images(), latents()).gradients
    assert not gradients.all_finite(result)


def test_a_nan_loss_of_either_network_makes_the_joint_loss_nan():
    broken = images()
    broken[3, 0, 2, 2] = torch.nan  # which the generator's loss does not see
    output = model().train_on(broken, latents())
    assert output.item.loss.isfinite() and output.gradients.loss.isnan()


def test_the_images_get_into_the_generators_range():
    task = Adversarial(network((3, 8, 8)), input_mean=[0.5, 0.4, 0.3], input_std=[0.25, 0.2, 0.1])
    pixels = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    mean, std = (
        torch.tensor([0.5, 0.4, 0.3])[:, None, None],
        torch.tensor([0.25, 0.2, 0.1])[:, None, None],
    )
    result = task._images(Batch((pixels - mean) / std, torch.zeros(5)))
    # four roundings of numbers below 4
    torch.testing.assert_close(result, 2 * pixels - 1, rtol=0, atol=8 * 2**-24)


def test_validation_repeats_and_draws_nothing_from_the_streams_of_the_run():
    task = model((1, 28, 28))
    task.train_step(batch(shape=(1, 28, 28)))  # so that the batch norms have something to remember
    state = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    with inference.valid(task):
        first, second = (task.valid_step(batch(shape=(1, 28, 28))) for _ in range(2))
        shown = task.samples()["generated"], task.samples()["generated"]
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.loss, second.loss) and torch.equal(first.generated, second.generated)
    assert torch.equal(*shown)
    assert all(torch.equal(task.state_dict()[name], tensor) for name, tensor in state.items())


def test_validation_measures_the_same_losses_in_evaluation_mode():
    task, plain = model(), network()
    with inference.valid(task):
        item = task.valid_step(batch())
    noise = torch.randn(17, 6, generator=randomness.stream(0, "valid"))
    generator_loss, discriminator_loss, _, _ = by_hand(plain, task._images(batch()), noise)
    assert torch.equal(item.loss, generator_loss) and torch.equal(
        item.discriminator_loss, discriminator_loss
    )
    assert item.weight == 17 and item.real.shape == item.generated.shape == (17,)


class Flat(nn.Module):
    """Makes images of one shade each, the n-th latent's own."""

    latent = 1
    discriminator = nn.Flatten()

    def __init__(self, channels=1):
        super().__init__()
        self.generator = nn.Sequential(
            nn.Unflatten(1, (1, 1, 1)), nn.Upsample(size=(2, 3)), Repeated(channels)
        )


class Repeated(nn.Module):
    """An image with as many channels as wanted, all equal."""

    def __init__(self, channels):
        super().__init__()
        self.channels = channels

    def forward(self, images):
        return images.repeat(1, self.channels, 1, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_samples_are_a_square_of_images_with_their_pixels_in_place(channels):
    task = Adversarial(Flat(channels), input_mean=0.5, input_std=0.5, grid=2)
    shades = torch.randn(4, 1, generator=randomness.stream(0, "samples")).flatten()
    shown = task.samples()["generated"]
    assert shown.dtype == torch.uint8 and shown.shape == (channels, 4, 6)
    for number, shade in enumerate(shades.tolist()):
        row, column = divmod(number, 2)
        expected = round(min(max((shade + 1) * 127.5, 0), 255))
        assert shown[:, 2 * row : 2 * row + 2, 3 * column : 3 * column + 3].unique().tolist() == [
            expected
        ]
    assert Adversarial(Flat(2), input_mean=0.5, input_std=0.5).samples() == {}


def test_it_has_both_steps_shows_itself_and_holds_the_two_networks_only():
    task, plain = model((1, 28, 28)), network((1, 28, 28))
    assert isinstance(task, TrainStep) and isinstance(task, ValidStep) and isinstance(task, Shows)
    assert list(task.state_dict()) == list(plain.state_dict())
    assert torch.equal(task.eval()(latents()), plain.eval()(latents()))


def test_what_is_missing_is_named():
    moments = {"input_mean": 0.5, "input_std": 0.5}
    assert message_of(ValueError, Adversarial, nn.Linear(3, 2), **moments).startswith(
        "Linear has no generator, discriminator, latent; choose a network that has, such as"
    )
    assert message_of(ValueError, Adversarial, network(), input_mean=0.5).startswith(
        "input_mean and input_std: the data does not give them; give both"
    )
    task = model()
    task.discriminator = nn.Flatten()
    assert message_of(errors.DataError, task.train_step, batch()).startswith(
        "the discriminator gives [17, 64] for 17 images; should be a logit each"
    )


def test_the_discriminators_judgement_as_metrics_see_it():
    real, generated = torch.tensor([2.0, -1.0, 0.5]), torch.tensor([-3.0, -0.5, 1.0])
    item = AdversarialOutput(torch.tensor(0.25), torch.tensor(1.5), real, generated, weight=3)
    total, count = adversarial.discriminator_loss(item)
    assert (total.item(), count) == (4.5, 3)
    assert adversarial.judged_real(item).tolist() == [True, False, True]
    assert adversarial.judged_generated(item).tolist() == [True, True, False]


@pytest.mark.parametrize(("shape", "convolved"), [
    ((1, 8, 8), False), ((3, 16, 20), True), ((1, 28, 28), True), ((1, 18, 18), False),
])  # fmt: skip
def test_the_networks_fit_the_images(shape, convolved):
    gan = GAN(shape, latent=5, width=3)
    made = gan(torch.randn(7, 5))
    assert made.shape == (7, *shape) and made.abs().max() <= 1
    assert gan.discriminator(made).shape == (7, 1)
    assert any(isinstance(module, nn.Conv2d) for module in gan.modules()) == convolved


def test_inputs_that_are_no_images_are_refused():
    assert "(13,)" in message_of(ValueError, GAN, (13,))
