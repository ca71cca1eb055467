"""The summary of a run as tables, for 80 columns and wider."""

import os
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.table import Column, Table
from rich.text import Text

from andiron.plain.plain_values import Plain
from andiron.plain.readable import printable
from andiron.render.text import METRICS, summary_lines

MOST_SHOWN = 6  # parameters of a group; param_groups.json has them all
# optimizer options and values that are not shown
IMPLEMENTATION, OFF = ("fused", "foreach", "decoupled_weight_decay"), (None, False, 0)


# a column of numbers, which is never shortened
right = partial(Column, justify="right", no_wrap=True)


def show(summary: Plain, console: Console) -> None:
    """Prints the summary's content, the parameter groups and the run folder."""
    written = summary_lines(summary)
    numbers = map(right, METRICS[2:])
    parts: list[Table | Text] = [
        rows(written.metrics, Column("split"), Column("metric", overflow="fold"), *numbers,
             title=written.title)
    ]  # fmt: skip
    if written.classes:
        headers = "class", right("samples"), right("recall"), "predicted as"
        parts.append(rows(written.classes, *headers, title="worst classes"))
    parts += map(_plain, written.lines)
    last = summary.get("last_lr", {})
    owners = {
        name: {**group, "lr": last.get(name, group["lr"])}
        for name, group in summary["param_groups"].items()
    }
    parts += [groups(owners, lr="last lr"), _plain(written.place, overflow="fold")]
    console.print(Group(*parts))


def rows(lines: list[list[str]], *headers: Column | str, title: str) -> Table:
    """A table with a row of untrusted texts for each of the lines."""
    shown = Table(*headers, title=_plain(title))
    for cells in lines:
        shown.add_row(*map(_plain, cells))
    return shown


def groups(param_groups: Plain, title: str | None = None, *, lr: str) -> Table:
    """A row for each parameter group: optimizer, options, learning rate as `lr`, parameters."""
    headers = "group", "optimizer", right(lr), right("parameters"), "shapes and names"
    rows = Table(*headers, title=title)
    for column in rows.columns:
        column.overflow = "fold"
    names = [name for group in param_groups.values() for name in group["parameters"]]
    shared = os.path.commonprefix(names)
    inside = shared[: shared.rfind(".") + 1]  # `network.` if a task holds the network
    for name, group in param_groups.items():
        rows.add_row(
            _plain(name),
            _plain(_optimizer_text(group)),
            "frozen" if group["lr"] is None else f"{group['lr']:.3g}",
            f"{group['num_parameters']:,}",
            _plain(_member_lines(group["parameters"], inside), no_wrap=True, overflow="ellipsis"),
        )
    return rows


def _plain(content: str, **options: Any) -> Text:
    """Untrusted text: without markup and without control characters."""
    return Text(printable(content), **options)


def _optimizer_text(group: Plain) -> str:
    """The class, and a line for each option that is on and changes the result."""
    if group["optimizer"] is None:
        return "none"
    lines = [group["optimizer"].rpartition(".")[2]]
    own = {name: group[name] for name in ("clip", "every") if name in group}
    for name, value in {**group["options"], **own}.items():
        if name not in IMPLEMENTATION and value not in OFF:
            plain = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            lines.append(f"{name} {plain}")
    return "\n".join(lines)


def _member_lines(parameters: dict[str, list[int]], inside: str) -> str:
    """A line of shape and name for each parameter, or the first ones and the last of many."""
    lines = [
        f"{'x'.join(map(str, shape)) or 'scalar'} {name.removeprefix(inside)}"
        for name, shape in parameters.items()
    ]
    if len(lines) > MOST_SHOWN:
        lines = [*lines[: MOST_SHOWN - 2], f"... {len(lines) - MOST_SHOWN + 1} more ...", lines[-1]]
    return "\n".join(lines)
