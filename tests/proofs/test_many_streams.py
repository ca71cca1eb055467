"""Seeds of half a million streams of random numbers: all differ."""

import inspect

from andiron import randomness

PURPOSES = ("init", "order", "update", "split", "augment")


def test_no_two_of_half_a_million_streams_share_a_seed() -> None:
    # the check of its types while tests run takes ten times its own time
    derive = inspect.unwrap(randomness.derive)
    result = [derive(seed, "update", t) for seed in range(8) for t in range(25_000)]
    result += [
        derive(42, "augment", epoch, index) for epoch in range(10) for index in range(20_000)
    ]
    result += [derive(seed, purpose) for seed in range(20_000) for purpose in PURPOSES]
    # 500,000 numbers of 64 bits drawn at random would agree anywhere with probability 7e-9
    assert len(result) == 500_000
    assert len(set(result)) == len(result)
