"""`check` writes nothing, wherever it would be, and refuses the folder that training refuses."""

import os

import pytest
from in_process import called
from PIL import Image

from andiron.shell.training import train
from andiron.wings.runs import check

RUN = "num_epochs=1", "model.hidden=[8]"


def state(folder):
    """Names, sizes and times of everything in a folder."""
    paths = [folder, *folder.rglob("*")]
    return {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in sorted(paths)}


@pytest.fixture
def pictures(here):
    for number, name in enumerate(f"{label}/{index}" for label in "ab" for index in range(9)):
        path = here / "pictures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    return here


@pytest.mark.parametrize("options", [
    (), ("data.cache=cached",), ("hydra.run.dir=run",), ("writers=[csv]",),
])  # fmt: skip
def test_pictures_are_not_cached(pictures, options):
    data = "data=image_folder", "data.path=pictures", "data.decoded=once", "data.size=8"
    before = state(pictures)
    ended = called(check.main, *RUN, *data, *options)
    assert ended.code == 0, ended.errors
    assert state(pictures) == before


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cifar100"])
def test_nothing_is_downloaded(here, name):
    ended = called(check.main, *RUN, f"data={name}", "data.root=there")
    assert ended.code == 1 and "check writes nothing; training would" in ended.errors
    assert [*here.iterdir()] == []


def test_a_folder_that_training_refuses_is_refused(here):
    (here / "theirs").mkdir()
    (here / "theirs" / "notes.txt").write_text("mine")
    (here / "file").write_text("mine")
    (here / "closed").mkdir()
    assert called(train.main, *RUN, "data=partial", "hydra.run.dir=run").code == 0
    (here / "run" / "link").mkdir()
    for folder, words in {
        "run": "already holds a run; resume it", "theirs": "holds files that no run wrote",
        "file": "cannot be written (Not a directory)", "file/run": "Not a directory",
        "run/checkpoints/inner": "is among the files of the run in",
    }.items():  # fmt: skip
        given = *RUN, "data=partial", f"hydra.run.dir={folder}"
        before = state(here)
        ended = called(check.main, *given)
        assert state(here) == before
        trained = called(train.main, *given, "render=plain")
        assert ended.code == trained.code == 1 and words in ended.errors, ended.errors
        assert words in trained.errors or "Not a dir" in words, trained.errors  # Hydra makes it
    before = state(here)
    for allowed in ("overwrite=true", "restart=requeued"):
        given = *RUN, "data=partial", "hydra.run.dir=run", allowed
        assert called(check.main, *given, "--options").code == 0, allowed
    assert state(here) == before
    assert os.listdir(here / "run" / "link") == []
