"""Differences between trained runs on the samples of their test data."""

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from andiron import errors
from andiron.shell.config.trust import Trust
from andiron_lab.seeds import differences, seed_differences
from andiron.wings.trained import evaluating, loading


def from_first(groups: Sequence[Sequence[Path]], trust: Trust) -> list[dict[str, Any]]:
    """The differences of the groups' mean `sample_scores` from the means of the first group.

    Samples that no run has a score for, as their targets are ignored, are left out.
    Raises: SelectionError for runs with other data; AndironError if one cannot be evaluated.
    """
    by_group, data = [], []
    for paths in groups:
        by_group.append(scores := list[list[float]]())
        for path in paths:
            run = loading.load(path, trust=trust)
            scores.append(evaluating.evaluate(run, run.data, worst=0).sample_scores)
            data.append((run.config.data, run.data.fingerprint))
    if any(own != data[0] for own in data):
        raise errors.SelectionError("--samples: the runs have other data, so no sample in common")
    rows = zip(*(zip(*scores, strict=True) for scores in by_group), strict=True)
    means = [[*map(fmean, row)] for row in rows if not all(map(math.isnan, chain(*row)))]
    first, *others = zip(*means, strict=True) if means else [[] for _ in groups]
    compared = [differences.by_sample(first, other) for other in others]
    return [
        seed_differences.plain(difference, "highest")
        for difference in seed_differences.corrected(compared)
    ]
