"""The states of parts that users write are equal after a resume, or refused before training."""

import math
import time
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from pathlib import Path

import numpy
import pytest
import torch

from andiron import errors
from andiron.data import DataLoader, digits
from andiron.disk import files
from andiron.learner import LearnerBuilder
from andiron.serialization import state_trees
from andiron.metrics import Loss
from andiron.models import MLP
from andiron.optim import Optimizer
from andiron.tasks import Classifier

SPLITS = digits(valid=0.1, split_seed=0)
LOADER = DataLoader(SPLITS.valid, SPLITS.batcher, batch_size=100)
STATES = [
    5, 0.5, -math.inf, "text", "", True, None, [], {}, (), (1, (2,)), {1: "a", "1": "b", None: 2.5},
    {True: 1, 0.5: (3,)}, {(1, 2): [3]}, {"$tuple": [1]}, {"a": {"$tensor": "0"}}, [[None]],
    {"loss": numpy.float32(0.1), "n": numpy.int64(3), "b": numpy.bool_(True)}, numpy.float64(2),
    "a surrogate \ud800", 2**70, {1, (2,)}, frozenset([3]), [{"a": {"b": {3}}}],
    torch.Size([2, 3]), deque([1, {2: None}], maxlen=3), deque(), Counter("aab"),
    OrderedDict({2: 1, 1: {0.5}}), defaultdict(list, {3: [4]}), defaultdict(None, a=1),
    {frozenset([1]): 2}, {"$items": {1}},
]  # fmt: skip
TENSORS = [
    torch.arange(3), torch.tensor(1.5, dtype=torch.bfloat16), torch.empty(0, 2), torch.ones(2) * 1j,
    numpy.ones((2, 3)), numpy.array(True), torch.eye(3).t()[1:], torch.tensor(math.nan),
]  # fmt: skip
REFUSED = [
    b"bytes", {b"a"}, Path("a"), 1j, object(), numpy.datetime64(0, "s"), torch.float32,
    defaultdict(lambda: 0), time.localtime(0), UserDict(a=1), torch.Generator(),
    numpy.array(["a"], object), torch.eye(2).to_sparse(), [{"a": {"b": {1j}}}],
]  # fmt: skip


class Keeps:
    """An observer, a schedule and a writer with any state."""

    def __init__(self, state=None):
        self.state = state

    def __call__(self, update):
        return 0.1

    def after_update(self, learner, step):
        pass

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state

    def write(self, point):
        pass

    def position(self):
        return self.state

    def rewind(self, position, updates):
        self.state = position

    def close(self):
        pass


def made(folder, kind, part, num_epochs=1):
    torch.manual_seed(1)
    model = Classifier(MLP(SPLITS.input_shape, SPLITS.num_classes, hidden=[8]))
    resume = (folder / "manifest.json").exists()
    builder = LearnerBuilder(folder, num_epochs=num_epochs, resume=resume)
    builder.metric_valid_numeric(Loss()).with_file_checkpointer().unrecorded()
    if kind == "observers":
        builder.observers(mine=part)
    if kind == "writers":
        builder.with_writers(mine=part)
    lr = part if kind == "schedules" else 0.1
    return builder.build(model, Optimizer(torch.optim.Adam, model), lr)


def alike(mine, other):
    if isinstance(mine, torch.Tensor | numpy.ndarray):
        same = torch.equal if isinstance(mine, torch.Tensor) else numpy.array_equal
        is_alike = type(mine) is type(other) and mine.dtype == other.dtype
        return is_alike and (same(mine, other) or mine.isnan().all())
    return mine == other and ("np." in repr(mine) or repr(mine) == repr(other))


@pytest.mark.parametrize("state", STATES + TENSORS, ids=str)
def test_a_state_is_equal_after_the_files_of_a_checkpoint(state):
    plain, tensors = state_trees.encoded_parts({"observers": {"mine": [state]}})
    read = files.parsed_json(files.as_json(plain))
    assert alike(state, state_trees.decoded_parts(read, tensors)["observers"]["mine"][0])


@pytest.mark.parametrize("kind", ["observers", "writers", "schedules"])
@pytest.mark.parametrize("state", [5, "text", False, {1: (2, torch.ones(2))}], ids=str)
def test_every_kind_of_part_gets_its_state_back(tmp_path, kind, state):
    with made(tmp_path, kind, Keeps(state)) as learner:
        learner.fit(LOADER, LOADER)
    resumed = Keeps()
    with made(tmp_path, kind, resumed, num_epochs=2) as learner:
        learner.fit(LOADER, LOADER)  # writers are rewound when training starts
    assert str(resumed.state) == str(state)


@pytest.mark.parametrize("kind", ["observers", "writers", "schedules"])
@pytest.mark.parametrize("state", REFUSED, ids=lambda state: type(state).__name__)
def test_a_state_that_no_checkpoint_can_hold_is_refused_before_an_update(tmp_path, kind, state):
    named = pytest.raises(errors.ConfigError, match=f"{kind}.(mine|0 Keeps).* of type .*, dense")
    with made(tmp_path / "run", kind, Keeps(state)) as learner, named:
        learner.fit(LOADER, LOADER)
    assert learner.updates == 0 and not (tmp_path / "run").exists()


def test_a_state_that_is_too_large_or_in_itself_is_named(monkeypatch):
    monkeypatch.setattr(state_trees, "MOST_VALUES", 100)
    states = {"observers": {"small": [0] * 40, "large": [0] * 61}}
    with pytest.raises(errors.ConfigError, match="observers.large: has 61 values, and a"):
        state_trees.encoded_parts(states)
    endless = []
    endless.append(endless)
    with pytest.raises(errors.ConfigError, match="observers: the state of a part is nested"):
        state_trees.encoded_parts({"observers": {"mine": endless}})


@pytest.mark.parametrize("plain", [
    {"$tuple": 3}, {"$items": [[[], 1]]}, {"$items": [1]}, {"$tensor": ""}, {"$array": 3},
    {"$set": [[]]}, {"$deque": [1], "most": -1}, {"$defaultdict": [], "of": "os"}, {"$Counter": 3},
])  # fmt: skip
def test_a_state_that_no_run_has_written_is_refused(plain):
    with pytest.raises(errors.DataError, match="state.json: the state of a part is damaged"):
        state_trees.decoded_parts({"mine": [plain]}, {})


def test_a_network_whose_extra_state_is_no_tensor_is_refused(tmp_path):
    class Counted(MLP):
        def get_extra_state(self):
            return {"calls": 3}

    model = Classifier(Counted((8, 8), 10))
    builder = LearnerBuilder(tmp_path).renderer(None)
    with pytest.raises(errors.ConfigError) as raised:
        builder.build(model, Optimizer(torch.optim.SGD, model), 0.1)
    assert raised.value.problems == (
        "model: its state network._extra_state is a dict, and a checkpoint holds tensors; return "
        "one from get_extra_state",
    )
