"""The processor cores of this machine."""

import os
import sys


def cores() -> int:
    """The number of cores that this process may use."""
    if sys.platform == "linux":  # which may give this process fewer than there are
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
