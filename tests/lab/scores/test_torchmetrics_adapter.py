"""Metrics of torchmetrics through the adapter: what they say of all batches at once, on any
windows.
"""

import copy

import pytest
import torch

from andiron import errors
from andiron.metrics.tally import Tally
from andiron.outputs import (
    IGNORED, BinaryClassificationOutput, ClassificationOutput, MultiLabelClassificationOutput,
    RegressionOutput, SequenceOutput,
)  # fmt: skip
from andiron.protocols import Statistic
from andiron.shell.assembly import targets
from andiron_lab.scores import Torchmetrics

torchmetrics = pytest.importorskip("torchmetrics")
SIZES = (7, 1, 12, 5, 12)
LOSS = torch.tensor(0.0)


def multiclass(stream):
    classes = torch.randint(4, (sum(SIZES),), generator=stream)
    logits = torch.randn(sum(SIZES), 4, generator=stream) + torch.nn.functional.one_hot(classes, 4)
    return ClassificationOutput, logits, classes, logits.softmax(-1)


def with_padding(stream):
    kind, logits, classes, probabilities = multiclass(stream)
    return (
        kind, logits,
        torch.where(torch.rand(len(classes), generator=stream) < 0.3, IGNORED, classes),
        probabilities,
    )  # fmt: skip


def binary(stream):
    truths = torch.randint(2, (sum(SIZES),), generator=stream)
    logits = torch.randn(sum(SIZES), generator=stream) + truths
    return BinaryClassificationOutput, logits, truths, logits.sigmoid()


def multilabel(stream):
    truths = torch.randint(2, (sum(SIZES), 3), generator=stream)
    logits = torch.randn(sum(SIZES), 3, generator=stream) + truths
    return MultiLabelClassificationOutput, logits, truths, logits.sigmoid()


def values(stream):
    wanted = torch.randn(sum(SIZES), 1, generator=stream)
    given = wanted + torch.randn(sum(SIZES), 1, generator=stream)
    return RegressionOutput, given, wanted, given[:, 0]


def tokens(stream):
    wanted = torch.randint(5, (sum(SIZES), 6), generator=stream)
    logits = torch.randn(sum(SIZES), 6, 5, generator=stream)
    return SequenceOutput, logits, wanted, logits


CASES = {  # class and arguments: what it is given, and whether its states are gathered
    "classification.MulticlassJaccardIndex num_classes=4": (multiclass, False),
    "classification.MulticlassF1Score num_classes=4 validate_args=false": (multiclass, False),
    "classification.MulticlassCohenKappa num_classes=4": (multiclass, False),
    "classification.MulticlassAccuracy num_classes=4 average=none": (multiclass, False),
    "classification.MulticlassMatthewsCorrCoef num_classes=4 ignore_index=-100": (with_padding,
                                                                                  False),
    "classification.MulticlassAUROC num_classes=4": (multiclass, True),
    "classification.MulticlassAUROC num_classes=4 thresholds=20": (multiclass, False),
    "classification.MulticlassCalibrationError num_classes=4 n_bins=5": (multiclass, True),
    "classification.BinaryAveragePrecision": (binary, True),
    "classification.BinaryAUROC validate_args=false": (binary, True),
    "classification.MultilabelF1Score num_labels=3": (multilabel, False),
    "regression.MeanSquaredError": (values, False),
    "regression.R2Score": (values, False),
    "regression.KendallRankCorrCoef": (values, True),
    "text.Perplexity": (tokens, False),
}  # fmt: skip


def node(case):
    """The YAML of the case, as a config has it."""
    name, *arguments = case.split()
    plain = {"false": False}
    given = {
        key: int(value) if value.lstrip("-").isdigit() else plain.get(value, value)
        for key, value in (argument.split("=") for argument in arguments)
    }
    return {"_target_": f"torchmetrics.{name}", **given}


def adapted(case, **more):
    """The adapter as a config names it."""
    own = {
        "_target_": "andiron_lab.scores.Torchmetrics",
        "metric": node(case), "higher_is_better": True,
    }  # fmt: skip
    return targets.build("metrics.theirs", {**own, **more}, name="theirs")


def batches(kind, output, wanted, sizes=SIZES):
    return [kind(LOSS, x, y) for x, y in zip(output.split(sizes), wanted.split(sizes), strict=True)]


def measured(metric, items, *, close_after=()):
    tally = Tally([metric])
    for number, item in enumerate(items):
        tally.add(item)
        if number in close_after:
            tally.close_window()
    return tally.close_epoch()


def at_once(case, output, wanted):
    """torchmetrics' own numbers of all samples, under the names the adapter gives them."""
    metric = targets.build("metric", node(case))
    metric.update(output, wanted)
    result = metric.compute()
    return (
        {f"theirs/{i}": float(v) for i, v in enumerate(result)}
        if result.ndim
        else {"theirs": float(result)}
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "order, close_after", [((0, 1, 2, 3, 4), ()), ((3, 0, 4, 2, 1), (2,)), ((4, 3, 2, 1, 0), (3,))]
)
def test_uneven_batches_and_windows_equal_torchmetrics_on_all_at_once(case, order, close_after):
    draw, gathers = CASES[case]
    kind, output, wanted, probabilities = draw(torch.Generator().manual_seed(11))
    items = batches(kind, output, wanted)
    metric = adapted(case)

    assert metric.gathers == gathers and isinstance(metric, Statistic)
    expected = at_once(
        case, probabilities, wanted.squeeze(1) if kind is RegressionOutput else wanted
    )
    result = measured(metric, [items[number] for number in order], close_after=close_after)
    # torchmetrics computes in float32, the sums here are float64
    assert result == pytest.approx(expected, rel=1e-5)


