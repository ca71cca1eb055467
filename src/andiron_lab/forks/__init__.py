"""A new run that begins with the whole state of another, and changes options: `fork_from`."""

from andiron_lab.forks.fork_command import run
from andiron_lab.forks.fork_point import ForkPoint, named

__all__ = ["ForkPoint", "named", "run"]
