"""The summary of a run as a table."""

import os
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from andiron.render import text

MOST_SHOWN = 6  # parameters of a group; param_groups.json has them all
# options of an optimizer that are not shown: how it computes, and what is switched off
IMPLEMENTATION, OFF = ("fused", "foreach", "decoupled_weight_decay"), (None, False, 0)


def show(summary: dict[str, Any], console: Console) -> None:
    """Prints the table of a summary and the lines below it."""
    console.print(table(summary))


def table(summary: dict[str, Any]) -> RenderableType:
    """A row for each split and metric, then the parameter groups, and where everything is."""
    size = f"{summary['num_parameters']:,} parameters, {summary['updates']:,} updates"
    rows = Table(title=f"{summary['model']}, {size}")
    for column in ("split", "metric", "best", "epoch of best", "last"):
        rows.add_column(column, justify="left" if column in ("split", "metric") else "right")
    for row in summary["metrics"]:
        if "/" in row["metric"]:  # part of a metric, such as recall/cat: in summary.json
            continue
        best, last = text.number(row["best"]), text.number(row["last"])
        rows.add_row(row["split"], Text(row["metric"]), best, str(row["epoch_of_best"]), last)
    lines = [
        f"trained in {text.duration(summary['seconds'])}; everything about the run is in",
        f"  {summary['run_dir']}",
    ]
    return Group(
        rows, groups(summary["param_groups"]), *(Text(line, overflow="fold") for line in lines)
    )


def groups(param_groups: dict[str, Any]) -> Table:
    """A row for each parameter group: optimizer, options, current learning rate, parameters."""
    rows = Table()
    for column in ("group", "optimizer", "lr now", "tensors", "parameters", "names and shapes"):
        rows.add_column(
            column,
            justify="right" if column in ("lr now", "tensors", "parameters") else "left",
            overflow="fold",
        )
    inside = _shared_prefix(
        [name for group in param_groups.values() for name in group["parameters"]]
    )
    for name, group in param_groups.items():
        lr = "frozen" if group["lr"] is None else f"{group['lr']:.3g}"
        counts = (f"{group['num_tensors']}", f"{group['num_parameters']:,}")
        rows.add_row(
            Text(name),
            Text(_optimizer(group)),
            lr,
            *counts,
            Text(_members(group["parameters"], inside), no_wrap=True),
        )
    return rows


def _optimizer(group: dict[str, Any]) -> str:
    """The class, and a line for each option that changes the result and is switched on."""
    if group["optimizer"] is None:
        return "none"
    own = {name: group[name] for name in ("clip", "every") if name in group}
    options = {**group["options"], **own}
    lines = [
        f"{name} {_plain(value)}"
        for name, value in options.items()
        if name not in IMPLEMENTATION and value not in OFF
    ]
    return "\n".join([group["optimizer"].rpartition(".")[2], *lines])


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _shared_prefix(names: list[str]) -> str:
    """What all names begin with, up to a dot: `network.` where a task holds the network."""
    prefix = os.path.commonprefix(names)
    return prefix[: prefix.rfind(".") + 1]


def _members(parameters: dict[str, list[int]], inside: str) -> str:
    """A line for each parameter and its shape; the first and the last if there are many."""
    lines = [
        f"{name.removeprefix(inside)} {'x'.join(map(str, shape)) or 'scalar'}"
        for name, shape in parameters.items()
    ]
    if len(lines) > MOST_SHOWN:
        lines = [*lines[: MOST_SHOWN - 2], f"... {len(lines) - MOST_SHOWN + 1} more ...", lines[-1]]
    return "\n".join(lines)
