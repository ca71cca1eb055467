"""Hydra's flags by their meaning; Hydra is not imported.

>>> prints_only(["lr=1", "--hel"]), prints_only(["-m", "--config-dir=mine"])
(True, False)
"""

from collections.abc import Sequence

SWEEPS = {"-m", "--multirun"}
ONE_RUN = "hydra.mode=RUN"  # whatever a chosen file says
PRINTING = ("-h", "-c", "-i", "-sc", "--help", "--hydra-help", "--version", "--cfg", "--info",
            "--shell-completion")  # fmt: skip


def prints_only(arguments: Sequence[str], flags: Sequence[str] = PRINTING) -> bool:
    """Whether one of `flags`, or its first letters, asks for information instead of a run."""
    names = [argument.partition("=")[0] for argument in arguments]
    return any(
        flag == name or (len(name) > 2 and flag.startswith(name))
        for name in names
        for flag in flags
    )
