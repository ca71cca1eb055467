"""Totals over windows and epochs: the mean of an epoch for any windows, with few host reads."""

import inspect
import re
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron import errors
from andiron.metrics import Accuracy, Loss, Tally, metric_sums
from andiron.outputs import ClassificationOutput

# Losses are eighths below 128 and batches below 64, at most 20 of them: float32 sums are exact.
BATCHES = st.lists(st.tuples(st.integers(-1023, 1023), st.integers(1, 63)), min_size=1, max_size=20)


class Total:
    """An item that is (total, count) itself."""

    name = "total"
    higher_is_better = False

    def __call__(self, item):
        return item


def output(loss, count, num_right=0):
    """`count` samples of two classes, of which the first `num_right` are named rightly."""
    logits = torch.zeros(count, 2)
    logits[num_right:, 1] = 1.0
    return ClassificationOutput(torch.tensor(loss), logits, torch.zeros(count, dtype=torch.long))


def mean(batches):
    """Of eighths, weighted by count, rounded once."""
    return float(
        Fraction(
            sum(eighths * count for eighths, count in batches),
            8 * sum(count for _, count in batches),
        )
    )


@settings(derandomize=True, deadline=None, max_examples=60)
@given(batches=BATCHES, data=st.data())
def test_the_epochs_mean_is_the_same_for_any_windows_and_any_order(batches, data):
    tally = Tally([Loss()])
    for eighths, count in data.draw(st.permutations(batches)):
        tally.add(output(eighths / 8, count))
        if data.draw(st.booleans()):
            tally.close_window()
    assert tally.close_epoch() == {"loss": mean(batches)}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(windows=st.lists(BATCHES, min_size=1, max_size=4))
def test_a_windows_mean_is_over_its_own_batches(windows):
    tally = Tally([Loss()])
    for window in windows:
        for eighths, count in window:
            tally.add(output(eighths / 8, count))
        assert tally.close_window() == {"loss": mean(window)}


def test_an_epoch_begins_anew_and_its_batches_weigh_by_their_size():
    tally = Tally([Loss(), Accuracy()])
    tally.add(output(8.0, 3))
    tally.close_epoch()
    tally.add(output(1.0, 8, num_right=6))
    tally.add(output(4.0, 2, num_right=0))
    # not the means of the means, 2.5 and 0.375
    assert tally.close_epoch() == {"loss": 1.6, "accuracy": 0.6}


def test_a_tensor_is_not_taken_for_a_total_and_a_count():
    # without the checks of types, which a user's run lacks
    merged = inspect.unwrap(metric_sums.merged)
    with pytest.raises(errors.MismatchError, match=r"total: gives .*return \(total, count\)"):
        merged(Total(), [torch.tensor([0.25, 0.75])])  # the values of two samples


def test_nothing_counted_has_no_mean():
    tally = Tally([Loss(), Total()])
    assert tally.close_window() == {}
    assert tally.close_epoch() == {}
    padding = Tally([Total()])
    padding.add((torch.tensor(0.0), 0))
    assert padding.close_window() == {}


def test_a_long_epoch_loses_no_precision():
    tally, sums = Tally([Total()]), Tally([Variance()])
    for value in (2.0**24, 1.0, 1.0, 1.0):  # in float32, 2**24 + 1 is 2**24
        tally.add((torch.tensor(value), 1))
        tally.close_window()
    assert tally.close_epoch() == {"total": (2.0**24 + 3) / 4}
    for _ in range(3):
        sums.add(torch.full((1,), 2.0**24 + 2))  # whose sum no float32 holds
    assert sums.close_epoch()["variance/mean"] == 2.0**24 + 2


def test_a_count_may_be_a_number_or_a_tensor():
    for count in (5, torch.tensor(5)):
        tally = Tally([Total()])
        tally.add((torch.tensor(3.0), count))
        tally.add((torch.tensor(4.0), count))
        assert tally.close_epoch() == {"total": 0.7}


def test_adding_a_batch_reads_nothing(host_reads):
    for metrics, items in (
        ([Loss(), Accuracy()], [output(0.5, count, num_right=1) for count in (4, 4, 3)]),
        ([Variance(), Median()], [torch.ones(3)] * 5),
    ):
        tally = Tally(metrics)
        with host_reads() as reads:
            for item in items:
                tally.add(item)
        assert reads.number == 0


@pytest.mark.parametrize("num_batches", [1, 2, 17])
def test_a_window_is_one_read_for_each_metric_however_long_it_is(num_batches, host_reads):
    tally = Tally([Loss(), Accuracy()])
    for count in range(1, num_batches + 1):
        tally.add(output(0.5, count))
    with host_reads() as reads:
        tally.close_window()
    assert reads.number == 2
    with host_reads() as reads:
        tally.close_window()  # empty
        tally.close_epoch()  # of windows already read
    assert reads.number == 0


class Variance:
    """The variance of an item's values, from sums; three names."""

    name, higher_is_better, gathers = "variance", False, False

    def __call__(self, item):
        return torch.tensor(len(item)), item.sum(), item.square().sum()

    def value(self, count, total, squares):
        mean = float(total / count)
        return {"mean": mean, "variance": float(squares / count) - mean**2}


class Median:
    """Of all values, which takes all of them."""

    name, higher_is_better, gathers = "median", False, True

    def __call__(self, item):
        return (item,)

    def value(self, values):
        return float(values.median()) if len(values) > 2 else None


