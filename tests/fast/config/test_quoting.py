"""Any text as a value on the command line works, or the message shows the argument that does."""

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError

from andiron import errors
from andiron.shell.config import composition, quoting
from conftest import ROOT

SIGNS = [*"a1 ()[]{}#&=,'\"$\\:;~!?*<>|`%@.+-_öß日\t\n", "${", "${lr}", "\\\\", "null", "1e3", "on"]
TEXTS = st.lists(st.sampled_from(SIGNS), max_size=6).map("".join)
ODD = [  # Hydra reads each as something else, or not at all
    "price (EUR)", "Größe", "2020", "1e3", "null", "true", "nan", "[a (b)]", "{a: 1}",
    "${x}", "a${b", "a=b", "it's", 'say "x"', "a,b", "#x", "a&b", "x)", "'", "日本", "choice(a,b)",
]  # fmt: skip
CSV = ["data=csv_regression", "data.path=t.csv"]
REMEDY = "; a text is quoted for Hydra too: "


def read(override):
    """The value as Hydra and OmegaConf read it."""
    value = OverridesParser.create().parse_override(override).value()
    config = OmegaConf.create({"value": None, "lr": 1})
    OmegaConf.update(config, "value", getattr(value, "text", value))
    return OmegaConf.to_container(config, resolve=True)["value"]


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_a_quoted_text_is_read_as_it_stands(text, items):
    assert read(f"data.target={quoting.quoted(text)}") == text
    named = [item.strip() for item in items if not {*",\"'"} & {*item}]
    as_list = quoting.as_text(f"data.target=[{','.join(named)}]")
    assert read(as_list) == (named or [""])


@pytest.mark.parametrize("text", ODD)
def test_a_value_that_is_misread_is_shown_as_it_works(text):
    given = f"data.target={text}"
    with pytest.raises(errors.ConfigError) as refused:
        composition.composed(ROOT / "conf", [*CSV, given])
    (line,) = refused.value.problems
    (shown,) = shlex.split(line.rpartition(REMEDY)[2])
    assert read(shown) == (["a (b)"] if text == "[a (b)]" else text)
    composition.composed(ROOT / "conf", [*CSV, shown])


def test_of_an_unreadable_value_that_no_quotes_help_the_reason_is_named():
    given = ["data.separator=;", "data.delimiter=a;b", "data.target=y"]
    with pytest.raises(errors.ConfigError) as refused:
        composition.composed(ROOT / "conf", [*CSV, *given])
    unreadable = "cannot be read as option=value: token recognition error at: ';'"
    assert refused.value.problems == tuple(f"{text}: {unreadable}" for text in given[:2])


def test_the_error_of_hydra_and_of_the_schema_is_the_cause_of_the_one_with_the_quotes(monkeypatch):
    for override in ("data.delimiter=;", "data.target=2020", "lr=[1"):
        with pytest.raises(errors.ConfigError) as refused:
            composition.composed(ROOT / "conf", [*CSV, override])
        causes = [refused.value]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        is_readable = override == "data.target=2020"
        assert isinstance(causes[-1], errors.ConfigError if is_readable else HydraException)
        assert causes[1:], override
    monkeypatch.setattr(composition, "checked_config", lambda config: config.no_such_option)
    with pytest.raises(ConfigAttributeError):  # a fault of Andiron's is no mistake of the user
        composition.composed(ROOT / "conf", [*CSV, "data.target=y"])


def test_items_and_names_that_are_numbers_are_shown_as_texts():
    with pytest.raises(errors.ConfigError) as refused:
        composition.composed(ROOT / "conf", [*CSV, "data.target=a", "data.exclude=[1,2]", "name=7"])
    name, exclude = refused.value.problems
    assert exclude.endswith(f"""(item 0){REMEDY}'data.exclude=["1","2"]'""")
    assert name.endswith(f"""{REMEDY}'name="7"'""")


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


def test_an_option_without_a_value_is_no_text():
    with pytest.raises(errors.ConfigError, match="resume=...$"):
        composition.composed(ROOT / "conf", ["resume"])
