"""Any text as a value on the command line works, once it is quoted as the message shows."""

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from andiron import errors
from andiron.shell.config import composition, quoting
from andiron.wings.explain import mistakes
from conftest import ROOT

SIGNS = [*"a1 ()[]{}#&=,'\"$\\:;~!?*<>|`%@.+-_öß日\t\n", "${", "${lr}", "\\\\", "null", "1e3", "on"]
TEXTS = st.lists(st.sampled_from(SIGNS), max_size=6).map("".join)
UNREADABLE = [
    "price (EUR)", "Größe (m)", "a=b", "it's", 'say "x"', "#x", "a&b", "x)", "'",
]  # fmt: skip
CSV = ["data=csv_regression", "data.path=t.csv"]
REMEDY = "; a text is quoted for Hydra too: "


def read(override):
    """The value as Hydra and OmegaConf read it."""
    value = OverridesParser.create().parse_override(override).value()
    config = OmegaConf.create({"value": None, "lr": 1})
    OmegaConf.update(config, "value", getattr(value, "text", value))
    return OmegaConf.to_container(config, resolve=True)["value"]


@given(TEXTS)
def test_a_quoted_text_is_read_as_it_stands(text):
    assert read(f"data.target={quoting.quoted(text)}") == text


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_text_that_hydra_cannot_read_is_shown_as_it_works(text):
    with pytest.raises(errors.ConfigError) as refused:
        composition.composed(ROOT / "conf", [*CSV, f"data.target={text}"])
    (line,) = refused.value.problems
    (shown,) = shlex.split(line.rpartition(REMEDY)[2])
    assert read(shown) == text
    composition.composed(ROOT / "conf", [*CSV, shown])


def test_a_number_where_a_text_stands_is_shown_as_a_text():
    given = [*CSV, "data.target=2020", "name=7", "seed=x"]
    with pytest.raises(errors.ConfigError) as refused:
        composition.composed(ROOT / "conf", given)
    target, name, seed = sorted(refused.value.problems)
    assert target.endswith(f"""{REMEDY}'data.target="2020"'""")
    assert name.endswith(f"""{REMEDY}'name="7"'""") and REMEDY not in seed


def test_a_choice_of_a_group_is_no_text():
    with pytest.raises(errors.ConfigError) as refused:
        arguments = ["-m", "optimizer=adam,adamm", "hydra/launcher=basic"]
        composition.run(print, ROOT / "conf", arguments)
    (line,) = refused.value.problems
    assert line.startswith("optimizer=adamm: no such optimizer") and REMEDY not in line


def test_an_option_that_no_file_lists_is_shown_with_its_plus():
    given = ["param_groups=head_only", "param_groups.body.lr_scale=0.1"]
    with pytest.raises(errors.ConfigError) as refused:
        composition.composed(ROOT / "conf", given)
    assert refused.value.problems[0].endswith(" use +param_groups.body.lr_scale=0.1")


@pytest.mark.parametrize("group", ["optimizer=sgd,adam", "optimizer=adam"])
def test_an_option_that_some_choices_of_a_sweep_lack_is_not_appended(group):
    option = "Could not override 'optimizer.momentum'. To append to your config use +optimizer.mom"
    typed = ["-m", group, "optimizer.momentum=0.9", "lr=1e-3,1e-2"]
    (line,) = mistakes.explain(typed, ROOT / "conf", ValueError(option))
    assert ("To append" in line, "some choices alone" in line) == (False, "," in group)
