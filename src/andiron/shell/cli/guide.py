"""Pages of `andiron` itself: AGENTS.md, the list of commands, the version."""

from pathlib import Path

import andiron
from andiron.shell.cli import process
from andiron.shell.config import project


@process.command
def main() -> int:
    """Prints the page AGENTS.md, for programs; returns the exit code."""
    return _printed(Path(andiron.__file__).parent / "template" / "AGENTS.md")


@process.command
def list_commands() -> int:
    """Prints a line for each command; returns the exit code."""
    return _printed(project.default_conf_dir() / "commands.txt")


@process.command
def print_version() -> int:
    """Prints the version; returns the exit code."""
    print(f"andiron {andiron.__version__}")
    return 0


def _printed(page: Path) -> int:
    print(page.read_text(encoding="utf-8"), end="")
    return 0
