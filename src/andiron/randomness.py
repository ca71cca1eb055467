"""Every random stream as a function of a seed, a purpose and counters of the run."""

import functools
import hashlib
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from andiron.plain import fast_paths
from andiron.plain.plain_values import Named, Plain

Word = TypeVar("Word", int, Tensor)

WORD = 2**64 - 1
# SplitMix64's, as signed words with the same bits: torch has no products of unsigned ones
GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # 2^64 / golden ratio, odd
# what is left of a word after a logical shift to the right; bits above 64 are dropped
SHIFTED = {bits: (1 << 64 - bits) - 1 for bits in (27, 30, 31, 40)}
FACTORS = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64

MOST_LISTED = 2**28  # indices in one tensor, of 2 GiB
ROUNDS = 6  # of LongOrder
CHUNK = 2**14  # places that it computes at once, 0.2 us each


def derive(seed: int, purpose: str, *counters: int) -> int:
    """A 64-bit seed: (seed, purpose) hashed, then each counter mixed in with SplitMix64.

    Source: Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators", figure 16.
    """
    state = _base(seed, purpose)
    for counter in counters:
        state = _mix(state + (counter + 1) * GOLDEN) & WORD
    return state


@functools.lru_cache
def _base(seed: int, purpose: str) -> int:
    """The first eight bytes of BLAKE2b over both, so that purposes are independent."""
    return int.from_bytes(
        hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest(), "little"
    )


def stream(seed: int, purpose: str, *counters: int) -> torch.Generator:
    """A CPU generator at the start of the stream."""
    return torch.Generator().manual_seed(derive(seed, purpose, *counters))


def permutation(size: int, seed: int, epoch: int) -> Int[Tensor, " size"]:
    """The order of `size` samples in an epoch: a function of (seed, epoch) alone."""
    return torch.randperm(size, generator=stream(seed, "order", epoch))


@runtime_checkable
class Order(Protocol):
    """The indices of an epoch's samples, in order, by slices of consecutive places."""

    def __len__(self) -> int: ...

    def __getitem__(self, places: slice, /) -> Int[Tensor, " number"]: ...


class StoredOrder:
    """`size` samples in the order in which they are stored."""

    def __init__(self, size: int):
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, places: slice) -> Int[Tensor, " number"]:
        return torch.arange(*places.indices(self.size))


class LongOrder:
    """`permutation` without memory that grows with `size`: it has slices, which are computed.

    Place x = l + a r of a * b >= size places, in rounds (l, r) -> (r, (l + F(r)) mod a), with a and
    b exchanged after each; a result outside of `size` takes its place in the next pass.
    Source: Black & Rogaway 2002, "Ciphers with arbitrary finite domains", section 5.
    """

    def __init__(self, size: int, seed: int, epoch: int):
        self.size = size
        self._a = math.isqrt(size - 1) + 1
        self._b = -(-size // self._a)
        self._keys = [_signed(derive(seed, "long order", epoch, n)) for n in range(ROUNDS)]
        self._chunk = functools.lru_cache(maxsize=2)(self._computed)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, places: slice) -> Int[Tensor, " number"]:
        """The indices at consecutive places."""
        return from_chunks(self._chunk, CHUNK, *places.indices(self.size)[:2])

    def _computed(self, chunk: int) -> Int[Tensor, " number"]:
        indices = torch.arange(chunk * CHUNK, min((chunk + 1) * CHUNK, self.size))
        outside = torch.arange(len(indices))
        while len(outside):
            indices[outside] = self._pass(indices[outside])
            outside = outside[indices[outside] >= self.size]
        return indices

    def _pass(self, indices: Int[Tensor, " number"]) -> Int[Tensor, " number"]:
        a, b = self._a, self._b
        left, right = indices % a, indices // a
        for key in self._keys:
            left, right = right, (left + (_mix(right + key) >> 1 & WORD >> 1) % a) % a
            a, b = b, a
        return left + a * right