def test_logits_between_0_and_1_are_not_taken_for_probabilities():
    """torchmetrics alone takes the first batch for what it seems."""
    batch = BinaryClassificationOutput(LOSS, torch.tensor([0.2, 0.4, 0.1]), torch.tensor([1, 0, 1]))
    assert measured(adapted("classification.BinaryAccuracy"), [batch]) == {
        "theirs": pytest.approx(2 / 3)
    }

    alone = torchmetrics.classification.BinaryAccuracy()
    alone.update(batch.output, batch.targets)
    assert float(alone.compute()) == pytest.approx(1 / 3)


def test_two_tallies_may_share_one_metric():
    kind, output, wanted, _ = multiclass(torch.Generator().manual_seed(2))
    items = batches(kind, output, wanted)
    metric = adapted("classification.MulticlassF1Score num_classes=4")
    train, valid = Tally([metric]), Tally([metric])

    for number, item in enumerate(items):
        (valid if number % 2 else train).add(item)
    assert train.close_epoch() == measured(metric, items[::2])
    assert valid.close_epoch() == measured(metric, items[1::2])


def test_a_deep_copy_measures_the_same_and_shares_nothing():
    kind, output, wanted, _ = multiclass(torch.Generator().manual_seed(2))
    items = batches(kind, output, wanted)
    metric = adapted("classification.MulticlassAUROC num_classes=4")
    parts = metric(items[0])
    twin = copy.deepcopy(metric)
    twin(items[1])

    assert twin.value(*parts) == metric.value(*parts)
    assert measured(twin, items) == measured(metric, items)


def test_batches_measured_in_inference_mode_and_out_of_it_go_together():
    kind, output, wanted, _ = multiclass(torch.Generator().manual_seed(2))
    items = batches(kind, output, wanted)
    for case in (
        "classification.MulticlassF1Score num_classes=4",
        "classification.MulticlassAUROC num_classes=4",
    ):
        metric, tally = adapted(case), Tally([adapted(case)])
        for number, item in enumerate(items):
            with torch.inference_mode(mode=number % 2 == 1):
                tally.add(item)
        assert tally.close_epoch() == measured(metric, items)


def test_it_may_be_given_an_object_whose_name_and_direction_it_takes():
    metric = Torchmetrics(torchmetrics.regression.MeanAbsoluteError())
    assert (metric.name, metric.higher_is_better) == ("MeanAbsoluteError", False)
    assert measured(metric, [RegressionOutput(LOSS, torch.ones(3, 1), torch.zeros(3, 1))]) == {
        "MeanAbsoluteError": 1.0
    }


def test_a_number_that_is_undefined_is_not_said():
    nothing = torch.zeros((), dtype=torch.float64)
    assert Torchmetrics(torchmetrics.regression.MeanSquaredError()).value(nothing, nothing) is None


def test_of_several_numbers_by_name_those_that_are_undefined_are_not_said():
    class PositiveMean(torchmetrics.Metric):
        """The mean output of positive targets, and of all."""

        def __init__(self):
            super().__init__()
            self.add_state("totals", torch.zeros(2), dist_reduce_fx="sum")
            self.add_state("counts", torch.zeros(2, dtype=torch.long), dist_reduce_fx="sum")

        def update(self, output, wanted):
            positive = wanted > 0
            self.totals += torch.stack([output[positive].sum(), output.sum()])
            self.counts += torch.stack([positive.sum(), torch.tensor(len(output))])

        def compute(self):
            return dict(zip(("positive", "all"), self.totals / self.counts, strict=True))

    metric = Torchmetrics(PositiveMean(), name="mean", higher_is_better=True)
    batch = RegressionOutput(LOSS, torch.tensor([[1.0], [3.0]]), torch.tensor([[-1.0], [-2.0]]))
    assert measured(metric, [batch]) == {"mean/all": 2.0}  # 0 / 0 is not a number


def problems(case, **more):
    with pytest.raises(errors.ConfigError) as caught:
        adapted(case, **more)
    (line,) = caught.value.problems
    return line.removeprefix("metrics.theirs").lstrip(".: ")


def test_a_collection_is_refused():
    collection = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError()])
    with pytest.raises(ValueError) as caught:
        Torchmetrics(collection, higher_is_better=True)
    assert str(caught.value) == (
        "metric=MetricCollection: has no states of its own to add up; "
        "give each metric of torchmetrics by itself"
    )


def test_a_configuration_names_the_function_that_gives_the_arguments():
    metric = adapted("regression.MeanSquaredError", inputs=f"{__name__}.first_logit_and_target")
    item = ClassificationOutput(LOSS, torch.eye(3), torch.zeros(3, dtype=torch.long))
    assert measured(metric, [item]) == {"theirs": pytest.approx(1 / 3)}


def first_logit_and_target(item):
    return item.output[:, 0], item.targets.float()


def test_a_metric_without_a_direction_of_its_own_has_none():
    assert Torchmetrics(torchmetrics.PearsonCorrCoef()).higher_is_better is None


def test_an_argument_that_torchmetrics_does_not_know_is_reported_by_the_option():
    kind = "classification.MulticlassF1Score"
    words = f"metric._target_=torchmetrics.{kind}: Unexpected keyword arguments: `num_clases`"
    assert problems(f"{kind} num_classes=4 num_clases=4") == words


@pytest.mark.parametrize("case", [
    "classification.MulticlassF1Score num_classes=4 validate_args=false", "regression.R2Score",
])  # fmt: skip
def test_a_batch_reads_nothing_back_unless_torchmetrics_examines_it(case, host_reads):
    kind, output, wanted, _ = CASES[case][0](torch.Generator().manual_seed(2))
    metric, item = adapted(case), kind(LOSS, output, wanted)
    with host_reads() as reads:
        metric(item)
    assert reads.number == 0
