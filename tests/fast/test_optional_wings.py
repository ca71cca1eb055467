"""Stand-ins for a wing that was deleted or lacks a library."""

import pytest

import andiron.wings
from andiron import errors
from andiron.plain import wings
from andiron.shell.assembly import targets
from andiron.shell.config import trust
from andiron.shell.run import lab_options


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder that is searched for parts of the package too."""
    monkeypatch.setattr(andiron.wings, "__path__", [*andiron.wings.__path__, str(tmp_path)])
    return tmp_path


def test_a_wing_that_is_there_is_its_module(package):
    (package / "new_wing.py").write_text("")

    assert wings.optional("new_wing").__name__ == "andiron.wings.new_wing"


@pytest.mark.parametrize("left", ["", "old_wing/__pycache__"])
def test_a_deleted_wing_gives_none(package, left):
    (package / left).mkdir(parents=True, exist_ok=True)  # git leaves caches behind

    assert wings.optional("old_wing.module") is None


@pytest.mark.parametrize("library", ["absent_library", "a", "andiron.wings.another"])
def test_what_a_wing_needs_and_lacks_is_raised(package, library):
    (package / "poor_wing.py").write_text(f"import {library}")

    with pytest.raises(ModuleNotFoundError, match=f"No module named '{library}'"):
        wings.optional("poor_wing")


@pytest.mark.parametrize(("needs", "option"), [
    (lambda: lab_options.module("forks.fork_point", "fork_from"), "fork_from"),
    (lambda: lab_options.adapters({"lora": {"adapter": {"rank": 4}}}), "param_groups.lora.adapter"),
    (lambda: lab_options.module("mirror", "the mirror of a run"), "the mirror of a run"),
])  # fmt: skip
def test_an_option_of_the_lab_says_how_to_install_it(monkeypatch, needs, option):
    monkeypatch.setattr(wings, "optional", lambda name: None)
    words = f"{option} is in the package andiron_lab, .* pip install 'andiron\\[lab\\]'"
    with pytest.raises(errors.ConfigError, match=words):
        needs()
    assert lab_options.adapters({"head": {"lr": 0.1}}) is None


@pytest.mark.usefixtures("needs_lab")
@pytest.mark.parametrize("name", ["andiron.data.no_such", "andiron_lab.masks.no_such"])
def test_a_class_that_is_missing_may_be_in_the_lab(monkeypatch, name):
    words = f"; {name} may be in the package andiron_lab, .* pip install 'andiron\\[lab\\]'"
    for call in (lambda: targets.resolve("data._target_", name),
                 lambda: trust.Trust().check({"data": {"_target_": name}})):  # fmt: skip
        with pytest.raises(errors.ConfigError) as there:
            call()
        with monkeypatch.context() as context:
            context.setattr(wings, "optional", lambda name: None)
            with pytest.raises(errors.ConfigError, match=words):
                call()
        assert "pip install" not in str(there.value)
