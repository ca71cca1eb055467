"""Names that a run folder may use: what is shipped, torch's parts, names in conf/, and `trust`."""

from pathlib import Path

import pytest
import yaml

from andiron import errors, writers
from andiron.shell.config import project, trust
from andiron.shell.config.signatures import class_constant
from andiron.shell.config.trust import Trust

CONF = Path(__file__).resolve().parents[3] / "conf"
WRITERS = [f"andiron.writers.{name}" for name in writers.__all__ if name != "Writers"]
WANDB = "andiron_lab.wandb_writer.WandbWriter"


def shipped():
    """Every target in conf/."""
    for path in sorted(CONF.glob("*/*.yaml")):
        text = path.read_text()
        group = path.parent.name
        if "_target_" in text and group != "hydra":
            content = yaml.safe_load(text)
            placed = content if "@package _global_" in text else {group: content}
            yield from (node["_target_"] for *_, node in trust.nodes(placed))


def test_a_run_of_everything_in_conf_can_be_resumed_without_trust():
    ours = trust.of_user([CONF])
    refused = {target for target in shipped() if not ours.allows(target)}
    assert not refused


def test_only_a_writer_that_declares_to_send_nothing_is_built_from_a_record():
    assert {class_constant(name, "sends_data") for name in WRITERS} == {False}
    silent = [f"andiron.writers.{name}" for name in ("Writers", "Undeclared", "shipped.wandb")]
    allowed = {name for name in [*WRITERS, *silent] if Trust().allows(name)}
    assert allowed == {*WRITERS}


@pytest.mark.usefixtures("needs_lab")
def test_a_writer_that_sends_data_is_named_by_a_record_and_not_built():
    assert class_constant(WANDB, "sends_data") is True
    assert not Trust().allows(WANDB)
    assert Trust(builds_writers=False).allows(WANDB)


@pytest.mark.parametrize("name", [
    "os.system", "torch.load", "torch.hub.load", "torch.nn.functional.os.system",
    "torch.nn.modules.module.warnings.sys.exit", "andiron.disk.files.write_json",
    "andiron.checkpoint.write", "andiron.data.on_disk.stored.shutil.rmtree", "system",
    "torch.nn.${oc.env:HOME}", "torch.nn.Linear\n", "torch.nn.", "",
])  # fmt: skip
def test_nothing_that_runs_reads_or_writes_may_be_named(name):
    assert not Trust().allows(name)


@pytest.mark.parametrize(
    ("option", "name"), [("scheduler", "torch.nn.Linear"), ("optimizer", "torch.nn.Linear"),
                         ("scheduler", "torch.optim.Adam")]
)
def test_torchs_networks_are_no_schedulers_and_no_optimizers(option, name):
    with pytest.raises(errors.ConfigError, match=f"{option}._target_='{name}'"):
        Trust().check({option: {"_target_": name}})


def test_a_target_beside_the_options_is_no_part():
    assert not [*trust.nodes({"_target_": "os.system", "variables": {"a": {"_target_": "a.b"}}})]


def test_a_trusted_package_is_that_package_and_no_name_that_begins_like_it():
    mine = Trust(packages=("mine",))
    assert mine.allows("mine.networks.Net")
    assert not mine.allows("mined.Net") and not mine.allows("mine.${oc.env:X}")


def test_all_refused_names_are_reported_with_the_option_that_trusts_them():
    plain = {
        "model": {"_target_": "mine.Net"},
        "metrics": {"a": {"_target_": "andiron.metrics.Mean", "of": {"_target_": "os.system"}}},
        "param_groups": {"g": {"match": {"rank": 2}, "scheduler": {"_target_": "theirs.Curve"}}},
    }
    with pytest.raises(errors.ConfigError) as refused:
        Trust().check(plain)
    lines = refused.value.problems
    assert [line.partition("=")[0] for line in lines] == [
        "model._target_", "metrics.a.of._target_",
    ]  # fmt: skip
    assert "param_groups.g.scheduler._target_='theirs.Curve'" in lines[0]
    assert "; trust=[mine,theirs] trusts these packages" in lines[0]
    assert "trust=[os]" not in lines[1] and "metrics=... and its options here" in lines[1]


