"""A run's state as text, for every renderer.

>>> values({"loss": 0.5, "lr/base": 1e-3})
'loss 0.5000'
"""

from andiron import errors
from andiron.plain.readable import number
from andiron.protocols import Progress, Values


def values(measured: Values) -> str:
    """`loss 0.1234  accuracy 0.9876`, without non-metrics (`lr/base`, `time/...`)."""
    return errors.printable(
        "  ".join(f"{name} {number(value)}" for name, value in measured.items() if "/" not in name)
    )


def splits(progress: Progress) -> str:
    """The latest values of every split."""
    parts = (f"{split} {values(measured)}" for split, measured in progress.latest.items())
    return errors.printable("  |  ".join(parts))


def side_by_side(progress: Progress, between: str) -> list[str]:
    """`loss 0.1234 | 0.2345` (training | validation), and the same for one more metric."""
    sides = [progress.latest.get(split, {}) for split in ("train", "valid")]
    names = [name for name in sides[0] | sides[1] if "/" not in name]
    shown = sorted(names, key=lambda name: name != "loss")[:2]
    return [
        f"{errors.printable(name)} "
        + between.join(number(side[name]) for side in sides if name in side)
        for name in shown
    ]
