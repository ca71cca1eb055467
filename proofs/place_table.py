"""The table of docs/security.md: the word for each kind of place and each command."""

from collections.abc import Mapping
from pathlib import Path

from proofs import place_kinds
from proofs.place_commands import CHANGES, FOLDERS, RESULTS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "security.md"
BEGINS, ENDS = "<!-- places: begin -->\n", "<!-- places: end -->\n"
NONE = "–"  # there is no such place for this command
TABLES = {
    "A run, or what is like one, in a folder": FOLDERS,
    "A file, or a folder of files": RESULTS,
    "The content of the place": CHANGES,
}


def as_text(words: Mapping[tuple[str, str], str]) -> str:
    """The tables as Markdown; a pair that was not tried has no word."""
    blocks = []
    for title, commands in TABLES.items():
        heads = [f"`{command.name}`" for command in commands]
        lines = [f"| {title} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for kind in place_kinds.kinds():
            cells = [words.get((kind.name, command.name), "") for command in commands]
            lines.append(f"| {kind.name} | {' | '.join(cells)} |")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def on_page() -> str:
    """The tables as docs/security.md has them."""
    return PAGE.read_text(encoding="utf-8").partition(BEGINS)[2].partition(ENDS)[0]


def words_of(table: str) -> dict[tuple[str, str], str]:
    """The word of each pair in the tables."""
    words, heads = dict[tuple[str, str], str](), list[str]()
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] in TABLES:
            heads = [cell.strip("`") for cell in cells[1:]]
        elif line.startswith("| "):
            words |= {(cells[0], head): cell for head, cell in zip(heads, cells[1:], strict=True)}
    return words


def write(words: Mapping[tuple[str, str], str]) -> None:
    """Replaces the tables of docs/security.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGINS)
    table = as_text(words)
    PAGE.write_text(f"{before}{BEGINS}{table}{ENDS}{rest.partition(ENDS)[2]}", encoding="utf-8")
