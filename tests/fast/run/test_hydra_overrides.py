import pytest

from andiron.shell.run import hydra_overrides


def test_the_list_of_strings_in_the_file_is_read(tmp_path):
    path = tmp_path / "overrides.yaml"
    path.write_text("- lr=0.1\n- optimizer=adam\n")
    assert hydra_overrides.read(path) == ["lr=0.1", "optimizer=adam"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "recursion"),  # at once: a parser that goes on takes half an hour
        ("- &long name=run\n- *long\n", "has an alias"),
        ("- [lr=0.1]\n", "is not a list of strings"),
        ("lr: 0.1\n", "is not a list of strings"),
        ("- 'lr=0.1\n", "while scanning"),
    ],
)
def test_anything_else_is_refused(text, problem, tmp_path):
    path = tmp_path / "overrides.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        hydra_overrides.read(path)
