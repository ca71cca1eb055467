"""The folder of a run that a command is given, and the overrides recorded in it."""

import pytest

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config import arguments
from andiron.shell.run import changed_options, named_folder, run_record


@pytest.fixture
def through_link(tmp_path):
    """A path in which `..` follows a link: the system and a reader take it for two folders."""
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link").symlink_to(tmp_path / "elsewhere" / "inner")
    return tmp_path / "run" / "link" / ".."


def test_a_run_behind_dots_that_follow_a_link_is_not_named(through_link):
    for path in (through_link.parent.parent, through_link.resolve()):
        RunFolder(path).config.write_text("{}")
    with pytest.raises(errors.RunFolderError, match=r"because \.\. follows a link; give"):
        named_folder.run_folder_of(through_link)


def test_a_path_with_a_nul_character_is_named():
    with pytest.raises(errors.RunFolderError, match=r"a\\x00b: has a NUL character"):
        named_folder.run_folder_of("a\0b")


@pytest.mark.parametrize("option", ["hydra.run.dir", "hydra.sweep.dir"])
def test_no_run_is_placed_behind_dots_that_follow_a_link(option, through_link):
    with pytest.raises(errors.ConfigError, match=f"{option}=.*follows a link; give the folder"):
        arguments.check([f"{option}={through_link}/new"])
    assert [path.name for path in through_link.resolve().iterdir()] == ["inner"]


def test_dots_that_follow_a_folder_are_as_they_read(tmp_path):
    (tmp_path / "a").mkdir()
    RunFolder(tmp_path).config.write_text("{}")
    assert named_folder.run_folder_of(tmp_path / "a" / "..").path == tmp_path


def test_a_link_to_itself_is_in_no_run(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert run_record.enclosing_run(tmp_path / "loop" / "x") is None
    assert run_record.run_around(tmp_path / "loop") is None


@pytest.fixture
def overrides(tmp_path):
    """A function that writes the overrides on record, and reads them back."""
    folder = RunFolder(tmp_path)
    run_record.begin(folder)

    def read_back(text):
        run_record.write(folder, {folder.hydra / "overrides.yaml": text.encode()})
        return changed_options.recorded_overrides(folder)

    return read_back


def test_the_list_of_strings_in_the_file_is_read(overrides):
    assert overrides("- lr=0.1\n- optimizer=adam\n") == ["lr=0.1", "optimizer=adam"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "recursion"),  # at once: a parser that goes on takes half an hour
        ("- &a [x]\n- &b [*a, *a]\n- [*b, *b]\n", "no list of strings"),
        ("- [lr=0.1]\n", "no list of strings"),
        ("lr: 0.1\n", "no list of strings"),
        ("- 'lr=0.1\n", "while scanning"),
    ],
)
def test_anything_else_is_refused(text, problem, overrides):
    with pytest.raises(errors.RunFolderError, match=f"cannot be read.*{problem}"):
        overrides(text)
