"""The learning-rate range test: one short run whose learning rate grows until the loss diverges."""

import argparse
import dataclasses
import math
from pathlib import Path

from andiron import errors
from andiron.plain import readable
from andiron.plain.plain_values import strict_json
from andiron.shell.cli import answers, command_line
from andiron.shell.config.schema import Train
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import NUMBER, TEXT, closed
from andiron.wings.commands.declaration import Command, with_overrides
from andiron.wings.trained import named_output

FEWEST_POINTS = 10


@dataclasses.dataclass(frozen=True)
class Range:
    """Learning rates from `first` to `last` in `updates` steps of a constant factor."""

    first: float
    last: float
    updates: int

    def __call__(self, updates: int) -> float:
        return self.first * math.pow(self.last / self.first, updates / max(self.updates - 1, 1))


def find_lr(config: Train, run_dir: Path, span: Range) -> None:
    """Runs the test; writes find_lr.json, find_lr.png and a TensorBoard curve into `run_dir`.

    Source: Smith 2017, arXiv:1506.01186, section 3.3.
    Raises: ConfigError if the loss diverged before there were enough points; OutputError.
    """
    values, picture = run_dir / "find_lr.json", run_dir / "find_lr.png"
    for path in values, picture:
        named_output.check(path)
        if path.exists():
            raise errors.OutputError(f"{path}: exists already; choose another hydra.run.dir")
    from andiron_lab.views import loss_curve  # imports torch

    losses = loss_curve.losses_by_update(config, run_dir, span, span.updates)
    rates = [span(number) for number in range(len(losses))]
    if len(losses) < FEWEST_POINTS:
        raise errors.ConfigError(
            f"--first={span.first}: the loss diverged after {len(losses)} updates; start lower"
        )
    best = loss_curve.suggestion(rates, losses)
    print(
        f"lr={best:.2g}: the smoothed loss falls fastest; tried {len(rates)} learning rates from "
        f"{rates[0]:.2g} to {rates[-1]:.2g}"
    )
    answers.give({"lr": best, "values": str(values), "picture": str(picture)})
    content = {"lr": best, "rates": rates, "losses": losses}
    named_output.write(values, [f"{strict_json(content, 2)}\n".encode()])
    named_output.write(picture, [loss_curve.picture(rates, losses, best)])
    print(readable.printable(f"picture: {picture}"))


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(
        description="Learning rate range test. Other arguments are overrides, as for train.py.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--first", type=float, default=1e-6, help="lowest learning rate")
    parser.add_argument("--last", type=float, default=10.0, help="highest learning rate")
    updates = "number of updates, each with its own learning rate"
    parser.add_argument("--updates", type=int, default=200, help=updates)
    return parser


def _run(options: argparse.Namespace) -> None:
    span = Range(options.first, options.last, options.updates)
    if not 0 < span.first < span.last or span.updates < FEWEST_POINTS:
        raise errors.SelectionError(
            f"--first {span.first} --last {span.last} --updates {span.updates}: should be "
            f"0 < first < last, and at least {FEWEST_POINTS} updates"
        )
    command_line.main(
        lambda config, run_dir, record: find_lr(config, run_dir, span),
        None,
        declaration.in_folder(options.overrides, "find_lr"),
    )


ANSWERS = [closed({"lr": NUMBER, "values": TEXT, "picture": TEXT})]
main = Command(_parser, ANSWERS, _run, parse=with_overrides)
