"""Losses: beside torch's own, and what each is a mean over."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import errors, outputs
from andiron.data.dataset import Batch
from andiron.optim import GradientsAccumulator
from andiron.tasks.classifier import Classifier
from andiron.tasks import BinaryCrossEntropy, CrossEntropy, MeanSquaredError
from andiron.tasks.criterion import Criterion
from refusals import message_of

SIZES = (5, 1, 7, 3, 2, 8, 4, 1)  # uneven micro-batches of 31 samples
WEIGHTS = [0.5, 3.0, 1.0, 2.25]
# float32: sums of 31 terms of order 1, and a handful of roundings each to make a term
ROUNDING = 64 * 2**-24


def logits(size=31, classes=4, seed=0):
    return torch.randn(size, classes, generator=torch.Generator().manual_seed(seed))


def labels(size=31, classes=4, seed=2):
    return torch.randint(classes, (size,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_cross_entropy_is_torchs(weights, smoothing):
    tensor = None if weights is None else torch.tensor(weights)
    reference = nn.CrossEntropyLoss(tensor, label_smoothing=smoothing)
    assert torch.equal(
        CrossEntropy(weights, smoothing)(logits(), labels()), reference(logits(), labels())
    )
    soft = logits(seed=2).softmax(1)
    assert torch.equal(CrossEntropy(weights, smoothing)(logits(), soft), reference(logits(), soft))
    reference = nn.CrossEntropyLoss(tensor, label_smoothing=smoothing, ignore_index=2)
    result = CrossEntropy(weights, smoothing, ignored_index=2)(logits(), labels())
    # divided outside
    torch.testing.assert_close(result, reference(logits(), labels()), rtol=4 * 2**-24, atol=0)


def test_balanced_weights_make_every_class_count_alike():
    loss = CrossEntropy("balanced", 0.1, ignored_index=-1).balanced([10, 40, 50])
    # n / (classes * n_c)
    assert loss.class_weights.tolist() == torch.tensor([100 / 30, 100 / 120, 100 / 150]).tolist()
    assert (loss.label_smoothing, loss.ignored_index) == (0.1, -1)
    counts = labels().bincount().tolist()
    criterion = Criterion(CrossEntropy("balanced"), counts)
    alone = [
        functional.cross_entropy(logits()[labels() == c], labels()[labels() == c]) for c in range(4)
    ]
    torch.testing.assert_close(
        criterion(logits(), labels()), torch.stack(alone).mean(), rtol=ROUNDING, atol=0
    )
    torch.testing.assert_close(
        criterion.weight(labels()), torch.tensor(31.0), rtol=ROUNDING, atol=0
    )


@pytest.mark.parametrize(("counts", "words"), [
    (None, "the data does not give its class_counts"), ([3, 0], "class_counts are [3, 0]"),
])  # fmt: skip
def test_balancing_what_is_not_counted_is_refused(counts, words):
    message = message_of(ValueError, Criterion, CrossEntropy("balanced"), counts)
    assert message.startswith(f"loss.class_weights=balanced: {words}; each class needs samples")


@pytest.mark.parametrize(("kind", "weights", "words"), [
    (CrossEntropy, [1, 0], "class_weights=[1, 0]"), (CrossEntropy, [], "class_weights=[]"),
    (BinaryCrossEntropy, -2.0, "positive_weight=[-2.0]"),
])  # fmt: skip
def test_weights_that_are_not_positive_are_refused(kind, weights, words):
    message = message_of(ValueError, kind, weights)
    assert message.startswith(f"{words}: each should be a number greater than 0")


@pytest.mark.parametrize("weight", [None, 2.5, [0.5, 3.0, 1.0, 2.0]])
def test_binary_cross_entropy_is_torchs_over_the_targets_that_are_known(weight):
    answers = torch.randint(2, (31, 4), generator=torch.Generator().manual_seed(1))
    tensor = None if weight is None else torch.tensor(weight).expand(4)
    expected = functional.binary_cross_entropy_with_logits(
        logits(), answers.float(), pos_weight=tensor
    )
    assert torch.equal(BinaryCrossEntropy(weight)(logits(), answers), expected)
    some = answers.masked_fill(logits(seed=3) > 0.5, outputs.IGNORED)
    value = functional.binary_cross_entropy_with_logits(
        logits(), answers.float(), pos_weight=tensor, reduction="none"
    )
    result = BinaryCrossEntropy(weight, ignored_index=outputs.IGNORED)(logits(), some)
    torch.testing.assert_close(result, value[some != outputs.IGNORED].mean(), rtol=ROUNDING, atol=0)


def test_an_all_ignored_batch_has_zero_loss_weight_and_gradients():
    output = logits(7).requires_grad_()
    for loss, targets in [
        (CrossEntropy(ignored_index=-100), torch.full((7,), -100)),
        (CrossEntropy(WEIGHTS, ignored_index=9), torch.full((7,), 9)),
        (BinaryCrossEntropy(ignored_index=-100), torch.full((7, 4), -100)),
    ]:
        criterion = Criterion(loss)
        value = criterion(output, targets)
        assert value.item() == 0
        assert torch.equal(torch.autograd.grad(value, output)[0], torch.zeros(7, 4))
        assert criterion.weight(targets) in (None, 0)


def test_half_precision_is_summed_up_in_full():
    exact = CrossEntropy(WEIGHTS)(logits().bfloat16().float(), labels())
    result = CrossEntropy(WEIGHTS)(logits().bfloat16(), labels())
    assert result.dtype == torch.float32 and torch.equal(result, exact)


def focal(output, targets, gamma=2.0):
    """Somebody's own loss, a mean over the samples."""
    log = functional.log_softmax(output, dim=1).gather(1, targets[:, None]).squeeze(1)
    return -((1 - log.exp()) ** gamma * log).mean()


