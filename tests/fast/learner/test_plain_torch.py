"""A torch DataLoader, optimizer and scheduler train as in a loop of torch alone, and resume."""

import copy
import json
import logging
import types

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from andiron import errors
from andiron.data.loading.foreign_loader import ForeignLoader
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import GroupedOptimizer, Optimizer
from andiron.optim.foreign import torch_optimizer
from andiron.optim.torch_schedule import TorchSchedule
from andiron.tasks import Classifier, Forward

torch.manual_seed(5)
SET = TensorDataset(torch.randn(50, 4), torch.randint(3, (50,)))
VALID = [SET[:20], SET[20:50]]


def model():
    torch.manual_seed(1)
    return Classifier(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)))


def plain():
    torch.manual_seed(1)
    return Classifier(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))


def two_groups(trained):
    first, second = trained.network[0], trained.network[-1]
    return torch.optim.AdamW(
        [{"params": first.parameters()}, {"params": second.parameters(), "lr": 3e-2}],
        lr=1e-2, weight_decay=0.1,
    )  # fmt: skip


SCHEDULERS = {
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, [0.1, 0.2], total_steps=21),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=3),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.5**epoch),
    "several": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.MultiStepLR(o, [1, 2])], milestones=[1]
    ),
}


def learner(folder, trained, optimizer, scheduler, num_epochs=3):
    builder = LearnerBuilder(folder, num_epochs=num_epochs, resume=True).renderer(None)
    builder.metric_valid_numeric(Loss()).with_file_checkpointer()
    return builder.build(trained, optimizer, scheduler)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_weights_and_rates_equal_a_loop_in_torch(tmp_path, name):
    batches = [(SET[number : number + 10]) for number in range(0, 50, 10)]
    mine = plain()
    optimizer = two_groups(mine)
    with learner(tmp_path, mine, optimizer, SCHEDULERS[name](optimizer)) as trained:
        trained.fit(batches, VALID)

    recorded = json.loads((tmp_path / "param_groups.json").read_text())
    kind = type(SCHEDULERS[name](two_groups(plain()))).__name__
    schedules = [group["schedule"] for group in recorded.values()]
    assert schedules == [f"{kind}, group {number}" for number in range(2)]

    own = plain()
    optimizer = two_groups(own)
    scheduler = SCHEDULERS[name](optimizer)
    for _ in range(3):
        for inputs, targets in batches:
            optimizer.zero_grad()
            cross_entropy(own.network(inputs), targets).backward()
            optimizer.step()
            if name == "one cycle":
                scheduler.step()
        if name != "one cycle":
            scheduler.step()
    for left, right in zip(mine.parameters(), own.parameters(), strict=True):
        assert torch.equal(left, right)
    assert [*trained.rates.values()] == [group["lr"] for group in optimizer.param_groups]


RISING = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: min(1.0, step / 10)),
    "linear": lambda o: lr_scheduler.LinearLR(o, start_factor=1e-30, total_iters=10),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LambdaLR(o, lambda step: 0.0), lr_scheduler.StepLR(o, 3)], milestones=[2]
    ),
    "constant": lambda o: None,
}


