"""Generated text on the terminal, without control characters."""

import json

import pytest
from in_process import called

import andiron
from andiron.shell.training import train
from andiron.wings.trained import generate

SAID = "b\x1bcb\x1bc"  # ESC c resets a terminal


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    """A run whose characters follow each other as in SAID."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text("b\x1bc" * 100, newline="")
    ended = called(
        train.main, "data=text", "data.path=text.txt", "data.level=characters", "lr=0.03",
        "data.context_length=4", "task=language_model", "task.prompt=b", "task.sample_length=1",
        "metrics=language", "model=gpt", "model.layers=1", "model.dim=8", "model.heads=1",
        "num_epochs=4", "batch_size=2", "render=plain", "hydra.run.dir=run", cwd=folder,
    )  # fmt: skip
    assert (ended.code, ended.errors) == (0, "")
    return folder / "run"


def test_the_terminal_gets_escaped_text_and_json_the_exact_one(text_run):
    arguments = (text_run, "--prompt", "c", "--length", "6", "--temperature", "0")

    assert called(generate.main, *arguments).output == "cb\\x1bcb\\x1bc\n"
    said = json.loads(called(generate.main, *arguments, "--json").output)
    assert (said["prompt"], said["text"], said["length"]) == ("c", SAID, 6)
    assert andiron.load(text_run).generate("c", 6, temperature=0) == SAID


def test_a_prompt_that_the_vocabulary_lacks_is_refused(text_run):
    ended = called(generate.main, text_run, "--prompt", "ëb", "--length", "2")
    assert (ended.code, ended.output, ended.errors) == (
        1,
        "",
        "error: prompt='ëb': the vocabulary has no 'ë'; use characters that it has\n",
    )
