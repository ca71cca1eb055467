"""Several optimizers as one: the same bits as several torch optimizers in a loop by hand; and what
freezing may do."""

import copy
import dataclasses
import functools
import inspect

import pytest
import torch
from tensor_bits import same
from torch import nn
from uneven_batches import loss_of, lr_at

from andiron import errors, gradients, randomness
from andiron.optim import Group, GroupedOptimizer, Optimizer, chained, clip_global_norm
from andiron.schedules import Cosine
from refusals import message_of

OPTIMIZERS = {
    kind.__name__: (kind, {"momentum": 0.9} if kind is torch.optim.SGD else {})
    for kind in (
        torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop,
        torch.optim.Adagrad, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax,
        torch.optim.Adadelta, torch.optim.ASGD, torch.optim.Adafactor, torch.optim.Rprop,
        torch.optim.Muon,
    )
}  # fmt: skip
BIASES, MATRICES = ("0.bias", "2.bias", "2.weight", "3.bias"), ("0.weight", "3.weight")


def network():
    randomness.start_stream(0, "init")
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 4))


def gradients_at(model, update):
    return gradients.backward(loss_of(model, update), model)


def as_chosen(kind, **options):
    """The options with the implementation that Optimizer chooses: fused, else foreach."""
    known = inspect.signature(kind).parameters
    fastest = next(({name: True} for name in ("fused", "foreach") if name in known), {})
    return {**fastest, **options}


def group(model, name, kind, members, *, options=None, **settings):
    tensors = dict(model.named_parameters())
    return Group(
        name=name,
        parameters={member: tensors[member] for member in members},
        optimizer=Optimizer(kind, model, members, **(options or {})),
        **settings,
    )


def states(optimizers, model):
    """The state of torch optimizers under the names that ours go by."""
    return {
        f"{name}/{slot}": value
        for optimizer in optimizers
        for name, parameter in model.named_parameters()
        for slot, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def assert_equals_the_plain_loop(specification):
    """40 updates of groups (kind, options, lr_scale, members), beside a torch optimizer each in a
    loop by hand."""
    model, expected = network(), network()
    tensors = dict(expected.named_parameters())
    ours = GroupedOptimizer(
        model,
        [
            group(model, str(number), kind, members, options=options, lr_scale=scale)
            for number, (kind, options, scale, members) in enumerate(specification)
        ],
    )
    plain = [
        kind([tensors[m] for m in members], **as_chosen(kind, **options))
        for kind, options, _, members in specification
    ]
    for update in range(40):
        rates = ours.learning_rates(lr_at(update), update)
        model = ours.step(
            rates, model, gradients.backward(loss_of(model, update), model), updates=update
        )
        for optimizer, (_, _, scale, _) in zip(plain, specification, strict=True):
            optimizer.param_groups[0]["lr"] = lr_at(update) * scale
            optimizer.zero_grad()
        loss_of(expected, update).backward()
        for optimizer in plain:
            optimizer.step()
    assert not any(
        torch.equal(model.state_dict()[name], tensor)
        for name, tensor in network().state_dict().items()
    )
    assert same(model.state_dict(), expected.state_dict())
    actual, reference = ours.state_dict(), states(plain, expected)
    assert same({key: actual[key] for key in reference}, reference) and reference
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "Muon"])
def test_two_groups_of_one_class_equal_the_plain_loop(name):
    kind, options = OPTIMIZERS[name]
    decay = {"weight_decay": 0.1} if "weight_decay" in inspect.signature(kind).parameters else {}
    assert_equals_the_plain_loop(
        [(kind, {**options, **decay}, 1.0, MATRICES), (kind, options, 0.3, BIASES)]
    )