@pytest.mark.parametrize("name", ["cosine", "lambda", "several"])
def test_a_scheduler_steps_after_each_epoch_of_any_number_of_updates(tmp_path, name):
    broken = (torch.full((10, 4), torch.nan), SET[:10][1])
    long = [*(SET[number : number + 10] for number in range(0, 50, 10)), broken]

    def fit(batches, num_epochs):
        mine = plain()
        optimizer = two_groups(mine)
        builder = LearnerBuilder(tmp_path, num_epochs=num_epochs, resume=True, on_nonfinite="skip")
        builder.renderer(None).metric_valid_numeric(Loss()).with_file_checkpointer()
        with builder.build(mine, optimizer, SCHEDULERS[name](optimizer)) as learner:
            learner.fit(batches, VALID)
        return mine

    fit(long, 3)
    mine, own = fit(long[:2], 6), plain()
    optimizer = two_groups(own)
    scheduler = SCHEDULERS[name](optimizer)
    for batches in [long[:5]] * 3 + [long[:2]] * 3:
        for inputs, targets in batches:
            optimizer.zero_grad()
            cross_entropy(own.network(inputs), targets).backward()
            optimizer.step()
        scheduler.step()
    for left, right in zip(mine.parameters(), own.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("name", RISING)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_first_rate_of_zero_is_a_rate(name, groups):
    def parts():
        trained = plain()
        chosen = [{"params": value.parameters(), "lr": 0.0 if name == "constant" else 0.1}
                  for value in (trained.network[0], trained.network[-1])]  # fmt: skip
        optimizer = torch.optim.SGD(chosen[:groups])
        trained.network[-1].requires_grad_(groups == 2)
        return trained, optimizer, RISING[name](optimizer)

    batches = [(SET[number : number + 10]) for number in range(0, 50, 10)]
    mine, optimizer, scheduler = parts()
    own, bare, other = parts()
    schedule = scheduler and TorchSchedule(scheduler, every="update")
    builder = LearnerBuilder(None, num_epochs=2).renderer(None).metric_valid_numeric(Loss())
    with builder.build(mine, optimizer, schedule) as learner:
        learner.fit(batches, VALID)
    for inputs, targets in batches * 2:
        bare.zero_grad()
        cross_entropy(own.network(inputs), targets).backward()
        bare.step()
        if other:
            other.step()
    for left, right in zip(mine.parameters(), own.parameters(), strict=True):
        assert torch.equal(left, right)


def test_a_scheduler_that_may_count_updates_is_named_with_the_remedy(caplog):
    caplog.set_level(logging.WARNING, "andiron")
    trained = plain()
    optimizer = two_groups(trained)
    for make in (RISING["linear"], RISING["lambda"]):
        TorchSchedule(make(optimizer))
    TorchSchedule(RISING["lambda"](optimizer), every="epoch")
    assert caplog.messages == [
        "LambdaLR steps after each epoch; if it counts updates, give TorchSchedule(scheduler, "
        'every="update")'
    ]
    optimizer.param_groups[0]["lr"] = 0.0
    with pytest.raises(errors.MismatchError, match="lr=0 in the first group: others have no"):
        torch_optimizer.adapted(optimizer, 0.1, trained)


@pytest.mark.parametrize("name", [*SCHEDULERS, "plateau"])
def test_a_resumed_run_has_the_weights_of_one_that_never_stopped(tmp_path, name):
    def run(folder, *lengths):
        for num_epochs in lengths:
            trained = model()
            optimizer = two_groups(trained)
            make = SCHEDULERS.get(
                name, lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=1.0)
            )
            train = DataLoader(SET, batch_size=8, shuffle=True)
            with learner(folder, trained, optimizer, make(optimizer), num_epochs) as made:
                made.fit(train, VALID)
        return trained

    whole, parts = run(tmp_path / "whole", 3), run(tmp_path / "parts", 1, 2, 3)
    for left, right in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("name", [*SCHEDULERS, None])
def test_a_resumed_run_takes_an_allowed_weight_decay_also_beside_a_scheduler(tmp_path, name):
    def decays(folder, *, at_resume, in_loop=None):
        for num_epochs, decay in ((1, 0.1), (2, at_resume)):
            trained = plain()
            optimizer = two_groups(trained)
            for group in optimizer.param_groups:
                group["weight_decay"] = decay
            scheduler = SCHEDULERS[name](optimizer) if name else None
            builder = LearnerBuilder(folder, num_epochs=num_epochs, resume=True).renderer(None)
            builder.unrecorded().metric_valid_numeric(Loss()).with_file_checkpointer()
            with builder.build(trained, optimizer, scheduler) as made:
                for _ in made.steps([SET[:20], SET[20:50]], VALID):
                    if in_loop and num_epochs == 1:
                        optimizer.param_groups[0]["weight_decay"] = in_loop
        return [group["weight_decay"] for group in optimizer.param_groups]

    assert decays(tmp_path / "given", at_resume=0.3) == [0.3, 0.3]
    assert decays(tmp_path / "set", at_resume=0.1, in_loop=0.7) == [0.7, 0.1]


