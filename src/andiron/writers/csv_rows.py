"""Every logged value of a run as CSV: one row for each value.

The columns are the same whatever is measured, so the file only grows. To put the metrics side by
side: `pandas.read_csv(path).pivot_table(index="updates", columns=["split", "metric"])`.
"""

import csv
import io
from pathlib import Path

from andiron.protocols import Point
from andiron.run_folder import RunFolder
from andiron.writers.line_writer import LineWriter, coordinates

HEADER = b"split,updates,epoch,over,metric,value\n"


class CsvWriter(LineWriter):
    """Appends a row to `run_dir`/metrics.csv for each value of each point.

    `over` says whether the value is a mean over the `window` since the last log point or over the
    `epoch`.
    """

    def __init__(self, run_dir: Path):
        super().__init__(RunFolder(run_dir).metrics_csv, HEADER)

    def lines(self, point: Point) -> str:
        """The rows of a point."""
        rows = io.StringIO()
        csv.writer(rows, lineterminator="\n").writerows(
            (*coordinates(point).values(), name, value) for name, value in point.values.items()
        )
        return rows.getvalue()
