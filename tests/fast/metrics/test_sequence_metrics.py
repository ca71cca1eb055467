"""Metrics of sequences: what a loop over every token counts, with padding."""

import math

import pytest
import torch
from hypothesis import given, settings
from sequence_items import BATCHES, drawn, measured

from andiron.metrics.classification.accuracy import Accuracy
from andiron.metrics.sequence.token_metrics import BitsPerByte, Perplexity
from andiron.outputs import IGNORED, SequenceOutput


def with_loss(loss, *, count, **more):
    return SequenceOutput(
        torch.tensor(loss), torch.zeros(1, count, 2), torch.zeros(1, count, dtype=torch.long),
        **more,
    )  # fmt: skip


def counted_losses(items):
    """The loss in nats of every token that counts, by a loop."""
    losses = []
    for item in items:
        for logits, targets in zip(item.output, item.targets, strict=True):
            losses += [
                float(-row.log_softmax(0)[t])
                for row, t in zip(logits.double(), targets, strict=True)
                if t != IGNORED
            ]
    return losses


@settings(derandomize=True, deadline=None, max_examples=40)
@given(shapes=BATCHES)
def test_loss_metrics_over_uneven_batches_equal_a_loop_over_tokens(shapes):
    items = [drawn(*shape) for shape in shapes]
    losses, num_bytes = counted_losses(items), sum(item.num_bytes for item in items)

    bits = measured(BitsPerByte(), items)
    # the items' losses are float32
    assert bits == pytest.approx(sum(losses) / math.log(2) / num_bytes, rel=1e-5)
    perplexity = measured(Perplexity(), items)
    assert perplexity == (
        pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5) if losses else None
    )


@settings(derandomize=True, deadline=None, max_examples=40)
@given(shapes=BATCHES)
def test_accuracy_over_uneven_batches_equals_a_loop_over_tokens(shapes):
    items = [drawn(*shape) for shape in shapes]
    right = [
        int(logits.argmax()) == target
        for item in items
        for logits, target in zip(item.output.flatten(0, 1), item.targets.flatten(), strict=True)
        if target != IGNORED
    ]
    assert measured(Accuracy(), items) == (sum(right) / len(right) if right else None)


def test_the_weight_of_a_loss_is_what_it_says_it_is_a_mean_over():
    items = [
        with_loss(math.log(8), count=7, weight=1),
        with_loss(math.log(2), count=2, weight=torch.tensor(2.0)),
    ]
    assert measured(Perplexity(), items[:1]) == pytest.approx(8.0, rel=1e-7)
    assert measured(Perplexity(), items[1:]) == pytest.approx(2.0, rel=1e-7)


def test_a_perplexity_beyond_any_float_is_infinite():
    assert measured(Perplexity(), [with_loss(1000.0, count=3)]) == math.inf


@pytest.mark.parametrize("as_given", [int, torch.tensor])
def test_bits_per_byte_by_hand(as_given):
    items = [
        with_loss(math.log(2), count=6, num_bytes=as_given(4)),
        with_loss(2 * math.log(2), count=5, num_bytes=as_given(12)),
    ]
    # of float32 losses
    assert measured(BitsPerByte(), items) == pytest.approx((6 + 10) / (4 + 12), rel=1e-7)


def test_a_batch_in_which_nothing_counts_leaves_the_others_as_they_are():
    empty = SequenceOutput(
        torch.tensor(math.nan), torch.zeros(2, 3, 2), torch.full((2, 3), IGNORED), has_ignored=True,
        num_bytes=0,
    )  # fmt: skip
    for metric in (Perplexity(), BitsPerByte()):
        assert measured(metric, [empty]) is None
        item = with_loss(0.5, count=4, num_bytes=8)
        assert measured(metric, [empty, item]) == measured(metric, [item])
