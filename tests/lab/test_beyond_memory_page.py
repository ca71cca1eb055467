"""The page on data beyond memory: its commands run as they stand there."""

import pytest

from in_process import page_ran
from pages import PAGES, ROOT


def test_the_commands_of_the_page_run(here):
    pytest.importorskip("tokenizers")
    outputs = [output for _, output in page_ran(PAGES["beyond_memory.md"], ROOT, {})]
    assert any("tokens in 200 documents; 1 shards of uint16" in output for output in outputs)
