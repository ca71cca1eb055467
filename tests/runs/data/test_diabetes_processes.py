"""The script that makes the shipped diabetes file makes it again, byte for byte."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

module = importlib.import_module(
    "andiron.data.sources.diabetes"
)  # the package has a function of the same name
SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "make_diabetes.py"


def test_the_script_makes_the_file_byte_for_byte(tmp_path):
    pytest.importorskip("sklearn")
    made = tmp_path / "diabetes.safetensors"
    done = subprocess.run(
        [sys.executable, SCRIPT, made], capture_output=True, text=True, timeout=120, check=True
    )
    assert made.read_bytes() == module.FILE.read_bytes()
    assert done.stdout == f"{made}: {module.FILE.stat().st_size} bytes, SHA-256 {module.SHA256}\n"