def from_chunks(
    chunk: Callable[[int], Tensor], length: int, first: int, end: int
) -> Int[Tensor, " number"]:
    """The indices at places `first` to `end`, of chunks of `length` places by their number."""
    parts = [torch.arange(0)]
    while first < end:
        number, place = divmod(first, length)
        parts.append(chunk(number)[place : place + end - first])
        first += len(parts[-1])
    return parts[1] if len(parts) == 2 else torch.cat(parts)


def _signed(word: int) -> int:
    return word - (word >> 63 << 64)


def uniform(
    seed: int, purpose: str, epoch: int, indices: Int[Tensor, " batch"], number: int
) -> Float[Tensor, "batch number"]:
    """`number` float32 in [0, 1) for each index, the same on any device; multiples of 2^-24.

    The indices are the counters of `derive`, the numbers of an index one more counter:
    SplitMix64, in tensors.
    """
    start = _signed(derive(seed, purpose, epoch))
    state = _mix(start + (indices.long()[:, None] + 1) * GOLDEN)
    state = _mix(state + (torch.arange(number, device=indices.device) + 1) * GOLDEN)
    return (state >> 40 & SHIFTED[40]).to(torch.float32) * 2.0**-24


def _mix(state: Word) -> Word:
    """SplitMix64's finaliser, modulo 2^64.

    The words of a tensor are signed integers with the same bits: their products wrap.
    """
    state = (state ^ (state >> 30 & SHIFTED[30])) * FACTORS[0]
    state = (state ^ (state >> 27 & SHIFTED[27])) * FACTORS[1]
    return state ^ (state >> 31 & SHIFTED[31])


def start_stream(seed: int, purpose: str, *counters: int) -> None:
    """Sets torch's default generators, CPU and GPU, to the start of the stream.

    The learner does so at every update, so that dropout in any network repeats after a resume
    and is independent of draws in between (by validation, a metric, a sampler).
    `torch.manual_seed` does the same but takes 0.2 ms on a CPU for absent backends; these calls
    take 1 us.
    """
    value = derive(seed, purpose, *counters)
    if not fast_paths.on["generators"]:
        torch.manual_seed(value)
        return
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(value)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(value)


def seed_others(seed: int) -> None:
    """Seeds Python's and NumPy's global generators, which users' code may use."""
    random.seed(derive(seed, "python"))
    np.random.seed(derive(seed, "numpy") % 2**32)


def global_generator_state() -> Plain:
    """The state of Python's and NumPy's generators: hexadecimal words, quick to copy and write.

    Torch's are reseeded at every update and need not be saved.
    """
    version, words, gauss = random.getstate()
    _, keys, *rest = np.random.get_state(legacy=True)
    return {"python": [version, _as_hex(words), gauss], "numpy": [_as_hex(keys), *rest]}


def restore_global_generators(state: Named) -> None:
    """Restores the state returned by `global_generator_state`."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(_from_hex(words).tolist()), gauss))
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", _from_hex(keys), *rest))


@contextmanager
def global_generators_restored() -> Iterator[None]:
    """A context after which Python's and NumPy's generators are as before it."""
    state = global_generator_state()
    try:
        yield
    finally:
        restore_global_generators(state)


def seed_default_generators(seed: int, purpose: str, *counters: int) -> int:
    """Seeds the default CPU generators of torch, NumPy and Python with `derive`, the result."""
    value = derive(seed, purpose, *counters)
    torch.default_generator.manual_seed(value)  # GPUs have none in worker processes
    random.seed(value)
    np.random.seed(value % 2**32)
    return value


@contextmanager
def default_generators_restored() -> Iterator[None]:
    """A context after which the default generators are as before it."""
    with torch.random.fork_rng(devices=[]), global_generators_restored():
        yield


def _as_hex(words: object) -> str:
    return np.asarray(words, dtype="<u4").tobytes().hex()


def _from_hex(words: str) -> Any:
    return np.frombuffer(bytes.fromhex(words), dtype="<u4")
