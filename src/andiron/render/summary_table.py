"""The summary of a run as a table."""

import os
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.table import Column, Table
from rich.text import Text

from andiron import errors
from andiron.readable import duration, number

MOST_SHOWN = 6  # parameters of a group; param_groups.json has them all
# options of an optimizer that are not shown: how it computes, and what is switched off
IMPLEMENTATION, OFF = ("fused", "foreach", "decoupled_weight_decay"), (None, False, 0)


right = partial(Column, justify="right")  # a column of numbers


def show(summary: dict[str, Any], console: Console) -> None:
    """Prints a row for each split and metric, the parameter groups, and where everything is."""
    headers = "split", "metric", right("best"), right("epoch of best"), right("last")
    size = f"{summary['num_parameters']:,} parameters, {summary['updates']:,} updates"
    rows = Table(*headers, title=_plain(f"{summary['model']}, {size}"))
    for row in summary["metrics"]:
        if "/" in row["metric"]:  # part of a metric, such as recall/cat: in summary.json
            continue
        best, last = number(row["best"]), number(row["last"])
        names = _plain(row["split"]), _plain(row["metric"])
        rows.add_row(*names, best, str(row["epoch_of_best"]), last)
    seconds = duration(summary["seconds"])
    lines = f"trained in {seconds}; everything about the run is in\n  {summary['run_dir']}"
    console.print(Group(rows, groups(summary["param_groups"]), _plain(lines, overflow="fold")))


def groups(param_groups: dict[str, Any], title: str | None = None) -> Table:
    """A row for each parameter group: optimizer, options, current learning rate, parameters."""
    numbers = right("lr now"), right("tensors"), right("parameters")
    rows = Table("group", "optimizer", *numbers, "names and shapes", title=title)
    for column in rows.columns:
        column.overflow = "fold"
    names = [name for group in param_groups.values() for name in group["parameters"]]
    shared = os.path.commonprefix(names)
    inside = shared[: shared.rfind(".") + 1]  # `network.` where a task holds the network
    for name, group in param_groups.items():
        rows.add_row(
            _plain(name),
            _plain(_optimizer(group)),
            "frozen" if group["lr"] is None else f"{group['lr']:.3g}",
            f"{group['num_tensors']}",
            f"{group['num_parameters']:,}",
            _plain(_members(group["parameters"], inside), no_wrap=True),
        )
    return rows


def _plain(content: str, **options: Any) -> Text:
    """Text that may come from a file of somebody else: no markup, nothing a terminal would obey."""
    return Text(errors.printable(content), **options)


def _optimizer(group: dict[str, Any]) -> str:
    """The class, and a line for each option that changes the result and is switched on."""
    if group["optimizer"] is None:
        return "none"
    lines = [group["optimizer"].rpartition(".")[2]]
    own = {name: group[name] for name in ("clip", "every") if name in group}
    for name, value in {**group["options"], **own}.items():
        if name not in IMPLEMENTATION and value not in OFF:
            plain = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            lines.append(f"{name} {plain}")
    return "\n".join(lines)


def _members(parameters: dict[str, list[int]], inside: str) -> str:
    """A line for each parameter and its shape; the first and the last if there are many."""
    lines = [
        f"{name.removeprefix(inside)} {'x'.join(map(str, shape)) or 'scalar'}"
        for name, shape in parameters.items()
    ]
    if len(lines) > MOST_SHOWN:
        lines = [*lines[: MOST_SHOWN - 2], f"... {len(lines) - MOST_SHOWN + 1} more ...", lines[-1]]
    return "\n".join(lines)
