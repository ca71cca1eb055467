"""Checksums in records: size and SHA-256 of contents, and of a record itself."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from andiron.disk import files

Entry = dict[str, Any]  # bytes and SHA-256 of a content


def entry_of(content: bytes) -> Entry:
    """Size and SHA-256 of a content."""
    return {"bytes": len(content), "sha256": _sha256(content)}


def entry(path: Path) -> Entry:
    """Size and SHA-256 of a regular file; raises as `files.opened`."""
    with files.opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        return {"bytes": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def is_entry(value: object) -> bool:
    """Whether a plain value has the form of `entry`."""
    types = (
        {key: type(element) for key, element in value.items()} if isinstance(value, dict) else {}
    )
    return types == {"bytes": int, "sha256": str}


def signed(plain: Mapping[str, object]) -> dict[str, Any]:
    """The values of a record, and their own SHA-256."""
    return {**plain, "sha256": own(plain)}


def own(plain: Mapping[str, object]) -> str:
    """The SHA-256 of a record's other values, independent of order and white space."""
    others = {key: value for key, value in plain.items() if key != "sha256"}
    return _sha256(json.dumps(others, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