class Doubled:
    """A user's loss, which declares its denominator."""

    def __call__(self, output, targets):
        return functional.cross_entropy(output, targets, torch.tensor([2.0, 1.0, 1.0, 1.0]))

    def total_weight(self, targets):
        return 1 * len(targets) + (targets == 0).sum()


class_weighted = functools.partial(functional.cross_entropy, weight=torch.tensor(WEIGHTS))
class_weighted.note = "keeps partial from merging with another, as hasattr does in 3.12"
IGNORED_LOSSES = [
    CrossEntropy(ignored_index=2),
    CrossEntropy(WEIGHTS, 0.1, ignored_index=2),
    nn.CrossEntropyLoss(ignore_index=2),
    nn.CrossEntropyLoss(torch.tensor(WEIGHTS), ignore_index=2),
    functools.partial(functional.cross_entropy, weight=torch.tensor(WEIGHTS), ignore_index=2),
    functools.partial(class_weighted, ignore_index=2),
]
LOSSES = [
    None, CrossEntropy(WEIGHTS), CrossEntropy(WEIGHTS, 0.1), focal,
    functools.partial(focal, gamma=1.0), Doubled(), functional.cross_entropy,
    nn.CrossEntropyLoss(label_smoothing=0.1), nn.CrossEntropyLoss(torch.tensor(WEIGHTS)),
    nn.MultiMarginLoss(), *IGNORED_LOSSES,
]  # fmt: skip


def classifier(loss):
    torch.manual_seed(0)
    return Classifier(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)), loss)


@pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda loss: getattr(loss, "__name__", type(loss).__name__)
)
def test_uneven_micro_batches_equal_one_batch_for_every_loss(loss):
    model, accumulator = classifier(loss), GradientsAccumulator()
    inputs = logits(classes=6)
    for x, y in zip(inputs.split(SIZES), labels().split(SIZES), strict=True):
        output = model.train_step(Batch(x, y))
        assert output.weight == outputs.loss_weight(output.item)
        accumulator.add(output.gradients, output.weight)
    whole = model.train_step(Batch(inputs, labels()))
    result = accumulator.mean()
    assert [*result] == [*whole.gradients]
    for name, gradient in whole.gradients.items():
        # weights up to 3
        torch.testing.assert_close(result[name], gradient, rtol=0, atol=4 * ROUNDING)
    torch.testing.assert_close(result.loss, whole.item.loss, rtol=4 * ROUNDING, atol=0)


@pytest.mark.parametrize("loss", IGNORED_LOSSES)
def test_what_a_loss_ignores_metrics_leave_out_too(loss):
    item = classifier(loss).valid_step(Batch(logits(classes=6), labels()))
    assert torch.equal(item.targets == outputs.IGNORED, labels() == 2)
    assert outputs.num_targets(item) == (labels() != 2).sum()


def test_torchs_losses_ignore_their_own_default_and_ours_nothing():
    for loss in (functional.cross_entropy, nn.CrossEntropyLoss()):
        assert Criterion(loss).ignored_index == -100
    criterion = Criterion(CrossEntropy())
    assert criterion.ignored_index is None
    message = message_of(errors.DataError, criterion, logits(4), torch.tensor([0, -100, 1, 2]))
    assert "sample 1 of the batch has target -100" in message and "no target is ignored" in message


@pytest.mark.parametrize(
    "loss", [CrossEntropy(), CrossEntropy(WEIGHTS, 0.1, ignored_index=-1), nn.CrossEntropyLoss()]
)
def test_a_target_outside_the_classes_is_reported_with_its_sample(loss):
    criterion = Criterion(loss)
    ignored = "no target" if criterion.ignored_index is None else criterion.ignored_index
    wrong = torch.tensor([3, 0, 4, 1, -7])
    assert message_of(errors.DataError, criterion, logits(5), wrong) == (
        "sample 2 of the batch has target 4, sample 4 of the batch has target -7; should be 0 to "
        f"3, the network gives 4 classes; {ignored} is ignored"
    )
    message = message_of(errors.DataError, criterion, logits(), torch.full((31,), 9))
    assert "sample 7 of the batch has target 9, and 23 more; should be" in message


def test_an_index_error_of_a_users_loss_is_not_rewritten():
    def broken(output, targets):
        return [output.mean()][1]

    with pytest.raises(IndexError, match="list index out of range"):
        Criterion(broken)(logits(), labels())


@pytest.mark.parametrize(("loss", "shown"), [
    (lambda output, targets: output, "a tensor [31, 4]"), (lambda output, targets: 1.0, "float"),
])  # fmt: skip
def test_a_loss_that_gives_no_single_number_is_refused(loss, shown):
    assert message_of(ValueError, Criterion(loss), logits(), labels()).startswith(
        f"loss gives {shown}, not one number; have it return the mean over the batch"
    )


SUM = "loss.reduction=sum: should be mean, so that batches of any size weigh alike"


