"""Modules of the lab, a package that may be missing, for the options that need them."""

from collections.abc import Mapping
from typing import Any

from andiron import errors
from andiron.plain import wings


def module(name: str, option: str) -> Any:
    """The module `andiron_lab.<name>`.

    Raises: ConfigError naming the option if the lab is not installed.
    """
    return wings.required(name, option, errors.ConfigError)


def adapters(param_groups: Mapping[str, Any] | None) -> Any:
    """The lab's adapters of layers if a rule has one, else None."""
    rules = (param_groups or {}).items()
    named = [name for name, rule in rules if rule.get("adapter") is not None]
    return module("adapters", f"param_groups.{named[0]}.adapter") if named else None
