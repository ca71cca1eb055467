"""A step as a graph has the bits of the step that Python makes, or is named and left out.

There is no GPU: a list of operations, repeated over fixed memory, stands for its graph.
"""

import math
import random

import numpy as np
import pytest
import torch
from kept_points import Kept
from recorded_graph import RecordedGraph
from tensor_bits import differing
from torch import nn

from andiron import data, errors, models
from andiron.data import ArrayBatcher, ArrayDataset, Batch
from andiron.distributed import World
from andiron.gradients import backward
from andiron.learner import LearnerBuilder, evaluation
from andiron.learner.extras import unread_checks
from andiron.metrics import Accuracy, Loss
from andiron.optim import Optimizer, transformations
from andiron.optim.foreign import torch_step
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.owners.group import Group
from andiron.optim.own.averaging import Ema, Swa
from andiron.protocols import TrainOutput
from andiron.schedules import Cosine, Linear
from andiron.tasks import Classifier, LanguageModel
from andiron_lab.adversarial import GAN, Adversarial
from andiron_lab.graphs import device_graph
from andiron_lab.optim.gradient_noise import noise

BATCHES, BATCH = 14, 4


class Answer:
    """An answer that is there."""

    def __init__(self, flag):
        self._value = bool(flag)

    def is_there(self):
        return True

    def is_set(self):
        return self._value


@pytest.fixture(autouse=True)
def graphs_on_a_cpu(monkeypatch):
    monkeypatch.setitem(device_graph.GRAPHS, "cpu", RecordedGraph)
    monkeypatch.setattr(torch_step, "ROUNDING", {"cuda", "cpu"})
    monkeypatch.setattr(RecordedGraph, "replays", 0)


def loader(bad=None, device="cpu"):
    stream = torch.Generator().manual_seed(0)
    inputs = torch.randn(BATCHES * BATCH - 1, 6, generator=stream)
    targets = torch.randint(3, (len(inputs),), generator=stream)
    dataset = ArrayDataset(inputs, targets)
    options = {"batch_size": BATCH, "shuffle_seed": 1, "device": device}
    if bad is not None:
        plan = data.DataLoader(dataset, ArrayBatcher(), **options)
        inputs[plan.indices(0, bad)[0], 2] = math.nan
    return data.DataLoader(dataset, ArrayBatcher(), **options)


def network(*more):
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    parts = nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.3), *more
    return nn.Sequential(*parts, nn.Linear(5, 3))


def learner(folder, net, graph, *, own=None, optimizer=torch.optim.Adam, scale=None, **options):
    model, averages = Classifier(net), options.pop("averages", {})
    device, changes = options.pop("device", "cpu"), options.pop("changes", ())
    groups = options.pop("groups", None) or (lambda model: Optimizer(optimizer, model, **own))
    own, rate = own or {}, options.pop("rate", 0.05)
    chosen = {"num_epochs": 2, "log_every": 4, "seed": 5, "graph": graph} | options
    builder = LearnerBuilder(folder, **chosen).metric_train_numeric(Loss(), Accuracy())
    builder.metric_valid_numeric(Loss()).with_writers(kept := Kept()).renderer(None)
    builder.devices([device]).averages(**averages).with_file_checkpointer()
    made = builder.gradient_transforms(*changes).build(model, groups(model), rate)
    made.updater.precision.scale = scale or made.updater.precision.scale
    return made, kept


def run(folder, graph, *, net=None, bad=None, **options):
    """The tensors that a run leaves, and its record."""
    made, kept = learner(folder, net or network(), graph, **options)
    stopped, device = "", options.get("device", "cpu")
    with made:
        try:
            made.fit(loader(bad, device), loader(device=device))
        except errors.NonFiniteError as error:
            stopped = str(error).replace(str(folder), "")
        answers = {"of the model": made.predict(loader(device=device))}
        measured = made.evaluate(loader(device=device))
        state = made.state()
    parts = {"model": state.model, "optimizer": state.optimizer, **state.averages}
    parts["answers"] = answers
    tensors = {f"{part} {name}": t for part, own in parts.items() for name, t in own.items()}
    return tensors, [stopped, repr(kept.untimed()), repr(measured)], made


