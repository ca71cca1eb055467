"""Further validation sets in the loop: cadence, metrics, decisions, state."""

import copy
import json

import pytest
import torch
from kept_points import Rewound
from small_digits import DIGITS, LR, TEST, TRAIN, VALID, builder, classifier, loaders

from andiron import data, errors, schedules
from andiron.checkpoint import checkpointing
from andiron.distributed import World
from andiron.learner import EarlyStopping, LearnerBuilder
from andiron.metrics import Accuracy, Loss
from andiron.optim import Optimizer
from andiron.optim.own import averaging
from andiron.plain.cadence import Cadence
from stops_at import stops_at
from threaded_world import in_threads

NIGHT = data.DataLoader(TEST, DIGITS.batcher, batch_size=4)


def made(folder, *writers, change=lambda b: b, model=None, lr=LR):
    model = model or classifier()
    chosen = change(builder(folder, *writers))
    return chosen.build(model, Optimizer(torch.optim.Adam, model), lr)


def fitted(folder, change, more=None, **options):
    """The learner after `fit`, and its points."""
    kept = Rewound()
    with made(folder, kept, change=change, **options) as learner:
        learner.fit(*loaders(), more={"night": NIGHT} if more is None else more)
    return learner, kept


def best(metric, direction):
    return checkpointing(last=1, metric=metric, split="night", direction=direction).strategy


@pytest.mark.parametrize(("every", "expected"), [
    (None, [7, 14]), (5, [5, 10, 14]), ("2epochs", [14]), ({"updates": 7, "epochs": 1}, [7, 14]),
])  # fmt: skip
def test_a_set_has_its_own_cadence_and_is_measured_at_the_end(tmp_path, every, expected):
    learner, kept = fitted(tmp_path, lambda b: b.valid_set("night", every=every))
    assert [updates for updates, _ in kept.of("night")] == expected
    assert [updates for updates, _ in kept.of("valid")] == [7, 14]
    last = kept.of("night")[-1][1]
    assert learner.metric_log.history.standings["night"]["loss"].last == last["loss"]


def test_a_set_has_the_values_of_its_data(tmp_path):
    _, kept = fitted(tmp_path, lambda b: b.valid_set("night"))
    assert kept.of("night")[-1][1]["accuracy"] == kept.of("test")[-1][1]["accuracy"]
    assert kept.of("night")[-1] != kept.of("valid")[-1]


def test_a_set_is_measured_with_averages_first_and_on_request(tmp_path):
    _, kept = fitted(
        tmp_path,
        lambda b: b.valid_set("night")
        .options(validate_first=True)
        .averages(ema=averaging.Ema(0.9)),
    )
    assert [updates for updates, _ in kept.of("night")] == [0, 7, 14]
    assert [updates for updates, _ in kept.of("night-ema")] == [7, 14]


def test_sets_do_not_change_what_is_trained(tmp_path):
    with_set, kept = fitted(tmp_path / "a", lambda b: b.valid_set("night", every=3))
    without, alone = fitted(tmp_path / "b", lambda b: b, more={})
    for name, tensor in without.model.state_dict().items():
        assert torch.equal(tensor, with_set.model.state_dict()[name])
    assert [line for line in kept.untimed() if line[0] != "night"] == alone.untimed()


@pytest.mark.parametrize("change", [
    lambda b: b.valid_set("night", every=3),
    lambda b: b.valid_set("night").early_stopping(
        rule=EarlyStopping("loss", split="night", patience=9, restores_best=True)
    ),
])  # fmt: skip
@pytest.mark.parametrize(
    "place", [("night", None, 1), ("train", 3, None), ("train", 9, None), ("valid", None, 2)]
)
def test_stopping_in_any_pass_equals_never_stopping(tmp_path, change, place):
    straight, kept = fitted(tmp_path / "a", change)
    again = Rewound()

    def saved(b):
        return change(b).with_file_checkpointer(best("loss", "lowest"), Cadence(updates=100))

    with made(tmp_path, again, change=lambda b: saved(b).interrupter(stops_at(*place))) as learner:
        with pytest.raises(errors.Interrupted):
            learner.fit(*loaders(), more={"night": NIGHT})
    with made(tmp_path, again, change=saved) as learner:
        learner.resume()
        learner.fit(*loaders(), more={"night": NIGHT})
    assert again.untimed() == kept.untimed()
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, learner.model.state_dict()[name])
    assert straight.state().state["parts"] == learner.state().state["parts"]
    assert straight.state().state["early_stopping"] == learner.state().state["early_stopping"]


def test_a_state_without_sets_is_loaded_and_its_new_set_measured(tmp_path):
    saved, _ = fitted(tmp_path / "a", lambda b: b, more={})
    state = saved.state()
    assert "sets" not in state.state["parts"]
    kept = Rewound()
    with made(tmp_path / "b", kept, change=lambda b: b.valid_set("night")) as learner:
        learner.load(state)
        learner.fit(*loaders(), more={"night": NIGHT})
    assert [updates for updates, _ in kept.of("night")] == [14] and not kept.of("valid")


