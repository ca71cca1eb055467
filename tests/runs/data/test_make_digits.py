"""The script that makes the shipped digits file makes it again, byte for byte."""

import importlib
from pathlib import Path

import pytest
from in_process import ran

# the package has a function of the same name
digits = importlib.import_module("andiron.data.sources.digits")
SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "make_digits.py"


def test_the_script_makes_the_file_byte_for_byte(tmp_path):
    pytest.importorskip("sklearn")
    made = tmp_path / "digits.safetensors"
    printed = ran(SCRIPT, made).output
    assert made.read_bytes() == digits.FILE.read_bytes()
    assert printed == f"{made}: {digits.FILE.stat().st_size} bytes, SHA-256 {digits.SHA256}\n"
