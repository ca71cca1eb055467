"""What a renderer with keys must offer beyond `andiron.protocols.Renderer`."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from andiron.interrupter import Interrupter
from andiron.protocols import Point


@runtime_checkable
class Interactive(Protocol):
    """A renderer that takes every logged value, and keys that ask the run for something."""

    def connect(self, interrupter: Interrupter, directions: Mapping[str, str]) -> None:
        """Called once before `start`: what keys go to; `highest` or `lowest` by metric."""

    def add(self, point: Point) -> None:
        """Takes a point as it is logged, in the thread that trains: it only keeps the values."""
