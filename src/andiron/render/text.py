"""A run's state in words, for every renderer."""

from andiron.protocols import Progress, Values


def values(measured: Values) -> str:
    """`loss 0.1234  accuracy 0.9876`, leaving out what is not a metric (`lr/base`, `time/...`)."""
    return "  ".join(
        f"{name} {number(value)}" for name, value in measured.items() if "/" not in name
    )


def number(value: float) -> str:
    """Four decimals, or the power of ten when that would show nothing."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def splits(progress: Progress) -> str:
    """The latest values of every split."""
    return "  |  ".join(
        f"{split} {values(measured)}" for split, measured in progress.latest.items()
    )


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m20s` or `2h05m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
