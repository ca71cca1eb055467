"""The content of the screen at one moment as plain values, and the user's choices."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from andiron.wings.screen.curves import Curves

SHARES = (1.0, 0.5, 0.2, 0.05)  # of the updates so far, for the chart
# keys and their meaning; its first word is on the last line of the screen
LOOKING = {"?": "help, on or off", "←→": "value of the plot", "↑↓": "range of the plot"}
STEERING = {
    "q": "stop after this update and save",
    "?": LOOKING["?"],
    "s": "save a checkpoint now",
    "v": "validate now; logged only",
}


@dataclass
class View:
    """The state of a run; unknown totals are 0."""

    name: str
    state: str = "running"  # or stopping, done, failed ...
    epoch: int = 0
    num_epochs: int = 0
    batch: int = 0
    num_batches: int = 0
    updates: int = 0
    num_updates: int = 0
    elapsed: float | None = None
    left: float | None = None
    curves: Curves = field(default_factory=Curves)
    lines: Sequence[str] = ()  # the newest log lines
    keys: dict[str, str] = field(default_factory=lambda: STEERING | LOOKING)


@dataclass
class Choice:
    """The user's choices: the value and range of the chart, and whether help is shown."""

    name: int = 0
    share: int = 0
    has_help: bool = False

    def press(self, key: str) -> bool:
        """Handles a key; returns whether it changes the view."""
        self.name += (key == "right") - (key == "left")
        self.share = min(max(self.share + (key == "up") - (key == "down"), 0), len(SHARES) - 1)
        self.has_help ^= key == "?"
        return key in ("left", "right", "up", "down", "?")

    def chosen(self, curves: Curves) -> str | None:
        """The name of the value on the chart; None before the first point."""
        names = curves.names
        return names[self.name % len(names)] if names else None