def test_a_resumed_run_takes_another_rate_or_refuses_it(tmp_path):
    def rate(folder, lr, schedule=None, num_epochs=1, factor=1.0):
        trained = plain()
        optimizer = torch.optim.SGD(trained.parameters(), lr)
        scheduler = schedule and schedule(optimizer)
        builder = LearnerBuilder(
            folder, num_epochs=num_epochs, resume=True, resume_allow=["lr"]
        ).renderer(None)
        builder.metric_valid_numeric(Loss()).with_file_checkpointer()
        with builder.build(trained, optimizer, scheduler) as made:
            for _ in made.steps([SET[:20], SET[20:50]], VALID):
                optimizer.param_groups[0]["lr"] *= factor
        return made.rates["base"]

    assert rate(tmp_path / "own", 0.1, factor=0.5) == 0.1 * 0.5**3  # two updates, one validation
    assert rate(tmp_path / "own", 0.02, num_epochs=2) == pytest.approx(0.02 * 0.5**3)
    half = lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5)  # noqa: E731
    assert rate(tmp_path / "half", 0.1, half) == 0.05
    with pytest.raises(errors.AndironError, match="began with the rates .0.1., and this one with"):
        rate(tmp_path / "half", 0.02, half, num_epochs=2)
    assert rate(tmp_path / "half", 0.1, half, num_epochs=2) == 0.025


def test_an_epoch_with_fewer_batches_than_its_length_is_refused():
    class Broken(TensorDataset):
        def __getitem__(self, index):
            if index == 17:
                raise StopIteration
            return super().__getitem__(index)

    loader = ForeignLoader(DataLoader(Broken(*SET.tensors), batch_size=8), 7, torch.device("cpu"))
    with pytest.raises(RuntimeError, match="DataLoader: epoch 1 ended after 2 of its 7 batches"):
        list(loader.epoch(0))


def test_batches_are_a_function_of_the_epoch_from_any_first_batch_on():
    for generator in (None, torch.Generator().manual_seed(3)):
        loader = ForeignLoader(
            DataLoader(SET, batch_size=8, shuffle=True, generator=generator), 7, torch.device("cpu")
        )
        assert (len(loader), loader.num_items) == (7, 50)
        first, other = list(loader.epoch(0)), list(loader.epoch(1))
        torch.rand(3)
        again = list(loader.epoch(0, 3))
        assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(first[3:], again, strict=True))
        assert not torch.equal(first[0].inputs, other[0].inputs)


def test_drawing_batches_leaves_the_generator_of_the_model_alone():
    loader = ForeignLoader(DataLoader(SET, shuffle=True), 7, torch.device("cpu"))
    before = torch.get_rng_state()
    next(loader.epoch(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_stream_of_unknown_length_is_counted():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.ones(2), 1)] * 5)

    loader = ForeignLoader(DataLoader(Stream(), batch_size=2), 7, torch.device("cpu"))
    assert (len(loader), loader.num_items) == (3, 5)


def test_what_cannot_be_iterated_twice_is_refused():
    with pytest.raises(TypeError, match="cannot be iterated once an epoch; give a torch"):
        ForeignLoader(iter([1]), 7, torch.device("cpu"))


def test_without_a_scheduler_each_group_keeps_its_rate_and_a_number_its_ratio(tmp_path):
    for lr, expected in ((None, [1e-2, 3e-2]), (0.1, [0.1, 0.3])):
        trained = plain()
        built = LearnerBuilder(tmp_path).with_writers().build(trained, two_groups(trained), lr)
        assert [*built.rates.values()] == pytest.approx(expected, rel=1e-12)  # a ratio of floats


