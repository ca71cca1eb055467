"""A run's configuration: what it takes, what it refuses and in which words, and that its record
reads back equal.
"""

import dataclasses
import json
import math
from typing import Any

import pytest

from andiron import errors
from andiron.disk import files
from andiron.shell.config import schema
from andiron.shell.config.schema import INSTRUCTIONS, Train
from andiron.shell.config.trust import Trust
from refusals import message_of

PLAIN: dict[str, Any] = {
    "lr": 0.1 / 3,
    "data": {"_target_": "andiron.data.digits", "valid": 0.1, "split_seed": 0},
    "task": {"_target_": "andiron.tasks.Classifier"},
    "model": {"_target_": "andiron.models.MLP", "hidden": [7, 5], "dropout": 0.0},
    "optimizer": {"_target_": "torch.optim.Adam", "betas": [0.9, 0.999], "eps": 1e-8},
    "scheduler": {"_target_": "andiron.schedules.Cosine", "initial_lr": 0.1 / 3, "min_lr": 0.0,
                  "num_updates": None},
    "metrics": {"loss": {"_target_": "andiron.metrics.Loss"}},
}  # fmt: skip
EVERY = (
    "should be a number of updates (500), epochs (2epochs) or minutes (10minutes), "
    "or {updates: 500, minutes: 10}"
)
TRACED = "should be {updates: [first, last]}, counted from 1, at most 1,000 of them"


def said(**changes: Any) -> list[str]:
    """The problems after these top options are changed."""
    return list(schema.problems({**PLAIN, **changes}).values())


def said_of(group: str, **changes: Any) -> list[str]:
    """The problems after these arguments of the group's node are changed."""
    return said(**{group: {**PLAIN[group], **changes}})


def test_the_default_number_of_epochs_gives_way_to_a_number_of_updates(tmp_path):
    config = Train(**PLAIN, num_updates=500)

    files.write_json(tmp_path / "config.json", config.recorded())

    assert (config.num_epochs, config.num_updates) == (None, 500)
    assert Train.load(tmp_path / "config.json") == config
    assert said(num_updates=500) == said(num_updates=500, num_epochs=10) == []


def test_a_run_is_as_long_as_one_option_says():
    assert said(num_epochs=None) == ["num_epochs: no value; give num_epochs or num_updates"]
    assert said(num_epochs=20, num_updates=500) == [
        "num_epochs=20: num_updates=500 is given too; set one to null"
    ]


def test_every_option_says_what_it_means_and_what_a_resumed_run_may_do():
    for field in dataclasses.fields(Train):
        assert field.metadata["meaning"] and field.metadata["resume"] in ("free", "ask", "never")

    policy = schema.resume_policy()
    assert (policy["num_epochs"], policy["lr"], policy["model"]) == ("free", "ask", "never")


def test_options_that_are_rarely_set_are_hyperparameters_only_if_set():
    counted = set(schema.hyperparameters(vars(Train(**PLAIN))))

    assert {"lr", "batch_size", "num_epochs", "seed", "model", "optimizer"} <= counted
    assert not {"device", "log_every", "clip", "averages"} & counted
    assert "clip" in schema.hyperparameters(vars(Train(**PLAIN, clip=1.0)))


def test_saving_and_loading_gives_back_an_equal_configuration(tmp_path):
    texts = {
        "_target_": "a.users.own", "path": 'Übung/\n\t"x"', "sizes": [1, [2.5e-300, None, True]],
    }  # fmt: skip
    config = Train(
        **{**PLAIN, "seed": 2**63 - 1, "overwrite": True, "checkpoint": texts, "device": "cuda:1"}
    )

    files.write_json(tmp_path / "config.json", config.recorded())

    names = [field.name for field in dataclasses.fields(Train) if field.name not in INSTRUCTIONS]
    assert list(json.loads((tmp_path / "config.json").read_text())) == names
    read = Train.load(tmp_path / "config.json", Trust(packages=("a",)))
    assert read == dataclasses.replace(config, overwrite=False)


def test_loading_fills_missing_options_with_the_defaults(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**PLAIN, "num_epochs": 3}))

    config = Train.load(tmp_path / "config.json")

    assert config == Train(**PLAIN, num_epochs=3)
    first = config.seed, config.batch_size, config.num_workers, config.device
    second = config.log_every, config.overwrite, config.checkpoint, config.render
    assert (*first, *second) == (42, 64, 0, "auto", 20, False, None, None)


