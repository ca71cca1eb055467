"""Predictions from raw inputs, in Python and by the command."""

import csv
import io
import json
import shutil
import sys

import pytest
import torch
from PIL import Image

import andiron
from andiron import errors
from andiron.data import digits
from andiron.wings.runs import accept_changes
from andiron.wings.trained import predict
from in_process import called


@pytest.fixture
def pictures(tmp_path):
    """Test digits as files, and the class of each."""
    raw = digits(valid=0.1, split_seed=0).test.__getitems__(range(7))
    (tmp_path / "pictures").mkdir()
    for number, image in enumerate(raw.inputs[:, 0]):
        pixels = (image.float() * 255 / 16).round().to(torch.uint8)
        Image.fromarray(pixels.numpy()).save(tmp_path / "pictures" / f"{number}.png")
    return tmp_path / "pictures"


def test_files_folders_and_pictures_are_predicted_alike(finished_digits, pictures):
    run = andiron.load(finished_digits)
    paths = sorted(pictures.iterdir())
    of_folder = run.predict(pictures)

    assert [value.name for value in of_folder] == [*map(str, paths)]
    for others in (paths, [Image.open(path) for path in paths]):
        assert [value.label for value in run.predict(others)] == [
            value.label for value in of_folder
        ]
    one = run.predict(paths[0])[0]
    assert one.label == "0" and one.probability == max(one.probabilities.values())
    assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-6)  # float32
    assert [len(run.predict(paths, batch_size=3)), one.output.requires_grad] == [7, False]
    one.output.add_(1)  # not an inference tensor


def test_every_unreadable_picture_is_listed(finished_digits, pictures):
    for name in ("bad.png", "worse.jpg"):
        (pictures / name).write_bytes(b"no picture")
    with pytest.raises(errors.DataError) as error:
        andiron.load(finished_digits).predict([pictures, "none.png"])
    listed = [line.partition(": ")[0] for line in str(error.value).splitlines()]
    assert listed == [str(pictures / "bad.png"), str(pictures / "worse.jpg"), "none.png"]

    ended = called(predict.main, finished_digits, pictures, "none.png")
    assert (ended.code, len(ended.output.splitlines())) == (1, 8)  # with a header
    assert ended.errors.count("cannot be read as an image") == 2
    assert "error: none.png: there is no such file; correct the path" in ended.errors


def test_the_command_writes_csv_or_json_lines(finished_digits, pictures, tmp_path, monkeypatch):
    ended = called(predict.main, finished_digits, pictures, "--top", "2", "--weights", "ema")
    assert ended.code == 0, ended.errors
    first = next(csv.DictReader(io.StringIO(ended.output)))
    names = ["input", "label", "probability", "label_2", "probability_2"]
    assert [*first] == names and float(first["probability"]) > float(first["probability_2"])

    paths = "\n".join(map(str, sorted(pictures.iterdir())))
    monkeypatch.setattr(sys, "stdin", io.StringIO(paths + "\n"))
    file = tmp_path / "predictions.jsonl"
    ended = called(predict.main, finished_digits, "-", "--json", "--output", file)
    assert (ended.code, json.loads(ended.output)) == (0, {"output": str(file)}), ended.errors
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["input"] == str(pictures / "0.png") and len(lines) == 7
    assert {*lines[0]} == {"input", "label", "probability"}


def test_a_command_that_cannot_predict_says_why(finished_digits, pictures, tmp_path):
    for arguments, code, words in (
        ((tmp_path / "none", "x"), 1, "holds no run: there is no such folder"),
        ((finished_digits.parent.parent, "x"), 1, "name one of its "),
        ((finished_digits, pictures, "--weights", "swa"), 1, "available: last, best, ema"),
        ((finished_digits, pictures, "--top", "0"), 2, "invalid count value: '0'"),
        ((finished_digits, pictures, "--batch-size", "9" * 20), 2, "invalid count value: '999"),
        ((finished_digits, pictures, "--output", tmp_path / "no" / "x"), 1, "cannot be written"),
        ((finished_digits, tmp_path / "empty"), 1, "there is no such file"),
    ):
        ended = called(predict.main, *arguments)
        assert ended.code == code and words in ended.errors, ended


HOSTILE = ["=1+1", "+1", "-1", "-cmd|x", " @SUM(A1)", "\t=2", "a,b", "\uff1d1", "a\u202eb", "plain"]


@pytest.fixture
def hostile_labels(finished_digits, tmp_path):
    """A run whose classes have the names HOSTILE."""
    folder = tmp_path / "run"
    shutil.copytree(finished_digits, folder)
    facts = json.loads((folder / "data.json").read_text())
    facts["class_names"] = HOSTILE
    (folder / "data.json").write_text(json.dumps(facts))
    assert called(accept_changes.main, folder).code == 0
    return folder


def test_a_spreadsheet_gets_no_formula_if_it_is_asked_for(hostile_labels, pictures):
    arguments = (hostile_labels, pictures / "0.png", "--top", "10")
    plain, inert = called(predict.main, *arguments), called(
        predict.main, *arguments, "--spreadsheet"
    )
    (row,), (inert_row,) = (
        [*csv.reader(io.StringIO(ended.output), quoting=quoting)][1:]
        for ended, quoting in ((plain, csv.QUOTE_MINIMAL), (inert, csv.QUOTE_NONNUMERIC))
    )

    labels = {name.replace("\u202e", r"\u202e") for name in HOSTILE}
    assert {*row[1::2]} == labels
    formulas = {"=1+1", "-cmd|x", " @SUM(A1)", "\t=2", "\uff1d1"}
    assert {*inert_row[1::2]} == {f"'{label}" if label in formulas else label for label in labels}
    assert inert_row[2::2] == [*map(float, row[2::2])]
    exact = json.loads(called(predict.main, *arguments, "--json").output)
    assert {*exact["probabilities"]} == {*HOSTILE}


def test_a_path_on_stdin_ends_with_its_line_alone(finished_digits, pictures, monkeypatch):
    path = pictures / "a\u2028b\x85c.png"
    (pictures / "0.png").rename(path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{path}\n\n{pictures / '1.png'}\n"))
    ended = called(predict.main, finished_digits, "-")
    assert (ended.code, len(ended.output.splitlines())) == (0, 3), ended.errors
    assert r"a\u2028b\x85c.png" in ended.output
