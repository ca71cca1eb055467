"""A rejected update changes nothing; each evaluation within a step is clipped and checked."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import errors
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import Optimizer
from andiron.tasks import Classifier

BAD = 7  # a batch of 12


def batches(*without, bad=None):
    torch.manual_seed(0)
    made = [(torch.randn(5, 1, 6, 6), torch.randint(3, (5,))) for _ in range(12)]
    if bad is not None:
        made[bad][0][0, 0, 0, 0] = torch.nan
    return [batch for number, batch in enumerate(made) if number not in without]


class Replacing(nn.Module):
    """Counts its batches in a buffer that each forward pass replaces."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs):
        if self.training:
            self.seen = self.seen + 1 + 0 * inputs.mean()
        return inputs


def network():
    torch.manual_seed(1)
    parts = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), Replacing(), nn.Flatten(), nn.Linear(64, 3)
    return nn.Sequential(*parts)


def learner(net, optimizer=torch.optim.SGD, **options):
    task, own = Classifier(net), options.pop("own", {})
    builder = LearnerBuilder(num_epochs=1, **options).metric_valid_numeric(Loss())
    builder.renderer(None).unrecorded().with_writers()
    return builder.build(task, Optimizer(optimizer, task, **own), 0.1)


def same(one, other):
    return all(torch.equal(one.state_dict()[name], other.state_dict()[name])
               for name in one.state_dict())  # fmt: skip


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("sam", [None, 0.05])
def test_a_skipped_update_leaves_buffers_as_if_its_batch_did_not_exist(sam, accumulation):
    options = {"sam": sam, "grads_accumulation": accumulation, "on_nonfinite": "skip"}
    dropped = [BAD] if accumulation == 1 else [BAD - 1, BAD]
    skipping, without = network(), network()
    learner(skipping, **options).fit(batches(bad=BAD), batches()[:1])
    learner(without, **options).fit(batches(*dropped), batches()[:1])
    assert same(skipping, without)


def test_a_run_that_stops_saves_the_buffers_from_before():
    net = network()
    made = learner(net)
    with pytest.raises(errors.NonFiniteError, match="was not applied"):
        made.fit(batches(bad=BAD), batches()[:1])
    before = network()
    learner(before).fit(batches()[:BAD], batches()[:1])
    assert same(net, before)


@pytest.mark.parametrize("sam", [None, 0.05])
def test_an_overflow_in_fp16_halves_the_scale_also_with_sam(sam):
    net = network()
    made = learner(net, sam=sam, precision="fp16")
    made.updater.precision.scale = 2.0**21
    made.fit(batches(), batches()[:1])
    skipped = made.updater.nonfinite.skipped
    assert 0 < skipped < 12 and made.updates == 12 - skipped
    assert made.updater.precision.scale == 2.0 ** (21 - skipped)
    assert all(tensor.isfinite().all() for tensor in net.state_dict().values())


def test_every_evaluation_of_a_step_is_clipped():
    nets = [nn.Sequential(nn.Flatten(), nn.Linear(36, 3)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    own = {"max_iter": 6, "line_search_fn": "strong_wolfe"}
    learner(nets[0], torch.optim.LBFGS, own=own, clip=0.05).fit(batches(), batches()[:1])
    plain = torch.optim.LBFGS(nets[1].parameters(), lr=0.1, **own)
    for inputs, targets in batches():

        def closure(inputs=inputs, targets=targets):
            plain.zero_grad()
            loss = functional.cross_entropy(nets[1](inputs), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(nets[1].parameters(), 0.05)
            return loss

        plain.step(closure)
    assert same(*nets)


class Failing(nn.Module):
    """Logits that are NaN at one call."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear, self.calls, self.fails_at = nn.Linear(36, 3), 0, 0

    def forward(self, inputs):
        self.calls += 1
        logits = self.linear(inputs.flatten(1))
        return logits * torch.nan if self.calls == self.fails_at else logits


def test_a_later_evaluation_that_is_nan_rejects_the_whole_step():
    net, states = Failing(), []
    net.fails_at = 10  # an evaluation within the second step
    with learner(net, torch.optim.LBFGS, own={"max_iter": 6}, on_nonfinite="skip") as made:
        for step in made.steps(batches(), batches()[:1]):
            states.append((step.kind, net.linear.weight.detach().clone()))
    kinds = [kind for kind, _ in states]
    assert kinds[:3] == ["update", "skipped", "update"]
    assert torch.equal(states[0][1], states[1][1])


def test_parameters_that_were_replaced_are_named():
    net = network()
    made = learner(net, log_every=4)
    with pytest.raises(errors.OwnershipError, match="is not the tensor that is stepped"):
        for step in made.steps(batches(), batches()[:1]):
            if step.updates == 2:
                copies = {name: tensor.clone() for name, tensor in net.state_dict().items()}
                net.load_state_dict(copies, assign=True)