@pytest.mark.parametrize("name", ["Adam", "ASGD", "Muon"])
def test_three_groups_of_different_kinds_equal_the_plain_loop(name):
    kind, options = OPTIMIZERS[name]
    others = [text for text in ("Adam", "SGD", "RMSprop") if text != name][:2]
    (second, second_options), (third, third_options) = (OPTIMIZERS[other] for other in others)
    assert_equals_the_plain_loop(
        [
            (kind, options, 1.0, MATRICES),
            (second, second_options, 0.5, ("0.bias", "2.bias")),
            (third, third_options, 2.0, ("2.weight", "3.bias")),
        ]
    )


def test_lbfgs_beside_adam_equals_the_plain_loop():
    model, expected = network(), network()
    tensors = dict(expected.named_parameters())
    ours = GroupedOptimizer(model, [
        group(model, "head", torch.optim.LBFGS, ("3.weight", "3.bias"), options={"max_iter": 4}),
        group(model, "body", torch.optim.Adam, ("0.weight", "0.bias", "2.weight", "2.bias")),
    ])  # fmt: skip
    lbfgs = torch.optim.LBFGS([tensors["3.weight"], tensors["3.bias"]], max_iter=4)
    adam = torch.optim.Adam(
        [tensors[name] for name in ("0.weight", "0.bias", "2.weight", "2.bias")], fused=True
    )
    for update in range(20):
        taken = functools.partial(gradients_at, model, update)
        model = ours.step({"head": 0.1, "body": 0.001}, model, taken(), taken)
        lbfgs.param_groups[0]["lr"], adam.param_groups[0]["lr"] = 0.1, 0.001

        def closure(update=update):
            for tensor in tensors.values():
                tensor.grad = None
            loss = loss_of(expected, update)
            loss.backward()
            return loss

        closure()
        given = {
            name: tensors[name].grad.clone()
            for name in ("0.weight", "0.bias", "2.weight", "2.bias")
        }
        lbfgs.step(closure)
        # of the batch at the weights before: those that the update was given
        for name, gradient in given.items():
            tensors[name].grad = gradient
        adam.step()
    assert same(model.state_dict(), expected.state_dict())


def test_each_group_has_the_rate_that_its_scale_or_its_own_schedule_says():
    model = network()
    own = Cosine(0.5, 10)
    optimizer = GroupedOptimizer(model, [
        group(model, "a", torch.optim.SGD, MATRICES, lr_scale=3.0),
        group(model, "b", torch.optim.SGD, ("0.bias", "2.bias"), schedule=own, lr_scale=0.5),
        group(model, "c", torch.optim.SGD, ("2.weight", "3.bias")),
    ])  # fmt: skip
    assert optimizer.learning_rates(0.2, 4) == {"a": 0.2 * 3.0, "b": own(4) * 0.5, "c": 0.2}
    assert optimizer.schedules == [own]


def test_a_rate_below_0_is_refused_before_it_trains_away_from_the_minimum():
    model = network()
    optimizer = GroupedOptimizer.of(Optimizer(torch.optim.SGD, model), model)
    made = gradients.backward(loss_of(model, 0), model)
    rates = optimizer.learning_rates(-0.1, 3)
    message = message_of(errors.MismatchError, optimizer.step, rates, model, made)
    assert message == "learning rates {'base': -0.1}: correct those below 0"


def test_a_group_with_every_3_moves_at_updates_3_6_and_9():
    model = network()
    optimizer = GroupedOptimizer(model, [
        group(model, "often", torch.optim.SGD, BIASES),
        group(model, "rarely", torch.optim.SGD, MATRICES, every=3),
    ])  # fmt: skip
    moved = []
    for update in range(9):
        before = model[0].weight.detach().clone()
        rates = optimizer.learning_rates(0.1, update)
        made = gradients.backward(loss_of(model, update), model)
        optimizer.step(rates, model, made, updates=update)
        moved.append(not torch.equal(model[0].weight, before))
    assert moved == [False, False, True] * 3


