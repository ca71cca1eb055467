"""The panels of the screen: lines of text from a run's view.

Every text of a run passes `piece`, which removes control characters.
"""

import textwrap
from collections.abc import Iterable, Mapping

from rich.console import RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from andiron.plain import readable
from andiron.plain.states import State
from andiron.wings.screen import chart
from andiron.wings.screen.view import Choice, SHARES, View

GAP = 2  # between two columns of a table
SHORTEST_NAME = 5  # columns; where less is left, a column of numbers is left out
LOOKS = {"train": "red", "valid": "blue"}  # as in Burn's screen; any other split is green
PROBLEMS = (State.FAILED, State.KILLED, State.INTERRUPTED, State.PAUSED, "stopping")

OF_GROUPS = {"lr": "lr", "grad_norm": "grad norm", "update_ratio": "update ratio"}  # and titles
OF_PROCESSES = {  # readings, their titles and formats
    "time/samples_per_second": "samples/s {:,.0f}",
    "time/step": "seconds an update {:.3g}",
    "time/data": "waiting for data {:.0%}",
    "time/exchange": "in exchanges {:.0%}",
    "system/cpu_percent": "CPU % {:.0f}",
    "system/gpu_percent": "GPU % {:.0f}",
    "system/memory_gib": "memory GiB {:.2f}",
    "system/memory_peak_gib": "memory peak GiB {:.2f}",
    "system/gpu_memory_gib": "GPU memory GiB {:.2f}",
    "system/gpu_memory_peak_gib": "GPU memory peak GiB {:.2f}",
}
FIRST_RANK, OTHER_RANK = "time/data", "time/data/rank"


def piece(text: str, look: str = "") -> Text:
    """Untrusted text on one line, without control characters."""
    return Text(readable.printable_line(text), look, no_wrap=True, overflow="ellipsis")


def head(view: View, width: int) -> list[RenderableType]:
    """Progress of the run: its name and state, a bar, epoch, updates and times."""
    look = "bold yellow" if view.state.startswith(PROBLEMS) else "bold green"
    most = max(8, width - len(view.state) - 3)
    name = view.name if len(view.name) <= most else f"…{view.name[1 - most :]}"
    bar = ProgressBar(view.num_updates or float("inf"), view.updates, complete_style="green")
    words = [f"{view.updates / view.num_updates:.0%}"] if view.num_updates else []
    words += [f"epoch {_ratio(view.epoch, view.num_epochs)}"]
    words += [f"update {_ratio(view.updates, view.num_updates)}"]
    words += [f"batch {_ratio(view.batch, view.num_batches)}"] if view.num_batches else []
    words += [] if view.left is None else [f"{readable.duration(view.left)} left"]
    words += [] if view.elapsed is None else [f"after {readable.duration(view.elapsed)}"]
    # a line breaks between words of the list alone; one that is too long is left out
    whole = "  ".join(word.replace(" ", "\xa0") for word in words if len(word) < width)
    lines = textwrap.wrap(whole, max(width - 1, 1))
    progress = (piece(" " + line.replace("\xa0", " ")) for line in lines)
    return [piece(f" {name}  ") + piece(view.state, look), Padding(bar, (0, 1)), *progress]


def metrics(view: View, width: int) -> list[Text]:
    """A line for each metric and split: the newest value, the best, and its epoch."""
    table = []
    for name in view.curves.metrics:
        for split, values in view.curves.latest.items():
            if name in values:
                best = view.curves.best.get((split, name))
                at_best = [readable.number(best.value), str(best.epoch)] if best else ["", ""]
                table.append([name, split, readable.number(values[name]), *at_best])
    lines = columns(["", "", "now", "best", "epoch"], table, width)
    for line, (_, split, *_) in zip(lines[1:], table, strict=True):
        line.highlight_words([split], look_of(split))
    return lines


def groups(view: View, width: int) -> list[Text]:
    """A line for each parameter group: learning rate, norm of the gradients, relative update."""
    readings = view.curves.readings
    parts = (name.partition("/") for name in readings)
    names = dict.fromkeys(group for kind, _, group in parts if kind in OF_GROUPS)
    table = [
        [name, *(_cell(readings, f"{kind}/{name}", "{:.3g}") for kind in OF_GROUPS)]
        for name in names
    ]
    return columns(["group", *OF_GROUPS.values()], table, width)


def machine(view: View, width: int) -> list[Text]:
    """Speed, share of time waiting for data, CPU and memory; a column for each process."""
    readings, table = view.curves.readings, []
    others = [name.removeprefix(FIRST_RANK) for name in readings if name.startswith(OTHER_RANK)]
    for name, text in OF_PROCESSES.items():
        title, _, form = text.rpartition(" ")
        cells = [_cell(readings, name + rank, form) for rank in ("", *others)]
        table += [[title, *cells]] if any(cells) else []
    ranks = (rank.removeprefix("/") for rank in ("/rank0", *others))
    return columns(["", *ranks], table, width)[not others :]  # one process needs no header


def _cell(readings: Mapping[str, float], name: str, form: str) -> str:
    return form.format(readings[name]) if name in readings else ""


def plot(view: View, choice: Choice, width: int, height: int) -> list[Text]:
    """A chart of the chosen value of every split over updates, below a legend."""
    name = choice.chosen(view.curves)
    if name is None:
        return [piece("nothing is logged yet", "dim")]
    legend, lines, share = piece(name, "bold"), [], SHARES[choice.share]
    for split, curve in view.curves.by_name[name].items():
        lines.append((look_of(split), curve.updates, curve.values))
        legend += piece("  ━ ", look_of(split)) + piece(split)
    legend += piece("  all updates" if share == 1 else f"  last {share:.0%}", "dim")
    return [legend, *chart.chart(lines, width, height - 1, share)]


def log(view: View, height: int) -> list[Text]:
    """The newest log lines that fit."""
    return [piece(line) for line in view.lines[-height:]]


def help_(view: View) -> list[Text]:
    """A line for each key and its meaning."""
    return [piece(f"{key:4}{meaning}") for key, meaning in view.keys.items()]


def keys(view: View) -> Text:
    """The keys in one line."""
    words = (f"{key} {meaning.split()[0].strip(',;')}" for key, meaning in view.keys.items())
    return piece("  ".join(words), "dim")


def columns(headers: Iterable[str], table: list[list[str]], width: int) -> list[Text]:
    """A table below its headers: names left-aligned in the first column, numbers right-aligned.

    Names are shortened to fit `width`, then the last columns are left out; a number is never cut.
    """
    rows = [[*map(piece, row)] for row in (headers, *table)]
    widths = [GAP + max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    while len(widths) > 2 and SHORTEST_NAME + sum(widths[1:]) > width:
        widths.pop()
    room = max(1, min(widths[0] - GAP, width - sum(widths[1:])))
    for name, *numbers in rows:
        name.truncate(room, overflow="ellipsis", pad=True)
        for number, wide in zip(numbers, widths[1:], strict=False):
            number.align("right", wide)
    return [piece("").join(row[: len(widths)]) for row in rows]


def look_of(split: str) -> str:
    """The colour of a split."""
    return LOOKS.get(split, "green")


def _ratio(number: int, total: int) -> str:
    return f"{number:,}/{total:,}" if total else f"{number:,}"
