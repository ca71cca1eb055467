"""A graph of a device: the kernels that a function started, started again by one call."""

from collections.abc import Callable
from typing import Any

import torch


class CudaGraph:
    """A function's work on a GPU, recorded once and repeated over the same memory.

    Other threads may use the GPU during the recording.
    """

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()

    def capture(self, function: Callable[[], Any]) -> Any:
        """Runs the function once on a stream of its own, as torch asks for, then records it.

        Returns what it returned, whose tensors each `replay` rewrites.
        Raises: RuntimeError if it reads a value from the device, or does something else that cannot
        be repeated.
        """
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        current = torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            function()
        current.wait_stream(stream)
        torch.clear_autocast_cache()  # else the graph would use weights that were cast once
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            outputs = function()
        torch.clear_autocast_cache()
        return outputs

    def replay(self) -> None:
        """Repeats the work; draws have the seed of the default generator."""
        self._graph.replay()


GRAPHS: dict[str, Callable[[], CudaGraph]] = {"cuda": CudaGraph}  # by type of device
