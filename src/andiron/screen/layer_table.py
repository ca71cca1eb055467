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
    """A row for each layer, or the first ones and the last of many; and their sum."""
    numbers = [Column(name, justify="right") for name in ("parameters", "operations", "memory")]
    table = Table(Column("layer", overflow="fold"), "output", *numbers, title=title)
    rows = list(layers)
    if len(layers) > MOST_SHOWN:
        rows = [*layers[: MOST_SHOWN - 1], layers[-1]]
    for layer in rows:
        if layer is layers[-1] and len(rows) < len(layers):
            table.add_row(f"... {len(layers) - len(rows):,} more ...")
        name = Text(errors.printable(f"{layer.name.removeprefix('network.')} {layer.kind}"))
        shape = "x".join(map(str, layer.shape))
        table.add_row(name, shape, *_costs(layer.parameters, layer.operations, layer.num_bytes))
    sums = (sum(getattr(layer, name) for layer in layers)
            for name in ("parameters", "operations", "num_bytes"))  # fmt: skip
    table.add_section()
    table.add_row("in all", "", *_costs(*sums))
    return table


def in_units(number: float) -> str:
    """A number in the largest unit not above it.

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
