"""`andiron --help`: the page AGENTS.md, for people and programs."""

from pathlib import Path

import andiron
from andiron.shell.cli import process


@process.command
def main() -> int:
    """Prints the page; returns the exit code."""
    page = Path(andiron.__file__).parent / "template" / "AGENTS.md"
    print(page.read_text(encoding="utf-8"), end="")
    return 0
