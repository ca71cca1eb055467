"""Recordings of what a model's step does, by what they depend on; and why there are none any more.
"""

import logging
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import is_not
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.plain import private_torch
from andiron_lab.graphs.device_graph import CudaGraph
from andiron_lab.graphs.step_state import NoGraphError, StateBefore, first_difference

# repetitions that are compared: the first, one with another stream, and later ones, since what
# Python does beside a step, such as counting, is not repeated
PROBES = 1, 2, 100, 1000
log = logging.getLogger("andiron")


@dataclass
class Recording:
    """A graph with its memory, once enough turns were alike."""

    is_of: object  # what it depends on
    make: Callable[[], CudaGraph]
    turns: int = 0  # alike
    graph: CudaGraph | None = None
    held: list[Tensor] = field(default_factory=list)  # what the graph reads
    output: Any = None  # what the function returned
    repetitions: int = 0

    def capture(self, held: list[Tensor], before: StateBefore, function: Callable[[], Any]) -> None:
        """Records what a function does with `held`; the state is as before.

        Raises: NoGraphError if it cannot be repeated.
        """
        graph, self.held = self.make(), held
        try:
            self.output = graph.capture(function)
        except Exception as error:
            why = f"{_line_of(error)} cannot be recorded ({errors.one_line(error)})"
            raise NoGraphError(why) from error
        finally:
            before.restore()
        self.graph = graph

    def is_probe(self) -> bool:
        """Counts a repetition; whether it is compared."""
        self.repetitions += 1
        return self.repetitions in PROBES

    @torch.no_grad()
    def repeat(self, given: list[Tensor]) -> None:
        """Repeats the graph with these values in its memory."""
        if any(map(is_not, given, self.held)):
            private_torch.foreach_copy_(self.held, given)
        if self.graph is not None:
            self.graph.replay()

    def check(self, expected: dict[str, Hashable], actual: dict[str, Hashable]) -> None:
        """Raises: NoGraphError naming the first value of this repetition that differs."""
        if (name := first_difference(expected, actual)) is not None:
            why = f"{name} of repetition {self.repetitions}"
            raise NoGraphError(f"{why} differs from that of the step without a graph")


class Recordings:
    """Recordings by key; a reason against them is named in a warning unless it was `said`."""

    def __init__(self, make: Callable[[], CudaGraph], said: set[str]):
        self._make, self._said = make, said
        self._recordings: dict[Hashable, Recording] = {}
        self.reason: str | None = None

    def __len__(self) -> int:
        return len(self._recordings)

    @property
    def repetitions(self) -> int:
        """How often graphs were repeated."""
        return sum(recording.repetitions for recording in self._recordings.values())

    def refuse(self, reason: str) -> None:
        """There are no recordings from now on."""
        self.reason = reason
        self._recordings.clear()
        if reason not in self._said:
            log.warning("graph: %s; such steps continue without graphs", reason)
        self._said.add(reason)

    def turn(self, key: Hashable, is_of: object) -> Recording:
        """The recording of a key, for one turn more; a new one if its dependencies have changed."""
        recording = self._recordings.get(key)
        if recording is None or recording.is_of != is_of:
            recording = self._recordings[key] = Recording(is_of, self._make)
        recording.turns += 1
        return recording


def _line_of(error: BaseException) -> str:
    """The last line of the user's code, or of a task's, that led to an error."""
    while error.__context__ is not None:
        error = error.__context__
    folders = str(torch.__path__[0]), __file__.rpartition("/")[0]
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if not f.filename.startswith(folders)]  # fmt: skip
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else "the step"
