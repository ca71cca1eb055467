"""The protocol of renderers with keys, beyond `andiron.protocols.Renderer`."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from andiron.interrupter import Interrupter
from andiron.protocols import Point


@runtime_checkable
class Interactive(Protocol):
    """A renderer that receives every logged value, and sends keys to the run."""

    def connect(self, interrupter: Interrupter, directions: Mapping[str, str]) -> None:
        """Called once before `start`: the target of keys; `highest` or `lowest` by metric."""

    def add(self, point: Point) -> None:
        """Receives a logged point in the training thread; should only store it."""
