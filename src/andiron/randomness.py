"""Every random stream as a function of counters: a seed, a purpose, and where in the run it is drawn."""

import hashlib

import torch
from jaxtyping import Int
from torch import Tensor


def derive(seed: int, purpose: str, *counters: int) -> int:
    """A 64-bit seed for one stream: the first eight bytes of BLAKE2b over the seed, its purpose and its counters."""
    text = "/".join([str(seed), purpose, *map(str, counters)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(seed: int, purpose: str, *counters: int) -> torch.Generator:
    """A CPU generator at the start of the stream."""
    return torch.Generator().manual_seed(derive(seed, purpose, *counters))


def permutation(size: int, seed: int, epoch: int) -> Int[Tensor, " size"]:
    """The order of `size` samples in an epoch: a function of (seed, epoch) alone."""
    return torch.randperm(size, generator=stream(seed, "order", epoch))


def start_stream(seed: int, purpose: str, *counters: int) -> None:
    """Puts torch's default generators, CPU and GPU, at the start of the stream.

    The learner does so at every update, so that dropout in anybody's network repeats after a resume and nothing
    drawn in between (validation, a metric, a sampler) can disturb it. `torch.manual_seed` does the same but takes
    0.2 ms on a CPU for the backends that are not there; these calls take 1 us.
    """
    value = derive(seed, purpose, *counters)
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(value)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(value)
