"""Which process this is, of how many that train one run, and what they decide together.

Alone, torch.distributed is not imported and every verb returns its argument. `optim.divided`
adds up gradients; in shell/, training/joining.py joins the processes, training/ranks.py starts
them, assembly/division.py checks `strategy`.

>>> World().decided(lambda: 3), World().gathered("a"), World(slices=2).parts([1, 2, 3])
(3, ['a'], [(0, [1]), (1, [2, 3])])
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from andiron import errors
from andiron.plain import private_torch

BUCKET_BYTES = 25 * 2**20  # reduced at once, as in DistributedDataParallel
SECONDS_TO_SETTLE = 0.05
Value = TypeVar("Value")


@runtime_checkable
class Reports(Protocol):
    """The exit messages of the processes of a run."""

    def fail(self, rank: int, error: BaseException) -> None:
        """Leaves the cause for which this process ends."""

    def cause(self, rank: int) -> str:
        """Why an exchange failed; empty if unknown."""


class Sharding(Protocol):
    """The parts that each process holds of parameters, gradients and optimizer state."""

    def reduction(self, model: Any, size: Any) -> Any:
        """The reduction of one update, as `optim.gradient_mean` has it."""

    def check(self, optimizer: Any) -> None:
        """Raises: ConfigError for an optimizer whose step would be wrong with parts."""

    def whole(self, value: Any) -> Any:
        """The value with whole tensors, in the memory of rank 0's host.

        Of a checkpoint, the tensors that this process writes.
        """

    def checkpointer(self, own: Any) -> Any:
        """The checkpointer of this process, or one that writes the tensors of its file."""

    def parts(self, saved: Any, parameters: Any) -> Any:
        """A checkpoint with this process's parts of the state of the optimizer of `parameters`."""


class Sliced(dict[int, Any]):
    """The parts of a batch, or of its items, that this process holds, by the number of the slice.

    A slice without samples is left out.
    """