def test_a_rule_counts_the_validations_of_its_own_set(tmp_path):
    rule = EarlyStopping("accuracy", split="night", direction="highest", goal=0.0, not_before=6)
    learner, kept = fitted(
        tmp_path,
        lambda b: b.valid_set("night", every=5).options(validate_every=2).early_stopping(a=rule),
    )
    assert learner.updates == 10 and [u for u, _ in kept.of("valid")] == [2, 4, 6, 8, 10]
    assert learner.early_stopping.rules["a"].observed.last_update == 10


def test_the_best_checkpoint_follows_a_set(tmp_path):
    learner, kept = fitted(
        tmp_path,
        lambda b: b.valid_set("night", every=3)
        .with_file_checkpointer(best("loss", "lowest"), Cadence(updates=1))
        .options(test_weights="best"),
    )
    updates, _ = min(kept.of("night"), key=lambda point: point[1]["loss"])
    saved = {one.updates: one.values for one in learner.checkpointer.saved}
    assert updates in saved and "night" in saved[updates]
    assert all("night" in saved[u] for u in saved if u % 3 == 0)


def test_a_plateau_observes_its_set(tmp_path):
    plateau = schedules.Plateau(LR, patience=0, metric="loss", split="night", threshold=0.9)
    observed = []
    plateau.observe = lambda values: observed.append({*values})
    fitted(tmp_path, lambda b: b.valid_set("night", every=5), lr=plateau)
    assert len(observed) == 3 and all("night" in splits for splits in observed)


@pytest.mark.parametrize(("change", "message"), [
    (lambda b: b.valid_set("test"), "validation set 'test': should be a name of"),
    (lambda b: b.valid_set("night").early_stopping(a=EarlyStopping("loss", "nigth", goal=0.1)),
     "early_stopping.a.split=nigth: nothing is measured on it; did you mean 'night'.*available: "
     "train, valid, night"),
    (lambda b: b.valid_set("night").with_file_checkpointer(best("acuracy", "highest")),
     "checkpoint.metric=acuracy: not measured on night; did you mean 'accuracy'?"),
    (lambda b: b.valid_set("night", every="1minute").early_stopping(
         a=EarlyStopping("loss", "night", goal=0.1)),
     "valid_sets_every.night=1minute: a would depend on the machine's speed"),
])  # fmt: skip
def test_choices_that_do_not_fit_the_sets_are_refused(tmp_path, change, message):
    with pytest.raises(errors.ConfigError, match=message):
        made(tmp_path, change=change)


def test_the_record_names_each_set_as_a_configuration_does(tmp_path):
    class Own(Loss):
        name = "own"

    def recorded(folder, change):
        chosen = change(LearnerBuilder(folder, num_epochs=1).metric_valid_numeric(Loss()))
        model = classifier()
        sets = dict.fromkeys(chosen._chosen.sets, NIGHT)
        with chosen.renderer(None).build(model, Optimizer(torch.optim.SGD, model), LR) as learner:
            learner.fit(*loaders(), more=sets)
        return json.loads((folder / "config.json").read_text())

    config = recorded(tmp_path / "a", lambda b: b.valid_set("night").valid_set("fog", every=5))
    assert config["valid_sets_every"] == {"night": "1epochs", "fog": 5}
    assert [*config["metrics"]] == ["loss"]
    config = recorded(tmp_path / "b", lambda b: b.metric_valid_numeric(Accuracy(), Own()))
    assert [*config["metrics"]] == ["loss", "accuracy"]
    assert "in a function" in config["from_python"]["not_recorded"]["metrics.own"]["reason"]
    assert "valid_sets_every" not in recorded(tmp_path / "c", lambda b: b)


@pytest.mark.parametrize("more", [None, {}, {"fog": NIGHT}, {"night": NIGHT, "fog": NIGHT}])
def test_fit_needs_the_loader_of_every_set(tmp_path, more):
    with made(tmp_path, change=lambda b: b.valid_set("night")) as learner:
        with pytest.raises(errors.MismatchError, match="the learner was built with night; name"):
            learner.fit(*loaders(), more=more)


def test_two_processes_measure_a_set_as_one(tmp_path):
    def run(world):
        kept, model = Rewound(), copy.deepcopy(initial)
        loading = data.DataLoaderBuilder(DIGITS.batcher).batch_size(8).world(world)
        train, valid, night = (loading.build(dataset) for dataset in (TRAIN, VALID, TEST))
        chosen = builder(tmp_path / f"{world.size}-{world.rank}", kept).world(world)
        chosen.valid_set("night", every=5)
        with chosen.build(model, Optimizer(torch.optim.Adam, model), LR) as learner:
            learner.fit(train, valid, more={"night": night})
        return kept.of("night")

    initial = classifier(dropout=0.0)
    alone = run(World(slices=2))
    assert in_threads(run, 2, slices=2) == [alone, alone]
    assert [updates for updates, _ in alone] == [5, 10, 14]
