"""A finished run's model in a folder of its own, loaded as its card says.

ONNX: docs/export.md, whose blocks run, and tests/proofs/test_exported_zoo.py.
"""

import contextlib
import json
import re

import pytest
import torch
from in_process import called

import andiron
from andiron.wings.trained.exports import export

CODE = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def exported(run, output, *arguments):
    return called(export.main, run, "--output", output, *arguments)


@pytest.mark.parametrize(("kind", "variable"), [("safetensors", "network"), ("torch", "program")])
def test_the_lines_in_the_card_load_the_model(kind, variable, finished_digits, here):
    pytest.importorskip("andiron_lab", reason="writes the card")
    ended = exported(finished_digits, "out", "--format", kind, "--weights", "ema", "--json")

    assert (ended.code, ended.errors) == (0, "")
    said = json.loads(ended.output)
    assert (said["largest_difference"], said["batch_sizes"]) == (0, [1, 5])
    name = export.FORMATS[kind]
    assert sorted(path.name for path in (here / "out").iterdir()) == ["README.md", name]
    card = (here / "out" / "README.md").read_text(encoding="utf-8")
    assert "largest difference 0, of outputs up to" in card and "CC BY 4.0" in card
    names = {}
    with contextlib.chdir("out"):
        exec(CODE.findall(card)[0], names)
    run = andiron.load(finished_digits, weights="ema")
    inputs = run.preprocessing.batcher(run.data.test.__getitems__(range(7)), run.device).inputs
    assert torch.equal(names[variable](inputs), run.model(inputs))
    assert names["outputs"].shape == (3, 10)


def test_a_folder_with_files_or_inside_a_run_is_refused(finished_digits, here, monkeypatch):
    (here / "full").mkdir()
    (here / "full" / "notes.txt").touch()
    (here / "link").symlink_to(finished_digits)
    (here / "file").touch()
    monkeypatch.setattr(export, "ONNX_PACKAGES", ("onnx_of_nobody",))
    inside = f"is inside the run folder {finished_digits.resolve()}; name another folder"

    def refused(output, kind="torch"):
        ended = exported(finished_digits, output, "--format", kind)
        assert (ended.code, ended.output) == (1, "")
        return ended.errors.removeprefix(f"error: {here}/")

    assert refused("full") == "full: holds notes.txt; give --output another folder\n"
    assert refused("file") == "file: is not a folder; name another folder\n"
    assert refused("link/a") == f"link/a: {inside}\n"
    expected = "error: --format onnx needs onnx_of_nobody: pip install andiron[onnx]\n"
    assert refused("new", "onnx") == expected
    assert not (here / "new").exists() and not (finished_digits / "a").exists()


def test_weights_take_no_preprocessing(finished_digits, here):
    ended = exported(finished_digits, "out", "--format", "safetensors", "--preprocessing")
    assert (ended.code, ended.errors) == (
        1,
        "error: --preprocessing: safetensors has weights and no program; choose --format torch or "
        "onnx, or leave it out\n",
    )
    assert not (here / "out").exists()
