"""Every logged value of a run as JSON: one line for each point.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
>>> writer = JsonLinesWriter(path)
>>> writer.write(Point("train", updates=20, epoch=1, values={"loss": 0.5}))
>>> writer.close()
>>> path.read_text()
'{"split": "train", "updates": 20, "epoch": 1, "over": "window", "loss": 0.5}\\n'
"""

import json
from pathlib import Path

from andiron.protocols import Point
from andiron.writers.line_writer import LineWriter, coordinates


class JsonLinesWriter(LineWriter):
    """Appends a line of JSON to the file at `path` for each point that has values.

    `over` says whether the values are means over the `window` since the last log point or over
    the `epoch`.
    """

    def __init__(self, path: Path):
        super().__init__(path)

    def lines(self, point: Point) -> str:
        """The line of a point: where it belongs, and its values by name."""
        return json.dumps({**coordinates(point), **point.values}) + "\n"
