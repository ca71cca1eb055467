"""Processes of a run as threads of one: the same verbs, without torch.distributed."""

import threading
from concurrent.futures import ThreadPoolExecutor

from andiron.distributed import World


class ThreadedWorld(World):
    """One of `size` threads; `shared` is a barrier and a list with a place for each."""

    def __init__(self, rank, size, slices, shared):
        super().__init__(rank, size, slices)
        self._barrier, self._values = shared

    def gathered(self, value):
        self._values[self.rank] = value
        self._barrier.wait(60)
        values = list(self._values)
        self._barrier.wait(60)
        return values

    def any(self, flag):
        return any(self.gathered(flag))

    def begin_adding(self, tensors):
        for values in tensors:
            everyone = self.gathered(values.clone())
            while self.slices is not None and len(everyone) > 1:
                everyone = [a + b for a, b in zip(everyone[::2], everyone[1::2], strict=True)]
            values.data.copy_(sum(everyone[1:], start=everyone[0]))  # as torch: no new version
        return lambda: None


def in_threads(act, size, slices=None):
    """The result of `act(world)` in each of `size` threads, in the order of their ranks."""
    shared = threading.Barrier(size), [None] * size
    worlds = [ThreadedWorld(rank, size, slices, shared) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(act, worlds))
