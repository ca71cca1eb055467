"""Joint decisions and sums of a run's processes, with threads in their place."""

import copy
import itertools
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from andiron import errors
from andiron.data import ArrayBatcher, ArrayDataset, DataLoaderBuilder
from andiron.distributed import ALONE, Sliced, World
from andiron.gradients import backward, loss_scaled
from andiron.interrupter import Interrupter
from andiron.metrics import Accuracy, AUROC, Loss, Tally
from andiron.optim.divided import early_exchange
from andiron.optim.divided.early_exchange import EarlyExchange
from andiron.optim.foreign.torch_optimizer import adapted
from andiron.optim.divided.sliced_mean import SlicedMean
from andiron.outputs import ClassificationOutput
from andiron.plain import fast_paths
from andiron.shell.assembly import division
from andiron.shell.config.composition import composed
from andiron.shell.training import joining
from threaded_world import in_threads
from refusals import message_of

CONF = Path(__file__).resolve().parents[2] / "conf"


@pytest.mark.parametrize("slices", [None, 8])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("samples", [0, 1, 3, 8, 13])
def test_the_parts_of_all_processes_are_the_batch(size, slices, samples):
    parts = [World(rank, size, slices).parts(range(samples)) for rank in range(size)]
    of_all = [pair for own in parts for pair in own]
    assert [number for number, _ in of_all] == [*range(slices or size)]
    assert [sample for _, part in of_all for sample in part] == [*range(samples)]


def loader_of(world):
    dataset = ArrayDataset(torch.arange(11.0)[:, None], torch.arange(11))
    builder = DataLoaderBuilder(ArrayBatcher()).batch_size(4).shuffle(7)
    return builder.world(world).build(dataset)


