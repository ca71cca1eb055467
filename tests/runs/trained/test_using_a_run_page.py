"""Pages about finished runs: their commands and Python run in one folder, from top to bottom."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from in_process import ran
from PIL import Image

from andiron.data import digits

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("using_a_run.md", "text.md", "export.md")
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def make_pictures(folder):
    folder.mkdir()
    for number, image in enumerate(digits(valid=0.1, split_seed=0).test.inputs[:3, 0]):
        pixels = (image.float() * 255 / 16).round().to(torch.uint8)
        Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_the_page_run_from_top_to_bottom(page, here):
    if page == "using_a_run.md":
        make_pictures(Path("pictures"))
    names = {}
    for language, block in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, page, "exec"), names)
            continue
        for line in block.replace("\\\n", " ").splitlines():
            _, script, *arguments = shlex.split(line)
            ended = ran(ROOT / script, *arguments)
            assert ended.code == 0, (line, ended.errors)
