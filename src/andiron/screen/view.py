"""What the screen shows at one moment, as plain values, and what the person chose to see."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from andiron.screen.curves import Curves

SHARES = (1.0, 0.5, 0.2, 0.05)  # of the updates so far, that the chart may show
STEERING = {
    "q": "stop after this update and save",
    "s": "save a checkpoint now",
    "v": "validate now; logged only",
    "p": "pause, and continue",
}
LOOKING = {"?": "this help", "left, right": "another value", "up, down": "another range"}


@dataclass
class View:
    """A run as it stands; totals are 0 where they are not known."""

    name: str
    state: str = "running"  # or paused, stopping, done, failed ...
    epoch: int = 0
    num_epochs: int = 0
    batch: int = 0
    num_batches: int = 0
    updates: int = 0
    num_updates: int = 0
    elapsed: float | None = None
    left: float | None = None
    curves: Curves = field(default_factory=Curves)
    lines: Sequence[str] = ()  # the newest of the log
    keys: dict[str, str] = field(default_factory=lambda: STEERING | LOOKING)


@dataclass
class Choice:
    """What the keys chose: the value on the chart, the range, and whether the help is shown."""

    name: int = 0
    share: int = 0
    has_help: bool = False

    def press(self, key: str) -> bool:
        """Whether the key changed what is shown."""
        if key in ("left", "right"):
            self.name += 1 if key == "right" else -1
        elif key in ("up", "down"):
            self.share = min(max(self.share + (key == "up") - (key == "down"), 0), len(SHARES) - 1)
        elif key == "?":
            self.has_help = not self.has_help
        else:
            return False
        return True

    def chosen(self, curves: Curves) -> str | None:
        """The name of the value on the chart; None before the first point."""
        names = curves.names
        return names[self.name % len(names)] if names else None
