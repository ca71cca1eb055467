"""The time of torch's dropout and of Andiron's on a CPU: in the convnet's training step, and alone.

python benchmarks/dropout.py [--rounds N] [--threads N]
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

# a plain checkout needs no install
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import bare  # noqa: E402
import rounds  # noqa: E402
from andiron import models  # noqa: E402

BATCH_SIZE = 64
STEPS = 20  # a measurement: half a second of training steps
Dropout = Callable[[float], nn.Module]  # from the probability to the layer
KINDS: dict[str, Dropout] = {
    "nn.Dropout": nn.Dropout,
    "andiron.models.Dropout": models.Dropout,
    "no dropout": nn.Identity,  # which takes the probability and ignores it
}


def step_milliseconds(dropout: Dropout) -> float:
    """The mean time of one training step: forward, backward, a fused Adam step."""
    images, targets = (
        torch.randn(STEPS * BATCH_SIZE, 1, 28, 28),
        torch.randint(10, (STEPS * BATCH_SIZE,)),
    )
    model = bare.convnet(dropout)
    with rounds.stopwatch() as elapsed:
        bare.in_memory(model, images, targets, lr=1e-4, batch_size=BATCH_SIZE, epochs=1)
    return 1000 * elapsed() / STEPS


def layer_milliseconds(dropout: Dropout) -> float:
    """The mean time of the layer alone, forward and backward, on the second convolution's output.
    """
    layer = dropout(0.5)
    inputs = torch.randn(BATCH_SIZE, 16, 24, 24, requires_grad=True)
    gradient = torch.randn_like(inputs)
    with rounds.stopwatch() as elapsed:
        for _ in range(STEPS):
            inputs.grad = None
            layer(inputs).backward(gradient)
    return 1000 * elapsed() / STEPS


def table(milliseconds: Callable[[Dropout], float], number: int) -> str:
    """One measurement of every kind of dropout, in `number` rounds."""
    sides = {name: partial(milliseconds, dropout) for name, dropout in KINDS.items()}
    return rounds.compared(rounds.interleaved(sides, number), unit="milliseconds")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=11, help="measured rounds (default: 11)")
    parser.add_argument(
        "--threads", type=int, default=2, help="threads that torch computes with (default: 2)"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{rounds.machine(arguments.threads)}; {arguments.rounds} rounds of {STEPS} steps\n")
    print(f"a training step of the guide's convnet, batch {BATCH_SIZE}:\n")
    print(table(step_milliseconds, arguments.rounds))
    print(f"\nthe layer alone, forward and backward, {BATCH_SIZE}x16x24x24:\n")
    print(table(layer_milliseconds, arguments.rounds))


if __name__ == "__main__":
    main()
