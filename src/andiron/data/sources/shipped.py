"""The data files of the package, checked before they are read."""

from importlib import resources
from pathlib import Path

from torch import Tensor

from andiron import errors
from andiron.data.splitting import fingerprint
from andiron.serialization import safetensors_codec

FOLDER = Path(str(resources.files("andiron.data.sources")))


def load(file: Path, sha256: str) -> dict[str, Tensor]:
    """The tensors in a shipped file.

    Raises: DataError if the file is missing or is not the shipped one.
    """
    if not file.is_file():
        raise errors.DataError(
            f"{file}: the data shipped with andiron are missing; install the package again"
        )
    checksum = fingerprint.of_file(file)
    if checksum != sha256:
        raise errors.DataError(
            f"{file}: SHA-256 is {checksum}, not {sha256}: the file is damaged; "
            "restore it from the repository or install the package again"
        )
    return safetensors_codec.load_tensors(file)
