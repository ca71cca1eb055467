"""The configuration as it ships: every file composes with all others and builds, and the command
line has the last word.
"""

import dataclasses
import functools
import os
import re
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml
from in_process import ran
from omegaconf import OmegaConf

from andiron import errors
from andiron.models import ResNet
from andiron.shell.config import config_folders, project, resolution, schema
from andiron.shell.config.schema import Train
from andiron.shell.training import experiment
from andiron.tasks import Classifier
from andiron.wings.explain import mistakes

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
GROUPS = config_folders.groups(CONF)
CHOICES = [f"{group}={name}" for group, names in GROUPS.items() for name in names]
MNIST = "MNIST/raw/train-images-idx3-ubyte"
FILES = {  # by choice: what of ANDIRON_DATA_DIR it reads
    "mnist": MNIST,
    "fashion_mnist": f"Fashion{MNIST}",
    "image_folder": "images",
    "convnet_mnist": MNIST,
    "mnist_strong": MNIST,
    "text_bytes": "tinyshakespeare",
}
TABLE = "height,weight,tall\n" + "".join(
    f"{n * 7 % 31},{n * 3 % 23 / 2},{n % 2}\n" for n in range(60)
)
FAKE_IMAGES = (  # a data set of torchvision's, with a transform
    "{_target_: torchvision.datasets.FakeData, size: 60, image_size: [1, 5, 5], num_classes: 3, "
    "transform: {_target_: torchvision.transforms.PILToTensor}}"
)
EXAMPLES = (
    "andiron train optimizer=adam lr=1e-3",
    "andiron train data=mnist model=convnet optimizer=adamw scheduler=cosine num_epochs=5",
    "andiron train -m optimizer=adam,sgd lr=1e-3,1e-4",
)


@functools.cache  # composing one takes 0.1 s
def composed(*overrides, conf=CONF):
    """The valid configuration of a command line."""
    config = config_folders.composed_by_hydra([*overrides], conf, *project.shipped_conf_dirs()[1:])
    return Train(**resolution.checked(config))


def train(*arguments, cwd):
    """The standard output of `python train.py`."""
    ended = ran(ROOT / "train.py", *arguments, cwd=cwd)
    assert ended.code == 0, ended.errors
    return ended.output


def asked_for(choice, folder):
    """Arguments for the options that a choice leaves open: paths to small files."""
    (folder / "table.csv").write_text(TABLE)
    (folder / "text.txt").write_text("to be, or not to be. " * 900)
    safetensors.torch.save_file(
        {"inputs": torch.zeros(60, 1, 5, 5, dtype=torch.uint8), "targets": torch.arange(60) % 3},
        folder / "arrays.safetensors",
    )
    if choice == "experiment=transfer_digits":
        weights = Classifier(ResNet((1, 28, 28), 10, depth=8)).state_dict()
        safetensors.torch.save_file(weights, folder / "weights.safetensors")
    regression = ("data=diabetes",)
    yes_or_no = ("data=csv", f"data.path={folder}/table.csv", "data.target=tall", "task=binary")
    several = ("data=digit_pairs", "data.num_pairs=100")
    text = ("data=text", f"data.path={folder}/text.txt", "data.context_length=16")
    return {
        "data=csv": (f"data.path={folder}/table.csv", "data.target=weight", "task=regression"),
        "data=csv_regression": (f"data.path={folder}/table.csv", "data.target=weight"),
        "data=text": text[1:],
        "data=torch_dataset": (f"data.train={FAKE_IMAGES}", "data.num_classes=3"),
        "data=safetensors": (f"data.path={folder}/arrays.safetensors",),
        "experiment=transfer_digits": (f"start_from={folder}/weights.safetensors",),
        "task=binary": yes_or_no,
        "metrics=binary": yes_or_no,
        "loss=binary_cross_entropy": yes_or_no,
        "task=multilabel": several,
        "metrics=multilabel": several,
        "task=regression": regression,
        "metrics=regression": regression,
        "loss=mean_squared_error": regression,
        "loss=huber": regression,
        "loss=mean_absolute_error": regression,
        "task=forward": (
            "loss=cross_entropy", "task.inputs=[inputs]", "task.targets=targets",
        ),
        "task=language_model": text,
        "metrics=language": text,
        "model=gpt": text,
        "model=hf": (
            *text, "model.name=gpt2", "model.auto=AutoModelForCausalLM",
            "model.config={n_embd: 16, n_layer: 1, n_head: 2, vocab_size: 256}",
        ),
    }.get(choice, ())


