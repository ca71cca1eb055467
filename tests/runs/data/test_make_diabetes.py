"""The script that makes the shipped diabetes file makes it again, byte for byte."""

import importlib
from pathlib import Path

import pytest
from in_process import ran

# the package has a function of the same name
module = importlib.import_module("andiron.data.sources.diabetes")
SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "make_diabetes.py"


def test_the_script_makes_the_file_byte_for_byte(tmp_path):
    pytest.importorskip("sklearn")
    made = tmp_path / "diabetes.safetensors"
    printed = ran(SCRIPT, made).output
    assert made.read_bytes() == module.FILE.read_bytes()
    assert printed == f"{made}: {module.FILE.stat().st_size} bytes, SHA-256 {module.SHA256}\n"
