"""Where a run comes from: code, versions, hardware, seeds and data."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import andiron

PACKAGES = (
    "torch",
    "torchvision",
    "hydra-core",
    "omegaconf",
    "tensorboard",
    "safetensors",
    "pydantic",
    "numpy",
)


def gather(*, seed: int, data: dict[str, Any], device: torch.device) -> tuple[dict[str, Any], str]:
    """The content of `provenance.json`, and the patch from the commit to the code that ran (empty if they agree).

    Bytes of the patch that are no UTF-8 are surrogate escapes in it.
    """
    git, patch = _git(Path(andiron.__file__).parent)
    return {
        "command": sys.argv,
        "andiron": andiron.__version__,
        "git": git,
        "python": platform.python_version(),
        "packages": _versions(),
        "hardware": _hardware(device),
        "seed": seed,
        "data": data,
    }, patch


def _git(code: Path) -> tuple[dict[str, Any] | None, str]:
    """The commit of the checkout the code lies in, what it differs by, and None outside any checkout."""
    revision = _run_git(code, "rev-parse", "HEAD")
    if revision is None:
        return None, ""
    plain = (
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    )  # whatever git is set to
    patch = _run_git(code, "diff", "--binary", *plain, "HEAD", "--", ":/") or ""
    untracked = (
        _run_git(code, "ls-files", "-z", "--others", "--exclude-standard", "--full-name", ":/")
        or ""
    )
    return {
        "revision": revision.strip(),
        "dirty": bool(patch),
        "untracked": untracked.split("\0")[:-1],
    }, patch


def _run_git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):  # no git here: the record says so with a null
        return None
    return answer.stdout.decode(errors="surrogateescape") if answer.returncode == 0 else None


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _hardware(device: torch.device) -> dict[str, Any]:
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.machine(),
        "cuda": torch.version.cuda,
    }
