"""Networks that are called with the fields of a batch: their own loss, or a configured one."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import errors, outputs
from andiron.data import Batch
from andiron.learner.update import explain_step
from andiron.metrics import Accuracy, Perplexity
from andiron.optim.gradient_mean import GradientsAccumulator
from andiron.tasks import BinaryCrossEntropy, Classifier, CrossEntropy, Forward, MeanSquaredError
from refusals import message_of

NUMBER, CLASSES = 6, 3


class Own(nn.Module):
    """Returns its loss and logits, as the models of transformers do; `causal` of the next token."""

    def __init__(self, causal=False, classes=CLASSES):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.causal = nn.Embedding(9, classes), causal

    def forward(self, ids, labels=None):
        logits = self.table(ids)
        if labels is None:
            return {"logits": logits}
        scores, classes = (logits[:, :-1], labels[:, 1:]) if self.causal else (logits, labels)
        loss = functional.cross_entropy(scores.flatten(0, -2), classes.flatten())
        return {"loss": loss, "logits": logits}


class Tensor(nn.Module):
    """Returns one tensor, for a configured loss."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def of_classes():
    return {"ids": torch.arange(NUMBER), "labels": torch.arange(NUMBER) % CLASSES}


def of_tokens(*lengths, time=5):
    ids = torch.arange(len(lengths) * time).view(-1, time) % 9
    is_inside = torch.arange(time) < torch.tensor(lengths)[:, None]
    return {"ids": ids, "labels": torch.where(is_inside, ids % CLASSES, -100)}


@pytest.mark.parametrize(
    "loss", [CrossEntropy(label_smoothing=0.3), nn.CrossEntropyLoss(torch.arange(1.0, 4))]
)
def test_perplexity_is_that_of_the_targets_whatever_else_the_loss_has(loss):
    task = Forward(Tensor(nn.Identity()), loss, inputs=["x"], class_dim=-1)
    logits, labels = torch.randn(2, 5, CLASSES), of_tokens(5, 5)["labels"]
    metric = Perplexity()
    expected = functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).exp()
    item = task.valid_step({"x": logits, "labels": labels})
    assert metric.value(*metric(item)) == pytest.approx(float(expected))


def test_the_item_of_an_own_loss_is_for_the_metrics_of_its_kind():
    task, batch = Forward(Own()), of_classes()
    item = task.valid_step(batch)
    assert isinstance(item, outputs.ClassificationOutput) and int(item.weight) == NUMBER
    right, number = Accuracy()(item)
    expected = (task.network.table(batch["ids"]).argmax(-1) == batch["labels"]).sum()
    assert right.sum() == expected and number == NUMBER
    sequences = Forward(Own(), mean_over="targets").valid_step(of_tokens(5, 2))
    assert isinstance(sequences, outputs.SequenceOutput) and int(sequences.weight) == 7


def test_the_batch_need_not_have_targets_for_outputs():
    task, batch = Forward(Own(), inputs=["ids", "labels"]), of_classes()
    assert torch.equal(task({"ids": batch["ids"]}), task(batch))
    assert torch.equal(task(batch["ids"]), task(batch))


@pytest.mark.parametrize("mean_over, causal", [("targets", False), ("next_targets", True)])
def test_batches_of_any_sizes_have_the_gradients_of_the_whole(mean_over, causal):
    task, lengths = Forward(Own(causal), mean_over=mean_over), (5, 2, 3, 4, 1)
    whole, batch = task.train_step(of_tokens(*lengths)), of_tokens(*lengths)
    mean = GradientsAccumulator()
    for part in (slice(0, 1), slice(1, 5)):
        output = task.train_step({name: field[part] for name, field in batch.items()})
        mean.add(output.gradients, output.weight)
    assert int(whole.weight) == sum(lengths) - causal * len(lengths)
    for name, gradient in mean.mean().items():
        torch.testing.assert_close(gradient, whole.gradients[name])  # sums in another order


def test_the_accuracy_of_the_next_token_compares_the_next():
    batch = of_tokens(5, 5)
    item = Forward(Own(causal=True), mean_over="next_targets").valid_step(batch)
    assert torch.equal(item.targets, batch["labels"][:, 1:]) and item.output.shape == (2, 4, 3)


@pytest.mark.parametrize("causal, chosen, right", [
    (True, "targets", "next_targets"),
    (True, "samples", "next_targets"),
    (False, "next_targets", "targets"),
])  # fmt: skip
def test_another_count_than_that_of_the_loss_is_refused_at_the_first_step(causal, chosen, right):
    task = Forward(Own(causal), mean_over=chosen)
    said = message_of(errors.DataError, task.train_step, of_tokens(5, 2, 4))
    assert said.startswith(f"task.mean_over={chosen}: the network's loss is the mean over {right}")


class Lone(nn.Module):
    def forward(self, x):
        return x.square().mean() if x.dim() > 1 else x


