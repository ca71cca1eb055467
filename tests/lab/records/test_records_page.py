"""`docs/records.md`, done: its blocks of Python run one after the other, and its tables say what is
so.
"""

import re

from pages import PAGES, blocks, run_python

from andiron import serialization
from andiron.serialization import safetensors_codec
from andiron_lab.records import burn_layout, number_formats
from andiron_lab.records.recorder import SUFFIXES

PAGE, BLOCKS = PAGES["records.md"], blocks("records.md", "python")


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_python("records.md")
    assert len(BLOCKS) == 5
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.safetensors", "wrapped.safetensors", "model.mpk.gz", "record.json",
        "burn.safetensors",
    }  # fmt: skip


def test_the_page_names_every_format_precision_dtype_and_layout():
    for format, suffix in SUFFIXES.items():
        assert re.search(
            rf"^\| `{format}`.*`{suffix}` \| `{suffix}\.gz` \|", PAGE, flags=re.MULTILINE
        ), format
    assert set(re.findall(r'"(\w+)"', re.search(r"`precision=\"half\".*? \|", PAGE)[0])) | {
        "exact"
    } == set(number_formats.PRECISIONS)
    for dtype in safetensors_codec.DTYPES:
        if dtype.is_floating_point or dtype.is_complex:
            assert str(dtype).removeprefix("torch.").removeprefix("float8_") in PAGE, dtype
    for kind in burn_layout.WITHOUT_COUNTERPART:
        assert re.search(
            rf"`{kind.__name__.removesuffix('CellBase').removesuffix('Base')}`", PAGE
        ), kind


def test_the_page_uses_what_there_is():
    for name in re.findall(r"records\.(\w+)\(", "".join(BLOCKS)):
        assert name in serialization.__all__
