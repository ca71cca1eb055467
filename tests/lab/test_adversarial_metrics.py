"""Images of a GAN as the arguments of metrics of torchmetrics."""

import json

import pytest
import torch

from andiron import errors
from andiron.data import Batch
from andiron.metrics import Tally
from andiron_lab.adversarial import GAN, Adversarial, AdversarialOutput
from andiron_lab.scores import Torchmetrics

image = pytest.importorskip("torchmetrics.image")
FrechetInceptionDistance = pytest.importorskip("torchmetrics.image.fid").FrechetInceptionDistance

LOSS = torch.tensor(0.0)


def adapted(metric):
    return Torchmetrics(metric, name="theirs", higher_is_better=True)


def restored(tally, metric):
    """Another process's tally that continues from this one's checkpoint."""
    plain, tensors = tally.state_dict()
    resumed = Tally([metric])
    resumed.load_state_dict(json.loads(json.dumps(plain)), tensors, LOSS.device)
    return resumed


def at_once(metric, *updates):
    for arguments in updates:
        metric.update(*arguments)
    return metric.compute().item()


class Features(torch.nn.Module):
    """Means of the quarters of an image, as a feature network."""

    num_features = 4

    def forward(self, images):
        return torch.nn.functional.adaptive_avg_pool2d(images.float(), 2).flatten(1)


def distance(**options):
    return FrechetInceptionDistance(Features(), normalize=True, **options)


def of_gan(sizes=(5, 1, 6)):
    task = Adversarial(GAN(input_shape=(1, 8, 8), latent=4, width=8), input_mean=0.5, input_std=0.5)
    draws = torch.Generator().manual_seed(3)
    inputs = torch.randn(sum(sizes), 1, 8, 8, generator=draws).clamp(-1, 1)
    return task, [
        task.valid_step(Batch(part, torch.zeros(len(part)))) for part in inputs.split(sizes)
    ]


@pytest.mark.parametrize("options", [{}, {"reset_real_features": False}])
def test_fid_gets_the_real_and_the_generated_images_and_resumes(options):
    _, items = of_gan()
    tally = Tally([adapted(distance(**options))])
    for item in items:
        tally.add(item)
    resumed = restored(tally, adapted(distance(**options)))
    real, fake = (
        torch.cat([(getattr(item, name) + 1) / 2 for item in items])
        for name in ("real_images", "generated_images")
    )
    expected = at_once(distance(), (real, True), (fake.detach(), False))
    values = tally.close_epoch()
    assert values["theirs"] == pytest.approx(expected, rel=1e-3)  # eigenvalues of float32 there
    assert resumed.close_epoch() == values
    assert not adapted(distance()).gathers


def test_the_training_step_gives_the_images_too_without_their_graph():
    task, _ = of_gan()
    item = task.train_step(Batch(torch.zeros(3, 1, 8, 8), torch.zeros(3))).item
    assert item.real_images.shape == item.generated_images.shape == (3, 1, 8, 8)
    assert not item.generated_images.requires_grad


def test_images_become_bytes_for_byte_networks_and_rgb_for_inception():
    class Seen(FrechetInceptionDistance):
        def update(self, imgs, real):
            self.seen = imgs

    _, (item, *_) = of_gan()
    for own, normalize, dtype, channels in [
        (True, False, torch.uint8, 1),
        (False, False, torch.uint8, 3),
        (False, True, torch.float32, 3),
    ]:
        metric = Seen(Features(), normalize=normalize)
        metric.used_custom_model = own
        adapted(metric)(item)
        assert metric.seen.dtype == dtype and metric.seen.shape == (5, channels, 8, 8)
        assert metric.seen.max() <= (1 if dtype.is_floating_point else 255)


def test_a_one_image_metric_gets_generated_images_and_pairs_are_refused():
    _, (item, *_) = of_gan()
    metric = adapted(image.TotalVariation())
    expected = at_once(image.TotalVariation(), ((item.generated_images.detach() + 1) / 2,))
    assert metric.value(*metric(item)) == pytest.approx(expected)
    pairs = adapted(image.PeakSignalNoiseRatio(1.0))
    message = "^theirs: PeakSignalNoiseRatio takes preds, target, and there are no pairs in the Adv"
    with pytest.raises(errors.MismatchError, match=message):
        pairs(item)
    bare = AdversarialOutput(LOSS, LOSS, torch.zeros(2), torch.zeros(2), weight=2)
    with pytest.raises(
        errors.MismatchError, match="takes images, which are not in the Adversarial"
    ):
        adapted(distance())(bare)