def two_groups(model):
    """Adam and SGD, each with a schedule of its own."""
    names = [name for name, _ in model.named_parameters()]
    owners = [
        Optimizer(torch.optim.Adam, model, names[:2]),
        Optimizer(torch.optim.SGD, model, names[2:], momentum=0.9),
    ]
    rules = {"lr_scale": 0.3}, {"schedule": Cosine(0.07, num_updates=20)}
    return GroupedOptimizer(model, [
        Group(name=str(number), parameters=own.parameters, optimizer=own, **rule)
        for number, (own, rule) in enumerate(zip(owners, rules))
    ])  # fmt: skip


CASES = {
    "adam, clipped": {"clip": 0.5},
    "sgd": {"optimizer": torch.optim.SGD, "own": {"momentum": 0.9}},
    "any other optimizer": {"optimizer": torch.optim.RMSprop},
    "accumulation of 3": {"grads_accumulation": 3, "num_epochs": 4},
    "averages": {"averages": {"ema": Ema(0.9, warmup=True), "swa": Swa(5, every=2)}},
    "an average skips a NaN": {"averages": {"swa": Swa(2)}, "bad": 9, "on_nonfinite": "skip"},
    "an average stops at a NaN": {"averages": {"ema": Ema(0.9)}, "bad": 9},
    "schedules of two groups": {"groups": two_groups, "rate": Linear(0.01, 0.05, num_updates=9)},
    "changed by value": {"changes": [transformations.centralise()], "clip": {"value": 0.01}},
    "bf16": {"precision": "bf16"},
    "fp16 with overflows": {"precision": "fp16", "scale": 2.0**21, "num_epochs": 4},
    "stops at a NaN": {"bad": 9},
    "skips a NaN": {"bad": 9, "on_nonfinite": "skip"},
}


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_graphs_change_no_bit_and_no_record(tmp_path, monkeypatch, caplog, case, is_late):
    expected, record, _ = run(tmp_path / "python", False, **CASES[case])
    if is_late:
        monkeypatch.setitem(unread_checks.LATE, "cpu", Answer)
    actual, by_graph, made = run(tmp_path / "graph", True, **CASES[case])
    for step in (made.updater.train_step, made.updater.valid_step):
        assert step.recordings.reason is None and step.recordings.repetitions > 3, caplog.text
    has_end = is_late and case != "any other optimizer"
    assert (made.updater.end_by_graph.recordings.repetitions > 2) == has_end, caplog.text
    assert not differing(actual, expected)
    assert by_graph == record


def growing(gradients, update):
    return gradients.replaced({n: g * (1.0 if update < 100 else 2.0) for n, g in gradients.items()})


def drawn_from_python(gradients):
    factor = random.choice([0.9, 1.0])
    return gradients.replaced({name: g * factor for name, g in gradients.items()})


class Counted:
    """Changes every other update: the recording would repeat one of the two."""

    calls = 0

    def __call__(self, gradients):
        self.calls += 1
        scale = 1 + self.calls % 2
        return gradients.replaced({name: g * scale for name, g in gradients.items()})


def every_other(model):
    own = Optimizer(torch.optim.Adam, model)
    group = Group(name="all", parameters=own.parameters, optimizer=own, every=2)
    return GroupedOptimizer(model, [group])


ENDS = {
    "the number of updates": ({"changes": [growing]}, "growing depends on the number of"),
    "noise": ({"changes": [noise(0.1)]}, "depends on the number of updates"),
    "a value is read": (
        {"changes": [lambda given: given if given["network.0.bias"].sum() < 9 else 0]},
        "cannot be recorded",
    ),
    "what Python counts": ({"changes": [Counted()]}, "of repetition 1 differs"),
    "another optimizer": ({"optimizer": torch.optim.RMSprop}, "group 'base' needs Adam"),
    "every other update": ({"groups": every_other}, "group 'all' needs Adam"),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDS)
