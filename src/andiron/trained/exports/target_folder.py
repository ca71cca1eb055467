"""What an export writes, and what is checked before torch is imported."""

import importlib.util
import os
from pathlib import Path

from andiron import errors
from andiron.plain import readable

README = "README.md"  # the model card
FORMATS = {"safetensors": "model.safetensors", "torch": "model.pt2", "onnx": "model.onnx"}
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def check(output: Path, kind: str) -> None:
    """Refuses a link, and a folder with files.

    Raises: RunFolderError; DataError if the packages of the format are missing.
    """
    if os.path.isdir(output) and (there := sorted(path.name for path in output.iterdir())):
        found = f"holds {readable.joined(there, 1)}"
        raise errors.RunFolderError(f"{output}: {found}; give --output another folder")
    if os.path.islink(output):
        raise errors.RunFolderError(f"{output}: is a link; give --output another name")
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if kind == "onnx" and missing:
        problem = f"--format onnx needs {', '.join(missing)}"
        raise errors.DataError(f"{problem}: pip install andiron[onnx]")