def test_more_processes_than_gpus_are_refused_before_they_join(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    config = composed(CONF, ["lr=0.1"])
    message = message_of(errors.ConfigError, joining.options_of, config)
    assert "torchrun started 2 processes on a host with 1 GPU, and each takes one" in message
    assert message.endswith("give --nproc-per-node=1, or device=cpu")
    assert joining.options_of(composed(CONF, ["lr=0.1", "device=cpu"]))["on_gpu"] is False


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_order_of_the_data_is_that_of_one_process(size):
    whole = [batch.targets.tolist() for batch in loader_of(ALONE).epoch(1, 1)]
    ranks = [loader_of(World(rank, size)) for rank in range(size)]
    for number, batches in enumerate(zip(*(rank.epoch(1, 1) for rank in ranks), strict=True)):
        parts = [part for batch in batches for part in (batch.values() if size > 1 else [batch])]
        assert [target for part in parts for target in part.targets.tolist()] == whole[number]


def test_an_invalid_sample_of_a_slice_is_named_by_its_index():
    error = errors.SampleError("is invalid")
    error.places = [1]
    loader, world = loader_of(World(1, 2)), World(1, 2)
    second_half = loader_of(ALONE).indices(0, 0)[2:]
    assert [part for _, part in world.parts(loader.indices(0, 0))] == [second_half]
    assert f"sample {second_half[1]} of the data" in str(error.located(loader, 0, 0, 1))


class Uneven(nn.Module):
    """A second layer that only batches with a large input reach, and batch normalisation."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.never = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, inputs):
        hidden = self.norm(self.first(inputs))
        return self.second(hidden) if bool((inputs > 2).any()) else hidden


UNEVEN, PLAIN = Uneven(), nn.Linear(3, 4)


def mean_gradients(world, inputs, prototype=UNEVEN, is_early=True, change=lambda gradients: None):
    model = copy.deepcopy(prototype)
    mean, items = SlicedMean(world, model), []
    batches = [Sliced({n: p for n, p in world.parts(half) if len(p)}) for half in inputs]
    for _, _, part in mean.steps(batches):
        with loss_scaled(1.0, mean.during_backward):
            loss = model(part).square().mean()
            gradients = backward(loss, model, len(part) if is_early else None)
        change(gradients)
        mean.add(gradients, len(part))
        items.append(loss.detach())
    return mean.mean(), model, mean.by_batch(items)


INPUTS = [torch.randn(9, 3, generator=torch.Generator().manual_seed(5)) for _ in range(2)]


@pytest.fixture(params=["together", "in buckets"])
def exchange(request, monkeypatch):
    """How the gradients of several processes are exchanged."""
    if request.param == "in buckets":
        monkeypatch.setattr(early_exchange, "LARGE_BYTES", 0)


@pytest.mark.parametrize("size", [1, 2, 3, 12])
def test_gradients_equal_the_whole_batch(size, exchange):
    model = copy.deepcopy(PLAIN)
    whole = backward(model(torch.cat(INPUTS)).square().mean(), model)
    for gradients, _, _ in in_threads(lambda world: mean_gradients(world, INPUTS, PLAIN), size):
        assert list(gradients) == list(whole)
        torch.testing.assert_close(gradients.loss, whole.loss, rtol=1e-6, atol=0)
        for name in whole:
            torch.testing.assert_close(gradients[name], whole[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("size, prototype", [(2, UNEVEN), (3, UNEVEN), (3, PLAIN), (12, PLAIN)])
def test_gradients_exchanged_during_backward_equal_a_later_exchange(size, prototype, monkeypatch):
    monkeypatch.setattr(early_exchange, "LARGE_BYTES", 0)
    begun = []
    monkeypatch.setattr(
        EarlyExchange, "_take", spied(EarlyExchange._take, lambda _, name, *__: begun.append(name))
    )
    early = in_threads(lambda world: mean_gradients(world, INPUTS[:1], prototype), size)
    assert begun
    late = in_threads(lambda world: mean_gradients(world, INPUTS[:1], prototype, False), size)
    for (gradients, *_), (other, *_) in zip(early, late, strict=True):
        assert list(gradients) == list(other)
        for name in other:
            torch.testing.assert_close(gradients[name], other[name], rtol=1e-5, atol=1e-6)


class Checkpointed(nn.Module):
    """A layer that two segments use, which backward computes one after the other."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, inputs):
        for _ in range(2):
            inputs = checkpoint(self.layer, inputs.requires_grad_(), use_reentrant=True)
        return inputs


@pytest.mark.parametrize("frozen", [[], ["first"], ["second"]])
def test_an_exchange_that_begins_early_gives_the_bits_of_one_after_backward(frozen, monkeypatch):
    monkeypatch.setattr(early_exchange, "LARGE_BYTES", 0)

    def updates(world):
        model, means = copy.deepcopy(UNEVEN), []
        for dtype in (torch.float32, torch.float64, torch.float64, torch.float32):
            for name in frozen if means else ():
                getattr(model, name).requires_grad_(False)
            inputs = [INPUTS[len(means) % 2].to(dtype)]
            means.append(mean_gradients(world, inputs, model.to(dtype))[0])
        return means

    early = in_threads(updates, 2)
    with fast_paths.off():
        late = in_threads(updates, 2)
    for gradients, other in zip(itertools.chain(*early), itertools.chain(*late), strict=True):
        assert list(gradients) == list(other)
        assert all(torch.equal(gradients[name], other[name]) for name in other)


def test_a_gradient_that_backward_computes_in_two_parts_is_refused_or_late(monkeypatch):
    monkeypatch.setattr(early_exchange, "LARGE_BYTES", 0)
    model, inputs = Checkpointed(), INPUTS[:1]
    with pytest.raises(ValueError, match="ANDIRON_FAST_PATHS=0"):
        in_threads(lambda world: mean_gradients(world, inputs, model), 2)
    with fast_paths.off():
        (actual, *_), _ = in_threads(lambda world: mean_gradients(world, inputs, model), 2)
    whole = backward(model(inputs[0]).square().mean(), model)
    for name in whole:
        torch.testing.assert_close(actual[name], whole[name], rtol=1e-5, atol=1e-6)


def spied(function, see):
    def called(*arguments):
        see(*arguments)
        return function(*arguments)

    return called


def test_tensors_are_packed_and_added_up_in_place(monkeypatch):
    flats = []

    class Doubling:
        def __init__(self, flat):
            self.flat = flat

        def wait(self):
            self.flat *= 2  # another process has the same values

    def all_reduce(flat, async_op):
        flats.append(flat.data_ptr())
        return Doubling(flat)

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    world = World(0, 2)
    for _ in range(2):
        strided, alone = torch.arange(6.0).view(2, 3).t(), torch.ones(4).bfloat16()
        first = world.begin_adding([strided, torch.zeros(0), scalar := torch.tensor(3.0)])
        second = world.begin_adding(others := [torch.full((3,), 7.0), torch.ones(2, 2)])
        third = world.begin_adding([alone])
        for finish in (second, first, third):
            finish()
        assert strided.equal(2 * torch.arange(6.0).view(2, 3).t()) and scalar == 6
        assert others[0].tolist() == [14] * 3 and others[1].tolist() == [[2, 2]] * 2
        assert alone.tolist() == [2] * 4 and flats[-1] == alone.data_ptr()


@pytest.mark.parametrize("sizes, expected", [
    ([1, 1], ["b a"]), ([8, 8, 4], ["c b", "a"]), ([4, 30, 1], ["c", "b", "a"]),
])  # fmt: skip
def test_buckets_begin_with_the_last_parameter_and_hold_one_dtype(monkeypatch, sizes, expected):
    monkeypatch.setattr(early_exchange, "FIRST_BYTES", 12)
    monkeypatch.setattr(early_exchange, "BUCKET_BYTES", 20)
    parameters = {name: torch.zeros(size, dtype=torch.uint8) for name, size in zip("abc", sizes)}
    assert [*map(" ".join, early_exchange._buckets(parameters))] == expected
    parameters["a"] = parameters["a"].bool()
    assert early_exchange._buckets(parameters)[-1] == ["a"]


def doubled(gradients):
    gradients["weight"] = gradients["weight"] * 2


@pytest.mark.parametrize("change", [doubled, lambda gradients: gradients["weight"].mul_(2)])
def test_a_gradient_changed_during_its_exchange_is_refused(change, monkeypatch):
    monkeypatch.setattr(early_exchange, "LARGE_BYTES", 0)
    with pytest.raises(ValueError, match="the gradient of weight changed after backward"):
        in_threads(lambda world: mean_gradients(world, INPUTS[:1], PLAIN, change=change), 2)


@pytest.mark.parametrize("weights, returned, problem", [
    ((3,), 4, "has weight=4, backward was given weight=3"),
    ((3,), 0, "has weight=0, backward was given weight=3"),
    ((4, 4), 4, "with a weight twice"),
])  # fmt: skip
def test_a_step_with_two_weights_is_refused(weights, returned, problem):
    def act(world):
        model = copy.deepcopy(PLAIN)
        mean = SlicedMean(world, model)
        for _, _, part in mean.steps([Sliced(world.parts(INPUTS[0]))]):
            with loss_scaled(1.0, mean.during_backward):
                for weight in weights:
                    gradients = backward(model(part).square().mean(), model, weight)
            mean.add(gradients, returned)

    with pytest.raises(ValueError, match=problem):
        in_threads(act, 2)


@pytest.mark.parametrize("size", [2, 4])
def test_slices_give_gradients_of_the_same_bits(size, exchange):
    alone, model, items = mean_gradients(World(slices=4), INPUTS)
    assert list(alone) == [*dict.fromkeys(name for name in alone)] and "never.weight" not in alone
    for gradients, other, _ in in_threads(lambda world: mean_gradients(world, INPUTS), size, 4):
        assert list(gradients) == list(alone) and gradients.loss.equal(alone.loss)
        assert all(gradients[name].equal(alone[name]) for name in alone)
        assert all(a.equal(b) for a, b in zip(model.buffers(), other.buffers(), strict=True))
    assert [sorted(batch) for batch in items] == [[0, 1, 2, 3]] * 2


def test_a_slice_whose_targets_are_all_ignored_counts_nothing():
    model = copy.deepcopy(PLAIN)
    mean = SlicedMean(World(slices=2), model)
    steps = mean.steps([Sliced({0: INPUTS[0], 1: INPUTS[1]})])
    for weight, (_, _, part) in zip((0, 9), steps, strict=True):
        loss = model(part).square().mean() * (1 if weight else float("nan"))
        mean.add(backward(loss, model), weight)
    assert mean.by_batch(["none", "some"]) == [{0: "none", 1: "some"}]
    assert mean.mean().loss.isfinite()


def counted(world, restored=None, batches=(0, 1, 2)):
    tally = Tally([Loss(), Accuracy(), AUROC()], world)
    if restored is not None:
        tally.load_state_dict(*restored, torch.device("cpu"))
    for number in batches:
        generator = torch.Generator().manual_seed(number)
        logits, targets = torch.randn(7, 2, generator=generator), torch.arange(7) % 2
        item = Sliced(
            (n, ClassificationOutput(rows.logsumexp(-1).mean(), rows, targets[places]))
            for n, places in world.parts(torch.arange(7))
            if len(places) and len(rows := logits[places])
        )
        tally.add(item, dict.fromkeys(item))
    return tally


@pytest.mark.parametrize("size", [2, 4])
def test_slices_give_metrics_of_the_same_bits(size):
    alone = counted(World(slices=4)).close_epoch()
    assert set(alone) == {"loss", "accuracy", "auroc"}
    for values in in_threads(lambda world: counted(world).close_epoch(), size, 4):
        assert values == alone


@pytest.mark.parametrize("size", [2, 3, 9])
def test_counts_of_processes_equal_one_process(size):
    alone = counted(World(slices=1)).close_epoch()
    for values in in_threads(lambda world: counted(world).close_epoch(), size):
        assert (values["accuracy"], values["auroc"]) == (alone["accuracy"], alone["auroc"])
        assert values["loss"] == pytest.approx(alone["loss"], rel=1e-6)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (2, 1)])
