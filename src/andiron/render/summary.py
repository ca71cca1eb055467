"""The summary of a run as a table."""

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from andiron.render import text


def show(summary: dict[str, Any], console: Console) -> None:
    """Prints the table and the lines around it."""
    console.print(table(summary))


def table(summary: dict[str, Any]) -> RenderableType:
    """One row a split and metric: best, its epoch, last; below it what was trained and where it is."""
    rows = Table(title=f"{summary['model']}, {summary['num_parameters']:,} parameters, {summary['updates']:,} updates")
    for column in ("split", "metric", "best", "epoch of best", "last"):
        rows.add_column(column, justify="left" if column in ("split", "metric") else "right")
    for row in summary["metrics"]:
        best, last = text.number(row["best"]), text.number(row["last"])
        rows.add_row(row["split"], Text(row["metric"]), best, str(row["epoch_of_best"]), last)
    lines = [f"trained in {text.duration(summary['seconds'])}; everything about the run is in", f"  {summary['run_dir']}"]
    return Group(rows, *(Text(line, overflow="fold") for line in lines))
