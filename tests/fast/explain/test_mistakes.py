"""Every mistake of a command line is reported at once, in words for the user."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from refusals import lacking, message_of

from andiron import errors
from andiron.plain import wings
from andiron.shell.config import (
    arguments as command_arguments, composition, config_folders, project, resolution, schema,
)  # fmt: skip
from andiron.wings.explain import misplaced, mistakes

CONF = Path(__file__).resolve().parents[3] / "conf"
OPTIMIZERS = ", ".join(config_folders.groups(*project.shipped_conf_dirs())["optimizer"])


def explained(*arguments):
    """The explanation of a command line that Hydra refused with `its own words`."""
    try:
        given = command_arguments.in_order(list(arguments))
    except errors.ConfigError as error:
        return [*error.problems]
    return mistakes.explain(given, CONF, Exception("its own\n   words"))


def test_a_choice_below_a_folder_conf_that_is_not_read_is_pointed_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text("lr: 0.1\n")
    (line,) = explained("experiment=mine")
    assert "no such experiment; --config-dir conf reads the one below conf/; available" in line
    assert "--config-dir" not in explained("experiment=other")[0]


def problems(*overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", overrides=list(overrides))
    try:
        resolution.checked(config)
    except errors.ConfigError as error:
        return [*error.problems]
    return []


@pytest.mark.parametrize(("argument", "line"), [
    ("optimizer=adamm",
     f"optimizer=adamm: no such optimizer; did you mean 'adam'?; available: {OPTIMIZERS}"),
    ("optimizer=lyon,adam",
     f"optimizer=lyon: no such optimizer; did you mean 'lion'?; available: {OPTIMIZERS}"),
    ("render=3", "render=3: no such render; available: auto, dashboard, live, plain"),
    ("render=null",
     "render=null: no such render; available: auto, dashboard, live, plain; 'render=[]' leaves it "
     "out"),
    ("optimiser=adam", "optimiser: no such option; did you mean 'optimizer'?"),
    ("bacth_size=3", "bacth_size: no such option; did you mean 'batch_size'?"),
    ("optimizer.lr=1", "optimizer.lr: no such option; did you mean 'lr'?"),
    ("data.batch_size=8", "data.batch_size: no such option; did you mean 'batch_size'?"),
    ("+experiment=digits", "Multiple values for experiment. To override a value use 'override "
     "experiment: digits'; on the command line without a plus before it"),
    ("learning_rate=1", "learning_rate: no such option; did you mean 'lr'?"),
    ("ckpt_path=x", "ckpt_path: no such option; did you mean 'resume'?"),
    ("trainer.max_epochs=3", "trainer.max_epochs: no such option; did you mean 'num_epochs'?"),
    ("callbacks.model_checkpoint.monitor=x",
     "callbacks.model_checkpoint.monitor: no such option; did you mean 'checkpoint'?"),
    ("trainer.scheduler.patience=3",
     "trainer.scheduler.patience: no such option; did you mean 'scheduler'?"),
    ("logger.wandb.project=x", "logger.wandb.project: no such option; did you mean 'writers'?"),
    ("name=forêt", "name=forêt: cannot be read as option=value: token recognition error at: 'ê'; "
     """a text is quoted for Hydra too: 'name="forêt"'"""),
    ("dropout=0.5", "dropout: no such option; did you mean 'model.dropout'?"),
    ("model.weight_decay=1",
     "model.weight_decay: no such option; did you mean 'optimizer.weight_decay'?"),
    ("name=../else", "name=../else: should be up to 64 of A-Z a-z 0-9 _.+- (the first not .+-)"),
    ("optimizer.beta=3", "optimizer.beta: no such option; did you mean 'betas'?"),
    ("lr=abc", "lr=abc: should be a valid number"),
    ("start_from={path: x, rename: {^net: y}}",
     "start_from={path: x, rename: {^net: y}}: cannot be read as option=value: token recognition "
     "error at: '^'; keys in braces are of ASCII letters, digits and / - + . $ % * @ ? | \\ "
     "(\\A begins a pattern); others stand in a YAML file"),
    ("lr=[1,", "lr=[1,: cannot be read as option=value: no viable alternative at input '[1,'; "
     """a text is quoted for Hydra too: 'lr="[1,"'"""),
    ("lr=", "lr=: should be a valid number"),
    ("--lr=0.1", "--lr=0.1: no such flag; options have no dashes: lr=0.1"),
    ("--confg-dir=x", "--confg-dir=x: no such flag; did you mean '--config-dir'?"),
    ("mnist", "mnist: cannot be read as option=value: did you mean data=mnist?"),
    ("nothing", "nothing: cannot be read as option=value: an option is typed as lr=0.1; andiron "
     "help lists the commands"),
    ("model.optimizer.lr=3", "model.optimizer.lr: no such option; did you mean 'lr'?"),
    ("batch-size=3", "batch-size: no such option; did you mean 'batch_size'?"),
    ("early_stopping.patience=3", "early_stopping.patience=3: should be an object with a "
     "_target_, as early_stopping=... chooses"),
    ("lr=${nothing}", "lr: Interpolation key 'nothing' not found"),
    ("scheduler.lr=${nothing.at.all}",
     "scheduler.lr: Interpolation key 'nothing.at.all' not found"),
    ("lr=???", "lr: no value; give one as lr=..."),
])  # fmt: skip
def test_a_mistake_is_reported_in_one_line(argument, line):
    assert explained(argument) == [line]


@pytest.mark.parametrize(("group", "choice", "nearest"), [
    ("scheduler", "CosineAnnealingLR", "cosine"), ("scheduler", "StepLR", "step"),
    ("optimizer", "torch.optim.Adam", "adam"), ("loss", "CrossEntropyLoss", "cross_entropy"),
    ("experiment", "mnist", "convnet_mnist"), ("model", "resnet50", "resnet"),
])  # fmt: skip
def test_a_choice_of_another_library_leads_to_the_one_here(group, choice, nearest):
    (line,) = explained(f"{group}={choice}")
    assert f"; did you mean {nearest!r}?" in line


@pytest.mark.parametrize("arguments", [
    ("--lr", "0.1"), ("-lr", "0.1"), ("--learning-rate", "0.1"), ("lr", "0.1"),
    ("learning_rate", "0.1"),
])  # fmt: skip
def test_an_option_typed_as_elsewhere_is_shown_as_here(arguments):
    (line,) = explained(*arguments)
    assert line.endswith(": lr=0.1")


def test_each_name_of_another_codebase_leads_to_an_option():
    for name in misplaced.OTHER_NAMES:
        (line,) = explained(f"{name}=3")
        assert "; did you mean '" in line, name


@pytest.mark.parametrize(("argument", "line"), [
    ("callbacks=none", "callbacks: no such group; did you mean 'observers'?; a group of your own is"
     " added in project/default.yaml (docs/from_lightning.md)"),
    ("trainer=gpu", "trainer: no such option; did you mean 'device'?"),
    ("trainer.max_epochs=5", "trainer.max_epochs: no such option; did you mean 'num_epochs'?"),
    ("experiment=old", "In 'experiment/old': callbacks: no such group; did you mean 'observers'?; a"
     " group of your own is added in project/default.yaml (docs/from_lightning.md)"),
])  # fmt: skip
def test_habits_of_a_template_are_answered_beside_paths_that_ask_hydra(tmp_path, argument, line):
    written = {
        "project/default.yaml": "# @package _global_\ndefaults: [/paths: default]\n",
        "paths/default.yaml": "output: ${hydra:runtime.output_dir}\nlogs: ${paths.output}\n",
        "callbacks/none.yaml": "",
        "experiment/old.yaml": "# @package _global_\ndefaults: [override /callbacks: none]\n",
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    assert explained(argument, f"--config-dir={tmp_path}") == [line]


@pytest.mark.parametrize(("argument", "line"), [
    ("optimizer=adamm", "In 'train': Could not find 'optimizer/adamm'"),
    ("bacth_size=3", "Could not override 'bacth_size'."),
    ("lr=[1,", "no viable alternative at input '[1,'"),
    ("lr=abc", "lr=abc: should be a valid number"),
    ("--lr=0.1", "--lr=0.1: no such flag"),
])  # fmt: skip
def test_without_the_wing_that_explains_a_mistake_has_hydras_own_words(monkeypatch, argument, line):
    monkeypatch.setattr(wings, "optional", lambda name: None)

    def refused():
        composition.composed(CONF, command_arguments.in_order([argument]))

    message = message_of(errors.ConfigError, refused)
    assert f"\n  {line}" in message


def test_every_mistake_is_reported_at_once():
    arguments = [
        "-m", "optimizer=adamm", "lr=abc", "batch_size=0", "num_epoch=3", "model.widht=1", "seed=[",
        "log_every=5",
    ]  # fmt: skip

    assert sorted(explained(*arguments)) == [
        "batch_size=0: should be greater than or equal to 1",
        "lr=abc: should be a valid number",
        "model.widht: no such option; allowed here: hidden, dropout",
        "num_epoch: no such option; did you mean 'num_epochs'?",
        f"optimizer=adamm: no such optimizer; did you mean 'adam'?; available: {OPTIMIZERS}",
        "seed=[: cannot be read as option=value: no viable alternative at input '['; "
        """a text is quoted for Hydra too: 'seed="["'""",
    ]


def test_options_of_an_unknown_choice_are_not_checked():
    (line,) = explained("optimizer.beta=3", "optimizer=AdamWW")
    assert line.startswith("optimizer=AdamWW: no such optimizer; did you mean 'adamw'?; ")


def test_a_sound_command_line_is_answered_in_hydras_own_words():
    assert explained("lr=0.1", "optimizer=sgd") == ["its own words"]


def test_a_file_or_a_runs_folder_alone_leads_to_the_option_that_takes_it(tmp_path):
    (table := tmp_path / "flowers.csv").touch()
    (line,) = explained(str(table))
    assert "a path; data=csv data.path=" in line
    assert "flowers.csv trains on a table, resume=" in line
    (tmp_path / "manifest.json").touch()
    (line,) = explained(str(tmp_path))
    assert line.endswith(f": a run's folder, resume={tmp_path} resumes it")


def test_a_train_yaml_of_another_trainer_is_refused_until_its_choices_are_in_the_project(tmp_path):
    (tmp_path / "train.yaml").write_text("defaults: [{data: mine}]")
    arguments = ["--config-dir", str(tmp_path)]
    default = tmp_path / "project" / "default.yaml"
    message = message_of(errors.ConfigError, config_folders.all_dirs, CONF, arguments)
    assert f"{tmp_path / 'train.yaml'}: is not read" in message and str(default) in message
    default.parent.mkdir()
    default.write_text("# @package _global_")
    assert tmp_path in config_folders.all_dirs(CONF, arguments)
    assert CONF in config_folders.all_dirs(CONF, ["--config-dir", str(CONF)])


def test_choices_of_the_user_that_hydra_would_pass_over_are_refused_by_name(tmp_path):
    for name in ("data/mnist.yaml", "data/mine.yaml", "hydra/sweeper/optuna.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("_target_: mine.pictures")
    arguments = ["--config-dir", str(tmp_path)]
    message = message_of(errors.ConfigError, config_folders.all_dirs, CONF, arguments)
    for name in ("data/mnist.yaml", "hydra/sweeper/optuna.yaml"):
        assert f"{tmp_path / name}: is not read" in message
    assert "mine.yaml" not in message


@pytest.mark.parametrize(("typed", "beginning"), [("true", "debug=True"), ("default", "debug")])
def test_a_folder_with_the_name_of_an_option_is_named(tmp_path, typed, beginning):
    (tmp_path / "debug").mkdir()
    (tmp_path / "debug" / "default.yaml").write_text("# @package _global_\nnum_epochs: 1\n")
    given = ["--config-dir", str(tmp_path), f"debug={typed}"]
    message = message_of(errors.ConfigError, composition.composed, CONF, given)
    assert f"  {beginning}: an option, which a folder of yours with its name hides" in message


def test_a_file_of_the_users_own_config_dir_is_accepted(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nlr: 0.5\n")

    assert explained("--config-dir", str(tmp_path), "experiment=mine", "seed=abc") == [
        "seed=abc: should be a valid integer"
    ]
    (words,) = explained("--config-dir", str(tmp_path), "experiment=mien")
    beginning = "experiment=mien: no such experiment; did you mean 'mine'?; available: "
    assert words.startswith(beginning)
    assert {"convnet_mnist", "mine"} <= set(words.split("available: ")[1].split(", "))


@pytest.mark.parametrize(("content", "options", "words"), [
    ("# @package _global_\naugmentation: {flip: [{_target_: a.B}]}\n", ["augmentation=flip"],
     "Cannot merge ... `override /GROUP: null` among"),
    ("# conf/experiment/mine.yaml\n# @package _global_\ndefaults: [override /data: csv]\n", [],
     "first line of that file is to be: # @package"),
    ("# @package _global_\nwriters: [csv]\n", [], "as `override /writers: [csv]` in place of"),
    ("# @package _global_\nscheduler: cosine\n", [],
     "scheduler=cosine: should be an object, as the defaults of a file choose it: "
     "`override /scheduler: cosine`"),
    ("# @package _global_\nearly_stopping: patience\n", [],
     "early_stopping=patience: should be an object, as the defaults of a file choose it: "),
])  # fmt: skip
def test_a_mistake_in_an_experiment_has_its_remedy(tmp_path, content, options, words):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(content)
    given = ["--config-dir", str(tmp_path), "experiment=mine", *options]
    message = message_of(errors.ConfigError, composition.composed, CONF, given)
    assert lacking(words, message) == []


def test_a_file_cannot_choose_of_a_group_below_its_own(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [override /checkpoint: last_and_best]\n"
    )
    given = ["--config-dir", str(tmp_path), "task=mine"]
    message = message_of(errors.ConfigError, composition.composed, CONF, given)
    assert "; a file chooses of the groups above its own in train.yaml: choose this" in message
    assert "the first line" not in message


NODE = "{_target_: mine.Part, size: [3, 4]}"


@pytest.mark.parametrize("option", [
    "model", "optimizer", "scheduler", "loss", "task", "data", "checkpoint", "metrics.accuracy",
    "metrics.new", "augmentation.torchvision.transform", "gradients.new",
    "param_groups.no_decay.optimizer", "writers.tensorboard",
])  # fmt: skip
@pytest.mark.parametrize("value", [NODE, f"[{NODE}, {NODE}]", f"{NODE},{{_target_: other.Part}}"])
def test_a_node_or_a_list_of_nodes_replaces_what_stands_there(option, value):
    if option in schema.NODE_GROUPS and value[0] == "[":
        return
    choices = ["augmentation=torchvision", "param_groups=no_decay", "gradients=clip_global_norm"]
    given = command_arguments.in_order([*choices, f"{option}={value}"])
    override = command_arguments.parsed_override(given[-1])
    if override.is_sweep_override():  # as a sweeper gives it to the first job
        given[-1] = f"{override.get_key_element()}={next(override.sweep_string_iterator())}"

    config = config_folders.composed_by_hydra(given, CONF)

    node = {"_target_": "mine.Part", "size": [3, 4]}
    assert OmegaConf.select(config, option) == ([node, node] if value[0] == "[" else node)


@pytest.mark.parametrize("text", [
    "model._target_=mine.Part", "+metrics.f1={_target_: mine.Part}", "model.hidden=[3]",
    "++loss={_target_: mine.Part}", "lr=[_target_", "metrics={f1: {_target_: mine.F1}}",
    "model=mlp,{_target_: a.B}",
])  # fmt: skip
def test_no_other_override_is_changed(text):
    assert command_arguments.in_order([text]) == [text]


def test_several_missing_values_are_all_asked_for():
    assert problems("lr=???", "seed=???", "model.dropout=???") == [
        "seed: no value; give one as seed=...", "lr: no value; give one as lr=...",
        "model.dropout: no value; give one as model.dropout=...",
    ]  # fmt: skip


def test_a_problem_is_reported_where_its_value_is_set_not_repeated():
    assert problems() == []
    assert problems("lr=-1", "scheduler=cosine") == ["lr=-1: should be greater than 0"]
    assert problems("scheduler.lr=-1") == ["scheduler.lr=-1: should be greater than 0"]


def test_a_value_from_the_environment_is_complained_about_where_it_is_used(monkeypatch):
    monkeypatch.setenv("ANDIRON_TEST_DEVICE", "gpu")

    assert problems("device=${oc.env:ANDIRON_TEST_DEVICE}") == [
        "device=gpu: should be auto, cpu, mps, cuda or cuda:<index>"
    ]


def test_plain_values_have_every_interpolation_resolved():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        plain = resolution.plain(compose("train", overrides=["lr=0.25", "scheduler=step"]))

    assert plain["scheduler"] == {
        "_target_": "andiron.schedules.Step", "initial_lr": 0.25, "step_size": 1000, "gamma": 0.1,
    }  # fmt: skip
    assert type(plain) is type(plain["scheduler"]) is dict
    assert "hydra" not in plain


def test_the_groups_are_the_folders_and_their_options_the_files(tmp_path):
    for name in (
        "b/two.yaml", "b/one.yaml", "a/three.yaml", "b/notes.txt", "hydra/help/x.yaml",
        "train.yaml",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert config_folders.groups(tmp_path) == {"a": ["three"], "b": ["one", "two"]}


@pytest.mark.parametrize("argument", ["x" * 300, "model.x=[" + "1," * 300, "", "a\0b"])
def test_an_argument_that_no_path_can_be_is_explained(argument):
    (line,) = explained(argument)
    assert "cannot be read as option=value" in line and "folder" not in line