def test_an_open_window_is_resumed_by_other_processes(before, after):
    whole = counted(World(slices=4)).close_epoch()
    states = in_threads(lambda world: counted(world, None, (0, 1)).state_dict(), before, 4)
    (plain, tensors), *others = states
    assert all(plain == other for other, _ in others)
    resumed = in_threads(lambda w: counted(w, (plain, tensors), [2]).close_epoch(), after, 4)
    assert resumed == [whole] * after


def test_an_open_window_of_one_process_is_resumed_by_two():
    tally = Tally([Loss(), Accuracy(), AUROC()])
    for batch in range(2):
        generator = torch.Generator().manual_seed(batch)
        logits, targets = torch.randn(7, 2, generator=generator), torch.arange(7) % 2
        tally.add(ClassificationOutput(logits.logsumexp(-1).mean(), logits, targets))
    state = tally.state_dict()
    values = in_threads(lambda world: counted(world, state, [2]).close_epoch(), 2)
    expected = counted(World(slices=1)).close_epoch()
    assert values[0] == values[1] and values[0]["accuracy"] == expected["accuracy"]
    assert values[0]["loss"] == pytest.approx(expected["loss"], rel=1e-6)


def test_a_window_that_lacks_a_slice_of_its_list_is_refused():
    plain, tensors = counted(World(slices=2)).state_dict()
    plain["slices"][0].append(1)
    with pytest.raises(errors.DataError, match="slices does not fit its window"):
        counted(World(slices=2), (plain, tensors))