def test_a_group_is_clipped_by_its_own_part_of_the_gradients():
    model, expected = network(), network()
    clip = chained([clip_global_norm(0.01)], seed=0)
    optimizer = GroupedOptimizer(model, [
        group(model, "clipped", torch.optim.SGD, MATRICES, transform=clip),
        group(model, "free", torch.optim.SGD, BIASES),
    ])  # fmt: skip
    rates, actual = {"clipped": 1.0, "free": 1.0}, gradients.backward(loss_of(model, 0), model)
    with pytest.raises(ValueError, match="give `step` the completed `updates`"):
        optimizer.step(rates, model, actual)
    optimizer.step(rates, model, actual, updates=0)

    loss_of(expected, 0).backward()
    tensors = dict(expected.named_parameters())
    torch.nn.utils.clip_grad_norm_([tensors[name] for name in MATRICES], 0.01)
    torch.optim.SGD(expected.parameters(), lr=1.0, fused=True).step()
    assert same(model.state_dict(), expected.state_dict())


def two_groups(model, **settings):
    return GroupedOptimizer(model, [
        group(model, "body", torch.optim.Adam, MATRICES, **settings),
        group(model, "rest", torch.optim.Adam, BIASES),
    ])  # fmt: skip


def test_a_waiting_group_is_thawed_after_its_frozen_updates():
    model = network()
    optimizer = two_groups(model, frozen_updates=3)
    seen = []
    for update in range(5):
        optimizer.thaw(update)
        trained = gradients.backward(loss_of(model, update), model)
        assert ("0.weight" in trained) == model[0].weight.requires_grad
        seen.append(
            ("body" in optimizer.learning_rates(0.1, update), model[0].weight.requires_grad)
        )
    assert seen == [(False, False)] * 3 + [(True, True)] * 2


def test_a_saved_group_that_waits_thaws_also_where_its_frozen_updates_are_over_already():
    """This follows a change of the batch size, if `frozen` counts epochs."""
    before = two_groups(network(), frozen_updates=42)
    saved = {"owners": before.owners(), "frozen": before.frozen, "waiting": [*before.waiting]}
    resumed = two_groups(network(), frozen_updates=21)
    resumed.continue_from(saved)
    assert resumed.frozen == ["body"]
    resumed.thaw(30)
    assert resumed.frozen == []


def test_what_is_frozen_after_its_optimizer_was_made_stays_frozen():
    model = network()
    model[3].requires_grad_(False)
    named = Optimizer(torch.optim.SGD, model, ("0.weight", "3.weight"))
    assert [name for name, tensor in model.named_parameters() if not tensor.requires_grad] == [
        "3.bias"
    ]
    model[0].weight.requires_grad_(False)
    owned = [Group(name="all", parameters=named.parameters, optimizer=named)]
    rest = group(model, "rest", torch.optim.SGD, BIASES[:3])
    optimizer, before = GroupedOptimizer(model, [*owned, rest]), copy.deepcopy(model.state_dict())
    result = gradients.backward(loss_of(model, 0), model)
    optimizer.step({"all": 0.1, "rest": 0.1}, model, result)
    moved = [name for name in before if not torch.equal(before[name], model.state_dict()[name])]
    assert moved == ["0.bias", "2.weight", "2.bias", "3.weight"]


def test_a_parameter_unfrozen_by_hand_is_refused():
    model = network()
    model[3].weight.requires_grad_(False)
    optimizer = GroupedOptimizer(
        model, [group(model, "all", torch.optim.SGD, ("0.weight", *BIASES))]
    )
    model[3].weight.requires_grad_(True)

    words = "parameter '3.weight' is trained but belongs to no group: no group claims it"
    assert words in message_of(errors.OwnershipError, optimizer.prove)
    result = gradients.backward(loss_of(model, 0), model)
    message = message_of(
        errors.OwnershipError, optimizer.step, {"all": 0.1}, model, result
    )
    assert "'3.weight' has a gradient but no owner: requires_grad was False" in message
    assert "in a group with frozen=<updates>" in message