@pytest.mark.parametrize(("spelling", "typed"), [
    ("trust=[{}]", "trust=[mine,theirs]"), ("--trust {}", "--trust mine theirs"),
    ("trust=['{}']", "trust=['mine', 'theirs']"),
    ("--config-dir /a{b} trust=[{}]", "--config-dir /a{b} trust=[mine,theirs]"),
])  # fmt: skip
def test_functions_are_named_with_the_classes_and_one_option_trusts_all(
    tmp_path, monkeypatch, spelling, typed
):
    (tmp_path / "theirs.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    data = {"_target_": "mine.Rows", "collate": "theirs.pad", "path": "nowhere.csv"}
    with pytest.raises(errors.ConfigError) as refused:
        Trust(spelling=spelling).check({"data": data})
    (line,) = refused.value.problems
    assert line.startswith("data._target_='mine.Rows', data.collate='theirs.pad': ")
    assert f"; {typed} trusts these packages" in line
    Trust(packages=("mine",)).check({"data": data})  # the build asks what takes functions


def test_a_function_in_conf_is_the_users_word_whether_or_not_its_class_is_there(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "x.yaml").write_text(
        "# @package _global_\ndata: {collate: mine.pad, train: {rows: [mine.read]}}\n"
        "param_groups: {head: {schedule: {of: mine.curve}}}\nmodel: {path: torch.hub.load}\n"
    )
    ours = trust.of_user([tmp_path], (), ["+loss={_target_: mine.Loss, of: mine.square}"])
    allowed = {"mine.pad", "mine.read", "mine.curve", "mine.Loss", "mine.square"}
    assert ours.names == allowed


def test_one_package_is_one_line_however_many_classes_are_refused():
    parts = {f"part{number}": {"_target_": f"mine.Part{number}"} for number in range(7)}
    with pytest.raises(errors.ConfigError) as refused:
        Trust(spelling="--trust {}").check({"metrics": parts})
    (line,) = refused.value.problems
    assert line.startswith("metrics.part0._target_='mine.Part0', ") and "mine.Part6': " in line
    assert line.endswith("; --trust mine trusts that package, as naming the class in conf/ does")


def test_conf_is_the_users_word_and_so_is_trust_in_its_page(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "net.yaml").write_text("_target_: mine.Net\n")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "x.yaml").write_text(
        "# @package _global_\nscheduler: {_target_: mine.Curve}\n"
    )
    (tmp_path / "train.yaml").write_text("trust: [theirs]\n")
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "m.yaml").write_text("m: {_target_: andiron.metrics.Mean, of: a.b}\n")
    ours = trust.of_user([tmp_path])
    assert ours.allows("mine.Net") and ours.allows("mine.Curve")
    assert ours.allows("a.b")
    assert ours.allows("theirs.Loss")
    assert not ours.allows("mine.Other") and not ours.allows("mine.Net.from_pretrained")


@pytest.mark.usefixtures("needs_lab")
def test_classes_that_this_command_chooses_are_trusted():
    for argument, is_allowed in (
        ("writers=[tensorboard,wandb]", True), ("+writers=wandb", True),
        ("writers.wandb.mode=offline", False), ("lr=0.1", False), ("writers=[mlflow]", False),
    ):  # fmt: skip
        ours = trust.of_user(project.shipped_conf_dirs(), (), [argument])
        assert ours.allows(WANDB) == is_allowed
    assert trust.of_user([CONF], (), ["model._target_=a.Net"]).allows("a.Net")


def test_names_of_torch_in_conf_are_restricted_to_the_list(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "net.yaml").write_text("_target_: torch.hub.load\nx: {_target_: a.b}\n")
    assert not trust.of_user([tmp_path]).allows("torch.hub.load")