def test_an_end_that_cannot_be_repeated_is_named_once(tmp_path, monkeypatch, caplog, case):
    options, words = ENDS[case]
    expected, record, _ = run(tmp_path / "python", False, **options)
    caplog.clear()
    monkeypatch.setitem(unread_checks.LATE, "cpu", Answer)
    actual, by_graph, made = run(tmp_path / "graph", True, **options)
    said = [text for text in caplog.messages if "graph: " in text]
    assert len(said) == 1 and words in said[0]
    if case != "what Python counts":
        assert not differing(actual, expected) and by_graph == record


def moved(made):
    weight = made.model.network[0].weight
    weight.data = weight.data.clone()


def loaded_again(made):
    own = made.updater.optimizer.optimizers[0]
    own.load_state_dict({name: tensor.clone() for name, tensor in own.state_dict().items()})


def other_option(made):
    made.updater.optimizer.optimizers[0].held.inner.param_groups[0]["eps"] = 1e-3


def other_transformation(made):
    made.updater.transform = None


CHANGES = [moved, loaded_again, other_option, other_transformation]


@pytest.mark.parametrize("change", CHANGES)
def test_an_end_is_recorded_again_once_its_parts_have_changed(tmp_path, monkeypatch, change):
    monkeypatch.setitem(unread_checks.LATE, "cpu", Answer)
    states, ends = [], []

    def trained(graph):
        def rate(updates):
            if updates == 14:
                change(made)
                ends.append((end := made.updater.end_by_graph) and end.recordings.repetitions)
            return 0.05

        made, _ = learner(tmp_path / str(graph), network(), graph, clip=0.05, rate=rate)
        with made:
            made.fit(loader(), loader())
            states.append(made.state())
        return made.updater.end_by_graph

    trained(False)
    end = trained(True)
    assert not differing(*({**state.model, **state.optimizer} for state in states))
    assert ends[-1] > 3 and 3 < end.recordings.repetitions < ends[-1] + 3


class Drawing(nn.Module):
    """Draws in validation too, from the stream of the whole pass."""

    def forward(self, inputs):
        return inputs + 0.1 * torch.randn_like(inputs)


def test_a_validation_that_draws_has_the_same_stream_by_graphs(tmp_path, caplog):
    expected, record, _ = run(tmp_path / "python", False, net=network(Drawing()))
    actual, by_graph, made = run(tmp_path / "graph", True, net=network(Drawing()))
    assert made.updater.valid_step.recordings.repetitions > 3, caplog.text
    assert not differing(actual, expected) and by_graph == record


def test_a_pass_reads_nothing_from_the_device_before_its_end(tmp_path, monkeypatch):
    made, _ = learner(tmp_path, network(), True)
    reads = []
    for name in ("item", "cpu", "tolist", "__bool__", "__float__", "__int__"):
        read = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor, name, lambda own, *a, read=read: (reads.append(len(steps)), read(own))[1]
        )
    step, steps = made.updater.valid_step, []
    made.updater.valid_step = lambda batch: (steps.append(1), step(batch))[1]
    with made:
        made.predict(loader())  # compares repetitions 1 and 2, which reads
        for measure in (made.predict, made.evaluate):
            reads.clear()
            steps.clear()
            measure(loader())
            assert len(steps) == BATCHES and {*reads} == {BATCHES}
        whole = made.predict(loader())
        monkeypatch.setattr(evaluation, "MOST_UNREAD", 2 * BATCH * 3)
        reads.clear()
        assert torch.equal(made.predict(loader()), whole) and len({*reads}) > 3