@pytest.mark.parametrize("task, batch, said", [
    (Forward(Own()), of_tokens(5, 2), "task.mean_over: it is unknown what the network's own loss"),
    (Forward(Lone()), {"x": torch.ones(3, 2)}, "task.mean_over: it is unknown"),
    (Forward(Lone(), mean_over="targets"), {"x": torch.ones(3, 2)}, "task.mean_over: it is unk"),
    (Forward(Lone(), mean_over="samples"), {"x": torch.ones(3)}, "the network Lone returned [3], "),
    (Forward(Own(), inputs=["ids", "mask"]), of_classes(), "task: dict has no 'mask', but: ids, "),
    (Forward(Own(), output="scores"), of_classes(), "task: dict has no 'scores', but: loss"),
    (Forward(Own(classes=1000), num_classes=3), of_classes(),
     "the network gives 1000 outputs, and the data has 3 classes"),
    (Forward(Tensor(nn.Identity()), MeanSquaredError(), targets="y"),
     {"x": torch.ones(3, 2), "y": torch.ones(3)}, "loss: MeanSquaredError cannot compare"),
    (Forward(Tensor(nn.Identity()), CrossEntropy(), targets="y"),
     {"x": torch.ones(2, 4, 4), "y": torch.zeros(2, 4).long()}, "task: the classes of output"),
    (Forward(Tensor(nn.Identity()), lambda output, targets: (output * (targets >= 0)).mean(),
             targets="y"),
     {"x": torch.ones(2, requires_grad=True), "y": torch.tensor([1, -1])}, "task: targets -1 are"),
    (Forward(Lone(), mean_over="samples"), {"x": torch.ones(3, 2), "n": torch.ones(2)},
     "the number of samples in a batch of type dict is unknown"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_option(task, batch, said):
    if "n" in batch:
        task.inputs = {"x": "x"}
    assert message_of(errors.AndironError, task.train_step, batch).startswith(said)


def test_options_of_the_other_kind_of_loss_are_refused():
    with pytest.raises(ValueError, match="^samples: weights are for a configured loss"):
        Forward(Own(), CrossEntropy(), mean_over="samples")
    with pytest.raises(ValueError, match="^w: weights are for a configured loss"):
        Forward(Own(), weights="w")


def test_a_loss_of_one_value_a_sample_is_a_mean_over_samples():
    class Values(nn.Module):
        def forward(self, x, labels):
            return {"loss": (x - labels).square().mean(), "logits": x}

    batch = {"x": torch.tensor([1.0, 2.0]), "labels": torch.tensor([-100.0, 3.0])}
    assert Forward(Values()).valid_step(batch).weight == 2  # -100 is a value


def test_a_loss_without_targets_is_a_mean_over_samples():
    item = Forward(Lone(), mean_over="samples").valid_step({"x": torch.ones(7, 2)})
    assert item.weight == 7 and float(item.loss) == 1.0 and item.output is None


def test_metrics_get_the_output_beside_a_loss_without_targets():
    task = Forward(Own(), mean_over="samples", inputs={"ids": "ids", "labels": "own"})
    ids = torch.arange(NUMBER)
    item = task.train_step({"ids": ids, "own": ids % CLASSES}).item
    torch.testing.assert_close(item.loss, functional.cross_entropy(item.output, ids % CLASSES))
    assert not item.output.requires_grad


@pytest.mark.parametrize("class_dim", [1, -1])
@pytest.mark.parametrize("option", [True, False])
def test_as_many_places_as_classes_have_the_classes_of_the_option_or_an_earlier_batch(
    class_dim, option
):
    task = Forward(Tensor(nn.Identity()), CrossEntropy(), targets="y",
                   class_dim=class_dim if option else None)  # fmt: skip
    for time in (5, 3) if not option else (3,):
        classes_last, y = torch.randn(2, time, 3), torch.arange(2 * time).view(2, -1) % 3
        x = classes_last.movedim(-1, class_dim)
        item = task.train_step({"x": x.requires_grad_(), "y": y}).item
    expected = functional.cross_entropy(classes_last.flatten(0, 1), y.flatten())
    torch.testing.assert_close(item.loss, expected)
    assert torch.equal(item.output, classes_last)


def test_a_configured_loss_gives_the_bits_of_the_task_for_pairs():
    network, x, y = nn.Linear(4, CLASSES), torch.randn(5, 4), torch.arange(5) % CLASSES
    ours = Forward(Tensor(network), CrossEntropy(label_smoothing=0.1), targets="y", inputs=["x"])
    plain = Classifier(Tensor(network), CrossEntropy(label_smoothing=0.1))
    one, other = ours.train_step({"x": x, "y": y}), plain.train_step(Batch(x, y))
    assert type(one.item) is type(other.item) and torch.equal(one.item.loss, other.item.loss)
    pairs = zip(one.gradients.values(), other.gradients.values(), strict=True)
    assert one.weight == other.weight and all(torch.equal(*pair) for pair in pairs)


def squared(output, targets):
    return (output - targets).square().mean()


def first_column(output, targets):
    return squared(output[:, 0], targets)


@pytest.mark.parametrize("loss", [squared, MeanSquaredError(), nn.MSELoss()])
def test_a_loss_that_pairs_every_output_with_every_target_is_refused(loss):
    torch.manual_seed(0)
    task, x = Forward(nn.Linear(2, 1), loss, inputs={"input": "x"}, targets="y"), torch.randn(5, 2)
    message = message_of(errors.DataError, task.train_step, {"x": x, "y": x.sum(1)})
    assert "cannot compare output [5, 1] with targets [5] (torch.float32)" in message
    assert message.endswith("give the targets, or take off the output, a dimension of 1")


def test_a_loss_may_take_the_dimension_off_itself():
    x, network = torch.randn(5, 2), nn.Linear(2, 1)
    task = Forward(network, first_column, inputs={"input": "x"}, targets="y")
    loss = squared(network(x), x.sum(1, keepdim=True))
    assert torch.equal(task.train_step({"x": x, "y": x.sum(1)}).item.loss, loss.detach())


def test_a_loss_is_tried_once_without_a_draw_of_the_run():
    sizes = []

    def drawn(output, targets):
        sizes.append(output.dim())
        return squared(output.flatten(), targets + torch.rand(()))

    task = Forward(nn.Linear(2, 1), drawn, inputs={"input": "x"}, targets="y")
    for size in (1, 5, 5):  # one alone broadcasts without harm
        torch.manual_seed(0)
        task.train_step({"x": torch.ones(size, 2), "y": torch.ones(size)})
    drawn_by_run = torch.rand(())
    torch.manual_seed(0)
    assert torch.equal(torch.rand(2)[1], drawn_by_run)
    assert sizes == [2, 2, 2, 1, 2]


def test_weights_of_samples_weight_a_configured_loss_in_training():
    task = Forward(Tensor(nn.Linear(4, 3)), CrossEntropy(), targets="y", weights="w")
    batch = {"x": torch.randn(5, 4), "y": torch.arange(5) % 3, "w": torch.tensor([1., 0, 0, 2, 1])}
    losses = functional.cross_entropy(task.network(batch["x"]), batch["y"], reduction="none")
    output = task.train_step(batch)
    torch.testing.assert_close(output.item.loss, (losses * batch["w"]).sum() / 4)
    assert output.weight == 4
    with torch.no_grad():
        torch.testing.assert_close(task.eval().valid_step(batch).loss, losses.mean())


@pytest.mark.parametrize("loss, output, targets, kind, shape", [
    (CrossEntropy(), (2, 3, 4, 4), torch.zeros(2, 4, 4).long(), "SupervisedOutput", (2, 4, 4, 3)),
    (CrossEntropy(), (2, 5, 3), torch.zeros(2, 5).long(), "SequenceOutput", (2, 5, 3)),
    (CrossEntropy(), (2, 3, 5), torch.zeros(2, 5).long(), "SequenceOutput", (2, 5, 3)),
    (BinaryCrossEntropy(), (2,), torch.zeros(2).long(), "BinaryClassificationOutput", (2,)),
    (nn.BCEWithLogitsLoss(), (2,), torch.ones(2).long(), "BinaryClassificationOutput", (2,)),
    (BinaryCrossEntropy(), (2, 3), torch.ones(2, 3).long(), "MultiLabelClassificationOutput",
     (2, 3)),
    (BinaryCrossEntropy(), (2, 1, 4, 4), torch.ones(2, 1, 4, 4).long(), "SupervisedOutput",
     (2, 1, 4, 4)),
    (MeanSquaredError(), (2, 3), torch.ones(2, 3), "RegressionOutput", (2, 3)),
    (MeanSquaredError(), (2,), torch.ones(2), "RegressionOutput", (2, 1)),
])  # fmt: skip
def test_the_item_is_by_the_shapes_of_output_and_targets(loss, output, targets, kind, shape):
    task = Forward(Tensor(nn.Identity()), loss, targets="y")
    item = task.valid_step({"x": torch.randn(output), "y": targets})
    assert type(item).__name__ == kind and item.output.shape == shape


def test_targets_of_values_in_their_own_unit_are_named_once(caplog):
    task = Forward(Tensor(nn.Linear(2, 1)), MeanSquaredError(), inputs=["x"], targets="y")
    for _ in range(2):
        task.train_step({"x": torch.ones(6, 2), "y": torch.arange(6.0)[:, None] * 1000})
    (line,) = caplog.messages
    assert "in the data set, or use task=regression with task.target_mean=2500 " in line


def test_a_target_beyond_the_networks_classes_names_the_option():
    batch = {"ids": torch.tensor([1, 2]), "labels": torch.tensor([0, 8])}
    task = Forward(Own(), targets="labels")
    with pytest.raises(IndexError) as raised:
        task.predict(batch)
    with pytest.raises(errors.MismatchError) as explained:
        explain_step(raised.value, task, batch)
    assert str(explained.value) == (
        "task Forward with model Own cannot be computed for ids [2] of torch.int64 and labels [2] "
        "of torch.int64: target 8 is not one of the network's classes, counted from 0; set "
        "data.num_classes=9, or the number of classes if it is larger"
    )
