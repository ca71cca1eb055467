"""The origin of a run: code, versions, hardware, seed and data; gathered, and read back."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

import andiron
from andiron import errors
from andiron.run import run_record
from andiron.run_folder import RunFolder

PACKAGES = (
    "torch", "torchvision", "hydra-core", "omegaconf", "tensorboard", "safetensors", "pydantic",
    "numpy",
)  # fmt: skip


def gather(*, seed: int, data: dict[str, Any], device: torch.device) -> tuple[dict[str, Any], str]:
    """The content of provenance.json, and the patch from the commit to the code that ran.

    The patch is empty if nothing is uncommitted. Its bytes that are not UTF-8 are surrogate
    escapes.
    """
    git, patch = _git(Path(andiron.__file__).parent)
    return {
        "command": sys.argv,
        "andiron": andiron.__version__,
        "git": git,
        "python": platform.python_version(),
        "packages": versions(),
        "hardware": _hardware(device),
        "seed": seed,
        "data": data,
    }, patch


def read(folder: RunFolder) -> dict[str, Any]:
    """The content of provenance.json, with its list of resumes.

    Raises: DataError if it is missing or damaged.
    """
    path = folder.provenance
    try:
        origin = dict(run_record.read_json(folder, path))
    except (ValueError, TypeError) as error:
        raise errors.DataError(
            f"{path}: missing or damaged ({error}); restore it from a copy"
        ) from error
    origin.setdefault("resumes", [])
    if not _is_as_written(origin):
        raise errors.DataError(
            f"{path}: damaged: data, git or resumes are malformed; restore it"
        )
    return origin


@cache
def versions() -> dict[str, str | None]:
    """The installed versions of the packages that results may differ with; null for none."""
    found: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _is_as_written(origin: dict[str, Any]) -> bool:
    """Whether those parts that are used have the right types."""
    match origin:
        case {"data": {"sha256": _}, "resumes": [*resumes]}:
            code = origin.get("git") or {}
            untracked = code.get("untracked", []) if isinstance(code, dict) else None
            are_names = isinstance(untracked, list) and all(
                isinstance(name, str) for name in untracked
            )
            return are_names and all(
                isinstance(resume, dict) and isinstance(resume.get("changes", {}), dict)
                for resume in resumes
            )
    return False


def _git(code: Path) -> tuple[dict[str, Any] | None, str]:
    """The commit of the checkout that holds the code, and the uncommitted patch; None elsewhere."""
    revision = _run_git(code, "rev-parse HEAD")
    if revision is None:
        return None, ""
    # the user's git settings must not change the patch
    plain = "--binary --no-ext-diff --no-textconv --no-color --src-prefix=a/ --dst-prefix=b/"
    patch = _run_git(code, f"diff {plain} HEAD -- :/") or ""
    untracked = _run_git(code, "ls-files -z --others --exclude-standard --full-name :/") or ""
    return {
        "revision": revision.strip(),
        "dirty": bool(patch),
        "untracked": untracked.split("\0")[:-1],
    }, patch


def _run_git(folder: Path, arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments.split()]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):  # no git: null in the record
        return None
    return answer.stdout.decode(errors="surrogateescape") if answer.returncode == 0 else None


def _hardware(device: torch.device) -> dict[str, Any]:
    is_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if is_gpu else platform.machine()
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "device_name": name,
        "cuda": torch.version.cuda,
    }
