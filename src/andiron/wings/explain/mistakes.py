"""Every mistake in a command line or a composed configuration; Hydra stops at the first."""

import os
import shlex
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from andiron import errors
from andiron.plain import wings
from andiron.run_folder import RunFolder
from andiron.shell.config import (
    arguments as command_arguments,
    config_folders,
    hydra_node,
    quoting,
    resolution,
    schema,
    violations,
)
from andiron.shell.config.config_folders import Groups
from andiron.wings.explain import hydra_words, misplaced

OF_HYDRA = (  # of an override; an assertion or a TypeError of its own may be among them
    HydraException, OmegaConfBaseException, AssertionError, TypeError, ValueError,
)  # fmt: skip

KEYS = (
    "keys in braces are of ASCII letters, digits and / - + . $ % * @ ? | \\ (\\A begins a "
    "pattern); others stand in a YAML file"
)


def explain(arguments: list[str], conf_dir: Path, error: Exception) -> list[str]:
    """The mistakes in the overrides among `arguments`, one line each, or Hydra's own message.

    Each override is checked alone first: its syntax and its group. The valid ones are then composed
    with unknown keys allowed, so that the schema reports all of them.
    """
    overrides = command_arguments.parsed(arguments).overrides
    conf_dirs = config_folders.all_dirs(conf_dir, arguments)
    message = hydra_words.message(error, overrides)
    if isinstance(error, yaml.MarkedYAMLError):  # in a file that is perhaps no choice of these
        return [message]
    choices = config_folders.groups(*conf_dirs)
    for text in overrides:
        if text[:1] == "~":  # perhaps for a class
            choices.pop(text[1:], None)
    lines, valid = _checked_alone(overrides, choices, "--multirun" in str(error))
    if isinstance(error, UnicodeDecodeError | RecursionError):  # nothing can be composed
        return lines + (_unreadable(conf_dirs[1:], type(error)) or [message])
    reported = {*map(_option, lines)}
    # of a group with an unknown choice the options are unknown too
    valid = [text for text in valid if text.lstrip("+~").partition(".")[0] not in reported]
    lines += [line for line in _schema_problems(valid, conf_dirs) if _option(line) not in reported]
    flags = command_arguments.of_the_configuration(arguments)  # which may be wrong
    place = "".join(map("{}={}: ".format, flags[::2], flags[1::2]))
    place = "".join(getattr(error, "__notes__", [place]))  # a job of a sweep
    return lines or [place + message]


def unknown_flag(flag: str, arguments: list[str]) -> str:
    """The problem of an unknown flag, perhaps an option with dashes."""
    name, _, value = flag.partition("=")
    option, flags = misplaced.current_name(name.lstrip("-")), command_arguments.flags()
    if _is_option(option):
        typed = _typed(option, value, arguments[arguments.index(flag) + 1 :])
        hint, near = f"; options have no dashes: {typed}", {"nearest": option}
    else:
        hint, near = errors.nearest(name, flags), errors.choices(name, flags)
    return errors.Problem(f"{flag}: no such flag{hint}", kind="unknown_option", option=name, **near)


def _checked_alone(
    overrides: list[str], choices: Groups, is_ambiguous: bool
) -> tuple[list[str], list[str]]:
    """The mistakes in single overrides, and the valid overrides, with their first values."""
    lines, valid = [], []
    for text in overrides:
        if "=" not in text and text[:1] != "~":
            lines += _without_value(text, overrides, choices)
            continue
        try:
            override = OverridesParser.create().parse_override(text)
            values = _values(override)
        except OF_HYDRA as error:
            lines.append(_unread(text, error))
            continue
        if problem := _no_choice(override, values, choices):
            lines.append(problem)
        elif is_ambiguous and override.is_sweep_override():
            lines.append(f"{text}: several values, of which -m trains each")
        elif not str(override.key_or_group).startswith("hydra"):
            valid.append(_with_first(override, values, choices))
    return lines, valid


def _without_value(text: str, overrides: list[str], choices: Groups) -> list[str]:
    """The line for an argument without an equals sign; none for a value after its option."""
    place = overrides.index(text)
    if any(map(_is_option, overrides[:place][-1:])):
        return []
    groups = [group for group, names in choices.items() if text in names]
    if os.path.exists(RunFolder(Path(text)).manifest):
        reason = f"a run's folder, resume={text} resumes it"
    elif os.path.exists(text):
        of_data = quoting.typed("data.path", text)
        reason = f"a path; data=csv {of_data} trains on a table, resume={text} resumes a run"
    elif _is_option(text):
        typed = _typed(misplaced.current_name(text), "", overrides[place + 1 :])
        reason = f"an option has its value after an equals sign: {typed}"
    elif groups:
        reason = f"did you mean {' or '.join(f'{group}={text}' for group in groups)}?"
    else:
        reason = "an option is typed as lr=0.1; andiron help lists the commands"
    return [f"{text}: cannot be read as option=value: {reason}"]