def test_loading_names_the_file_and_everything_that_is_wrong_in_it(tmp_path):
    path = tmp_path / "config.json"
    wrong = {
        **PLAIN, "lr": -1, "batch_sise": 3,
        "optimizer": {"_target_": "torch.optim.Adam", "beta": 1},
    }  # fmt: skip
    path.write_text(json.dumps({name: value for name, value in wrong.items() if name != "data"}))

    with pytest.raises(errors.ConfigError) as caught:
        Train.load(path)

    assert str(caught.value).splitlines() == [
        "4 problems in the configuration; nothing was trained:",
        f"  {path}: lr=-1: should be greater than 0",
        f"  {path}: data: no value; give one as data=...",
        f"  {path}: batch_sise: no such option; did you mean 'batch_size'?",
        f"  {path}: optimizer.beta: no such option; did you mean 'betas'?",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [('{"lr": 0.1', "not JSON: "), ("[1]", "holds list, not an object of options")],
)
def test_a_file_that_is_not_an_object_of_options_is_refused_by_name(tmp_path, content, words):
    (tmp_path / "config.json").write_text(content)

    with pytest.raises(errors.ConfigError) as caught:
        Train.load(tmp_path / "config.json")

    assert caught.value.problems[0].startswith(f"{tmp_path / 'config.json'}: {words}")


def test_a_sound_configuration_has_no_problems():
    own = {"_target_": "mine.Network", "anything": [1, {"at": "all"}]}
    assert said() == said(lr=1) == said(model=own) == []


@pytest.mark.parametrize(("option", "value", "allowed"), [
    ("lr", 0.0, "should be greater than 0"),
    ("lr", True, "should be a valid number"),
    *[("lr", value, "should be a finite number") for value in (math.inf, -math.inf, math.nan)],
    ("seed", True, "should be a valid integer"),
    ("seed", 1.0, "should be a valid integer"),
    ("overwrite", 1, "should be a valid boolean"),
    ("lr", "abc", "should be a valid number"),
    ("lr", [0.1], "should be a valid number"),
    ("num_epochs", 0, "should be greater than or equal to 1"),
    ("batch_size", -4, "should be greater than or equal to 1"),
    ("num_workers", -1, "should be greater than or equal to 0"),
    ("log_every", 0, EVERY),
    ("validate_every", "2weeks", EVERY),
    ("profile", 3, TRACED),
    ("profile", {"updates": [5, 4]}, TRACED),
    ("profile", {"updates": [0, 4]}, TRACED),
    ("num_updates", 0, "should be greater than or equal to 1"),
    ("seed", -1, "should be greater than or equal to 0"),
    ("seed", 2**63, "should be less than 9223372036854775808"),
    ("device", "gpu", "should be auto, cpu, mps, cuda or cuda:<index>"),
    ("device", "cuda:x", "should be auto, cpu, mps, cuda or cuda:<index>"),
    ("model", None, "should be an object"),
    ("render", "plain",
     "should be an object, as the defaults of a file choose it: `override /render: plain`; "
     "files of your own need --config-dir"),
    ("param_groups", 3, "should be an object"),
    ("averages", 3, "should be an object"),
])  # fmt: skip
def test_a_wrong_value_is_answered_by_what_is_allowed(option, value, allowed):
    assert said(**{option: value}) == [f"{option}={value}: {allowed}"]


@pytest.mark.parametrize(("group", "argument", "value", "allowed"), [
    ("model", "dropout", 1.0, "should be less than 1"),
    ("model", "hidden", [7, 0], "should be greater than or equal to 1 (item 1)"),
    ("model", "hidden", 7, "should be a list, in brackets: [...]"),
    ("optimizer", "betas", [0.9, 1.5], "should be less than 1 (item 1)"),
    ("optimizer", "betas", [0.9], "item 1 is missing"),
    ("optimizer", "eps", False, "should be a valid number"),
    ("optimizer", "eps", math.inf, "should be a finite number"),
    ("optimizer", "weight_decay", -0.1, "should be greater than or equal to 0"),
    ("scheduler", "num_updates", 0, "should be greater than or equal to 1"),
    ("data", "valid", 0, "should be greater than 0 or 'test'"),
    ("data", "valid", "tests", "should be a valid number or 'test'"),
    ("optimizer", "weight_decay", 10**40, "should be a number of 64 bits, or one like 1e30"),
])  # fmt: skip
def test_a_wrong_argument_is_answered_by_what_is_allowed(group, argument, value, allowed):
    assert said_of(group, **{argument: value}) == [f"{group}.{argument}={value}: {allowed}"]


