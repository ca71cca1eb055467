"""`check` writes nothing, wherever it would be, and refuses the folder that training refuses."""


import pytest
from in_process import called
from PIL import Image

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


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_nothing_is_downloaded(here, name):
    ended = called(check.main, *RUN, f"data={name}", "data.root=there")
    assert ended.code == 1 and "check writes nothing; training would" in ended.errors
    assert [*here.iterdir()] == []


@pytest.mark.parametrize("options", [(), ("data.cache=cached",)])
def test_the_texts_of_a_folder_are_joined_elsewhere(here, options):
    (here / "texts").mkdir()
    for name in "ab":
        (here / "texts" / f"{name}.txt").write_text("to be\n" * 20)
    data = "data=text", "data.path=texts", "data.level=characters", "data.context_length=4"
    small = "model.dim=8", "model.layers=1", "model.heads=1"
    before = state(here)
    ended = called(check.main, *RUN[:1], *data, *small, *options)
    assert (ended.code, ended.errors) == (0, ""), ended
    assert state(here) == before
