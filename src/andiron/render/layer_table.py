"""The layers of a model as a table."""

from collections.abc import Sequence

from rich.table import Column, Table
from rich.text import Text

from andiron import errors
from andiron.plain import memory
from andiron.protocols import Layer

MOST_SHOWN = 60
UNITS = ("", "k", "M", "G", "T")


def layer_table(layers: Sequence[Layer], title: str) -> Table:
    """A row for each layer; the first and the last if there are many; and their sum."""
    numbers = [Column(name, justify="right") for name in ("parameters", "operations", "memory")]
    table = Table(Column("layer", overflow="fold"), "output", *numbers, title=title)
    shown = list(layers)
    if len(layers) > MOST_SHOWN:
        shown = [*layers[: MOST_SHOWN - 1], layers[-1]]
    for each in shown:
        if each is layers[-1] and len(shown) < len(layers):
            table.add_row(f"... {len(layers) - len(shown):,} more ...")
        name = Text(errors.printable(f"{each.name.removeprefix('network.')} {each.kind}"))
        shape = "x".join(map(str, each.shape))
        table.add_row(name, shape, *_costs(each.parameters, each.operations, each.num_bytes))
    sums = (sum(getattr(each, name) for each in layers)
            for name in ("parameters", "operations", "num_bytes"))  # fmt: skip
    table.add_section()
    table.add_row("in all", "", *_costs(*sums))
    return table


def in_units(number: float) -> str:
    """A number in the largest unit that it has one of.

    >>> in_units(512), in_units(21_500_000)
    ('512', '21.5 M')
    """
    for unit in UNITS:
        if number < 1000 or unit == UNITS[-1]:
            return f"{number:,.1f} {unit}" if unit else f"{number:,.0f}"
        number /= 1000
    return ""


def _costs(parameters: int, operations: int, num_bytes: int) -> tuple[str, str, str]:
    return f"{parameters:,}", in_units(operations), memory.in_words(num_bytes)
