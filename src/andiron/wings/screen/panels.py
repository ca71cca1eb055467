"""The panels of the screen: rows of text from a run's view."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from andiron.plain import readable
from andiron.plain.states import State
from andiron.wings.screen import chart
from andiron.wings.screen.rows import Row, columns, piece
from andiron.wings.screen.view import Choice, SHARES, View

LOOKS = {"train": "red", "valid": "blue"}  # as in Burn's screen; any other split is green
PROBLEMS = (State.FAILED, State.KILLED, State.INTERRUPTED, State.PAUSED, "stopping")
OF_THE_MACHINE: dict[str, Callable[[float], str]] = {  # readings and their formats
    "time/samples_per_second": "{:,.0f} samples/s".format,
    "time/step": lambda s: f"{s:.2f} s an update" if s >= 1 else f"{1000 * s:.3g} ms an update",
    "time/data": lambda share: f"{100 * share:.0f} % waiting for data",
    "system/cpu_percent": "CPU {:.0f} %".format,
    "system/gpu_percent": "GPU {:.0f} %".format,
    "system/memory_gib": "memory {:.2f} GiB".format,
    "system/memory_peak_gib": "memory peak {:.2f} GiB".format,
    "system/gpu_memory_gib": "GPU memory {:.2f} GiB".format,
    "system/gpu_memory_peak_gib": "GPU memory peak {:.2f} GiB".format,
}
OF_RANKS = (  # readings of each process, their titles and formats
    ("time/data", "data", "{:.0%}"), ("time/exchange", "exchange", "{:.0%}"),
    ("system/cpu_percent", "CPU", "{:.0f}%"), ("system/memory_gib", "GiB", "{:.2f}"),
    ("system/gpu_memory_gib", "GPU GiB", "{:.2f}"),
)  # fmt: skip


def place(view: View, width: int) -> list[Row]:
    """Progress of the run: its name and state, a bar, epoch, updates and times."""
    look = "bold yellow" if view.state.startswith(PROBLEMS) else "bold green"
    left = "" if view.left is None else f"{readable.duration(view.left)} left"
    passed = "" if view.elapsed is None else f"after {readable.duration(view.elapsed)}"
    percent = f" {100 * view.updates / view.num_updates:3.0f} %" if view.num_updates else ""
    length = max(4, width - len(percent) - 1)
    filled = int(length * min(1.0, view.updates / view.num_updates)) if view.num_updates else 0
    bar = [piece("━" * filled, "green"), piece("━" * (length - filled), "dim"), piece(percent)]
    name = readable.ending(view.name, max(8, width - len(view.state) - 3))
    epoch, update = _ratio(view.epoch, view.num_epochs), _ratio(view.updates, view.num_updates)
    batches = f"batch {_ratio(view.batch, view.num_batches)}" if view.num_batches else ""
    return [
        [piece(f" {name}  "), piece(view.state, look)],
        [piece(" "), *bar],
        *_wrap([f"epoch {epoch}", f"update {update}", batches, left, passed], width),
    ]


def metrics(view: View, width: int) -> list[Row]:
    """A row for each metric and split: the newest value, the best, and its epoch."""
    curves = view.curves
    table = []
    for name in curves.metrics:
        for split, values in _ordered_splits(curves.latest):
            if name in values:
                best = curves.best.get((split, name))
                table.append(
                    [
                        piece(f"{name} {split}", look_of(split)),
                        piece(readable.number(values[name]), "bold"),
                        piece(readable.number(best.value) if best else ""),
                        piece(str(best.epoch) if best else "", "dim"),
                    ]
                )
    return columns(["", "now", "best", "epoch"], table, width)


def groups(view: View, width: int) -> list[Row]:
    """Learning rate, norm of the gradients and relative update of each parameter group."""
    kinds = {"lr": "lr", "grad_norm": "grad norm", "update_ratio": "update ratio"}
    readings = view.curves.readings
    names = dict.fromkeys(
        name.partition("/")[2] for name in readings if name.partition("/")[0] in kinds
    )
    table = []
    for group in names:
        values = [readings.get(f"{kind}/{group}") for kind in kinds]
        table.append([piece(group), *(piece("" if v is None else f"{v:.3g}") for v in values)])
    return columns(["group", *kinds.values()], table, width)


def machine(view: View, width: int) -> list[Row]:
    """Speed, share of time waiting for data, CPU and memory; then a table of processes."""
    readings = view.curves.readings
    own = [
        [piece(shown(readings[name]))] for name, shown in OF_THE_MACHINE.items() if name in readings
    ]
    return [*own, *_rank_rows(readings, width)]


def _rank_rows(readings: Mapping[str, float], width: int) -> list[Row]:
    """A row for each of several processes."""
    numbers = itertools.takewhile(lambda n: f"time/data/rank{n}" in readings, itertools.count(1))
    endings = ["", *(f"/rank{number}" for number in numbers)]
    columns_of = [column for column in OF_RANKS if column[0] in readings]
    table = []
    for rank, ending in enumerate(endings):
        values = [(layout, readings.get(name + ending)) for name, _, layout in columns_of]
        cells = ["" if value is None else layout.format(value) for layout, value in values]
        table.append([piece(str(rank)), *map(piece, cells)])
    titles = [title for _, title, _ in columns_of]
    return columns(["rank", *titles], table, width) if len(endings) > 1 else []


def plot(view: View, choice: Choice, width: int, height: int) -> list[Row]:
    """A chart of the chosen value of every split over updates, below a legend."""
    name = choice.chosen(view.curves)
    if name is None:
        return [[piece("nothing is logged yet", "dim")]]
    curves = dict(_ordered_splits(view.curves.by_name[name]))
    lines = [(look_of(split), curve.updates, curve.values) for split, curve in curves.items()]
    share = SHARES[choice.share]
    legend: Row = [piece(name, "bold")]
    for split in curves:
        legend += [piece("  ━ ", look_of(split)), piece(split)]
    legend.append(piece("  all updates" if share == 1 else f"  last {share:.0%}", "dim"))
    return [legend, *chart.chart(lines, width, height - 1, share)]


def log(view: View, width: int, height: int) -> list[Row]:
    """The newest log lines that fit."""
    return [[piece(line[: width + 1])] for line in [*view.lines][-height:]] if height > 0 else []


def help_(view: View) -> list[Row]:
    """A row for each key and its meaning."""
    width = max(map(len, view.keys))
    return [
        [piece(f"{key:<{width}}  ", "bold"), piece(meaning)] for key, meaning in view.keys.items()
    ]


def keys(view: View, width: int) -> Row:
    """The keys in one line; where not all fit, the help key and the first ones."""
    short = {"left, right": "←→ value", "up, down": "↑↓ range", "?": "? help"}
    words = {key: short.get(key, f"{key} {text.split()[0].strip(',;')}") for key, text in
             view.keys.items()}  # fmt: skip
    while len(line := "  ".join(words.values())) > width and len(words) > 1:
        words.pop([key for key in words if key != "?"][-1])
    return [piece(line, "dim")]


def look_of(split: str) -> str:
    """The colour of a split."""
    return LOOKS.get(split, "green")


def _ordered_splits(by_split: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Splits with their values: training first, then validation."""
    return sorted(by_split.items(), key=lambda item: (item[0] != "train", item[0] != "valid"))


def _ratio(number: int, total: int) -> str:
    return f"{number:,}/{total:,}" if total else f"{number:,}"


def _wrap(words: list[str], width: int) -> list[Row]:
    """The words, wrapped into rows of at most `width` columns; longer ones are left out."""
    rows = [""]
    for word in (word for word in words if 0 < len(word) < width):
        longer = f"{rows[-1]}  {word}" if rows[-1] else word
        if len(longer) + 1 > width:
            rows.append(word)
        else:
            rows[-1] = longer
    return [[piece(f" {row}")] for row in rows]
