"""Rounds of interleaved measurements, and their tables."""

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

Seconds = dict[str, list[float]]  # by side, one of each round


def interleaved(sides: Mapping[str, Callable[[], float]], rounds: int) -> Seconds:
    """The seconds of every side in every round; a side measures itself and returns its seconds.

    A warm-up round fills caches and does lazy imports. Every round starts one side later, so that
    no side always runs after the same other.
    """
    seconds: Seconds = {side: [] for side in sides}
    names = list(sides)
    for number in range(rounds + 1):
        first = number % len(names)
        for side in names[first:] + names[:first]:
            measured = sides[side]()
            if number:
                seconds[side].append(measured)
        print(f"round {number} of {rounds}" if number else "warm-up round", file=sys.stderr)
    return seconds


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Times its block, after collecting garbage; yields a function that returns the seconds."""
    gc.collect()
    started = ended = time.perf_counter()
    yield lambda: ended - started
    ended = time.perf_counter()


def compared(seconds: Seconds, *, unit: str = "seconds") -> str:
    """A row for each side: median, its ratio to the first side's, fastest and slowest round."""
    reference = statistics.median(next(iter(seconds.values())))
    rows = []
    for side, measured in seconds.items():
        median = statistics.median(measured)
        rows.append(
            (
                side,
                f"{median:.3f}",
                f"{median / reference:.2f}",
                f"{min(measured):.3f} to {max(measured):.3f}",
            )
        )
    return table(("side", f"{unit} (median)", "ratio", "spread"), rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the first column is aligned to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return f"| {' | '.join([cells[0].ljust(widths[0]), *rest])} |"

    rule = f"|{'-' * (widths[0] + 2)}|{'|'.join('-' * (width + 1) + ':' for width in widths[1:])}|"
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


def machine(threads: int | None = None) -> str:
    """The machine of a measurement: `torch 2.14.1, Python 3.11.7, 2 threads, 2 x AMD EPYC`.

    Without `threads`, the setting for processes of their own.
    """
    set_by_user = os.environ.get("OMP_NUM_THREADS")
    free = f"OMP_NUM_THREADS={set_by_user}" if set_by_user else "threads as torch chooses"
    chosen = free if threads is None else f"{threads} thread{'s' * (threads > 1)}"
    versions = f"torch {metadata.version('torch')}, Python {platform.python_version()}"
    return f"{versions}, {chosen}, {os.cpu_count()} x {_processor()}"


def _processor() -> str:
    """The processor's model, from /proc/cpuinfo, else from Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
