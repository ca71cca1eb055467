"""The plan of a run as tables."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from andiron.render import summary_table


def steps(counts: Mapping[str, int]) -> Table:
    """Counts by what is counted."""
    return _listed("steps", {name: f"{count:,}" for name, count in counts.items()})


def groups(param_groups: Mapping[str, Any]) -> Table:
    """The parameter groups and the parameters they own."""
    table = summary_table.groups(dict(param_groups))
    table.title = "parameter groups at the first update"
    return table


def learning_rates(rates: Mapping[int, Mapping[str, float]]) -> Table:
    """A row for each update, a column for each group; empty where the group is frozen."""
    names = list(dict.fromkeys(name for named in rates.values() for name in named))
    table = Table(title="learning rates")
    for column in ("update", *names):
        table.add_column(Text(column), justify="right")
    for updates, named in rates.items():
        table.add_row(
            f"{updates:,}", *(f"{named[name]:.3g}" if name in named else "" for name in names)
        )
    return table


def memory(sizes: Mapping[str, int]) -> Table:
    """Sizes in bytes by what needs them, shown in MiB."""
    return _listed("memory", {name: f"{size / 2**20:,.2f} MiB" for name, size in sizes.items()})


def _listed(title: str, rows: Mapping[str, str]) -> Table:
    """A table with a name and a number in each row."""
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    return table
