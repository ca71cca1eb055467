"""Bare PyTorch loops to compare with: no metrics, log, checkpoints or validation."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def mlp() -> nn.Sequential:
    """64-64-10 with ReLU, for the 8x8 digits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def convnet(dropout: Callable[[float], nn.Module] = nn.Dropout) -> nn.Sequential:
    """The network of the Burn book's guide for 28x28 images; `dropout(p)` makes its dropout layers.
    """
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), dropout(0.5),
        nn.Conv2d(8, 16, 3), dropout(0.5), nn.ReLU(),
        nn.AdaptiveAvgPool2d(8), nn.Flatten(),
        nn.Linear(16 * 8 * 8, 512), dropout(0.5), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


def with_loader(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, lr: float, batch_size: int, epochs: int
) -> None:
    """Trains as the tutorials do: torch's DataLoader over a TensorDataset, Adam with its defaults.
    """
    loader = DataLoader(TensorDataset(inputs, targets), batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            optimizer.step()


def in_memory(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, lr: float, batch_size: int, epochs: int
) -> None:
    """Trains with the least that PyTorch needs: each batch is one indexing of a tensor, and Adam is
    fused.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr, fused=True)
    for _ in range(epochs):
        for chosen in torch.randperm(len(targets)).split(batch_size):
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
            optimizer.step()


def accuracy(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """The fraction of `inputs` that the model, in evaluation mode, classifies correctly."""
    model.eval()
    with torch.inference_mode():
        batches = zip(inputs.split(256), targets.split(256), strict=True)
        correct = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in batches)
    return correct / len(targets)
