"""Tables and blocks of literal text as Markdown.

>>> print(table(["class", "recall"], [["a|b", 0.5]]))
| class | recall |
| --- | ---: |
| a\\|b | 0.5 |
"""

import re
from collections.abc import Sequence


def table(header: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A table, its first column left, others right; bars in cells are escaped."""
    ruler = ["---", *["---:"] * (len(header) - 1)]
    escaped = ([str(cell).replace("|", "\\|") for cell in line] for line in [header, ruler, *lines])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def fenced(text: str, language: str) -> str:
    """A block that shows the text literally: its fence is longer than any backquotes inside."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`*", text))))
    return f"{fence}{language}\n{text}\n{fence}"
