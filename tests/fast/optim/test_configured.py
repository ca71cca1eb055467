"""From a command line to the owners: who gets which optimizer, with which options, rate, schedule
and clipping."""

import json
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir

from andiron import errors
from andiron.data import digits
from andiron.optim.owners import group_table
from andiron.schedules import Constant, Cosine
from andiron.shell.assembly import grouped_optimizer, network, targets
from andiron.shell.config import resolution
from andiron.shell.config.schema import Train
from refusals import message_of

ROOT = Path(__file__).resolve().parents[3]
SPLITS = digits(valid=0.1, split_seed=0)
MLP = [f"network.layers.{layer}.{kind}" for layer in (1, 3, 5) for kind in ("weight", "bias")]


def config(*overrides):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        composed = compose("train", overrides=[*overrides, "device=cpu"])
    return Train(**resolution.checked(composed))


def built(*overrides):
    return optimizer_of(config(*overrides))


def optimizer_of(chosen, num_updates=210, updates_per_epoch=21):
    lengths = {"num_updates": num_updates, "updates_per_epoch": updates_per_epoch}
    schedule = targets.build_schedule("scheduler", chosen.scheduler, **lengths)
    return grouped_optimizer.build(chosen, network.model(chosen, SPLITS), schedule, **lengths)


def owned(optimizer):
    return {name: [*group.parameters] for name, group in optimizer.groups.items()}


def test_without_rules_the_one_optimizer_owns_everything():
    assert owned(built()) == {"base": MLP}


def test_no_decay_takes_the_decay_from_vectors_alone():
    optimizer = built("optimizer=adamw", "param_groups=no_decay")
    assert owned(optimizer) == {"no_decay": MLP[1::2], "base": MLP[::2]}
    decays = {
        name: group.optimizer.options["weight_decay"] for name, group in optimizer.groups.items()
    }
    assert decays == {"no_decay": 0.0, "base": 0.01}


def test_muon_has_the_hidden_matrices_with_its_own_rate_and_adamw_the_rest():
    optimizer = built("param_groups=muon")
    assert owned(optimizer) == {
        "hidden": [MLP[2]],
        "base": [name for name in MLP if name != MLP[2]],
    }
    assert {name: group.optimizer.name for name, group in optimizer.groups.items()} == {
        "hidden": "torch.optim.Muon", "base": "torch.optim.AdamW",
    }  # fmt: skip
    assert optimizer.learning_rates(1e-3, 0) == {"hidden": pytest.approx(0.02), "base": 1e-3}


def test_in_the_convnet_muon_has_the_one_hidden_matrix_and_no_filter():
    convnet = built("param_groups=muon", "model=convnet")
    assert owned(convnet)["hidden"] == ["network.head.0.weight"]
    shown = "; ".join(map(group_table.summary, convnet.groups.values()))
    assert f"`{shown}`" in (ROOT / "docs" / "parameter_groups.md").read_text(encoding="utf-8")
    frozen = built("param_groups=head_only").groups["body"]
    assert group_table.summary(frozen) == "body, frozen, 4 tensors with 164,608 parameters"


def test_head_only_freezes_the_body_for_good_or_for_as_long_as_is_said():
    optimizer = built("param_groups=head_only")
    assert owned(optimizer) == {"body": MLP[:4], "base": MLP[4:]}
    assert optimizer.frozen == ["body"] and optimizer.groups["body"].optimizer is None

    optimizer = built("param_groups=head_only", "param_groups.body.frozen=2epochs")
    assert (
        optimizer.groups["body"].frozen_updates == 42
        and optimizer.groups["body"].optimizer.name == "torch.optim.Adam"
    )
    optimizer.thaw(41)
    assert optimizer.frozen == ["body"]
    optimizer.thaw(42)
    assert optimizer.frozen == []


def test_parts_of_a_group_can_be_chosen_by_name():
    optimizer = built(
        "param_groups=muon",
        "optimizer@param_groups.hidden=sgd",
        "param_groups.hidden.lr=0.05",
        "optimizer=adam",
        "+scheduler@param_groups.hidden.schedule=cosine",
        "lr=0.002",
    )
    hidden, base = optimizer.groups["hidden"], optimizer.groups["base"]
    assert (hidden.optimizer.name, base.optimizer.name) == ("torch.optim.SGD", "torch.optim.Adam")
    assert hidden.schedule == Cosine(0.002, 210)  # the run's horizon
    assert optimizer.learning_rates(0.002, 70)["hidden"] == hidden.schedule(70) * 25


