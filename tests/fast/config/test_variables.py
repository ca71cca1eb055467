"""Top-level keys of the user's own: interpolated, recorded, checked; an unused one is an error."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from andiron import errors
from andiron.disk import files
from andiron.shell.config import composition, config_folders, resolution
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust

CONF = Path(__file__).resolve().parents[3] / "conf"


def composed(*overrides, own=()):
    return config_folders.composed_by_hydra(list(overrides), CONF, *own)


def problems(*overrides, own=()):
    """The mistakes in a composed configuration."""
    try:
        resolution.checked(composed(*overrides, own=own), [CONF, *own] if own else ())
    except errors.ConfigError as error:
        return [*error.problems]
    return []


def test_what_is_interpolated_is_a_variable_and_on_record(tmp_path):
    config = composition.checked_config(
        composed("+dims=48", "+sizes={small: 8}", "model.hidden=[${dims},${sizes.small}]")
    )
    assert config.model["hidden"] == [48, 8]
    assert config.variables == {"dims": 48, "sizes": {"small": 8}}
    files.write_json(tmp_path / "config.json", config.recorded())
    assert Train.load(tmp_path / "config.json") == config


@pytest.mark.parametrize("overrides", [
    ("+a=3", "+b=${a}", "batch_size=${b}"),  # through another
    ("+a={b: 3, c: ${a.b}}", "batch_size=${a.c}"),  # that repeats itself
    ("+a=3", "batch_size=${oc.select:a,5}"),  # by a resolver
    ("+a=3", "model.hidden=[${...a}]"),  # from inside
])  # fmt: skip
def test_every_way_to_interpolate_counts(overrides):
    assert problems(*overrides) == []


@pytest.mark.parametrize(("overrides", "line"), [
    (("+batchsize=3",), "batchsize: no such option; did you mean 'batch_size'?"),
    (("+batchsize={a: 3, b: ${batchsize.a}}",),  # by itself alone
     "batchsize: no such option; did you mean 'batch_size'?"),
    (("+dropout=0.1", "+variables.dropout=1"),
     "variables: is the record of your variables; give each at the top level, such as +dims=48"),
])  # fmt: skip
def test_a_variable_that_nothing_uses_is_refused(overrides, line):
    assert line in problems(*overrides)


def test_a_name_that_nothing_defines_is_an_error():
    assert problems("batch_size=${dims}") == ["batch_size: Interpolation key 'dims' not found"]


@pytest.mark.parametrize(("overrides", "lines"), [
    (("batch_size=${lr}",), ["batch_size=0.001: should be a valid integer"]),  # once a traceback
    (("+rate=-1", "lr=${rate}"), ["lr=-1: should be greater than 0"]),
    (("lr=-1", "num_workers=${lr}"), ["lr=-1: should be greater than 0"]),  # where it was given
    (("+dims=???", "model.hidden=[${dims}]"), ["dims: no value; give one as dims=..."]),
    (("+dims=wide", "model.hidden=[${dims}]"),
     ["model.hidden=['wide']: should be a valid integer (item 0)"]),
])  # fmt: skip
def test_a_value_that_is_interpolated_is_checked_like_any_other(overrides, lines):
    assert [line[: len(lines[0])] for line in problems(*overrides)] == lines


def test_a_number_of_the_environment_names_what_reads_it(monkeypatch):
    monkeypatch.setenv("ANDIRON_TEST_SIZE", "12")
    remedy = "this is a text: ${oc.decode:${oc.env:NAME}} reads its value"
    wrong = f"batch_size=12: should be a valid integer; {remedy}"
    assert problems("batch_size=${oc.env:ANDIRON_TEST_SIZE}") == [wrong]
    assert problems("batch_size='${oc.decode:${oc.env:ANDIRON_TEST_SIZE}}'") == []
    assert problems("name=${oc.env:ANDIRON_TEST_SIZE}") == []


def test_the_projects_own_file_sets_choices_and_variables_before_an_experiment(tmp_path):
    files = {
        "project/default": "# @package _global_\ndefaults: [/paths: own, override /model: net, "
        "override /optimizer: sgd]\nwidth: 24\nseed: 1\n",
        "paths/own": "root: /data\nimages: ${paths.root}/images\n",
        "model/net": "_target_: andiron.models.MLP\nhidden: ['${width}']\n",
        "data/pictures": "_target_: andiron.data.mnist\nroot: ${paths.images}\n"
        "valid: 0.1\nsplit_seed: 0\n",
        "experiment/wide": "# @package _global_\ndefaults: [override /optimizer: adamw]\n"
        "width: 64\nseed: 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text)

    plain = composition.checked_config(composed("data=pictures", own=[tmp_path]))
    assert plain.data["root"] == "/data/images"
    assert (plain.model["hidden"], plain.seed) == ([24], 1)
    assert plain.optimizer["_target_"] == "torch.optim.SGD"

    plain = composition.checked_config(
        composed("data=pictures", "experiment=wide", "width=32", own=[tmp_path])
    )
    assert (plain.model["hidden"], plain.seed) == ([32], 2)
    assert plain.optimizer["_target_"] == "torch.optim.AdamW"


def test_hydras_conversion_of_a_node_is_left_out_for_values_are_plain_in_any_case():
    plain = composition.checked_config(
        composed("+model._convert_=all", "+optimizer._convert_=partial", "+data._convert_=none")
    )
    assert "_convert_" not in str(plain) and plain == composition.checked_config(composed())


def test_without_variables_nothing_is_resolved_again(monkeypatch):
    resolved, of = [], resolution.plain
    monkeypatch.setattr(resolution, "plain", lambda config: resolved.append(1) or of(config))
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composition.checked_config(compose("train"))
    assert len(resolved) == 1


def test_a_name_from_a_variable_is_refused_in_a_record():
    for refused in (["model._target_=${name}", "+name=mine.Net"], ["+model.x={_target_: a.b}"]):
        with pytest.raises(errors.ConfigError, match="listed classes"):
            composition.checked_config(composed(*refused), Trust())


def test_a_variable_that_only_another_choice_interpolates_is_no_mistake(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "default.yaml").write_text(
        "# @package _global_\nwidth: 24\nbacth_size: 3\n"
    )
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "net.yaml").write_text(
        "_target_: andiron.models.MLP\nhidden: ['${width}']\n"
    )
    wrong = "bacth_size: no such option; did you mean 'batch_size'?"
    assert problems(own=[tmp_path]) == [wrong]


def test_check_accepts_what_only_the_folder_of_a_run_names(tmp_path):
    (tmp_path / "hydra" / "output").mkdir(parents=True)
    own = "# @package hydra\nrun: {dir: '${place}/${now:%H}'}\n"
    (tmp_path / "hydra" / "output" / "mine.yaml").write_text(own)
    given = ["--config-dir", str(tmp_path), "+place=here"]
    assert composition.composed(CONF, [*given, "hydra/output=mine"]).variables == {"place": "here"}
    with pytest.raises(errors.ConfigError, match="other: no such option"):
        composition.composed(CONF, [*given, "+other=1"])
