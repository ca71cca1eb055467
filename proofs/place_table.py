"""The tables of proofs/places.md: the word for each kind of place and each command.

Places at which every command of a table refuses stand in a line below it.
"""

from collections.abc import Mapping
from pathlib import Path

from proofs import place_kinds
from proofs.place_commands import CHANGES, FOLDERS, RESULTS

PAGE = Path(__file__).with_name("places.md")
BEGINS, ENDS = "<!-- places: begin -->\n", "<!-- places: end -->\n"
NONE = "–"  # there is no such place for this command
REFUSED = "refused"
BY_ALL = "Refused by all: "
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
        refused = []
        for kind in place_kinds.kinds():
            cells = [words.get((kind.name, command.name), "") for command in commands]
            if {*cells} == {REFUSED}:
                refused.append(kind.name)
            else:
                lines.append(f"| {kind.name} | {' | '.join(cells)} |")
        blocks.append("\n".join(lines) + f"\n\n{BY_ALL}{'; '.join(refused)}.\n")
    return "\n".join(blocks)


def on_page() -> str:
    """The tables as proofs/places.md has them."""
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
        elif line.startswith(BY_ALL):
            kinds = line.removeprefix(BY_ALL).removesuffix(".").split("; ")
            words |= {(kind, head): REFUSED for kind in kinds for head in heads}
    return words


def write(words: Mapping[tuple[str, str], str]) -> None:
    """Replaces the tables of proofs/places.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGINS)
    table = as_text(words)
    PAGE.write_text(f"{before}{BEGINS}{table}{ENDS}{rest.partition(ENDS)[2]}", encoding="utf-8")
