"""Arguments shared by the commands that use a trained run."""

import argparse
from typing import Any

from andiron.shell.run import named_folder
from andiron.wings.commands import declaration


def parser(description: str) -> argparse.ArgumentParser:
    """A parser whose first argument is the run, with `--weights` and `--trust`."""
    run_parser = declaration.Parser(description=description)
    run_parser.add_argument("run", help="a run folder, or latest")
    weights = "last, best, or the name of an average such as ema (default: last)"
    run_parser.add_argument("--weights", default="last", metavar="NAME", help=weights)
    declaration.add_trust(run_parser)
    return run_parser


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds `--device` to a command that uses a trained model."""
    device = "auto, cpu, cuda or mps (default: the run's device)"
    parser.add_argument("--device", metavar="NAME", help=device)


def loaded(options: argparse.Namespace) -> Any:
    """The trained run that the options name, with `--weights`, `--device` and `--trust`.

    Raises as `andiron.load`.
    """
    folder = named_folder.run_folder_of(options.run)
    from andiron.wings.trained import loading  # torch is imported only once the folder is found

    trust = declaration.trusted(options)
    return loading.load(folder.path, weights=options.weights, trust=trust, device=options.device)