def test_an_unknown_option_is_answered_by_the_nearest_or_by_all():
    assert said(learning_rates=3)[0].startswith(
        "learning_rates: no such option; allowed here: num_epochs, num_updates, max_time, "
    )
    end = "interrupted_exit_code; + adds others only for an interpolation"
    assert said(learning_rates=3)[0].endswith(end)
    assert said(num_epoch=3) == ["num_epoch: no such option; did you mean 'num_epochs'?"]
    assert said_of("model", hiden=[3]) == ["model.hiden: no such option; did you mean 'hidden'?"]
    assert said_of("model", activation="relu") == [
        "model.activation: no such option; allowed here: hidden, dropout"
    ]
    assert said_of("task", inputs=3) == [
        "task.inputs: no such option; allowed here: nothing (~task.inputs removes it)"
    ]


@pytest.mark.parametrize("target", [{}, {"_target_": None}, {"_target_": 3}])
def test_a_node_without_the_name_of_its_target_or_an_argument_is_refused(target):
    assert said(model=target) == [
        f"model._target_={target.get('_target_')}: names no class or function; "
        "give its dotted name, such as torch.optim.Adam"
    ]
    assert said(scheduler={"_target_": "andiron.schedules.Step", "initial_lr": 0.1}) == [
        "scheduler.step_size: no value; give one as scheduler.step_size=..."
    ]


def test_metrics_are_checked_one_by_one():
    wrong = {"loss": {"_target_": "andiron.metrics.Loss", "beta": 1}, "f1": {}, "auc": 3}

    begun = [line.split(":")[0] for line in said(metrics=wrong)]
    assert begun == ["metrics.loss.beta", "metrics.f1._target_=None", "metrics.auc=3"]
    assert said(metrics={"auc": 3}) == [
        "metrics.auc=3: should be an object with a _target_, as metrics=... chooses"
    ]


def test_every_problem_is_reported_at_once_one_line_per_option():
    model = {"_target_": "andiron.models.MLP", "hidden": [], "dropout": 2, "widht": 3}
    assert said(lr=-1, seeds=3, model=model) == [
        "lr=-1: should be greater than 0",
        "seeds: no such option; did you mean 'seed'?", "model.dropout=2: should be less than 1",
        "model.widht: no such option; allowed here: hidden, dropout",
    ]  # fmt: skip


def test_the_data_root_becomes_absolute_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = Train(
        **{**PLAIN, "data": {"_target_": "andiron.data.mnist", "root": "my/data", "valid": "test"}}
    )

    absolute = config.with_absolute_paths()

    assert absolute.data == {
        "_target_": "andiron.data.mnist", "root": f"{tmp_path}/my/data", "valid": "test",
    }  # fmt: skip
    assert absolute.with_absolute_paths() == absolute


@pytest.mark.parametrize(
    "data", [{"_target_": "mine.data", "root": None}, {"_target_": "mine.data"}]
)
def test_a_data_set_without_a_path_for_a_root_is_left_as_it_is(data):
    config = Train(**{**PLAIN, "data": data})

    assert config.with_absolute_paths() == config


@pytest.mark.parametrize("name", ["parts.collate", "imdb", "s3://bucket/x", "nothing/there"])
@pytest.mark.parametrize("target", [
    "hydra.utils.get_method", "datasets.load_dataset", "mine.Stream"])  # fmt: skip
def test_a_path_that_is_a_name_stays_as_typed(tmp_path, monkeypatch, target, name):
    monkeypatch.chdir(tmp_path)
    node = {"_target_": "andiron.data.torch_dataset", "train": {"_target_": target, "path": name}}
    assert schema._absolute(node) == node
    (tmp_path / "clicks").mkdir()
    node["train"]["path"] = "clicks"
    assert schema._absolute(node)["train"]["path"] == str(tmp_path / "clicks")


def test_an_option_of_an_unchosen_part_says_how_to_choose_the_part():
    message = said(early_stopping={"patience": {"patience": 3}}, averages={"ema": {"decay": 0.9}})

    assert message == [
        "averages.ema: has options but no _target_; give averages=ema too, or a _target_",
        "early_stopping.patience: has options but no _target_; give early_stopping=patience too, "
        "or a _target_",
    ]


@pytest.mark.parametrize(("entry", "shown"), [
    ({"built_at": "train.py:7"}, "run its code again (train.py:7), with"),
    ({"built_at": "x" * 10**6}, "run its code again, with"),
    ({}, "run its code again, with"),
    (["x"], "run its code again, with"),
])  # fmt: skip
def test_a_run_from_python_names_its_code_shortly(entry, shown, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({schema.FROM_PYTHON: entry}))
    assert shown in message_of(errors.ConfigError, Train.load, path)
