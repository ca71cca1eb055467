"""Every command with an output that the user names, and places that must stay as they are."""

import os
import shutil
import threading

import pytest
import torch
from PIL import Image

from andiron.wings.runs import command as runs, plan
from andiron.wings.trained import evaluate, predict, run_arguments
from andiron.wings.trained.exports import export
from in_process import called
from proofs.lab_parts import find_lr, import_state_dict

FILES = {
    "predict": (predict.main, "run", "pictures", "--output", "PLACE"),
    "runs compare": (runs.main, "compare", "run", "--png", "PLACE"),
    "import_state_dict": (import_state_dict.main, "weights.pt", "PLACE"),
}
FOLDERS = {
    "evaluate": (evaluate.main, "run", "--pictures", "PLACE"),
    "export": (export.main, "run", "--format", "safetensors", "--output", "PLACE"),
    "plan": (plan.main, "hydra.run.dir=PLACE"),
    "find_lr": (find_lr.main, "--updates", "12", "hydra.run.dir=PLACE"),
}


@pytest.fixture
def place(here, finished_digits):
    """Two runs, pictures and weights, in the current folder."""
    for name in "run", "other":
        shutil.copytree(finished_digits, name)
    (here / "pictures").mkdir()
    for number in range(3):
        Image.new("L", (8, 8), number).save(f"pictures/{number}.png")
    torch.save({"w": torch.ones(2)}, "weights.pt")
    return here


def contents(folder):
    """Every file, folder and link below a folder, with its content."""
    return {
        path.relative_to(folder): os.readlink(path) if path.is_symlink()
        else path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }  # fmt: skip


def ended(command, place):
    main, *arguments = command
    return called(main, *(argument.replace("PLACE", str(place)) for argument in arguments))


@pytest.mark.parametrize("name", FILES)
def test_nothing_of_the_users_is_replaced_and_nothing_is_computed(place, name, monkeypatch):
    monkeypatch.setattr(run_arguments, "loaded", lambda *_: pytest.fail("the run was loaded"))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("weights were loaded"))
    (place / "to.safetensors").symlink_to("run/model.safetensors")
    (place / "folder.safetensors").mkdir()
    before = contents(place)
    for target, why in (
        ("to.safetensors", "is a link to run/model.safetensors"),
        ("folder.safetensors", "is a folder"),
        ("run/model.safetensors", f"is inside the run folder {place / 'run'}"),
        ("run/../other/new.safetensors", f"is inside the run folder {place / 'other'}"),
        ("none/new.safetensors", "cannot be written (there is no folder none)"),
    ):
        result = ended(FILES[name], target)
        message = f"error: {target}: {why}; name another file\n"
        assert (result.code, result.output, result.errors) == (1, "", message)
    assert contents(place) == before


@pytest.mark.parametrize("name", FILES)
def test_a_named_pipe_gets_all_of_the_output(place, name):
    os.mkfifo("pipe.safetensors")
    got = []
    reader = threading.Thread(target=lambda: got.append((place / "pipe.safetensors").read_bytes()))
    reader.start()
    by_pipe = ended(FILES[name], "pipe.safetensors")
    reader.join()
    assert (by_pipe.code, by_pipe.errors) == (0, "")
    assert ended(FILES[name], "file.safetensors").code == 0
    assert got == [(place / "file.safetensors").read_bytes()] and got[0]


@pytest.mark.parametrize("given", ["pictures", "-"])
def test_a_picture_to_predict_is_not_replaced(place, given, monkeypatch):
    with open("names", "w+") as names:
        names.write("pictures/0.png\n")
        names.seek(0)
        monkeypatch.setattr("sys.stdin", names)
        before = contents(place)
        result = called(predict.main, "run", given, "--output", "pictures/0.png")
    why = "pictures/0.png: is an input of this command; name another file"
    assert (result.code, result.errors) == (1, f"error: {why}\n") and contents(place) == before


def test_weights_to_import_are_not_replaced(place):
    os.link("weights.pt", "hard.safetensors")
    result = ended(FILES["import_state_dict"], "hard.safetensors")
    assert (result.code, "is an input of this command" in result.errors) == (1, True)


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_of_outputs_is_made_in_a_run(place, name):
    before = contents(place / "run")
    result = ended(FOLDERS[name], place / "run" / "tensorboard")
    assert result.code == 1 and f"is inside the run folder {place / 'run'}; " in result.errors
    assert contents(place / "run") == before


def test_a_curve_is_not_drawn_through_a_link(place):
    (place / "lr").mkdir()
    (place / "lr" / "find_lr.png").symlink_to(place / "weights.pt")
    before = contents(place)
    result = ended(FOLDERS["find_lr"], place / "lr")
    assert (
        result.code == 1 and f"find_lr.png: is a link to {place / 'weights.pt'}; " in result.errors
    )
    assert contents(place) == before
