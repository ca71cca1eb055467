"""The arguments of every command that uses a trained run."""

import argparse
from typing import Any

from andiron.run_folder import RunFolder


def parser(description: str) -> argparse.ArgumentParser:
    """The parser of a command whose first argument is the run."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("run", help="a run folder, or latest")
    return made


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Adds `--weights` to a command that uses a trained model."""
    weights = "last, best, or the name of an average such as ema (default: last)"
    parser.add_argument("--weights", default="last", metavar="NAME", help=weights)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds `--device` to a command that uses a trained model."""
    device = "auto, cpu, cuda or mps (default: that of the run)"
    parser.add_argument("--device", metavar="NAME", help=device)


def loaded(folder: RunFolder, options: argparse.Namespace) -> Any:
    """The trained run in the folder, as `--weights`, `--device` and `--trust` say.

    Raises: what `andiron.load` raises.
    """
    from andiron.trained import loading  # torch is imported only once the folder is found

    return loading.load(
        folder.path, weights=options.weights, trust=options.trust, device=options.device
    )
