"""The cost of several optimizers: the whole Learner with one Adam, and with two that share the
work.

    python benchmarks/groups.py [--case a|b|both] [--rounds N]

The cases are those of overhead.py: a tiny network on the digits, the guide's convnet on a part of
MNIST. Both use one thread: with two, a neighbour's load can move a round of the second by a third.
Two optimizers may take at most 1.1 times the seconds of one.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

# a plain checkout needs no install
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import overhead  # noqa: E402
import rounds  # noqa: E402
import whole  # noqa: E402
from andiron import models  # noqa: E402
from andiron.optim import Group, GroupedOptimizer, Optimizer  # noqa: E402

ALLOWED = 1.10
ONE, TWO, DECAY = (
    "one Adam",
    "two Adams, half of the tensors each",
    "two AdamWs, no decay for vectors",
)
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "a": lambda: models.MLP((1, 8, 8), 10, hidden=(64,)),
    "b": lambda: models.ConvNet((1, 28, 28), 10),
}


def halves(model: nn.Module) -> GroupedOptimizer:
    """Two Adams: one for the first half of the tensors, one for the rest."""
    names = [name for name, _ in model.named_parameters()]
    return _grouped(
        model,
        torch.optim.Adam,
        {"first": names[: len(names) // 2], "second": names[len(names) // 2 :]},
    )


def no_decay(model: nn.Module) -> GroupedOptimizer:
    """Two AdamWs: one for matrices, one without decay for vectors."""
    names = {name: tensor.dim() for name, tensor in model.named_parameters()}
    groups = {
        "matrices": [n for n in names if names[n] > 1],
        "vectors": [n for n in names if names[n] < 2],
    }
    return _grouped(model, torch.optim.AdamW, groups, vectors={"weight_decay": 0.0})


def _grouped(
    model: nn.Module,
    kind: type[torch.optim.Optimizer],
    groups: dict[str, list[str]],
    **options: dict[str, float],
):
    tensors = dict(model.named_parameters())
    return GroupedOptimizer(model, [
        Group(name=group, parameters={name: tensors[name] for name in names},
              optimizer=Optimizer(kind, model, names, **options.get(group, {})))
        for group, names in groups.items()
    ])  # fmt: skip


def measure(case: str, number: int | None) -> str:
    """The table of one case, and whether two optimizers stay within the allowed ratio."""
    compared = overhead.CASES[case]
    torch.set_num_threads(1)
    work, _ = compared.sides()
    one = {"lr": work.lr, "batch_size": work.batch_size, "epochs": work.epochs}

    def side(optimizer: Callable[[nn.Module], Optimizer | GroupedOptimizer]) -> Callable[[], float]:
        return lambda: whole.seconds(NETWORKS[case](), work.splits, optimizer=optimizer, **one)

    sides = {ONE: side(whole.adam), TWO: side(halves), DECAY: side(no_decay)}
    number = number or compared.rounds
    seconds = rounds.interleaved(sides, number)
    ratio = statistics.median(seconds[TWO]) / statistics.median(seconds[ONE])
    within = "within" if ratio <= ALLOWED else "not within"
    verdict = f"two optimizers: {ratio:.3f} times one, {within} the {ALLOWED:.2f} allowed"
    table = rounds.compared(seconds)
    return f"{compared.title}, {number} rounds\n{rounds.machine(1)}\n\n{table}\n\n{verdict}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", choices=(*NETWORKS, "both"), default="both")
    parser.add_argument(
        "--rounds", type=int, help="measured rounds; by default 11 of case a, 5 of case b"
    )
    arguments = parser.parse_args()
    for case in NETWORKS if arguments.case == "both" else [arguments.case]:
        print(measure(case, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
