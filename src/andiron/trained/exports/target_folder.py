"""The files of an export, and the checks before torch is imported."""

import importlib.util
import os
from pathlib import Path

from andiron import errors
from andiron.plain import readable

README = "README.md"  # the model card
FORMATS = {"safetensors": "model.safetensors", "torch": "model.pt2", "onnx": "model.onnx"}
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def check(output: Path, kind: str) -> None:
    """Checks that `output` can take an export of this `kind`.

    Raises: RunFolderError for a link or a folder with files; DataError for missing packages.
    """
    if os.path.isdir(output) and (entries := sorted(path.name for path in output.iterdir())):
        problem = f"holds {readable.joined(entries, 1)}"
        raise errors.RunFolderError(f"{output}: {problem}; give --output another folder")
    if os.path.islink(output):
        raise errors.RunFolderError(f"{output}: is a link; give --output another name")
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if kind == "onnx" and missing:
        problem = f"--format onnx needs {', '.join(missing)}"
        raise errors.DataError(f"{problem}: pip install andiron[onnx]")
