#!/usr/bin/env bash
# numpy 2.4.6: default_rng and SeedSequence fill a short list of numbers up with zeros to four words of 32 bits.
# default_rng([seed, rank, epoch]) so has, for rank 0 in epoch 0, the stream of default_rng(seed), which the same program often
# uses for its split or its weights; and [0, 1] is 2**32. Put the counters first ([epoch, rank, seed], with a seed that
# is not 0), or use SeedSequence(seed, spawn_key=(rank, epoch)).
# Seen: 42, [42], [42, 0], [42, 0, 0] and [42, 0, 0, 0] have one stream; [42, 0, 0, 0, 0], [0, 42] and a spawn_key have others.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
from numpy.random import SeedSequence, default_rng


def start(seed):
    return tuple(default_rng(seed).integers(2**62, size=4))


alike = {start(seed) for seed in (42, [42], [42, 0], [42, 0, 0], [42, 0, 0, 0])}
apart = {start(s) for s in ([42, 0, 0, 0, 0], [0, 42], [0, 0, 42], SeedSequence(42, spawn_key=(0, 0)))}
is_word = start([0, 1]) == start(2**32)
print(numpy.__version__, f"5 seeds, {len(alike)} stream; 4 others, {len(apart - alike)} streams; [0, 1] is 2**32: {is_word}")
assert len(alike) == 1 and len(apart - alike) == 4 and is_word, "lists of seeds are padded otherwise"
PY
