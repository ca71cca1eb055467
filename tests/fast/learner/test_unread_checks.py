"""Checks that are read later give the bits, the record and the messages of checking at once."""

import copy
import math
import random

import pytest
import torch
from kept_points import Kept
from tensor_bits import differing
from torch import nn

from andiron import data, errors
from andiron.checkpoint import load
from andiron.data import ArrayBatcher, ArrayDataset
from andiron.distributed import ALONE, World
from andiron.learner import LearnerBuilder
from andiron.learner.extras import unread_checks
from andiron.metrics import Accuracy, Loss
from andiron.optim import Optimizer
from andiron.optim.own.averaging import Ema, Swa
from andiron.tasks import Classifier

BATCHES, BATCH = 11, 4
DEFAULTS = {"num_epochs": 2, "log_every": 4, "seed": 5, "graph": "auto"}


class LateAnswer:
    """An answer of a device that is busy for a few more looks, unless it is waited for."""

    busy = random.Random(0)
    number_late = number_bad = 0

    def __init__(self, flag):
        self._value, self._looks = bool(flag), self.busy.choice([0, 1, 1, 2, 9])

    def is_there(self):
        self._looks -= 1
        LateAnswer.number_late += self._looks >= 0
        return self._looks < 0

    def is_set(self):
        LateAnswer.number_bad += self._value
        return self._value


class Counting(nn.Module):
    """Counts its batches in a buffer that each forward pass replaces."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs):
        if self.training:
            self.seen = self.seen + 1 + 0 * inputs.mean()
        return inputs


class Drawing(nn.Module):
    """Draws from Python's generator, which no update sets, once `after` batches are seen."""

    def __init__(self, after=0):
        super().__init__()
        self.register_buffer("seen", torch.tensor(-after))  # an undone update is not counted

    def forward(self, inputs):
        self.seen += self.training
        return inputs * random.uniform(0.9, 1.1) if self.training and self.seen > 0 else inputs


def loader(bad=(), world=ALONE):
    """The data, with a bad sample in these batches of the first epoch."""
    stream = torch.Generator().manual_seed(0)
    inputs = torch.randn(BATCHES * BATCH - (world is ALONE), 6, generator=stream)
    targets = torch.randint(3, (len(inputs),), generator=stream)
    made = data.DataLoader(
        ArrayDataset(inputs, targets), ArrayBatcher(), batch_size=BATCH, shuffle_seed=1,
        world=world,
    )
    for number in bad:
        inputs[made.indices(0, number)[0], 2] = math.nan
    return made


def task(world, *more):
    torch.manual_seed(1)
    random.seed(1)
    counting = Counting() if world is ALONE else nn.Identity()  # slices refuse such a buffer
    parts = nn.Linear(6, 5), nn.BatchNorm1d(5), counting, nn.Tanh(), nn.Dropout(0.3)
    return Classifier(nn.Sequential(*parts, *more, nn.Linear(5, 3)))


def run(folder, caplog, bad, *, optimizer=torch.optim.Adam, own=None, scale=None, **options):
    """All that a run leaves: its state, its record and messages, and what was saved as it stopped.
    """
    caplog.clear()
    averages, world = options.pop("averages", {}), options.pop("world", ALONE)
    model = task(world, *copy.deepcopy(options.pop("more", ())))
    changes = options.pop("changes", ())
    builder = LearnerBuilder(folder, **DEFAULTS | options).gradient_transforms(*changes)
    builder.metric_train_numeric(Loss(), Accuracy()).metric_valid_numeric(Loss())
    builder.with_writers(kept := Kept()).averages(**averages).renderer(None)
    builder.world(world)
    made = builder.build(model, Optimizer(optimizer, model, **(own or {})), 0.05)
    if scale:
        made.updater.precision.scale = scale
    stopped = None
    with made:
        try:
            made.fit(loader(bad, world), loader((), world))
        except errors.NonFiniteError as error:
            stopped = str(error)
        state = made.state()
    record = kept.untimed()
    saved = [load(place) for place in sorted(folder.glob("nonfinite/*"))]
    messages = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    texts = [text and text.replace(str(folder), "") for text in (stopped, *messages)]
    plain = [repr({**left.state, "metric_log": 0}) for left in (state, *saved)]
    tensors = {}
    for number, left in enumerate((state, *saved)):
        parts = {part: getattr(left, part) for part in ("model", "optimizer", "metrics")}
        for part, own in (parts | left.averages).items():
            tensors |= {f"{number} {part} {name}": tensor for name, tensor in own.items()}
    return {"texts": texts, "record": repr(record), "plain": plain}, tensors


