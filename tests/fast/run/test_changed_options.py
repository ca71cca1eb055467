"""Overrides beside `resume=`: what they make of a recorded configuration, without a composition."""

import dataclasses
import json

import pytest
import yaml
from omegaconf import OmegaConf

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config import arguments, composition, config_folders
from andiron.shell.config.project import default_conf_dir
from andiron.shell.run import changed_options, run_record
from andiron.shell.training import resume_arguments

CONF = default_conf_dir()
BEGUN = ["experiment=digits", "lr=0.1", "early_stopping=patience", "checkpoint.last=4",
         "+metrics.f1={_target_: andiron.metrics.Accuracy}",
         "clip={norm: 0.5}", "+tag=a", "name=run-${tag}"]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """The record of a run that began with the overrides `BEGUN`."""
    folder = RunFolder(tmp_path)
    run_record.begin(folder)
    composed = config_folders.composed_by_hydra(BEGUN, *config_folders.all_dirs(CONF, []))
    run_record.write(folder, {
        folder.config: json.dumps(composition.checked_config(composed).recorded()).encode(),
        folder.hydra / "config.yaml": OmegaConf.to_yaml(composed).encode(),
        folder.hydra / "overrides.yaml": OmegaConf.to_yaml(OmegaConf.create(BEGUN)).encode(),
    })  # fmt: skip
    return folder


def changed(folder, *given):
    """The options of the run with these overrides."""
    overrides, dirs = arguments.in_order([*given]), config_folders.all_dirs(CONF, [])
    record = run_record.config(folder)
    config, _ = changed_options.changed(record, folder, overrides, dirs)
    kept = changed_options.without([*record.variables], *map(changed_options.key_of, overrides))
    return composition.checked_config(config, None, kept)


@pytest.mark.parametrize("given", [
    ["num_epochs=90", "clip={norm: 1.0}", "seed=7"],
    ["clip={value: 0.5}"],
    ["lr=0.02"],  # which the schedule follows
    ["log_every=${batch_size}", "scheduler.min_lr=1e-4"],
    ["scheduler=constant"],
    ["early_stopping=goal"],
    ["early_stopping.goal.goal=9.0", "early_stopping=goal"],
    ["early_stopping.patience.patience=3"],
    ["~early_stopping", "checkpoint=milestones", "writers=[tensorboard,csv]"],
    ["averages=ema", "averages.ema.decay=0.9"],
    ["loss={_target_: torch.nn.CrossEntropyLoss, label_smoothing: 0.1}"],
    ["~metrics.f1"],
    ["tag=b"],  # which the name follows
    ["+width=24", "model.width=${width}"],
    ["experiment=digits", "lr=0.1", "num_epochs=90"],  # once more, and longer
    ["optimizer=adamw", "restart=requeued"],
], ids=" ".join)  # fmt: skip
def test_a_run_has_the_options_of_one_that_began_with_the_overrides(folder, given):
    begun = changed_options.joined(BEGUN, arguments.in_order(given))
    # none is left to remove
    composed = composition.composed(CONF, [text for text in begun if text != "~metrics.f1"])
    expected = dataclasses.replace(composed, resume=None, resume_allow=[])

    config = changed(folder, *given)
    assert dataclasses.replace(config, resume=None, resume_allow=[]) == expected


def test_a_recorded_override_that_added_an_option_still_adds_it(folder):
    node, dirs = "metrics.f1={_target_: andiron.metrics.Loss}", config_folders.all_dirs(CONF, [])
    given = [node, "lr=0.02", "early_stopping=patience"]
    _, files = changed_options.changed(run_record.config(folder), folder, given, dirs)
    recorded = yaml.safe_load(files["overrides.yaml"])
    assert f"+{node}" in recorded and {"lr=0.02", "early_stopping=patience"} <= set(recorded)
    assert composition.composed(CONF, recorded).metrics["f1"]["_target_"] == "andiron.metrics.Loss"


def test_options_of_another_conf_stay(folder):
    plain = run_record.read_json(folder, folder.config)
    plain["optimizer"]["eps"], plain["log_every"] = 0.5, 7
    run_record.write_json(folder, {folder.config: plain})

    config = changed(folder, "lr=0.02")
    assert (config.optimizer["eps"], config.log_every, config.lr) == (0.5, 7, 0.02)


@pytest.mark.parametrize(("given", "words"), [
    ("lrr=3", "lrr: no such option; did you mean 'lr'?"),
    ("hydra/launcher=basic", "hydra/launcher: no such option"),
    ("early_stopping.goal.goal=9.0", "early_stopping.goal: has options but no _target_"),
    ("lr=1,2", "lr=1,2: several values, and one run is resumed"),
])  # fmt: skip
def test_a_wrong_override_is_refused(folder, given, words):
    with pytest.raises(errors.ConfigError) as refused:
        changed(folder, given)
    assert words in str(refused.value)


def test_a_resume_does_not_print_the_options_of_conf():
    words = "--cfg: prints the options of conf/; a run has its own"
    with pytest.raises(errors.ConfigError, match=words):
        resume_arguments.run(print, CONF, ["resume=runs/a", "--cfg", "job"])


def test_variables_stay_and_are_given_anew_only_if_an_option_follows(folder):
    assert changed(folder, "name=other").variables == {"tag": "a"}

    computed = OmegaConf.create({"name": "${oc.decode:${tag}}"})
    run_record.write(folder, {folder.hydra / "config.yaml": OmegaConf.to_yaml(computed).encode()})
    assert changed(folder, "num_epochs=90").name == "run-a"
    assert changed(folder, "tag=b", "name=${tag}").name == "b"
    with pytest.raises(errors.ConfigError, match="name: was computed from an option that is given"):
        changed(folder, "tag=b")


def test_a_strangers_record_resolves_nothing_and_does_not_hang(folder):
    bomb = "a: &a [x,x]\n" + "".join(
        f"{name}: &{name} [*{one},*{one},*{one},*{one},*{one}]\n"
        for one, name in zip("abcdefghij", "bcdefghijk", strict=True)
    )
    for text in (bomb, "name: ${oc.env:HOME}\nlr: ${oc.env:HOME}\n", "[]"):
        run_record.write(folder, {folder.hydra / "config.yaml": text.encode()})
        assert changed(folder, "num_epochs=90").lr == 0.1

    plain = run_record.read_json(folder, folder.config)
    mirror = {"_target_": "andiron.checkpoint.Checkpointer", "mirror": "s3://strange"}
    for odd in ({"name": "${oc.env:HOME}"}, {"variables": {"checkpoint": mirror}}):
        run_record.write_json(folder, {folder.config: plain | odd})
        with pytest.raises((errors.RunFolderError, errors.ConfigError)):
            changed(folder, "num_epochs=90")
