"""The summary of a run as tables, for 80 columns and wider."""

import os
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.table import Column, Table
from rich.text import Text

from andiron.plain.readable import duration, number, printable

MOST_SHOWN = 6  # parameters of a group; param_groups.json has them all
# optimizer options and values that are not shown
IMPLEMENTATION, OFF = ("fused", "foreach", "decoupled_weight_decay"), (None, False, 0)


# a column of numbers, which is never shortened
right = partial(Column, justify="right", no_wrap=True)


def show(summary: dict[str, Any], console: Console) -> None:
    """Prints each metric's best and last value, the evaluated weights, the worst classes, the
    parameter groups and the run folder.
    """
    numbers = (right(name) for name in ("best", "epoch of best", "last"))
    headers = [Column("split"), Column("metric", overflow="fold"), *numbers]
    size = f"{summary['num_parameters']:,} parameters, {summary['updates']:,} updates"
    rows = Table(*headers, title=_plain(f"{summary['model']}, {size}"))
    whole = {(row["split"], row["metric"]) for row in summary["metrics"]}
    for row in summary["metrics"]:
        # a part such as recall/cat is in summary.json, unless its metric has nothing but parts
        if (row["split"], row["metric"].partition("/")[0]) in whole and "/" in row["metric"]:
            continue
        rows.add_row(
            _plain(row["split"]),
            _plain(row["metric"]),
            number(row["best"]),
            str(row["epoch_of_best"]),
            number(row["last"]),
        )
    lines = f"trained in {duration(summary['seconds'])}"
    if "run_dir" in summary:
        lines += f"; everything about the run is in\n  {summary['run_dir']}"
    weights = "; ".join(
        f"{'tested' if split == 'test' else split} weights: {name}"
        for split, name in summary.get("weights", {}).items()
    )
    parts: list[Table | Text] = [rows, *([_plain(weights)] if weights else [])]
    if summary.get("worst_classes"):
        parts.append(_class_table(summary["worst_classes"]))
    parts += [_plain(f"{name}: {text}") for name, text in summary.get("changes", {}).items()]
    for name, observed in summary.get("observers", {}).items():
        took = f"observer {name}: {observed['calls']:,} calls, {duration(observed['seconds'])}"
        parts.append(_plain(took))
    last = summary.get("last_lr", {})
    owners = {
        name: {**group, "lr": last.get(name, group["lr"])}
        for name, group in summary["param_groups"].items()
    }
    parts += [groups(owners, lr="last lr"), _plain(lines, overflow="fold")]
    console.print(Group(*parts))


def _class_table(classes: list[dict[str, Any]]) -> Table:
    """A row for each class: samples, recall, and the wrong predictions."""
    rows = Table("class", right("samples"), right("recall"), "predicted as", title="worst classes")
    for scores in classes:
        taken = ", ".join(f"{name} ({count})" for name, count in scores["taken_for"].items())
        recall = number(scores["recall"])
        rows.add_row(_plain(scores["class"]), f"{scores['samples']:,}", recall, _plain(taken))
    return rows


def groups(param_groups: dict[str, Any], title: str | None = None, *, lr: str) -> Table:
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


def _optimizer_text(group: dict[str, Any]) -> str:
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
