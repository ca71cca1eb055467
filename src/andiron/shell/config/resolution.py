"""A composed configuration as plain values, and its mistakes.

A top-level key that is no option is a variable of the user's if anything interpolates it:
`dims: 48` for `${dims}`, `paths: {data_dir: /data}` for `${paths.data_dir}`.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from andiron import errors
from andiron.plain.plain_values import Plain
from andiron.shell.config import former_options, project, schema
from andiron.shell.config.leaves import leaves
from andiron.shell.config.trust import Trust
from andiron.shell.config.violations import Problems

REFERENCE = re.compile(r"\$\{([\w.]+)\}")  # to another option or variable


def checked(
    config: DictConfig,
    folders: Iterable[Path] = (),
    trusted: Trust | None = None,
    recorded: Collection[str] = (),
) -> Plain:
    """The plain values of a configuration composed from these folders, or by Hydra.

    With `trusted`, it may name only what is allowed; nothing else is imported. Nothing has to use a
    variable that is `recorded`.
    Raises: ConfigError with every mistake, or every refused name. A value that only repeats another
    (`initial_lr: ${lr}`) is reported where it was given.
    """
    unresolved = OmegaConf.to_container(config, resolve=False)
    raw = {".".join(path): value for path, value in leaves(unresolved, opens_lists=True)}
    filled, missing = config.copy(), Problems()
    for option in (option for option, value in raw.items() if value == "???"):
        OmegaConf.update(filled, option, None)
        line = f"{option}: no value; give one as {option}=..."
        missing[option] = errors.Problem(line, kind="missing_value", option=option)
    try:
        options = plain(filled)
    except OmegaConfBaseException as error:
        raise errors.ConfigError(message(error)) from error
    if trusted is not None:
        trusted.check(options)
    lines = _problems_of_values(filled, options, folders, recorded)
    wrong = lines | missing
    repeated = [option for option in lines if not wrong.keys().isdisjoint(_sources(option, raw))]
    if problems := [line for option, line in wrong.items() if option not in repeated]:
        raise errors.ConfigError(problems)
    return options


def _problems_of_values(
    config: DictConfig, options: Plain, folders: Iterable[Path], recorded: Collection[str]
) -> Problems:
    """The mistakes in resolved options, also variables that nothing uses."""
    variables = options.get(schema.VARIABLES, {})
    others = variables.keys() - {*recorded}
    unused = {name: variables[name] for name in others if not _is_used(config, name, folders)}
    lines = schema.problems(options | unused)
    if schema.VARIABLES in config:
        reason = "is the record of your variables; give each at the top level, such as +dims=48"
        lines[schema.VARIABLES] = f"{schema.VARIABLES}: {reason}"
    return lines


def plain(config: DictConfig) -> Plain:
    """The configuration as plain values, interpolations resolved and variables in one mapping.

    Former names of targets are the current ones. A group that the command line empties, as
    `~checkpoint` does, loses the options that a file gives it.
    """
    resolved = _unconverted(OmegaConf.to_container(config, resolve=True))
    for group in _emptied_groups():
        if "_target_" not in str(resolved.get(group)):
            resolved.pop(group, None)
    known = schema.resume_policy().keys() - {schema.VARIABLES}
    variables = {name: resolved.pop(name) for name in [*resolved] if name not in known}
    options = resolved | ({schema.VARIABLES: variables} if variables else {})
    former_options.renamed_nodes(options)
    return options


def _emptied_groups() -> list[str]:
    """The groups that the command line empties, and of which it sets no option."""
    own: Any = HydraConfig.get() if HydraConfig.initialized() else None
    texts: Any = OmegaConf.to_container(own.overrides.task, resolve=False) if own else []
    return [
        group
        for group in (*schema.NODE_GROUPS, *schema.NAMED_GROUPS)
        if f"~{group}" in texts or f"{group}=[]" in texts
        if not any(text.lstrip("+").startswith(f"{group}.") for text in texts)
    ]


def message(error: Exception) -> str:
    """The error on one line, after the option that it names."""
    if isinstance(error, OmegaConfBaseException) and error.full_key:
        return f"{error.full_key}: {str(error.msg).splitlines()[0]}"
    return errors.one_line(error)


def _unconverted(value: object) -> Any:
    """The value without Hydra's `_convert_`: components get plain values in any case."""
    if isinstance(value, list):
        return [_unconverted(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {str(key): _unconverted(item) for key, item in value.items() if key != "_convert_"}


def _is_used(config: DictConfig, name: str, folders: Iterable[Path]) -> bool:
    """Whether the configuration, a file or Hydra interpolates this key."""
    others = [str(key) for key in config if key != name]
    texts = [OmegaConf.to_yaml(OmegaConf.masked_copy(config, others))]
    texts += [OmegaConf.to_yaml(HydraConfig.get())] if HydraConfig.initialized() else []
    for folder in (*folders, *project.config_dirs()):
        files = filter(Path.is_file, folder.rglob("*.yaml"))
        texts += [path.read_text(errors="replace") for path in files]
    use = re.compile(rf"\$\{{(\.*|[\w.]+:){re.escape(name)}[.,}}]")  # relative, or of a resolver
    return any(map(use.search, texts))


def _sources(option: str, raw: Plain) -> set[str]:
    """The options that an option, or a value inside it, only repeats."""
    inside = [str(raw[path]) for path in raw if f"{path}.".startswith(f"{option}.")]
    return {match[1] for match in map(REFERENCE.fullmatch, inside) if match}
