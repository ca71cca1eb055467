"""What an export writes, and what is checked before torch is imported."""

import importlib.util
from pathlib import Path

from andiron import errors
from andiron.run_folder import RunFolder

README = "README.md"  # the model card
FORMATS = {"safetensors": "model.safetensors", "torch": "model.pt2", "onnx": "model.onnx"}
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def check(output: Path, kind: str, *, is_inside_allowed: bool = False) -> None:
    """Refuses a folder with files, and one inside any run's unless that is allowed.

    Raises: RunFolderError; DataError if the packages of the format are missing.
    """
    if output.is_dir() and (there := sorted(path.name for path in output.iterdir())):
        found = f"holds {there[0]}" + (f" and {len(there) - 1} more" if there[1:] else "")
        raise errors.RunFolderError(f"{output}: {found}; give --output another folder")
    if output.exists() and not output.is_dir():
        raise errors.RunFolderError(f"{output}: is not a folder; give --output another name")
    real = output.resolve()
    run = next((each for each in (real, *real.parents) if RunFolder(each).holds_run()), None)
    if run is not None and not is_inside_allowed:
        raise errors.RunFolderError(
            f"{output}: is inside the run folder {run}; give --output another folder, or allow it "
            "with --inside-run"
        )
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if kind == "onnx" and missing:
        problem = f"--format onnx needs {', '.join(missing)}"
        raise errors.DataError(f"{problem}: pip install andiron[onnx]")