def test_weights_that_were_moved_are_recorded_again(tmp_path):
    """A graph of a GPU would read the memory where they were."""
    made, _ = learner(tmp_path, network(), True)
    step, weight = made.updater.valid_step, made.model.network[0].weight
    with made:
        made.predict(loader())
        made.predict(loader())
        before = step.recordings.repetitions
        weight.data = weight.data + 1
        made.predict(loader())
        assert before > step.recordings.repetitions > 3
        with torch.autocast("cpu", torch.bfloat16):
            rounded = made.predict(loader())
        assert not torch.equal(rounded, made.predict(loader()))


def resumed(folder, kinds, device):
    """The tensors of a run that is not stopped, and of one resumed with or without graphs."""
    averages = {"averages": {"ema": Ema(0.9), "swa": Swa(3, every=2)}, "device": device}
    expected, _, _ = run(folder / "whole", False, **averages)
    first, then = kinds
    run(folder / "parts", first, num_epochs=1, **averages)
    made, _ = learner(folder / "parts", network(), then, **averages)
    made.resume()
    with made:
        made.fit(loader(device=device), loader(device=device))
        answers = {"of the model": made.predict(loader(device=device))}
        state = made.state()
    parts = {"model": state.model, "optimizer": state.optimizer, **state.averages}
    parts["answers"] = answers
    return expected, {f"{p} {name}": t for p, own in parts.items() for name, t in own.items()}


KINDS = pytest.mark.parametrize("kinds", [(True, False), (False, True), (True, True)])


@KINDS
def test_a_run_is_resumed_with_and_without_graphs(tmp_path, monkeypatch, kinds):
    monkeypatch.setitem(unread_checks.LATE, "cpu", Answer)
    assert not differing(*resumed(tmp_path, kinds, "cpu"))


@pytest.mark.gpu
@KINDS
def test_a_run_on_a_gpu_is_resumed_with_and_without_graphs(tmp_path, kinds):
    assert not differing(*resumed(tmp_path, kinds, "cuda"))


class Reading(nn.Module):
    def forward(self, inputs):
        return inputs * (1.0 if inputs.sum().item() < 1e9 else 0.5)


class Selecting(nn.Module):
    def forward(self, inputs):
        return torch.masked_select(inputs, inputs < 1e9).view_as(inputs)


class Opaque:
    """An object of an item whose tensors nobody knows."""


class OpaqueItems(Classifier):
    def valid_step(self, batch):
        item = super().valid_step(batch)
        return {"loss": item.loss, "more": Opaque()}

    def train_step(self, batch):
        output = super().train_step(batch)
        return TrainOutput(output.gradients, {"loss": output.item.loss, "more": Opaque()})


def test_an_item_of_unknown_tensors_is_refused_with_the_state_before_it(tmp_path, caplog):
    states = []
    for graph in (False, True):
        builder = LearnerBuilder(tmp_path / str(graph), graph=graph, num_epochs=1)
        model = OpaqueItems(network())
        builder.with_writers().renderer(None)
        with builder.build(model, Optimizer(torch.optim.Adam, model), 0.1) as made:
            made.fit(loader(), loader())
            states.append(made.state().model)
    assert not differing(*states)
    assert caplog.text.count("the tensors of a Opaque are unknown") == 1


class Replacing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs):
        if self.training:
            self.seen = self.seen + 1
        return inputs


class Calls(nn.Module):
    """Counts its calls in Python: a graph would repeat the number of its capture."""

    def __init__(self, counts):
        super().__init__()
        self.counts, self.calls = counts, 0

    def forward(self, inputs):
        self.calls += self.training in self.counts
        return inputs * (1 + 0.001 * (self.calls % 7))


