"""A run's state as text, for every renderer."""

from andiron import errors
from andiron.protocols import Progress, Values
from andiron.readable import number


def values(measured: Values) -> str:
    """`loss 0.1234  accuracy 0.9876`, without what is not a metric (`lr/base`, `time/...`)."""
    return errors.printable(
        "  ".join(f"{name} {number(value)}" for name, value in measured.items() if "/" not in name)
    )


def splits(progress: Progress) -> str:
    """The latest values of every split."""
    parts = (f"{split} {values(measured)}" for split, measured in progress.latest.items())
    return errors.printable("  |  ".join(parts))


def side_by_side(progress: Progress) -> str:
    """`loss 0.1234 | 0.2345  accuracy 0.9876 | 0.9801`: two metrics, training | validation."""
    sides = [progress.latest.get(split, {}) for split in ("train", "valid")]
    names = [name for name in sides[0] or sides[1] if "/" not in name][:2]
    shown = (
        f"{name} {' | '.join(number(side[name]) for side in sides if name in side)}"
        for name in names
    )
    return errors.printable("  ".join(shown))
