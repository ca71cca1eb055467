"""Gradients of several processes added up while backward still computes the next ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from andiron.distributed import BUCKET_BYTES, World
from andiron.gradients import Gradients
from andiron.optim.gradient_mean import is_on_gpu
from andiron.outputs import Weight
from andiron.plain import fast_paths, private_torch

LARGE_BYTES = 2**18  # smaller gradients are exchanged together after backward
FIRST_BYTES = 2**20  # of the first bucket, as in DistributedDataParallel: it is soon complete
NO_ENTRY = -0.0  # x + -0.0 has the bits of x, also where x is -0.0


class EarlyExchange:
    """Adds up large gradients over all processes, in buckets, while backward computes the others.

    Every process begins the exchanges in the same order, the last parameter first: no process
    waits for an exchange that another one has not begun. `finish` begins those that backward left.
    """

    def __init__(self, world: World, trained: Mapping[str, nn.Parameter]):
        self._world = world
        self._parameters = {
            name: parameter
            for name, parameter in trained.items()
            if world.size > 1 and parameter.nbytes >= LARGE_BYTES
        }
        self.names = self._parameters.keys()  # looked up for every parameter of an update
        self._buckets = _buckets(self._parameters)
        self.computed: dict[str, tuple[Tensor, int]] = {}  # early; and the version of each tensor
        self._begun: list[Callable[[], None]] = []  # by bucket, what ends its exchange

    @contextmanager
    def begun_in_backward(self, weight: Weight) -> Iterator[None]:
        """A context for `backward` of a loss multiplied by `weight`, which begins the exchanges."""
        hooks = []
        # begun in backward or by `finish`, the exchanges are the same
        is_early = fast_paths.on["early exchange"]
        for name, parameter in self._parameters.items() if is_early else ():
            register: Any = parameter.register_post_accumulate_grad_hook  # untyped
            hooks.append(register(partial(self._take, name, weight)))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _take(self, name: str, weight: Weight, parameter: Tensor) -> None:
        """Takes a weighted gradient, and begins the exchanges that are next in order."""
        gradient = parameter.grad
        if gradient is None or gradient.layout is not torch.strided:
            return
        if is_on_gpu(weight):  # a wait for its value costs more
            gradient.masked_fill_(weight == 0, NO_ENTRY)
        if not any(name in bucket for bucket in self._buckets[: len(self._begun)]):
            self.computed[name] = gradient, private_torch.version(gradient)
        for bucket in self._buckets[len(self._begun) :]:
            if not self.computed.keys() >= {*bucket}:
                break
            self._begin([self.computed[name][0] for name in bucket])

    def check_unchanged(self, gradients: Gradients) -> None:
        """Raises: ValueError if a step changed a gradient after its exchange may have begun."""
        for name, (tensor, version) in self.computed.items():
            if gradients.get(name) is not tensor or private_torch.version(tensor) != version:
                raise ValueError(
                    f"the gradient of {name} changed after backward(..., weight=...) had begun to "
                    "add it up over all processes (by train_step, or by a later part of backward); "
                    f"leave weight out of backward, or set {fast_paths.VARIABLE}=0"
                )

    def finish(self, entries: Mapping[str, Tensor]) -> None:
        """Replaces the weighted gradients of large parameters by their sums over all processes."""
        for bucket in self._buckets[len(self._begun) :]:
            self._begin([entries[name] for name in bucket])
        for finish in self._begun:
            finish()

    def _begin(self, tensors: Sequence[Tensor]) -> None:
        self._begun.append(self._world.begin_adding(tensors))


def _buckets(parameters: Mapping[str, Tensor]) -> list[list[str]]:
    """The names in the order of the exchanges, in buckets of one dtype and at most BUCKET_BYTES.

    A larger one is a bucket of its own.
    """
    buckets: list[list[str]] = []
    left, dtype = 0, None
    for name in [*parameters][::-1]:
        if parameters[name].nbytes > left or parameters[name].dtype != dtype:
            left, dtype = BUCKET_BYTES if buckets else FIRST_BYTES, parameters[name].dtype
            buckets.append([])
        buckets[-1].append(name)
        left -= parameters[name].nbytes
    return buckets
