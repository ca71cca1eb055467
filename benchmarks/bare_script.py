"""The digits for one epoch with torch, torchvision and TensorBoard, written the way such scripts
are written.

    python benchmarks/bare_script.py FOLDER [EPOCHS]      events and weights go to FOLDER

The same network, optimizer, batch size and amount of data as `python train.py`; split at random,
not by class.
"""

import sys
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, random_split
from torch.utils.tensorboard import SummaryWriter
from torchvision.transforms import v2

SOURCES = Path(__file__).resolve().parents[1] / "src" / "andiron" / "data" / "sources"
FILE = SOURCES / "digits.safetensors"
LOG_EVERY = 20  # updates


class Digits(Dataset[tuple[Tensor, int]]):
    """The digits, normalised one by one."""

    def __init__(self) -> None:
        tensors = safetensors.torch.load_file(FILE)
        self.images, self.targets = tensors["images"], tensors["targets"].tolist()
        # pixels go from 0 to 16; mean and standard deviation are those of all of them
        self.transform = v2.Compose(
            [v2.ToDtype(torch.float32), v2.Normalize([0.3053 * 16], [0.3760 * 16])]
        )

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), self.targets[index]


def loaders() -> tuple[DataLoader, DataLoader, DataLoader]:
    """To train on, to validate on, to test on."""
    train, valid, test = random_split(Digits(), [0.72, 0.08, 0.2])
    return DataLoader(train, 64, shuffle=True), DataLoader(valid, 256), DataLoader(test, 256)


def network() -> nn.Module:
    """64-256-128-10 with ReLU."""
    hidden = [nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(128, 10))


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader,
    writer: SummaryWriter,
    step: int,
) -> int:
    """Trains for one epoch from update `step` on, logging the loss and accuracy of single batches;
    the updates since.
    """
    model.train()
    for images, targets in loader:
        logits = model(images)
        loss = functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % LOG_EVERY == 0:
            writer.add_scalar("train/loss", loss.item(), step)
            writer.add_scalar(
                "train/accuracy", (logits.argmax(1) == targets).float().mean().item(), step
            )
    return step


def evaluate(model: nn.Module, loader: DataLoader) -> tuple[float, float]:
    """Mean loss and accuracy."""
    model.eval()
    loss = correct = 0.0
    with torch.inference_mode():
        for images, targets in loader:
            logits = model(images)
            loss += functional.cross_entropy(logits, targets, reduction="sum").item()
            correct += (logits.argmax(1) == targets).sum().item()
    return loss / len(loader.dataset), correct / len(loader.dataset)


def main(folder: Path, epochs: int) -> None:
    """The whole job."""
    torch.manual_seed(42)
    train, valid, test = loaders()
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    writer, step = SummaryWriter(folder), 0
    for epoch in range(1, epochs + 1):
        step = train_epoch(model, optimizer, train, writer, step)
        loss, accuracy = evaluate(model, valid)
        writer.add_scalar("valid/loss", loss, step)
        writer.add_scalar("valid/accuracy", accuracy, step)
        print(f"epoch {epoch}: valid loss {loss:.4f}, accuracy {accuracy:.4f}")
    print("test loss {:.4f}, accuracy {:.4f}".format(*evaluate(model, test)))
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "model.pt"
    )
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
