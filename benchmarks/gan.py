"""What a generator has learnt of the ten digits, as a classifier sees it.

    python benchmarks/gan.py <GAN run> ... [--images N]

A residual network is trained on the digits in the size of the images (a minute), and names the
classes of as many generated ones: how many of the ten come at all, how evenly (the exponential of
the entropy of their shares, 10 at most), and what part of the images is one digit with a
probability above 0.9. The test digits stand beside.
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1] / "src")
)  # a plain checkout needs no install of its own

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import rounds  # noqa: E402
from andiron import data, inference, optim, serialization  # noqa: E402
from andiron.data import DataLoaderBuilder  # noqa: E402
from andiron.learner import LearnerBuilder  # noqa: E402
from andiron.models import ResNet  # noqa: E402
from andiron.schedules import Cosine  # noqa: E402
from andiron.shell.assembly import components  # noqa: E402
from andiron.shell.config.schema import Train  # noqa: E402
from andiron.tasks import Classifier  # noqa: E402
from andiron_lab.adversarial import Adversarial  # noqa: E402

EPOCHS, BATCH, SURE = 20, 64, 0.9


def classifier(splits: data.Splits) -> nn.Module:
    """Trained on the digits in that size."""
    torch.manual_seed(0)
    model = Classifier(ResNet(splits.input_shape, 10, depth=8))
    train = (
        DataLoaderBuilder(splits.batcher)
        .batch_size(BATCH)
        .shuffle(0)
        .augment(data.Shift(1))
        .build(splits.train)
    )
    valid = DataLoaderBuilder(splits.batcher).batch_size(256).build(splits.valid)
    schedule = Cosine(initial_lr=3e-3, num_updates=EPOCHS * len(train))
    with (
        tempfile.TemporaryDirectory() as folder,
        LearnerBuilder(folder)
        .options(num_epochs=EPOCHS)
        .build(model, optim.Optimizer(torch.optim.AdamW, model), schedule) as learner,
    ):
        return learner.fit(train, valid)


def generated(run: Path, number: int) -> tuple[Tensor, data.Splits]:
    """So many images of a run's generator, as its networks take them, and the data it was trained
    on.
    """
    parts = components.build(Train.load(run / "config.json"))
    model: Adversarial = parts.model
    model.load_state_dict(serialization.load_tensors(run / "model.safetensors"))
    latents = torch.randn(number, model.latent, generator=torch.Generator().manual_seed(0))
    with inference.valid(model):
        return model(latents), parts.splits


def row(name: str, images: Tensor, model: nn.Module) -> tuple[str, ...]:
    """What the classifier makes of these."""
    with inference.valid(model):
        probabilities = model(images).softmax(dim=1)
    shares = probabilities.argmax(dim=1).bincount(minlength=10) / len(images)
    evenness = torch.special.entr(shares).sum().exp()
    sure = (probabilities.max(dim=1).values > SURE).float().mean()
    return name, f"{int((shares > 0).sum())} of 10", f"{evenness:.1f}", f"{100 * sure:.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--images", type=int, default=1000)
    arguments = parser.parse_args()
    drawn = [generated(run, arguments.images) for run in arguments.runs]
    splits = drawn[0][1]
    with contextlib.redirect_stdout(sys.stderr):
        model = classifier(splits)
    test = splits.batcher(
        splits.test.__getitems__(range(len(splits.test))), torch.device("cpu")
    ).inputs
    rows = [
        row(run.name, _as_data(images, splits), model)
        for run, (images, _) in zip(arguments.runs, drawn, strict=True)
    ]
    print(
        rounds.table(
            ("images", "digits seen", "evenness", f"above {SURE}"),
            [*rows, row("test digits", test, model)],
        )
    )


def _as_data(images: Tensor, splits: data.Splits) -> Tensor:
    """From [-1, 1] to what the data's batcher makes of pixels."""
    return ((images + 1) / 2 - splits.batcher.mean) / splits.batcher.std


if __name__ == "__main__":
    main()