def test_all_processes_stop_where_one_was_asked_to():
    def stopped(world):
        interrupter = Interrupter(is_shared=True)
        interrupter.connect(world)
        asked = [interrupter.at("train", 1, 1)]
        if world.rank == 1:
            interrupter.stop("SIGTERM", 143)
        own = world.wants_asking(), interrupter.asked
        return [*asked, own, str(interrupter.at("train", 2, 2))]

    first, second = in_threads(stopped, 2)
    assert first == [None, (False, None), "SIGTERM to rank 1"]
    assert second == [None, (True, None), "SIGTERM to rank 1"]


def test_requests_of_rank_0_are_granted_by_all():
    def granted(world):
        interrupter = Interrupter(is_shared=True)
        interrupter.connect(world)
        if world.rank == 0:
            interrupter.request("save")
            interrupter.request("validate")
        asking = sum(world.gathered(world.notes[0]))
        before = world.is_asked
        world.take_notes(asking, 0.0)
        return before, world.is_asked, list(interrupter.requests())

    assert in_threads(granted, 2) == [(False, True, ["save", "validate"])] * 2


def test_a_signal_before_the_processes_are_connected_counts():
    interrupter = Interrupter(is_shared=True)
    interrupter.stop("SIGTERM", 143)
    assert interrupter.asked is not None
    interrupter.connect(World())
    assert interrupter.asked is None and interrupter.at("train", 0, 0)
    assert str(interrupter.asked) == "SIGTERM" and interrupter.asked.exit_code == 143


