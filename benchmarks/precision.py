"""The time of a step with mixed precision, channels_last, compile and activation checkpointing.

    python benchmarks/precision.py [--steps N] [--rounds N]

The guide's convnet, batches of 64 of MNIST's size (random pixels), Adam; a step is gradients and
update. The sides take turns within a round; first steps (compiling) are reported separately. On a
GPU, tf32 too.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

# a plain checkout needs no install
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch  # noqa: E402

import rounds  # noqa: E402
from andiron.data import Batch  # noqa: E402
from andiron.learner import LearnerBuilder  # noqa: E402
from andiron.models import ConvNet, activation_checkpointing  # noqa: E402
from andiron.optim import Optimizer  # noqa: E402
from andiron.tasks import Classifier  # noqa: E402

BATCH = 64
WARM_UP = 5  # steps


def step(device: torch.device, *, precision: str = "fp32", **options: bool) -> Callable[[], None]:
    """A function that does one update."""
    torch.manual_seed(0)
    network = ConvNet((1, 28, 28), 10)
    layout = torch.channels_last if options.get("channels_last") else torch.contiguous_format
    network = network.to(memory_format=layout)
    if options.get("checkpointing"):
        activation_checkpointing.apply(network, "features")
    if options.get("compile"):
        network.compile()
    model = Classifier(network).to(device)
    builder = (
        LearnerBuilder(".")
        .with_writers()
        .options(precision=precision)
        .devices([device])
        .options(log_every=10**9)
    )
    learner = builder.build(model, Optimizer(torch.optim.Adam, model), 1e-4)
    inputs = torch.randn(BATCH, 1, 28, 28).to(device, memory_format=layout)
    batch = Batch(inputs, torch.randint(10, (BATCH,)).to(device))

    def run() -> None:
        learner.updater.precision.apply()
        learner.updater.update([batch], learner.position)

    return run


def seconds(steps: int, run: Callable[[], None], device: torch.device) -> float:
    """Of so many steps, until the last is done."""
    started = time.perf_counter()
    for _ in range(steps):
        run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", type=int, default=40, help="steps a round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(min(2, torch.get_num_threads()))
    sides = {
        "fp32": {},
        "precision=bf16": {"precision": "bf16"},
        "precision=fp16": {"precision": "fp16"},
        "channels_last=true": {"channels_last": True},
        "compile=true": {"compile": True},
        "activation_checkpointing=features": {"checkpointing": True},
    }
    if device.type == "cuda":
        sides["precision=tf32"] = {"precision": "tf32"}
    runs, first = {}, {}
    for name, options in sides.items():
        runs[name] = step(device, **options)
        first[name] = seconds(1, runs[name], device)
        seconds(WARM_UP, runs[name], device)
    measured = rounds.interleaved(
        {
            name: lambda run=run: 1000 * seconds(arguments.steps, run, device) / arguments.steps
            for name, run in runs.items()
        },
        arguments.rounds,
    )
    extra = {name: first[name] - statistics.median(measured[name]) / 1000 for name in runs}
    print(
        f"convnet, batches of {BATCH}, on "
        f"{device.type}\n{rounds.machine(torch.get_num_threads())}\n"
    )
    print(rounds.compared(measured, unit="milliseconds a step"))
    slow = ", ".join(f"{name} {value:.1f} s" for name, value in extra.items() if value > 0.5)
    print(f"\nthe first step took longer by: {slow}")


if __name__ == "__main__":
    main()
