"""A metric that is one function: what it may give, and how a config names it."""

from dataclasses import replace

import pytest
import torch

from andiron import errors
from andiron.metrics import Loss
from andiron.metrics.adapted.function_mean import Mean
from andiron.metrics.tally import Tally
from andiron.outputs import ClassificationOutput, RegressionOutput
from andiron.protocols import Metric, Statistic
from andiron.shell.assembly import targets

OWN_MODULE = '''
"""Metrics of a user's own."""

LIMIT = 3


def absolute_error(item):
    return (item.output - item.targets).abs()


def of_positive_targets(item):
    counted = item.targets > 0
    return (item.output - item.targets).abs() * counted, counted.sum()
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module that lies in a folder on `sys.path`."""
    (tmp_path / "users_metrics.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "users_metrics"


def item(output, targets):
    return RegressionOutput(
        torch.tensor(0.0), torch.tensor(output)[:, None], torch.tensor(targets)[:, None]
    )


ITEMS = [item([1.0, 2.0, 3.0], [1.0, -2.0, 4.0]), item([8.0], [1.0])]


def measured(metric, items=ITEMS):
    tally = Tally([metric])
    for value in items:
        tally.add(value)
    return tally.close_epoch()


def node(of, **more):
    return {
        "_target_": "andiron.metrics.adapted.function_mean.Mean", "of": of,
        "higher_is_better": False, **more,
    }  # fmt: skip


def test_the_mean_is_over_all_values_not_over_batch_means(own):
    metric = targets.build("metrics.mae", node(f"{own}.absolute_error"), name="mae")

    assert measured(metric) == {"mae": (0 + 4 + 1 + 7) / 4}
    assert metric.higher_is_better is False
    assert isinstance(metric, Metric) and not isinstance(metric, Statistic)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_means_of_half_precision_are_added_in_float32(dtype):
    values = torch.arange(1, 301, dtype=torch.float32).to(dtype)
    zeros = torch.zeros(400, dtype=torch.long)
    items = [ClassificationOutput(value, value.expand(400, 1), zeros) for value in values]
    metric = Mean(lambda item: item.output, higher_is_better=True, name="size")
    assert measured(metric, items)["size"] == float(values.double().mean())
    assert measured(Loss(), items)["loss"] == float(values.double().mean())
    total, count = Loss().count_items([replace(item, weight=400) for item in items])
    assert float(total.sum() / count) == float(values.double().mean())


def test_a_function_may_say_itself_what_it_counts(own):
    metric = targets.build("metrics.mae", node(f"{own}.of_positive_targets"), name="mae")
    assert measured(metric) == {"mae": (0 + 1 + 7) / 3}


def test_a_function_in_python_gives_its_own_name():
    def nonnegative(item):
        return item.output >= 3

    assert measured(Mean(nonnegative, higher_is_better=True)) == {"nonnegative": 0.5}
    assert measured(Mean(nonnegative, higher_is_better=True, name="n")) == {"n": 0.5}


@pytest.mark.parametrize(
    "given, actual",
    [
        (torch.tensor(0.5), "a single number"), (0.5, "a single number"), (None, "NoneType"),
        ((1.0, 2), "tuple"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_weighted_by_the_size_of_its_batch_is_refused(given, actual):
    with pytest.raises(TypeError) as caught:
        Mean(lambda item: given, higher_is_better=True, name="mine")(ITEMS[0])
    assert str(caught.value) == (
        f"mine: the function gives {actual} for a batch; return a tensor with a value for each "
        "sample, or (total, count), so that a short batch has a smaller weight"
    )


@pytest.mark.parametrize("name, remedy", [
    ("users_metrics.absolut_error", "; did you mean 'absolute_error'?"),
    ("users_metrics.LIMIT", "of type 'int'; name a function or class of your own module"),
    ("user_metrics.absolute_error", "; name one in a module that Python finds: beside train.py, "),
    ("os.system", "; name a function or class of your own module"),
])  # fmt: skip
def test_a_name_that_is_no_function_is_answered_by_a_remedy(own, name, remedy):
    with pytest.raises(errors.ConfigError) as caught:
        targets.build("metrics.mae", node(name), name="mae")
    (line,) = caught.value.problems
    assert line.startswith(f"metrics.mae.of={name}: cannot be used: ")
    assert remedy in line


def test_adding_a_batch_reads_nothing(own, host_reads):
    metric = targets.build("metrics.mae", node(f"{own}.absolute_error"), name="mae")
    with host_reads() as reads:
        metric(ITEMS[0])
    assert reads.number == 0