def strict(gradients):
    if not gradients.loss.isfinite():
        raise ValueError("no number")
    return gradients


CASES = {
    "adam": {},
    "a transformation that refuses NaN": {"changes": [strict]},
    "adamw, accumulation of 3": {"optimizer": torch.optim.AdamW, "grads_accumulation": 3},
    "sgd with momentum, clipped": {
        "optimizer": torch.optim.SGD, "own": {"momentum": 0.9}, "clip": 0.5
    },
    "no kernel with a flag": {"optimizer": torch.optim.RMSprop},
    "averages": {"averages": {"ema": Ema(0.9, warmup=True), "swa": Swa(3, every=2)}},
    "an average without a kernel": {
        "averages": {"ema": Ema(0.9)}, "optimizer": torch.optim.RMSprop
    },
    "bf16": {"precision": "bf16"},
    "fp16 with overflows": {"precision": "fp16", "scale": 2.0**21},
    "validations and checkpoints within an epoch": {"validate_every": 3},
    "micro-batches of 2": {"grads_accumulation": 2},
    "lbfgs": {"optimizer": torch.optim.LBFGS, "own": {"max_iter": 2}},
    "sam": {"sam": 0.05},
    "slices": {"world": World(slices=2)},
    "draws of Python": {"more": [Drawing()]},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_late_answer_changes_no_bit_no_record_and_no_message(
    tmp_path, monkeypatch, caplog, policy, case
):
    places = [(), *((number,) for number in range(BATCHES)), (2, 3), (1, 4, 5, 10)]
    if (case, policy) != ("adam", "skip"):
        places = places[4::4]
    LateAnswer.number_late = LateAnswer.number_bad = 0
    for number, bad in enumerate(places):
        options = {"on_nonfinite": policy, **CASES[case]}
        expected, bits = run(tmp_path / f"once{number}", caplog, bad, **options)
        with monkeypatch.context() as patched:
            patched.setitem(unread_checks.LATE, "cpu", LateAnswer)
            actual, late = run(tmp_path / f"late{number}", caplog, bad, **options)
        assert actual == expected, bad
        assert not differing(late, bits), bad
    is_late = case not in ("lbfgs", "sam", "slices", "draws of Python")
    assert (LateAnswer.number_late > 0) == (LateAnswer.number_bad > 0) == is_late


def test_an_update_that_would_draw_again_is_not_made_again(tmp_path, monkeypatch, caplog):
    """Draws begin in update 6, and are seen when all checks are read at the log point, update 8."""
    outcomes = set()
    for bad in range(BATCHES):
        options = {"on_nonfinite": "skip", "num_epochs": 1}
        expected = run(tmp_path / f"once{bad}", caplog, [bad], more=[Drawing(5)], **options)
        with monkeypatch.context() as patched:
            patched.setitem(unread_checks.LATE, "cpu", LateAnswer)
            try:
                actual = run(tmp_path / f"late{bad}", caplog, [bad], more=[Drawing(5)], **options)
            except errors.MismatchError as error:
                assert "resume with graph=false" in str(error) and 2 < bad < 8
                outcomes.add("refused")
                continue
        assert actual[0] == expected[0] and not differing(actual[1], expected[1]), bad
        outcomes.add("exact")
    assert outcomes == {"exact", "refused"}
