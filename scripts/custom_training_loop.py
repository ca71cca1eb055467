"""Training without the Learner: a custom loop on the public API, with three learning rates.

    python scripts/custom_training_loop.py [EPOCHS]

One backward pass gives one set of gradients. One optimizer applies them with three learning rates:
one for the hidden layers, one for the bias of the last layer, one for the remaining gradients.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1] / "src")
)  # a plain checkout needs no install

import torch  # noqa: E402

from andiron import inference, randomness, schedules  # noqa: E402
from andiron.data import DataLoader, DataLoaderBuilder, digits  # noqa: E402
from andiron.metrics import Accuracy, Loss, Tally  # noqa: E402
from andiron.models import MLP  # noqa: E402
from andiron.optim import Optimizer  # noqa: E402
from andiron.tasks import Classifier  # noqa: E402

SEED = 42
BIAS = "network.layers.5.bias"  # of the last layer


def train(num_epochs: int = 10) -> dict[str, float]:
    """The means of loss and accuracy on the test set after training on the digits."""
    splits = digits(valid=0.1, split_seed=0)
    train_batches = (
        DataLoaderBuilder(splits.batcher).batch_size(64).shuffle(SEED).build(splits.train)
    )
    valid_batches = DataLoaderBuilder(splits.batcher).batch_size(256).build(splits.valid)

    randomness.start_stream(SEED, "init")
    model = Classifier(MLP(splits.input_shape, splits.num_classes))
    optimizer = Optimizer(torch.optim.Adam, model)
    schedule = schedules.Cosine(initial_lr=2e-3, num_updates=num_epochs * len(train_batches))
    updates = 0

    for epoch in range(num_epochs):
        for batch in train_batches.epoch(epoch):
            randomness.start_stream(SEED, "update", updates)  # dropout, if the model had any
            lr = schedule(updates)
            gradients = model.train_step(batch).gradients

            hidden = gradients.take(model.network.layers[1])
            bias = gradients.take_names(BIAS)
            model = optimizer.step(lr / 2, model, hidden)
            model = optimizer.step(2 * lr, model, bias)
            model = optimizer.step(lr, model, gradients)  # the remaining gradients
            updates += 1
        print(
            f"epoch {epoch + 1}/{num_epochs}  update {updates}  valid "
            f"{measure(model, valid_batches)}"
        )

    test = measure(model, DataLoaderBuilder(splits.batcher).batch_size(256).build(splits.test))
    print(f"test {test}")
    return test


def measure(model: Classifier, batches: DataLoader) -> dict[str, float]:
    """The means over one pass, in evaluation mode and without gradients."""
    tally = Tally([Loss(), Accuracy()])
    with inference.valid(model):
        for batch in batches:
            tally.add(model.valid_step(batch))
    return tally.close_epoch()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains a digits classifier without the Learner.")
    parser.add_argument("epochs", nargs="?", type=int, default=10, help="(default: 10)")
    train(parser.parse_args().epochs)
