"""Differences between trained runs on the samples of their test data."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from andiron import errors
from andiron.shell.config.trust import Trust
from andiron.wings.comparison import differences, seed_differences
from andiron.wings.trained import evaluating, loading


def from_first(groups: Sequence[Sequence[Path]], trust: Trust) -> list[dict[str, Any]]:
    """The differences of the groups' mean `sample_scores` from the means of the first group.

    Raises: SelectionError for runs with other data; AndironError if one cannot be evaluated.
    """
    scores, data = [], []
    for paths in groups:
        runs = [loading.load(path, trust=trust) for path in paths]
        of_runs = [evaluating.evaluate(run, run.data, worst=0).sample_scores for run in runs]
        scores.append([fmean(sample) for sample in zip(*of_runs, strict=True)])
        data += [(run.config.data, run.data.fingerprint) for run in runs]
    if any(each != data[0] for each in data):
        raise errors.SelectionError("--samples: the runs have other data, so no sample in common")
    found = [differences.by_sample(scores[0], other) for other in scores[1:]]
    return [seed_differences.plain(each, "highest") for each in seed_differences.corrected(found)]