def test_an_optimizer_that_takes_no_sparse_gradients_is_named():
    model = nn.Embedding(5, 3, sparse=True)
    adam = Optimizer(torch.optim.Adam, model)
    sparse = gradients.backward(model(torch.tensor([1, 2])).sum(), model)
    message = message_of(errors.MismatchError, adam.step, 0.1, model, sparse)
    assert "Adam: Adam does not support sparse gradients" in message


def test_a_parameter_of_a_frozen_group_unfrozen_by_hand_is_found():
    model = network()
    optimizer = two_groups(model, frozen_updates=3)
    model[0].weight.requires_grad_(True)
    words = "'0.weight' is trained but belongs to no group: its group 'body' is frozen"
    assert words in message_of(errors.OwnershipError, optimizer.prove)


@pytest.mark.parametrize(("owned", "words"), [
    ({"a": BIASES, "b": (*MATRICES, "0.bias")},
     "parameter '0.bias' has several owners: a, b; leave it to one"),
    ({"a": BIASES}, "parameter '0.weight' is trained but belongs to no group"),
])  # fmt: skip
def test_a_parameter_in_two_groups_or_in_none_is_refused(owned, words):
    model = network()
    groups = [group(model, name, torch.optim.SGD, names) for name, names in owned.items()]
    assert words in message_of(errors.OwnershipError, GroupedOptimizer, model, groups)


def test_a_state_of_other_owners_is_refused_by_what_differs():
    model = network()
    other = GroupedOptimizer(model, [
        group(model, "body", torch.optim.SGD, MATRICES),
        group(model, "rest", torch.optim.Adam, BIASES),
    ])  # fmt: skip
    saved = {"owners": two_groups(model).owners()}
    message = message_of(errors.OwnershipError, other.continue_from, saved)
    assert message.splitlines()[1:] == [
        "  body: was torch.optim.Adam of 0.weight, 3.weight, "
        "is torch.optim.SGD of 0.weight, 3.weight"
    ]


@pytest.mark.parametrize("frozen_updates", [0, 7])
def test_a_group_that_never_trained_begins_anew_where_it_is_to_train(frozen_updates):
    model = network()
    body = dataclasses.replace(two_groups(model).groups["body"], optimizer=None)
    before = GroupedOptimizer(model, [body, two_groups(model).groups["rest"]])
    saved = {"owners": before.owners(), "frozen": before.frozen, "waiting": [*before.waiting]}
    thawed = two_groups(network(), frozen_updates=frozen_updates)
    thawed.continue_from(saved)
    assert thawed.frozen == ["body"]
    thawed.thaw(5)
    assert thawed.frozen == (["body"] if frozen_updates else [])
    thawed.thaw(7)
    assert thawed.frozen == []


def test_two_groups_resume_bit_for_bit():
    straight, stopped = network(), network()
    one, two, rates = two_groups(straight), two_groups(stopped), {"body": 0.01, "rest": 0.02}
    for update in range(12):
        one.step(rates, straight, gradients.backward(loss_of(straight, update), straight))
        if update == 5:
            copy = {key: tensor.clone() for key, tensor in two.state_dict().items()}
            two = two_groups(stopped)
            two.load_state_dict(copy)
        two.step(rates, stopped, gradients.backward(loss_of(stopped, update), stopped))
    assert same(straight.state_dict(), stopped.state_dict())
    unknown = {"nothing/exp_avg": torch.zeros(1)}
    assert "'nothing/exp_avg' is for no parameter" in message_of(
        KeyError, two.load_state_dict, unknown
    )


def test_a_group_that_is_replaced_between_two_updates_has_its_new_rate():
    model = nn.Linear(2, 1)
    own = Optimizer(torch.optim.SGD, model)
    optimizer = GroupedOptimizer.of(own, model)
    lr = 0.1
    (name, before), *_ = optimizer.learning_rates(lr, 0).items()

    optimizer.groups[name] = dataclasses.replace(optimizer.groups[name], lr_scale=0.5)

    assert optimizer.learning_rates(lr, 1) == {name: before / 2}