class Dropping(nn.Module):
    """Draws on the host; the draw changes few steps, so that comparisons could miss it."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, inputs):
        return inputs * (not self.training or self.draw() < 0.95)


def hooked():
    net = network()
    net[0].register_forward_hook(lambda module, inputs, output: None)
    return net


REFUSALS = {
    "a value is read": (lambda: network(Reading()), {}, "return inputs * (1.0 if inputs.sum()"),
    "a shape depends on values": (lambda: network(Selecting()), {}, "torch.masked_select(inputs"),
    "profile": (network, {"profile": {"updates": [2, 3]}}, "profile: traces the step of Python"),
    "a buffer is replaced": (
        lambda: network(Replacing()), {}, "the step replaces the buffer 'network.4.seen'"
    ),
    "draws of Python": (
        lambda: network(Dropping(random.random)), {}, "the step draws on the CPU"
    ),
    "draws of NumPy": (
        lambda: network(Dropping(np.random.rand)), {}, "the step draws on the CPU"
    ),
    "a hook": (hooked, {}, "network.0 has a hook, which is not repeated"),
    "sam": (network, {"sam": 0.05}, "sam=0.05: has none"),
    "a line search": (network, {"optimizer": torch.optim.LBFGS}, "a line search has none"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_repeated_is_named_once_and_left_out(tmp_path, caplog, case):
    make, options, words = REFUSALS[case]
    expected, record, _ = run(tmp_path / "python", False, net=make(), **options)
    actual, by_graph, _ = run(tmp_path / "graph", True, net=make(), **options)
    said = [record.getMessage() for record in caplog.records if "graph: " in record.getMessage()]
    assert len(said) == 1 and words in said[0]
    assert not differing(actual, expected) and by_graph == record


def test_batches_of_many_shapes_are_left_to_python(tmp_path, caplog):
    stream = torch.Generator().manual_seed(0)
    batches = [
        Batch(torch.randn(size, 6, generator=stream), torch.randint(3, (size,), generator=stream))
        for size in range(2, 12)
    ]
    states = []
    for graph in (False, True):
        made, _ = learner(tmp_path / str(graph), network(), graph)
        with made:
            made.fit(batches, batches)
            states.append(made.state().model)
    assert not differing(*states)
    said = [text for text in caplog.messages if "graph: " in text]
    assert said == ["graph: batches have more than 8 shapes; such steps continue without graphs"]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def valid_step(self, batch):
        return batch["scale"] * (batch["inputs"] * self.weight).sum()

    def train_step(self, batch):
        return TrainOutput(backward(self.valid_step(batch), self), None)


def test_a_graph_takes_no_old_numbers_of_a_batch(tmp_path):
    model = Scaled()
    builder = LearnerBuilder(tmp_path, graph=True).with_writers().renderer(None)
    step = builder.build(model, Optimizer(torch.optim.SGD, model), 0.1).updater.train_step
    for number in range(60):
        batch = {"inputs": torch.randn(4, 6), "scale": 1.0 if number % 9 else 3.0}
        actual, expected = (make(batch).gradients for make in (step, model.train_step))
        assert torch.equal(actual["weight"], expected["weight"]), number
    assert step.recordings.reason is None and step.recordings.repetitions > 40


def test_slices_have_no_graphs(tmp_path, caplog):
    builder = LearnerBuilder(tmp_path, graph=True).world(World(slices=2)).with_writers()
    model = Classifier(network())
    made = builder.renderer(None).build(model, Optimizer(torch.optim.SGD, model), 0.1)
    assert made.updater.train_step is None and made.updater.valid_step is None
    assert "graph: several processes or slices have none; the run continues" in caplog.text


@pytest.mark.parametrize("is_training", [False, True])
def test_what_python_does_beside_a_step_is_found_by_comparing(tmp_path, caplog, is_training):
    expected, record, _ = run(tmp_path / "python", False, net=network(Calls([is_training])))
    actual, by_graph, _ = run(tmp_path / "graph", True, net=network(Calls([is_training])))
    assert "repetition 1 differs from that of the step without a graph" in caplog.text


def test_auto_says_nothing_where_there_are_no_graphs(tmp_path, monkeypatch, caplog):
    monkeypatch.delitem(device_graph.GRAPHS, "cpu")
    made, _ = learner(tmp_path / "auto", network(), "auto")
    assert made.updater.train_step is None and not caplog.text
    learner(tmp_path / "true", network(), True)
    assert "graph: device cpu has no graphs; the run continues without graphs" in caplog.text


def tokens(stream):
    made = torch.randint(17, (BATCHES * BATCH, 9), generator=stream)
    return made[:, :-1].contiguous(), made[:, 1:].contiguous()


def pictures(stream):
    number = BATCHES * BATCH
    inputs = torch.rand(number, 1, 8, 8, generator=stream)
    return inputs, torch.randint(3, (number,), generator=stream)


TASKS = {
    "convnet": (lambda: Classifier(models.ConvNet((1, 8, 8), 3, hidden=8)), pictures),
    "gpt": (lambda: LanguageModel(models.GPT(17, 8, dim=16, layers=1, heads=2)), tokens),
    "gan": (
        lambda: Adversarial(
            GAN((1, 8, 8), latent=4, width=8), input_mean=0.5, input_std=0.5
        ),
        pictures,
    ),
}  # fmt: skip


def trained(folder, name, graph, device, **options):
    """The tensors after ten updates or more of a shipped task, and its learner."""
    make, samples = TASKS[name]
    torch.manual_seed(1)
    task = make()
    dataset = ArrayDataset(*samples(torch.Generator().manual_seed(0)))
    loaders = [
        data.DataLoader(dataset, ArrayBatcher(), batch_size=BATCH, shuffle_seed=1, device=device)
        for _ in range(2)
    ]
    averages = options.pop("averages", {"ema": Ema(0.9)})
    chosen = {"num_epochs": 2, "seed": 5, "graph": graph} | options
    builder = LearnerBuilder(folder, **chosen)
    builder.devices([device]).with_writers().renderer(None).unrecorded().averages(**averages)
    with builder.build(task, Optimizer(torch.optim.AdamW, task), 0.01) as made:
        made.fit(*loaders)
        state = made.state()
    parts = {"model": state.model, "optimizer": state.optimizer, **state.averages}
    tensors = {f"{part} {key}": t for part, own in parts.items() for key, t in own.items()}
    return tensors, made.updater


@pytest.mark.parametrize("options", [{}, {"averages": {}, "clip": 0.1}])
@pytest.mark.parametrize("name", TASKS)
def test_the_shipped_tasks_have_graphs(tmp_path, monkeypatch, caplog, name, options):
    monkeypatch.setitem(unread_checks.LATE, "cpu", Answer)
    expected, _ = trained(tmp_path / "python", name, False, "cpu", **options)
    actual, made = trained(tmp_path / "graph", name, True, "cpu", **options)
    for recordings in (made.train_step.recordings, made.end_by_graph.recordings):
        assert recordings.reason is None and recordings.repetitions > 3, caplog.text
    assert not differing(actual, expected)


GPU = {
    "fp32": {}, "no averages": {"averages": {}}, "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "accumulation of 3": {"grads_accumulation": 3, "num_epochs": 4}, "clipped": {"clip": 0.1},
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("case", GPU)
@pytest.mark.parametrize("name", TASKS)
def test_graphs_of_a_gpu_change_no_bit(tmp_path, caplog, name, case):
    expected, _ = trained(tmp_path / "python", name, False, "cuda", **GPU[case])
    actual, made = trained(tmp_path / "graph", name, True, "cuda", **GPU[case])
    for recordings in (made.train_step.recordings, made.end_by_graph.recordings):
        assert recordings.reason is None and recordings.repetitions > 3, caplog.text
    assert not differing(actual, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_that_answers_late_changes_no_bit(tmp_path, monkeypatch, case, graph):
    options = {**CASES[case], "device": "cuda"}
    late, record, _ = run(tmp_path / "late", graph, **options)
    monkeypatch.delitem(unread_checks.LATE, "cuda")
    at_once, expected, _ = run(tmp_path / "at once", False, **options)
    assert not differing(late, at_once) and record == expected
