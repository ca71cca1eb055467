"""The scripts that make the shipped files of digits and diabetes make them again, byte for byte."""

import importlib
from pathlib import Path

import pytest
from in_process import ran

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


@pytest.mark.parametrize("name", ["digits", "diabetes"])
def test_the_script_makes_the_file_byte_for_byte(name, tmp_path):
    pytest.importorskip("sklearn")
    # the package has a function of the same name
    module = importlib.import_module(f"andiron.data.sources.{name}")
    made = tmp_path / f"{name}.safetensors"
    printed = ran(SCRIPTS / f"make_{name}.py", made).output
    assert made.read_bytes() == module.FILE.read_bytes()
    assert printed == f"{made}: {module.FILE.stat().st_size} bytes, SHA-256 {module.SHA256}\n"
