"""Hydra's reading and merging of configuration files, done once for each content of the files.

Hydra reads, parses and merges them anew for each composition, most of the time of one.
"""

import dataclasses
import pickle
from pathlib import Path

from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

READ = ConfigRepository.load_config
MERGE = ConfigLoaderImpl._compose_config_from_defaults_list
INTERPOLATE = defaults_list._create_interpolation_map
COPIES: dict[tuple[object, ...], bytes] = {}  # pickle copies faster than `deepcopy`


def install() -> None:
    """Has Hydra compose from copies of what it read and merged."""
    ConfigRepository.load_config = _load_config
    ConfigLoaderImpl._compose_config_from_defaults_list = _merged
    defaults_list._create_interpolation_map = _interpolation_map


def _load_config(self: ConfigRepository, config_path: str) -> ConfigResult | None:
    source = self._find_object_source(config_path, ObjectType.CONFIG)
    if source is None or source.scheme() != "file":  # Hydra's own
        return READ(self, config_path)
    path = Path(source.path, source._normalize_file_name(config_path))
    key = (source.provider, source.path, config_path, path.read_bytes())
    if key not in COPIES:
        COPIES[key] = pickle.dumps(READ(self, config_path))
    result = pickle.loads(COPIES[key])
    result.content = key
    return result


def _merged(
    self: ConfigLoaderImpl, defaults: list[ResultDefault], repo: IConfigRepository
) -> DictConfig:
    results = [repo.load_config(default.config_path) for default in defaults]
    contents = [getattr(result, "content", None) for result in results]
    key = (*map(dataclasses.astuple, defaults), *contents)
    if key not in COPIES:
        COPIES[key] = pickle.dumps(MERGE(self, defaults, repo))
    return pickle.loads(COPIES[key])


def _interpolation_map(overrides, defaults, self_added):
    """The choices, which Hydra gathers for each file and needs where a default names one."""
    if any(default.is_interpolation() for default in defaults):
        return INTERPOLATE(overrides, defaults, self_added)
