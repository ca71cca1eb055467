"""Fractions of what is wrong: labels, and the characters and words of a sequence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from andiron import outputs
from andiron.metrics.classification.classifier_rows import rows
from andiron.outputs import IGNORED
from andiron.protocols import Parts
from andiron.ranges import Index, Proportion
from andiron_lab.scores import edit_distance
from andiron_lab.scores.edit_distance import Rows


@dataclass(kw_only=True)
class HammingLoss:
    """The fraction of wrong answers: 1 - `andiron.metrics.HammingAccuracy`."""

    threshold: Proportion = 0.5
    name: str = "hamming_loss"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        measured = rows(item)
        return measured.only(measured.decided(self.threshold) != measured.targets), measured.count()


@dataclass(kw_only=True)
class CharacterErrorRate:
    """The edits from the predicted tokens to the targets, divided by the number of targets.

    It can be above 1. Positions with IGNORED targets are left out, and in both sequences everything
    from the first `end` token on. It runs on the device, one operation for every position.
    """

    end: Index | None = None  # a token
    name: str = "character_error_rate"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        return _edits(*_predicted_and_targets(item, self.end))


@dataclass(kw_only=True)
class WordErrorRate:
    """The edits of whole words from prediction to target, divided by the words in the target.

    Words are the tokens between separators; adjacent separators count as one. Otherwise as
    CharacterErrorRate.
    """

    separator: Index | Annotated[Sequence[Index], Field(min_length=1)]  # tokens
    end: Index | None = None  # a token
    name: str = "word_error_rate"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        separators = [self.separator] if isinstance(self.separator, int) else self.separator
        sides = _predicted_and_targets(item, self.end)
        return _edits(*(edit_distance.words(side, separators) for side in sides))


def _predicted_and_targets(item: Any, end: int | None) -> Iterator[Rows]:
    """Predictions and targets up to the first `end`, without IGNORED positions."""
    for tokens in (outputs.likeliest(item.output), item.targets.long()):
        keep = item.targets != IGNORED
        if end is not None:
            keep &= ((tokens == end) & keep).cumsum(dim=1) == 0
        yield edit_distance.to_front(tokens, keep)


def _edits(predicted: Rows, targets: Rows) -> Parts:
    """The edits of each row, and the number of targets."""
    return edit_distance.levenshtein(predicted, targets), targets[1].sum()