def _is_option(text: str) -> bool:
    """Whether an argument is an option, or the name of one in another codebase, alone."""
    name = misplaced.current_name(text).partition(".")[0]
    return "=" not in text and name in violations.fields_of(schema.Train).parameters


def _typed(option: str, value: str, following: list[str]) -> str:
    """The option as it is typed here; without a value, with the argument that follows it."""
    value = value or next((text for text in following[:1] if "=" not in text), "...")
    return shlex.quote(f"{option}={value}")


def _unread(text: str, error: Exception) -> str:
    """The line for an argument that does not follow Hydra's grammar."""
    option, _, value = text.partition("=")
    remedy = KEYS if value[:1] == "{" else quoting.remedy(f"{option}={quoting.texts(value)}")
    return f"{text}: cannot be read as option=value: {str(error).splitlines()[0]}; {remedy}"


def _option(text: str) -> str:
    """The option that an override, or a line about a problem, begins with."""
    return text.partition(": ")[0].partition("=")[0].lstrip("+")


def _values(override: Override) -> list[Any]:
    """The values of an override: of a sweep, a list, or the only one."""
    if override.is_interval_sweep():
        return [override.value().start]  # type: ignore[union-attr]
    if override.is_sweep_override():
        return [*override.sweep_string_iterator()]
    value = override.value()
    return value if isinstance(value, list) else [value]


def _no_choice(override: Override, values: list[Any], choices: Groups) -> str | None:
    """The line for the first value of an override that is no choice of its group."""
    group = str(override.key_or_group)
    if group not in choices or override.is_delete():
        return None
    names, texts = choices[group], ("null" if value is None else str(value) for value in values)
    value = next((text for text in texts if text not in names), None)
    if value is None:
        return None
    if hydra_words.is_hidden(group):
        reason = hydra_words.HIDDEN
    else:
        is_there = Path("conf", group, f"{value}.yaml").is_file()
        own = "--config-dir conf reads the one below conf/; " if is_there else ""
        further = "" if wings.optional(f"{wings.LAB}.commands") else f"; more are in {wings.IN_LAB}"
        is_optional = value == "null" and getattr(schema.Train, group, value) is None
        instead = f"; '{group}=[]' leaves it out" if is_optional else ""
        available = f"available: {', '.join(names)}{further}{instead}"
        reason = f"no such {group}{errors.nearest(value, names)}; {own}{available}"
    near = errors.choices(value, names)
    line = f"{group}={value}: {reason}"
    return errors.Problem(line, kind="unknown_choice", option=group, value=value, **near)


def _with_first(override: Override, values: list[Any], choices: Groups) -> str:
    """The override with its first value, with `++` if its key may not exist."""
    if override.is_delete():
        return str(override.input_line)
    key = override.get_key_element()
    key = key if override.key_or_group in choices else f"++{key.lstrip('+')}"
    is_swept = override.is_sweep_override()
    first = [*values, "null"][0] if is_swept else override.get_value_element_as_str()
    return f"{key}={first}"


def _schema_problems(overrides: list[str], conf_dirs: list[Path]) -> list[str]:
    """The mistakes in what these overrides give, or the one for which Hydra does not compose it."""
    try:
        config = config_folders.composed_by_hydra(overrides, *conf_dirs, has_hydra=True)
        hydra_node.apart(config, partial(resolution.checked, folders=conf_dirs))
    except errors.ConfigError as error:
        return [*error.problems]
    except Exception as error:  # Hydra's: an assertion or a TypeError of its own may be among them
        return [hydra_words.message(error, overrides)]
    return []


def _unreadable(folders: Iterable[Path], kind: type[Exception]) -> list[str]:
    """A line for each file that cannot be read for this kind of reason: no text, or its depth."""
    lines = []
    for path in sorted(path for folder in folders for path in folder.rglob("*.yaml")):
        try:
            yaml.safe_load(path.read_text(encoding="utf-8") if path.is_file() else "")
        except kind as problem:
            lines.append(f"{path}: cannot be read: {problem}")
        except (UnicodeDecodeError, RecursionError, yaml.YAMLError):
            continue  # not the cause of this error
    return lines