def test_a_group_from_the_command_line_has_its_settings():
    optimizer = built(
        "optimizer=adamw",
        "+param_groups.head={match:{tag:last,rank:2},lr_scale:10,weight_decay:0.5,"
        "clip:0.25,every:3}",
    )
    head = optimizer.groups["head"]
    assert [*head.parameters] == [MLP[4]] and (head.lr_scale, head.every) == (10, 3)
    assert head.optimizer.options["weight_decay"] == 0.5 and head.transform is not None
    assert head.settings == {"clip": 0.25, "every": 3}


def test_a_text_alone_is_a_match_or_an_exclude_by_name():
    assert owned(built("+param_groups.some={match:bias,exclude:layers.3,lr_scale:2}"))["some"] == [
        MLP[1], MLP[5],
    ]  # fmt: skip


def test_an_empty_exclude_leaves_out_everything():
    with pytest.raises(errors.ConfigError, match="claims no trainable parameter"):
        built("+param_groups.some={match:bias,exclude:''}")


def test_the_record_lists_each_groups_optimizer_and_parameters():
    optimizer = built("optimizer=adamw", "param_groups=no_decay", "+param_groups.no_decay.clip=1.0")
    rates = optimizer.learning_rates(1e-3, 0)
    table = group_table.param_groups(optimizer.groups, rates, Constant(1e-3))
    assert json.loads(json.dumps(table)).keys() == {"no_decay", "base"}
    assert table["no_decay"]["parameters"] == {MLP[1]: [512], MLP[3]: [256], MLP[5]: [10]}
    assert (table["no_decay"]["num_tensors"], table["no_decay"]["num_parameters"]) == (3, 778)
    assert (table["no_decay"]["lr"], table["no_decay"]["clip"], table["no_decay"]["optimizer"]) == (
        1e-3, 1.0, "torch.optim.AdamW",
    )  # fmt: skip
    assert table["no_decay"]["options"]["weight_decay"] == 0.0
    assert table["no_decay"]["schedule"] == "Constant(lr=0.001)"

    optimizer = built("param_groups=head_only")
    rates = optimizer.learning_rates(1e-3, 0)
    table = group_table.param_groups(optimizer.groups, rates, lambda updates: 1e-3)
    assert (table["body"]["optimizer"], table["body"]["lr"], table["body"]["frozen"]) == (
        None, None, True,
    )  # fmt: skip
    assert table["body"]["schedule"] == "<lambda>"


def test_kron_without_opt_einsum_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert message_of(errors.ConfigError, built, "optimizer=kron").endswith(
        "optimizer._target_=pytorch_optimizer.Kron: Kron needs opt_einsum; it comes with "
        "`pip install opt-einsum`"
    )


def test_the_record_of_kron_names_its_dtype():
    optimizer = built("optimizer=kron")
    rates = optimizer.learning_rates(1e-3, 0)
    table = group_table.param_groups(optimizer.groups, rates, Constant(1e-3))
    assert table["base"]["options"]["precondition_dtype"] == "torch.float32"
    assert json.loads(json.dumps(table)).keys() == {"base"}


def test_the_record_shows_the_schedule_and_the_scale_of_each_rate():
    optimizer = built(
        "lr=0.001",
        "+param_groups.head={match:{tag:last},lr:0.1}",
        "+scheduler@param_groups.head.schedule=cosine",
        "+param_groups.first={match:{tag:first}}",
    )
    run = Cosine(0.001, 100)
    table = group_table.param_groups(optimizer.groups, optimizer.learning_rates(run(50), 50), run)
    own = optimizer.groups["head"].schedule
    assert {name: (group["lr_scale"], group["schedule"]) for name, group in table.items()} == {
        "head": (100, "Cosine(initial_lr=0.001, num_updates=210, min_lr=0.0)"),
        "first": (1, "Cosine(initial_lr=0.001, num_updates=100, min_lr=0.0)"),
        "base": (1, "Cosine(initial_lr=0.001, num_updates=100, min_lr=0.0)"),
    }
    assert (table["head"]["lr"], table["base"]["lr"]) == (own(50) * 100, run(50))


class Peak:
    """A schedule of one's own, with names that no shipped one has."""

    def __init__(self, peak_lr, first=0.5):
        self.peak_lr, self.first = peak_lr, first

    def __call__(self, updates):
        return self.peak_lr * (self.first if updates == 0 else 1.0)


def ramp(top=0.3):
    return lambda updates: top * min(updates, 100) / 100


