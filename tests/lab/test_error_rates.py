"""Error rates: what a loop over every label and token counts, with padding, ends and words."""

import torch
from fast.metrics.sequence_items import BATCHES, CLASSES, drawn, measured
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from andiron.outputs import IGNORED, MultiLabelClassificationOutput, SequenceOutput
from andiron_lab.scores import CharacterErrorRate, HammingLoss, WordErrorRate


def naming(named, targets, **more):
    """An item whose largest logits name these tokens."""
    logits = functional.one_hot(
        torch.tensor(named), max(CLASSES, int(torch.tensor(named).max()) + 1)
    ).float()
    return SequenceOutput(
        torch.tensor(0.0), logits, torch.tensor(targets), has_ignored=True, **more
    )


def table(a, b):
    """Levenshtein's distance of two lists, by its table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, above = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


def sides(items, end):
    """Predictions and targets of every sequence up to its end, without padding."""
    for item in items:
        for logits, targets in zip(item.output, item.targets.tolist(), strict=True):
            counted = [
                (x, y)
                for x, y in zip(logits.argmax(-1).tolist(), targets, strict=True)
                if y != IGNORED
            ]
            both = [[pair[side] for pair in counted] for side in (0, 1)]
            yield [side[: side.index(end)] if end in side else side for side in both]


def words(tokens, separators):
    text = "".join(" " if token in separators else str(token) for token in tokens)
    return text.split()


@settings(derandomize=True, deadline=None, max_examples=60)
@given(shapes=BATCHES, end=st.sampled_from([None, 3]), separators=st.sampled_from([0, [0], [0, 2]]))
def test_error_rates_over_uneven_batches_equal_a_loop_over_sequences(shapes, end, separators):
    items = [drawn(*shape) for shape in shapes]
    pairs = list(sides(items, end))
    edits, length = sum(table(*pair) for pair in pairs), sum(len(targets) for _, targets in pairs)
    assert measured(CharacterErrorRate(end=end), items) == (edits / length if length else None)

    parted = [
        [words(side, [separators] if isinstance(separators, int) else separators) for side in pair]
        for pair in pairs
    ]
    edits, length = sum(table(*pair) for pair in parted), sum(len(targets) for _, targets in parted)
    assert measured(WordErrorRate(separator=separators, end=end), items) == (
        edits / length if length else None
    )


def codes(*texts):
    return [[ord(letter) for letter in text] for text in texts]


def test_character_errors_by_hand():
    one, two = (
        naming(codes("sitten."), codes("sitting")),
        naming(codes("abc", "xyz"), codes("abd", "xyz")),
    )
    assert measured(CharacterErrorRate(), [one, two]) == (2 + 1) / (7 + 6)


def test_padding_is_left_out_of_both_sides():
    item = naming([[1, 2, 3, 4]], [[1, IGNORED, 3, IGNORED]])
    assert measured(CharacterErrorRate(), [item]) == 0.0


def test_what_comes_after_the_end_counts_on_neither_side():
    item = naming([[1, 4, 2, 2], [1, 2, 3, 1]], [[1, 4, 0, 0], [1, 2, 4, 3]])  # 4 ends
    assert measured(CharacterErrorRate(end=4), [item]) == 2 / 3  # 1 = 1; 1 2 3 1 against 1 2
    assert measured(CharacterErrorRate(), [item]) == 4 / 8


def test_there_may_be_more_errors_than_targets():
    assert measured(CharacterErrorRate(end=0), [naming([[1, 2, 3]], [[2, 0, 0]])]) == 2.0


def test_word_errors_by_hand():
    item = naming(codes("the cat  sat"), codes("the cats sat"))
    assert measured(WordErrorRate(separator=ord(" ")), [item]) == 1 / 3
    item = naming(codes("a b\nc d"), codes("a b c d"))
    assert measured(WordErrorRate(separator=codes(" \n")[0]), [item]) == 0.0
    assert measured(WordErrorRate(separator=ord(" ")), [item]) == 2 / 4  # `b\nc` is one word


def test_the_hamming_loss_is_the_fraction_of_wrong_labels():
    logits = torch.tensor([[2.0, -1.0, 0.5], [-3.0, 0.5, -1.0]])
    item = MultiLabelClassificationOutput(
        torch.tensor(0.0), logits, torch.tensor([[1, 0, 0], [0, 1, 1]])
    )
    assert measured(HammingLoss(), [item]) == 2 / 6
    assert measured(HammingLoss(threshold=0.7), [item]) == 2 / 6  # sigmoid(0.5) is 0.62
