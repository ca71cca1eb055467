import itertools
import os

import pytest

from andiron import errors
from andiron.shell.config import user_files

PAIRS = itertools.pairwise("abcdefghijklmnop")
BOMB = "a: &a [x,x]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 7)}]\n" for a, b in PAIRS)


@pytest.mark.parametrize(("text", "words"), [
    (BOMB, "stands for"), ("a: &a [*a]", "stands for"), ("[" * 100_000, "is nested too deeply"),
    ("x" * 300_000, "has 300,000 bytes"),
])  # fmt: skip
def test_files_that_are_harmful_to_read_are_refused(text, words, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(text)
    with pytest.raises(errors.ConfigError, match=words):
        user_files.check([tmp_path])


def test_files_with_a_few_aliases_are_not(tmp_path):
    (tmp_path / "mine.yaml").write_text("# @package _global_\na: &a {b: 1}\nc: *a\nlr: 0.1\n")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    user_files.check([tmp_path])


@pytest.mark.parametrize(
    "content", [b"a: [", b"a: !!python/object/apply:os.system [x]", b"\xff\xfe\xfa"]
)
def test_invalid_yaml_is_reported_only_if_it_is_chosen(content, tmp_path):
    (tmp_path / "bracket.yaml").write_bytes(content)
    (tmp_path / "folder.yaml").mkdir()
    user_files.check([tmp_path])


def test_a_pipe_is_refused_though_it_is_not_chosen(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(errors.ConfigError, match="pipe.yaml: cannot be read: not a file"):
        user_files.check([tmp_path])