OWN = "_target_:test_configured."
NESTED = f"schedules:[{{{OWN}ramp,top:0.2}},{{{OWN}Peak,peak_lr:0.05}}]"
SCHEDULES = [f"scheduler={path.stem}" for path in (ROOT / "conf" / "scheduler").glob("*.yaml")]
SCHEDULES += [
    "scheduler=warmup scheduler.schedule.initial_lr=0.01",
    "scheduler=sequential scheduler.schedules.1.initial_lr=0.01",
    "scheduler=noam scheduler.warmup_updates=10 scheduler.model_size=64",
    "scheduler=step scheduler.step_size=50 scheduler.gamma=2.0",
    f"~scheduler +scheduler={{{OWN}Peak,peak_lr:0.02}}", f"~scheduler +scheduler={{{OWN}ramp}}",
    f"~scheduler +scheduler={{_target_:andiron.schedules.Sequential,milestones:[90],{NESTED}}}",
    f"~scheduler +scheduler={{_target_:andiron.schedules.Composed,reduction:mean,{NESTED}}}",
]  # fmt: skip


@pytest.mark.parametrize("chosen", SCHEDULES)
def test_the_rate_of_a_group_is_its_peak_under_every_schedule(chosen):
    composed = config("+param_groups.head={match:{tag:last},lr:0.1}", *chosen.split())
    lengths = {"num_updates": 210, "updates_per_epoch": 21}
    optimizer = optimizer_of(composed, **lengths)
    run = targets.build_schedule("scheduler", composed.scheduler, **lengths)
    rates = [optimizer.learning_rates(run(t), t)["head"] for t in range(210)]
    # a warm-up delays a schedule that falls: its peak is that schedule's
    assert max(rates) == pytest.approx(0.1, rel=0.03 if "warmup" in chosen else 1e-12)


def test_a_groups_rate_beside_that_of_its_own_schedule_is_said_to_win(caplog):
    head = "+param_groups.head={match:{tag:last},lr:0.1}"
    place = "param_groups.head.schedule"
    optimizer = built(head, f"+scheduler@{place}=one_cycle", f"{place}.max_lr=0.05")
    assert max(optimizer.learning_rates(1e-3, t)["head"] for t in range(210)) == 0.1
    assert caplog.messages == [
        "param_groups.head.lr=0.1 is used; param_groups.head.schedule, whose peak is 0.05, gives "
        "only the shape"
    ]
    built(head, f"+scheduler@{place}=one_cycle", "lr=0.01")  # whose rate is the run's
    assert len(caplog.messages) == 1
    with pytest.raises(errors.ConfigError, match=r"head.lr=0.1: the peak .* is 0.0; should"):
        built(head, f"+{place}={{{OWN}ramp,top:0.0}}")


def test_every_wrong_group_is_reported_at_once():
    chosen = config(
        "optimizer=sgd", "+optimizer@param_groups.one=muon", "+param_groups.one.match=layers.1",
        "+param_groups.two={match:layers.3,nesterov:true,momentum:0.0}",
    )  # fmt: skip
    with pytest.raises(errors.ConfigError) as refused:
        optimizer_of(chosen, num_updates=1, updates_per_epoch=1)
    first, second = refused.value.problems
    assert first.startswith(f"param_groups.one: torch.optim.Muon does not take '{MLP[1]}' [512]; ")
    assert second == "param_groups.two: Nesterov momentum requires a momentum and zero dampening"


def test_groups_of_one_class_of_another_package_are_one_object():
    rates = "+param_groups.head={match:{tag:last},exclude:{rank:1},lr_scale:0.5}"
    groups = built("optimizer=lion", "param_groups=no_decay", rates).groups
    (optimizer,) = {group.optimizer for group in groups.values()}
    held = optimizer.held
    assert [groups[name].number for name in ("base", "no_decay", "head")] == [0, 1, 2]
    assert [len(group["params"]) for group in held.inner.param_groups] == [2, 3, 1]
    assert {name: group.options["weight_decay"] for name, group in groups.items()} == {
        "base": 0.0, "no_decay": 0.0, "head": 0.0
    }  # fmt: skip
    optimizer.held.expect([0.1, 0.1, 0.05])
    assert [group["lr"] for group in held.inner.param_groups] == [0.1, 0.1, 0.05]


@pytest.mark.parametrize("target", ["torch.optim.Rprop", "torch.optim.SparseAdam"])
def test_any_optimizer_class_can_be_named_by_its_target(target):
    optimizer = built("~optimizer", f"+optimizer._target_={target}", "lr=0.01")
    assert optimizer.groups["base"].optimizer.name == target
    assert isinstance(optimizer.groups["base"].optimizer.parameters[MLP[0]], torch.nn.Parameter)