class World:
    """One of `size` processes that train a run; each computes its part of every batch.

    A batch is cut into `slices` parts, by default one for each process. With `slices`, sums are
    made in a fixed binary tree over the slices, so that their bits do not depend on `size`.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        slices: int | None = None,
        reports: Reports | None = None,
    ):
        self.rank, self.size, self.slices = rank, size, slices
        self.is_divided = size > 1 or slices is not None
        self.num_slices = slices or size
        first, end = (self.num_slices * number // size for number in (rank, rank + 1))
        self.own_slices = range(first, end)
        self.has_failed = False  # whether an exchange did
        self.waited = 0.0  # seconds in exchanges, most of them for other processes
        self.is_asked = False  # whether any process wants to be asked after the last update
        self.wants_asking: Callable[[], bool] = lambda: False  # whether this process does
        self.reports = reports
        self.sharding: Sharding | None = None  # None: each process has a copy of the model
        self.groups: list[Any] = []  # of processes, if several copies are in parts
        self._started, self._seconds = time.monotonic(), 0.0

    def parts(self, batch: Any) -> list[tuple[int, Any]]:
        """This process's slices of a sequence, with their numbers; a slice may be empty."""
        bounds = [len(batch) * number // self.num_slices for number in range(self.num_slices + 1)]
        return [(number, batch[bounds[number] : bounds[number + 1]]) for number in self.own_slices]

    def clock(self) -> float:
        """Seconds, the same in all processes: the clock of rank 0 at the last update."""
        return time.monotonic() if self.size == 1 else self._seconds

    @property
    def notes(self) -> list[float]:
        """Values summed beside an update's gradients: whether to ask all, and the time."""
        elapsed = time.monotonic() - self._started
        return [float(self.wants_asking()), elapsed if self.rank == 0 else 0.0]

    def take_notes(self, asking: float, seconds: float) -> None:
        """Takes over the sum of all processes' `notes`."""
        self.is_asked, self._seconds = asking > 0, seconds

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replaces tensors of one dtype by their sums over all processes, equal bits in each."""
        self.begin_adding(tensors)()

    def begin_adding(self, tensors: Sequence[Tensor]) -> Callable[[], None]:
        """Begins `add_up`; the tensors are the sums once the function that it returns has ended.

        Several are packed into one. With `slices` the exchange takes several rounds, and begins
        when that function is called.
        """
        if self.size == 1 or not tensors:
            return lambda: None
        flat, unpack = self._packed(tensors)
        pieces = torch.split(flat, BUCKET_BYTES // flat.element_size()) if len(flat) else ()
        works: list[Any] = []
        if self.slices is None:
            with self.explained():
                works = [torch.distributed.all_reduce(piece, async_op=True) for piece in pieces]

        def finish() -> None:
            with self.explained():
                if self.slices is not None:
                    self._add_by_doubling(pieces)
                for work in works:
                    work.wait()
            unpack()

        return finish

    def _packed(self, tensors: Sequence[Tensor]) -> tuple[Tensor, Callable[[], None]]:
        """One flat tensor with all elements, and what copies them back from it."""
        first, sizes = tensors[0], [tensor.numel() for tensor in tensors]
        if len(tensors) == 1 and first.is_contiguous():
            return first.view(-1), lambda: None
        flat = first.new_empty(sum(sizes))
        pairs = zip(torch.split(flat, sizes), tensors, strict=True)
        parts = [part.view(tensor.shape) for part, tensor in pairs]
        private_torch.foreach_copy_(parts, [*tensors])
        return flat, partial(private_torch.foreach_copy_, [*tensors], parts)

    def _add_by_doubling(self, pieces: Sequence[Tensor]) -> None:
        """Sums of 2, 4, ... neighbours: a + b has the bits of b + a, so both ends agree."""
        distance = 1
        while distance < self.size:
            other = self.rank ^ distance
            started = [_exchange(piece, other, number) for number, piece in enumerate(pieces)]
            for piece, (theirs, works) in zip(pieces, started, strict=True):
                for work in works:
                    work.wait()
                piece += theirs
            distance *= 2

    def gathered(self, value: Value) -> list[Value]:
        """The values of all processes, in the order of their ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self.explained():
            torch.distributed.all_gather_object(values, value)
        return values

    def decided(self, make: Callable[[], Value]) -> Value:
        """The value that `make` returns in rank 0, the only process that calls it.

        Raises: what `make` raises, in rank 0; PeerError in the others.
        """
        if self.size == 1:
            return make()
        outcome: list[Any] = [None, False]
        try:
            if self.rank == 0:
                outcome = [make(), True]
        finally:
            with self.explained():
                torch.distributed.broadcast_object_list(outcome, src=0)
        if not outcome[1]:
            raise errors.PeerError("rank 0 ended the run; its message and status.json say why")
        value: Value = outcome[0]
        return value

    def after_first(self, make: Callable[[], Value]) -> Value:
        """The value that `make` returns here, called once it has returned in rank 0.

        So files are downloaded and written once, and a mistake is reported once.
        """
        made: list[Value] = []
        self.decided(lambda: made.append(make()))
        return made[0] if made else make()

    def whole(self, value: Value) -> Value:
        """The value with whole tensors, in rank 0, if each process holds parts."""
        return self.sharding.whole(value) if self.sharding else value

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        if self.size == 1:
            return flag
        flags = torch.tensor([float(flag)])
        with self.explained():
            torch.distributed.all_reduce(flags)
        return bool(flags > 0)

    def fail(self, error: BaseException) -> None:
        """Tells the other processes why this one ends; they know of a failure of another."""
        if self.reports and not isinstance(error, errors.PeerError):
            self.reports.fail(self.rank, error)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns a failed exchange into a PeerError that names the process that is gone, and why."""
        started = time.monotonic()
        try:
            yield
            self.waited += time.monotonic() - started
        except RuntimeError as error:
            self.has_failed = True
            cause = self.reports.cause(self.rank) if self.reports else ""
            raise errors.PeerError(cause or errors.one_line(error)) from error


def _exchange(values: Tensor, other: int, tag: int) -> tuple[Tensor, list[Any]]:
    """Begins to send values to another process, and to receive its own."""
    dist, theirs = torch.distributed, torch.empty_like(values)
    send = dist.P2POp(dist.isend, values, other, tag=tag)
    receive = dist.P2POp(dist.irecv, theirs, other, tag=tag)
    return theirs, dist.batch_isend_irecv([send, receive])


def settle() -> None:
    """Waits for the threads of exchanges that are over, before a process is forked.

    In CPython 3.11 a child hangs that is forked while such a thread takes the GIL: 17 of 3,000
    right after exchanges, none of 3,000 after 20 ms.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        time.sleep(SECONDS_TO_SETTLE)


ALONE = World()