def test_an_optimizer_or_scheduler_of_something_else_is_refused(tmp_path):
    builder, trained = LearnerBuilder(tmp_path).with_writers(), plain()
    other = torch.optim.SGD(plain().parameters(), lr=0.1)
    with pytest.raises(errors.MismatchError, match="4 parameters of SGD are not in the model"):
        builder.build(trained, other)
    own = torch.optim.SGD(trained.parameters(), lr=0.1)
    with pytest.raises(errors.MismatchError, match="StepLR was made for another optimizer"):
        builder.build(trained, own, lr_scheduler.StepLR(other, 1))
    for wrong in ((Optimizer(torch.optim.SGD, trained), None), ([own, own], 0.1), ([own], None)):
        with pytest.raises(TypeError, match="torch optimizer that has the rate, .* GroupedOptimiz"):
            torch_optimizer.adapted(*wrong, trained)
    with pytest.raises(TypeError, match="a group's optimizer is an andiron.optim.Optimizer"):
        group = types.SimpleNamespace(name="all", optimizer=own)
        GroupedOptimizer(trained, iter([group]))


def test_only_a_training_loader_that_may_draw_is_named(tmp_path, caplog):
    batches, optimizer = [SET[:20], SET[20:50]], torch.optim.Adam
    for number, train in enumerate((batches, DataLoader(SET, batch_size=20, shuffle=True))):
        mine = plain()
        adam = optimizer(mine.parameters(), 1e-3)
        with learner(tmp_path / str(number), mine, adam, None, 1) as made:
            for _ in range(2):
                made.fit(train, DataLoader(SET, batch_size=20))
    hints = [record.getMessage() for record in caplog.records if "repeats its order" in record.msg]
    assert [hint.partition(":")[0] for hint in hints] == ["training DataLoader"]


def halved(optimizer, updates):
    for number, group in enumerate(optimizer.param_groups, start=1):
        group["lr"] *= 0.5 if updates % 4 == number else 1.0
        group["betas"] = (0.8 + 0.01 * (updates % 3), 0.99)


@pytest.mark.parametrize("groups", [two_groups, lambda m: torch.optim.Adam(m.parameters(), 0.02)])
@pytest.mark.parametrize("stop", [None, 5])
def test_rates_and_options_that_the_users_loop_sets_are_followed(tmp_path, groups, stop):
    plainly = plain()
    expected, updates = groups(plainly), 0
    for epoch in range(2):
        for batch in ForeignLoader(VALID * 4, 42, torch.device("cpu")).epoch(epoch):
            expected.zero_grad()
            cross_entropy(plainly.network(batch.inputs), batch.targets).backward()
            expected.step()
            updates += 1
            halved(expected, updates)
    for end in [stop, None] if stop else [None]:
        trained = plain()
        optimizer = groups(trained)
        with learner(tmp_path, trained, optimizer, None, num_epochs=2) as made:
            for step in made.steps(VALID * 4, VALID):
                if step.kind == "update":
                    halved(optimizer, step.updates)
                    if step.updates == end:
                        break
        rates = [group["lr"] for group in optimizer.param_groups]
    assert rates == [group["lr"] for group in expected.param_groups]
    assert [*made.rates.values()] == rates
    for name, tensor in plainly.state_dict().items():
        assert torch.equal(trained.state_dict()[name], tensor)


