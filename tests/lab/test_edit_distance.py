"""Edit distances of whole batches equal a plain table's, for padded rows of any length."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron_lab.scores import edit_distance

SEQUENCES = st.lists(st.integers(0, 3), max_size=9)


def by_definition(a, b):
    """Levenshtein's distance by its recursion."""

    @functools.cache
    def distance(i, j):
        if i == 0 or j == 0:
            return i + j
        return min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]),
        )

    return distance(len(a), len(b))


def padded(sequences, width, filling):
    """The sequences in rows, filled up with what must not count, and their lengths."""
    rows = [[*sequence, *[filling] * (width - len(sequence))] for sequence in sequences]
    return torch.tensor(rows, dtype=torch.long).reshape(len(rows), width), torch.tensor(
        [len(s) for s in sequences]
    )


def distances(pairs, filling=0):
    ours, theirs = zip(*pairs, strict=True)
    a, a_lengths = padded(ours, max(map(len, ours)), filling)
    b, b_lengths = padded(theirs, max(map(len, theirs)), filling)
    return edit_distance.levenshtein((a, a_lengths), (b, b_lengths)).tolist()


def codes(text):
    return [ord(letter) for letter in text]


@pytest.mark.parametrize("a, b, edits", [
    ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("", "abc", 3), ("abc", "", 3), ("", "", 0),
    ("intention", "execution", 5),
])  # fmt: skip
def test_distances_known_from_the_books(a, b, edits):
    assert distances([(codes(a), codes(b))]) == [edits]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    pairs=st.lists(st.tuples(SEQUENCES, SEQUENCES), min_size=1, max_size=6),
    filling=st.integers(0, 3),
)
def test_distances_of_a_batch_match_the_definition_for_any_padding(pairs, filling):
    assert distances(pairs, filling) == [by_definition(tuple(a), tuple(b)) for a, b in pairs]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(a=SEQUENCES, b=SEQUENCES, c=SEQUENCES)
def test_it_is_a_metric_in_the_sense_of_mathematics(a, b, c):
    ab, ba, bc, ac, aa = distances([(a, b), (b, a), (b, c), (a, c), (a, a)])
    assert ab == ba and ac <= ab + bc and aa == 0 and (ab == 0) == (a == b)


def split(sequence, separators):
    """The words of a list, by a loop."""
    result = [[]]
    for token in sequence:
        if token in separators:
            result.append([])
        else:
            result[-1].append(token)
    return [tuple(word) for word in result if word]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    sequences=st.lists(SEQUENCES, min_size=1, max_size=5),
    separators=st.sampled_from([(0,), (0, 2), (9,)]),
)
def test_words_have_one_number_each_as_a_loop_finds_them(sequences, separators):
    tokens, lengths = padded(sequences, max(1, *map(len, sequences), 1), filling=1)
    numbers, counts = edit_distance.words((tokens, lengths), separators)

    expected = [split(sequence, separators) for sequence in sequences]
    assert counts.tolist() == [len(words) for words in expected]
    result = [row[:count] for row, count in zip(numbers.tolist(), counts.tolist(), strict=True)]
    named = {
        word: number
        for words, row in zip(expected, result, strict=True)
        for word, number in zip(words, row, strict=True)
    }
    assert result == [[named[word] for word in words] for words in expected]
    assert len(set(named.values())) == len(named)


def test_no_two_words_of_up_to_four_letters_share_a_number():
    rows = torch.cartesian_prod(*[torch.arange(20)] * 4)
    rows = torch.cat([rows, torch.tensor([[i, 0, 0, 0] for i in range(20)])])
    lengths = torch.full((len(rows),), 4)
    lengths[-20:] = 1
    numbers, _ = edit_distance.words((rows, lengths), [20])
    assert len(numbers[:, 0].unique()) == len(rows)


def test_nothing_is_read_from_the_device(host_reads):
    tokens, lengths = padded([[1, 2, 0, 1], [2, 0]], 5, filling=0)
    with host_reads() as reads:
        edit_distance.levenshtein((tokens, lengths), (tokens.flip(0), lengths))
        edit_distance.words((tokens, lengths), [0])
    assert reads.number == 0
