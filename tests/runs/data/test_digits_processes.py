"""The script that makes the shipped digits file makes it again, byte for byte."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest


digits = importlib.import_module(
    "andiron.data.sources.digits"
)  # the package has a function of the same name
SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "make_digits.py"


def test_the_script_makes_the_file_byte_for_byte(tmp_path):
    pytest.importorskip("sklearn")
    made = tmp_path / "digits.safetensors"
    done = subprocess.run(
        [sys.executable, SCRIPT, made], capture_output=True, text=True, timeout=120, check=True
    )
    assert made.read_bytes() == digits.FILE.read_bytes()
    assert done.stdout == f"{made}: {digits.FILE.stat().st_size} bytes, SHA-256 {digits.SHA256}\n"
