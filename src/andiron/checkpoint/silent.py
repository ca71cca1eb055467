"""The checkpointer of a process whose peer writes the run's checkpoints."""

from pathlib import Path

from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.store import Store
from andiron.checkpoint.strategies import Saved, Strategy
from andiron.plain.cadence import Cadence
from andiron.protocols import Values


class SilentCheckpointer:
    """Has the writing checkpointer's cadence, so that both save at the same updates."""

    def __init__(
        self, store: Store, strategy: Strategy, cadence: Cadence, run: str | None = None
    ):
        self.store, self.strategy, self.cadence = store, strategy, cadence
        self.saved: list[Saved] = []

    def sign(self, run: str) -> None:
        """Does nothing."""

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Does nothing."""

    def wait(self) -> bool:
        """True: there is nothing to write."""
        return True

    close = wait

    def turn_back(self, updates: int) -> None:
        """Does nothing."""

    def adopt(self, folder: Path, checkpoint: Checkpoint) -> None:
        """Does nothing."""
