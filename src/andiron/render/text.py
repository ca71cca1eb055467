"""A run's state as text, for every renderer.

>>> duration(200), number(0.12345), number(1e-9)
('3m20s', '0.1235', '1.000e-09')
"""

from andiron import errors
from andiron.protocols import Progress, Values


def values(measured: Values) -> str:
    """`loss 0.1234  accuracy 0.9876`, without what is not a metric (`lr/base`, `time/...`)."""
    return errors.printable(
        "  ".join(f"{name} {number(value)}" for name, value in measured.items() if "/" not in name)
    )


def number(value: float) -> str:
    """The number with four decimals, or with its power of ten where these would show nothing."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


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


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m20s` or `2h05m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