def every_value(node):
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [*inner, *(value for part in inner for value in every_value(part))]


def assert_states_what_it_says(choice, config):
    """The group's part of the configuration has the keys of the file and of its defaults; an
    optimizer brings its own learning rate, and a schedule starts from the one there is.
    """
    group, _, name = choice.partition("=")
    if group not in {field.name for field in dataclasses.fields(Train)}:
        return
    stated = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    listed = stated.pop("defaults", [])
    for sibling in {value for value in listed if isinstance(value, str)} - {"_self_"}:
        stated |= yaml.safe_load((CONF / group / f"{sibling}.yaml").read_text())
    if group == "optimizer":
        assert config.lr == stated["lr"]
    if group == "scheduler":
        assert config.lr in every_value(config.scheduler)
    places = {key.partition("@")[2] for value in listed if isinstance(value, dict) for key in value}
    brought = {place for place in places if place and "." not in place}
    assert set(getattr(config, group)) == set(stated.get(group, stated)) | brought


@pytest.fixture
def data_dir(request, monkeypatch):
    """`ANDIRON_DATA_DIR` set for a choice that needs it; skips where its files are not there."""
    name = request.getfixturevalue("choice").partition("=")[2]
    if name in FILES:
        root = Path(os.environ.get("ANDIRON_DATA_DIR", "data")).absolute()
        if not (root / FILES[name]).exists():
            pytest.skip(f"needs {FILES[name]} in {root}")
        monkeypatch.setenv("ANDIRON_DATA_DIR", str(root))


@pytest.mark.parametrize("choice", CHOICES)
def test_every_file_builds_a_whole_run_with_the_defaults_of_all_others(choice, data_dir, tmp_path):
    config = composed(choice, "device=cpu", *asked_for(choice, tmp_path))
    assert_states_what_it_says(choice, config)
    if choice == "optimizer=muon":
        pytest.skip(
            "takes matrices alone, so that it cannot own a whole model; param_groups=muon is "
            "built here"
        )

    try:
        built = experiment.build(config, tmp_path)
    except errors.ConfigError as error:
        if "it comes with `pip install " not in str(error):
            raise
        pytest.skip(str(error))
    with built.learner as learner:
        tally, batch = learner.metric_log.valid_tally, next(iter(built.components.valid))
        with torch.no_grad():
            tally.add(learner.model.valid_step(batch), batch)

    measured = {name.partition("/")[0] for name in tally.close_epoch()}
    assert measured <= set(config.metrics) | {"loss"}
    assert set(learner.optimizer.parameters) == {
        name for name, _ in learner.model.named_parameters()
    }
    assert built.components.schedule(0) > 0
    assert learner.metric_log.renderer is not None and learner.checkpointer is not None


def test_the_command_line_overrides_the_rate_of_an_optimizer():
    assert composed("optimizer=lion", "lr=0.125").lr == 0.125


def test_the_command_line_overrides_the_experiment_which_overrides_groups(tmp_path):
    conf = shutil.copytree(CONF, tmp_path / "conf")
    (conf / "experiment" / "probe.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /optimizer: sgd\nnum_epochs: 77\nlr: "
        "0.5\nmodel:\n  hidden: [3]\n"
    )
    page = OmegaConf.load(CONF / "train.yaml")

    config = composed("experiment=probe", conf=conf)
    assert config.optimizer["_target_"] == "torch.optim.SGD"
    assert (config.num_epochs, config.lr, config.model["hidden"]) == (77, 0.5, [3])
    assert (config.seed, config.batch_size) == (page.seed, page.batch_size)

    config = composed(
        "experiment=probe", "lr=0.25", "num_epochs=5", "optimizer=adamw", "model.hidden=[2]",
        conf=conf,
    )  # fmt: skip
    assert config.optimizer["_target_"] == "torch.optim.AdamW"
    assert (config.num_epochs, config.lr, config.model["hidden"]) == (5, 0.25, [2])