class Page:
    """Every sum as a page."""

    name, higher_is_better, gathers = "page", False, False

    def __call__(self, item):
        return (torch.stack([item.min(), item.max()]),)

    def value(self, sums):
        return f"| {sums.tolist()} |"


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    batches=st.lists(
        st.lists(st.integers(-100, 100), min_size=1, max_size=9), min_size=1, max_size=12
    ),
    data=st.data(),
)
def test_sums_and_gathered_samples_are_equal_for_any_windows_and_order(batches, data):
    tally = Tally([Variance(), Median(), Page()])
    for batch in data.draw(st.permutations(batches)):
        tally.add(torch.tensor(batch, dtype=torch.float32))
        if data.draw(st.booleans()):
            tally.close_window()
    everything = sorted(value for batch in batches for value in batch)

    measured = tally.close_epoch()

    mean = sum(everything) / len(everything)
    variance = sum(value**2 for value in everything) / len(everything) - mean**2
    median = {"median": everything[(len(everything) - 1) // 2]} if len(everything) > 2 else {}
    assert measured == {"variance/mean": mean, "variance/variance": variance} | median
    sums = [float(sum(map(extreme, batches))) for extreme in (min, max)]
    assert tally.texts == {"page": f"| {sums} |"}


def test_a_window_has_its_own_value_and_the_epoch_all_of_them():
    tally = Tally([Median()])
    tally.add(torch.tensor([1.0, 2.0, 3.0]))
    assert tally.close_window() == {"median": 2.0}
    assert tally.close_window() == {}
    tally.add(torch.tensor([9.0, 8.0]))
    # two values have no median here: it is left out, no number stands for it
    assert tally.close_window() == {}
    assert tally.close_epoch() == {"median": 3.0}
    assert tally.close_epoch() == {}


class Immediate(Loss):
    """A loss that does not wait for the end of its window."""

    def __call__(self, item):
        return super().__call__(item)


def drawn_items(sizes, seed=0):
    stream = torch.Generator().manual_seed(seed)
    for size in sizes:
        logits = torch.randn(size, 7, generator=stream)
        targets = torch.randint(7, (size,), generator=stream)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        yield ClassificationOutput(loss, logits, targets, size)


@pytest.mark.parametrize(
    "sizes",
    [[32] * 50, [32] * 49 + [5], [1], [64] * 300, [5000, 3, 3], [3, 3, 5000, 4]],
    ids=["equal", "odd last", "one", "more than may wait", "large first", "large later"],
)
def test_items_counted_in_one_operation_have_the_same_bits(sizes):
    waiting, immediate = Tally([Loss(), Accuracy()]), Tally([Immediate(), Accuracy()])
    for window in range(3):
        for tally in (waiting, immediate):
            for item in drawn_items(sizes, seed=window):
                tally.add(item, item, is_kept=True)
        assert waiting.close_window() == immediate.close_window()
    assert waiting.close_epoch() == immediate.close_epoch()


def test_a_state_saved_in_mid_window_has_the_counts_of_each_batch():
    waiting, immediate = Tally([Loss(), Accuracy()]), Tally([Immediate(), Accuracy()])
    for tally in (waiting, immediate):
        for item in drawn_items([4, 4, 3]):
            tally.add(item, item, is_kept=True)
    (plain, tensors), (expected, others) = waiting.state_dict(), immediate.state_dict()
    assert plain == expected and len(plain["window"]) == 3
    assert all(torch.equal(tensors[name], others[name]) for name in others)
    resumed = Tally([Loss(), Accuracy()])
    resumed.load_state_dict(plain, tensors, torch.device("cpu"))
    for tally in (waiting, resumed):
        for item in drawn_items([6, 2], seed=1):
            tally.add(item, item, is_kept=True)
    assert waiting.close_epoch() == resumed.close_epoch()


@pytest.mark.parametrize(
    ("damage", "words"),
    {
        "a tensor that is not there": (
            lambda plain: plain["window"][0][0]["tuple"][0].update(tensor="99"),
            "do not fit the configured metrics ('99')",
        ),
        "a batch that is missing": (lambda plain: plain["window"].__setitem__(0, None),
                                    "no list of the parts of 2 metrics"),
        "another number of metrics": (lambda plain: plain["window"][0].pop(),
                                      "no list of the parts of 2 metrics"),
        "a text": (lambda plain: plain["window"][0][0]["tuple"].__setitem__(1, "1"),
                   "do not fit the configured metrics"),
        "three parts of a mean": (lambda plain: plain["window"][0][0]["tuple"].append(1),
                                  "do not fit the configured metrics"),
    }.values(),
)  # fmt: skip
def test_a_damaged_state_is_refused_with_its_place(damage, words):
    tally = Tally([Loss(), Accuracy()])
    for item in drawn_items([4, 4]):
        tally.add(item, item, is_kept=True)
    plain, tensors = tally.state_dict()
    damage(plain)
    resumed = Tally([Loss(), Accuracy()])
    with pytest.raises(errors.DataError, match=f"metric_log.tally.*{re.escape(words)}"):
        resumed.load_state_dict(plain, tensors, torch.device("cpu"))
        resumed.close_epoch()


def test_items_that_may_wait_are_few_and_small():
    tally = Tally([Loss(), Accuracy()])
    for item in drawn_items([64] * 300):
        tally.add(item, item, is_kept=True)
        assert len(tally._items) <= 256
    tally.forget()
    item = next(drawn_items([5000]))
    tally.add(item, item, is_kept=True)
    assert not tally._items
