"""Hydra's reading of configuration files, done once for each content of a file.

Hydra reads and parses them anew for each composition, which took a third of its time.
"""

import pickle
from pathlib import Path

from hydra._internal.config_repository import ConfigRepository
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult

READ = ConfigRepository.load_config
RESULTS: dict[tuple[str, str, str, bytes], bytes] = {}


def install() -> None:
    """Has Hydra compose from copies of what it read."""
    ConfigRepository.load_config = _load_config


def _load_config(self: ConfigRepository, config_path: str) -> ConfigResult | None:
    source = self._find_object_source(config_path, ObjectType.CONFIG)
    if source is None or source.scheme() != "file":  # Hydra's own
        return READ(self, config_path)
    path = Path(source.path, source._normalize_file_name(config_path))
    key = (source.provider, source.path, config_path, path.read_bytes())
    if key not in RESULTS:
        RESULTS[key] = pickle.dumps(READ(self, config_path))  # copies faster than `deepcopy`
    return pickle.loads(RESULTS[key])
