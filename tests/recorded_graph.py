"""A stand-in for a CUDA graph: operations are listed, and repeated over the memory they had."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ATEN = torch.ops.aten
READS = (
    ATEN._local_scalar_dense.default, ATEN.equal.default, ATEN.nonzero.default,
    ATEN.masked_select.default,
)  # fmt: skip


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in READS:
            raise RuntimeError("operation not permitted when stream is capturing")
        outputs = func(*args, **(kwargs or {}))
        # lists are copied: their caller may change them
        self.calls.append((func, *tree_map(lambda leaf: leaf, (args, kwargs or {})), outputs))
        return outputs


class RecordedGraph:
    """Records every operation of a function; replays them into the same tensors."""

    replays = 0

    def capture(self, function):
        with _Recorder() as recorder:
            try:
                outputs = function()
            except RuntimeError as error:  # of a GPU it has no frame of this file
                last = error.__traceback__
                while last.tb_next.tb_next is not None:
                    last = last.tb_next
                last.tb_next = None
                raise
        self._calls = recorder.calls
        return outputs

    def replay(self):
        RecordedGraph.replays += 1
        with torch.no_grad():
            for func, args, kwargs, outputs in self._calls:
                again = func(*args, **kwargs)
                for held, new in zip(tree_leaves(outputs), tree_leaves(again), strict=True):
                    if isinstance(held, torch.Tensor) and held is not new:
                        _write(held, new)


def _write(held, new):
    """Puts the new values into the memory of the first run; views and writes in place are there."""
    if held.data_ptr() != new.data_ptr():
        held.detach().copy_(new)