@pytest.mark.parametrize("groups", [two_groups, lambda m: torch.optim.Adam(m.parameters(), 0.02)])
def test_a_state_that_the_optimizer_loads_after_the_build_is_used_and_saved(tmp_path, groups):
    plainly, trained = plain(), plain()
    expected, optimizer = groups(plainly), groups(trained)
    made = learner(tmp_path, trained, optimizer, None, num_epochs=1)

    def train(batch):
        expected.zero_grad()
        cross_entropy(plainly.network(batch.inputs), batch.targets).backward()
        expected.step()

    batches = [*ForeignLoader(VALID * 4, 42, torch.device("cpu")).epoch(0)]
    train(batches[-1])
    expected.param_groups[-1].update(lr=0.01, weight_decay=0.3)
    trained.load_state_dict(plainly.state_dict())
    optimizer.load_state_dict(copy.deepcopy(expected.state_dict()))
    with made:
        made.fit(VALID * 4, VALID)
    for batch in batches:
        train(batch)
    assert all(
        torch.equal(tensor, trained.state_dict()[name])
        for name, tensor in plainly.state_dict().items()
    )
    ours, theirs = (value.state_dict()["state"] for value in (optimizer, expected))
    assert ours.keys() == theirs.keys() and len(ours) == 4
    assert all(torch.equal(ours[n][slot], theirs[n][slot]) for n in theirs for slot in theirs[n])


def clamping(optimizer, parameters):
    """Puts a `step` on the optimizer that clamps the weights after its earlier step."""
    before = optimizer.step

    def step(*arguments):
        before(*arguments)
        with torch.no_grad():
            for parameter in parameters:
                parameter.clamp_(-0.2, 0.2)

    optimizer.step = step


def replacing(optimizer, parameters):
    """Puts another algorithm on the optimizer."""

    def step(self, closure=None):
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.1 * parameter.grad.sign()

    optimizer.step = types.MethodType(step, optimizer)


def marked(optimizer, parameters):
    """A `clamping`, with the attributes of a scheduler's wrapper."""
    clamping(optimizer, parameters)
    vars(optimizer.step).update(vars(type(optimizer).step))  # as functools.wraps does
    optimizer.step._wrapped_by_lr_sched = True


STEPPED = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "two groups": lambda p: torch.optim.AdamW([{"params": [*p]}, {"params": []}], lr=0.01),
    "groups": lambda p: torch.optim.Adam([{"params": [value], "lr": 0.01} for value in p]),
}


@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")
@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("has_scheduler", [False, True])
@pytest.mark.parametrize("change", [clamping, replacing, marked])
@pytest.mark.parametrize("kind", STEPPED)
def test_a_step_that_the_user_puts_on_an_optimizer_is_taken(kind, change, has_scheduler, after):
    batches = [(SET[number : number + 10]) for number in range(0, 50, 10)] * 2
    mine, own = plain(), plain()
    made, bare = (STEPPED[kind](task.parameters()) for task in (mine, own))
    schedulers = [lr_scheduler.StepLR(o, 1) for o in (made, bare)] if has_scheduler else [None]
    builder = LearnerBuilder(num_epochs=1).renderer(None).unrecorded()
    builder.metric_valid_numeric(Loss())
    if not after:
        change(made, [*mine.parameters()])
    with builder.build(mine, made, schedulers[0]) as learning:
        for step in learning.steps(batches, VALID):
            if step.kind == "update" and step.updates == after:
                change(made, [*mine.parameters()])
    for number, (inputs, targets) in enumerate(batches):
        if number == after:
            change(bare, [*own.parameters()])
        bare.zero_grad()
        cross_entropy(own.network(inputs), targets).backward()
        bare.step()
    assert all(map(torch.equal, mine.parameters(), own.parameters()))


def test_batches_that_are_mappings_give_the_bits_of_pairs(tmp_path):
    pairs = [SET[number : number + 10] for number in range(0, 50, 10)]
    named = [{"input": inputs, "y": targets} for inputs, targets in pairs]
    task = Forward(plain().network, cross_entropy, targets="y")
    losses = []
    for trained, batches in ((plain(), pairs), (task, named)):
        builder = LearnerBuilder(None, num_epochs=2).renderer(None).metric_valid_numeric(Loss())
        optimizer = Optimizer(torch.optim.SGD, trained, momentum=0.9)
        with builder.build(trained, optimizer, 0.1) as learner:
            losses.append([step.values for step in learner.steps(batches, batches)])
            weights = [*trained.parameters()]
        losses[-1].append([weight.tolist() for weight in weights])
    assert str(losses[0]) == str(losses[1])
