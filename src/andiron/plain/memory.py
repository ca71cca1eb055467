"""The memory of this machine, errors for its shortage, and its reuse by a process.

>>> in_words(3 * 2**30)
'3.0 GiB'
"""

import functools
import os
import re
import sys
from pathlib import Path

CGROUPS = (  # limits of containers and batch systems, version 2 and 1
    Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)  # fmt: skip
GIB = 2**30
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
REQUEST = re.compile(r"allocate (\d+) bytes")  # in a message of torch's


def of_machine() -> int:
    """The largest memory of this process, in bytes."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in CGROUPS:
        try:
            sizes.append(int(path.read_text()))
        except (OSError, ValueError):  # another version, or no limit: "max"
            continue
    return min(sizes)


@functools.cache
def keep_freed_memory() -> None:
    """Lets glibc keep up to 1 GiB of freed memory for the next update.

    To return it and get it again costs a page fault for every 4 KiB. If the environment sets
    malloc's options, those hold.
    """
    import ctypes  # here: only training needs it

    is_set = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if sys.platform != "linux" or is_set:
        return
    if set_option := getattr(ctypes.CDLL(None), "mallopt", None):  # musl has none
        set_option(M_TRIM_THRESHOLD, GIB)
        set_option(M_MMAP_THRESHOLD, 2**25)  # larger tensors are still returned at once


def check(what: str, num_bytes: int) -> None:
    """Refuses a size larger than memory.

    Raises: ValueError that begins with `what`.
    """
    if num_bytes > of_machine():
        raise ValueError(
            f"{what}: takes {in_words(num_bytes)}, and this machine has {in_words(of_machine())}; "
            "make it smaller"
        )


def shortage(error: BaseException) -> str | None:
    """A short description of an out-of-memory error; None for other errors."""
    text = str(error).partition("\n")[0]
    requested = REQUEST.search(text)
    if requested:
        has = in_words(of_machine())
        return f"requests {in_words(int(requested[1]))} of memory at once; there is {has}"
    is_size = isinstance(error, RuntimeError) and "size calculation overflow" in text
    if is_size or isinstance(error, MemoryError):
        return f"asks for more memory than the {in_words(of_machine())} of this machine"
    return None


def in_words(num_bytes: float) -> str:
    """A size in its largest unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:,.1f} TiB"