def test_the_shipped_experiment_gives_way_to_the_command_line():
    assert composed("experiment=convnet_mnist").lr == 1e-4
    assert composed("experiment=convnet_mnist").model["_target_"] == "andiron.models.ConvNet"
    assert composed("experiment=convnet_mnist", "lr=0.5", "model=mlp").lr == 0.5
    assert (
        composed("experiment=convnet_mnist", "model=mlp").model["_target_"] == "andiron.models.MLP"
    )


def test_the_page_has_every_option_of_the_schema_and_no_other():
    page = OmegaConf.load(CONF / "train.yaml")
    in_defaults = {key for entry in page.defaults if OmegaConf.is_dict(entry) for key in entry}
    options = {field.name for field in dataclasses.fields(Train)} - {schema.VARIABLES}
    restarts = [OmegaConf.load(path) for path in (CONF / "restart").glob("*.yaml")]

    assert options <= set(page) | in_defaults | set(restarts[0])
    assert all(set(restart) == set(restarts[0]) <= options for restart in restarts)
    assert set(page) - {"defaults", "hydra"} <= options


def test_the_defaults_on_the_page_match_the_schema():
    page = OmegaConf.load(CONF / "train.yaml")

    for field in dataclasses.fields(Train):
        if field.name in page and field.default is not dataclasses.MISSING:
            assert page[field.name] == field.default, field.name


def test_files_are_short_enough_to_be_read_at_a_glance():
    limits = {CONF / "train.yaml": 70, CONF / "hydra" / "help" / "andiron.yaml": 80}
    lengths = {path: len(path.read_text().splitlines()) for path in CONF.rglob("*.yaml")}

    assert [path for path, lines in lengths.items() if lines > limits.get(path, 25)] == []


def test_help_lists_every_group_with_its_choices_options_and_examples(tmp_path):
    text = train("--help", cwd=tmp_path)

    for group, names in config_folders.groups(*project.shipped_conf_dirs()).items():
        assert f"\n{group}: {', '.join(names)}\n" in text
    for option in yaml.safe_load(train("--cfg", "job", cwd=tmp_path)):
        assert re.search(rf"^{option}:", text.split("Options")[1], flags=re.MULTILINE), option
    for example in EXAMPLES:
        assert f"\n  {example}\n" in text
    assert text.startswith("Train a model; everything about the run is recorded in its folder.\n")


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_help_is_sound(example):
    overrides = example.removeprefix("andiron train ").split()

    assert mistakes.explain(overrides, CONF, Exception("sound")) == ["sound"]


def test_cfg_job_prints_the_configuration_of_a_run_and_starts_none(tmp_path):
    text = train("--cfg", "job", "--resolve", "optimizer=sgd", "num_epochs=3", cwd=tmp_path)

    assert Train(**OmegaConf.to_container(OmegaConf.create(text))) == composed(
        "optimizer=sgd", "num_epochs=3"
    )
    assert list(tmp_path.iterdir()) == []


def test_what_cfg_job_resolves_is_checked_as_a_run_is(tmp_path):
    ended = ran(ROOT / "train.py", "--cfg", "job", "--resolve", "lr=-1", cwd=tmp_path)

    assert ended.code == 2 and "lr: -1" in ended.output
    assert ended.problems == ["lr=-1: should be greater than 0"]


def test_a_run_started_elsewhere_writes_only_its_folder_there(tmp_path):
    (tmp_path / "here").mkdir()

    train("num_epochs=1", "render=plain", cwd=tmp_path / "here")

    (run_dir,) = (tmp_path / "here" / "outputs").glob("*/*")
    assert (run_dir / "summary.json").is_file()
    assert os.listdir(tmp_path / "here") == ["outputs"]
    assert os.listdir(tmp_path) == ["here"]


def test_experiments_open_with_their_results_or_that_they_were_not_run():
    measured = re.compile(r"\d.*seeds?.*\d+ (s|min).*\bat [0-9a-f]{7}\b", flags=re.DOTALL)
    headers = {
        path.stem: path.read_text(encoding="utf-8").split("defaults:")[0]
        for path in (CONF / "experiment").glob("*.yaml")
    }

    assert [
        name
        for name, text in headers.items()
        if not measured.search(text) and "Not run yet: " not in text
    ] == []