@pytest.mark.parametrize(("loss", "words"), [
    (nn.MSELoss(reduction="sum"), SUM),
    (functools.partial(functional.mse_loss, reduction="sum"), SUM),
    (nn.MSELoss, "loss=MSELoss: is a class; give an object of it, in YAML without _partial_"),
    (nn.Linear(3, 1),
     r"loss has parameters \(weight, bias\) that would not be trained; put them in the"),
], ids=["sum", "function of a sum", "class", "parameters"])  # fmt: skip
def test_an_unusable_loss_is_refused(loss, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        Criterion(loss)


@pytest.mark.parametrize("loss", [
    CrossEntropy(WEIGHTS), nn.CrossEntropyLoss(torch.tensor(WEIGHTS)), CrossEntropy("balanced"),
])  # fmt: skip
def test_a_losss_weights_are_no_part_of_a_models_state_or_parameters(loss):
    network = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
    model = Classifier(network, loss, class_counts=[3, 1, 4, 1])
    assert list(model.state_dict()) == [f"network.{name}" for name in network.state_dict()]
    assert [name for name, _ in model.named_buffers() if not name.startswith("network.")] == []


@pytest.mark.parametrize(
    "loss", [CrossEntropy(WEIGHTS), nn.CrossEntropyLoss(torch.tensor(WEIGHTS).double())]
)
def test_class_weights_follow_the_output_from_validation_to_training(loss):
    model = classifier(loss).double()
    batch = Batch(logits(classes=6).double(), labels())
    with torch.inference_mode():
        measured = model.valid_step(batch).loss
    trained = model.train_step(batch).item.loss
    expected = functional.cross_entropy(
        model(batch.inputs), labels(), torch.tensor(WEIGHTS).double()
    )
    assert torch.equal(trained, expected) and torch.equal(measured, expected)


def test_weights_are_moved_to_the_device_of_what_the_loss_is_given():
    output, targets = logits().to("meta"), labels().to("meta")
    for loss in (
        CrossEntropy(WEIGHTS),
        nn.CrossEntropyLoss(torch.tensor(WEIGHTS)),
        functools.partial(functional.cross_entropy, weight=torch.tensor(WEIGHTS)),
    ):
        criterion = Criterion(loss)
        assert criterion(output, targets).device.type == "meta"
        assert criterion.weight(targets).device.type == "meta"


def test_mean_squared_error_is_torchs():
    assert torch.equal(
        MeanSquaredError()(logits(), logits(seed=5)), functional.mse_loss(logits(), logits(seed=5))
    )


@pytest.mark.parametrize(
    "loss", [MeanSquaredError(), nn.HuberLoss(), nn.L1Loss(), nn.MSELoss(), nn.SmoothL1Loss()]
)
def test_an_elementwise_loss_refuses_broadcasting(loss):
    # ten outputs for each of ten samples: torch would compare every sample's outputs with all ten
    # targets
    message = message_of(errors.DataError, Criterion(loss), torch.zeros(10, 10), torch.zeros(10))
    words = "cannot compare output [10, 10] with targets [10] (torch.float32): should"
    assert words in message


def test_shapes_that_torch_cannot_compare_are_reported():
    criterion = Criterion(nn.CrossEntropyLoss(weight=torch.ones(2)))
    message = message_of(errors.DataError, criterion, torch.zeros(3, 4), torch.zeros(3).long())
    words = "loss: CrossEntropyLoss cannot compare output [3, 4] with targets [3] ("
    assert message.startswith(words)


TWICE = "applies softmax, and the network has applied it already"
NO_LOG = "takes logarithms of probabilities, and the network's outputs are none"


@pytest.mark.parametrize(
    ("activation", "loss", "warned"),
    [
        (nn.Softmax(dim=1), CrossEntropy(), TWICE),
        (nn.Softmax(dim=1), nn.CrossEntropyLoss(label_smoothing=0.1), TWICE),
        (nn.Softmax(dim=1), functools.partial(functional.cross_entropy, reduction="mean"), TWICE),
        (nn.Softmax(dim=1), nn.NLLLoss(), NO_LOG),
        (nn.Identity(), nn.NLLLoss(), NO_LOG),
        (nn.Identity(), CrossEntropy(), None),
        (nn.LogSoftmax(dim=1), nn.NLLLoss(), None),
        (nn.LogSoftmax(dim=1), CrossEntropy(), None),
    ],
)
def test_outputs_that_a_loss_does_not_take_are_warned_of_once(caplog, activation, loss, warned):
    torch.manual_seed(0)
    task = Classifier(nn.Sequential(nn.Linear(4, 3), activation), loss)
    for _ in range(2):
        task.train_step(Batch(torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])))
    assert [warned in record.getMessage() for record in caplog.records] == [True] * bool(warned)
