"""Pages about finished runs: their commands and Python run in one folder, from top to bottom."""

from pathlib import Path

import pytest
import torch
from in_process import page_ran
from PIL import Image

from andiron.data import digits

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("using_a_run.md", "text.md", "export.md")


def make_pictures(folder):
    folder.mkdir()
    for number, image in enumerate(digits(valid=0.1, split_seed=0).test.inputs[:3, 0]):
        pixels = (image.float() * 255 / 16).round().to(torch.uint8)
        Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_the_page_run_from_top_to_bottom(page, here):
    if page == "using_a_run.md":
        make_pictures(Path("pictures"))
    for _ in page_ran((ROOT / "docs" / page).read_text(encoding="utf-8"), ROOT, {}):
        pass