def test_a_ctrl_c_that_torchrun_passes_on_is_no_second_one(monkeypatch):
    seconds = iter([10.0, 10.5, 13.0])
    interrupter = Interrupter(is_shared=True)
    interrupter.connect(World())
    monkeypatch.setattr("andiron.interrupter.time.monotonic", lambda: next(seconds))
    interrupter.stop("SIGINT", 130)
    assert [interrupter.may_end_at_once, interrupter.may_end_at_once] == [False, True]


def test_nor_is_one_while_the_processes_start(monkeypatch):
    seconds = iter([10.0, 10.5, 13.0])
    interrupter = Interrupter(is_shared=True)
    interrupter.start()
    monkeypatch.setattr("andiron.interrupter.time.monotonic", lambda: next(seconds))
    interrupter.stop("SIGINT", 130)
    assert [interrupter.may_end_at_once, interrupter.may_end_at_once] == [False, True]
    assert "SIGINT" in message_of(errors.Interrupted, interrupter.begin, 75)


def test_minutes_come_from_rank_0():
    world = World(1, 2)
    assert world.notes[1] == 0.0 and world.clock() == 0.0
    world.take_notes(0.0, 61.5)
    assert world.clock() == 61.5 and not world.is_asked


def loader_for(device):
    """A loader of 11 samples in batches of 5, which says that it is for a device."""
    loader = loader_of(ALONE)
    loader.batch_size, loader.device = 5, torch.device(device)
    return loader


@pytest.mark.parametrize(
    ("device", "size", "problem"), [("cpu", 2, "on GPUs only"), ("cuda", 2, "has 1 samples for 2")]
)
def test_sync_batchnorm_is_refused_where_it_would_fail(device, size, problem):
    with pytest.raises(errors.ConfigError, match=problem):
        division.synchronised(nn.BatchNorm1d(2), loader_for(device), World(0, size))


def test_sync_batchnorm_replaces_every_batchnorm_and_keeps_its_weights():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    before = model.state_dict()
    made = division.synchronised(model, loader_for("cuda"), World(0, 1))
    assert isinstance(made[1], nn.SyncBatchNorm) and made.state_dict().keys() == before.keys()
    assert made[1].weight is model[1].weight


@pytest.mark.parametrize(("options", "size", "problem"), [
    (["strategy=ddp"], 1, "strategy=ddp: this is one process; start several with torchrun"),
    (["strategy=none"], 2, "strategy=none: torchrun started 2 processes; start one"),
    (["sync_batchnorm=true", "slices=2"], 2, "sync_batchnorm=true: slices=2 are computed one"),
    (["strategy=ddp", "sync_batchnorm=true"], 2, None),
    (["strategy=none", "slices=4"], 1, None),
])  # fmt: skip
def test_options_that_do_not_hold_for_the_processes_are_named(options, size, problem):
    config = composed(CONF, options)
    actual, *more = [*division.option_problems(config, World(0, size, config.slices))] or [None]
    assert not more and (actual is None if problem is None else actual.startswith(problem))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_processes_refuse_an_embedding_that_rescales_its_rows(kind):
    model = nn.ModuleDict({"free": kind(9, 2), "bound": kind(9, 2, max_norm=1.0)})
    optimizer, _ = adapted(torch.optim.SGD(model.parameters(), 0.1), None, model)
    problems = [*division.problems(model, optimizer, World(0, 2))]
    assert [line.split(" has ")[0] for line in problems] == ["model: bound"]
    assert not [*division.problems(model, optimizer, World(slices=2))]  # one copy has all rows
