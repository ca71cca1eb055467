"""Every mistake in a command line or a composed configuration; Hydra stops at the first."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from andiron import errors
from andiron.errors import Problem
from andiron.shell.config import (
    arguments as command_arguments,
    project,
    quoting,
    resolution,
    schema,
)

Groups = dict[str, list[str]]  # the choices of every config group


def explain(arguments: list[str], conf_dir: Path, error: Exception) -> list[str]:
    """The mistakes in the overrides among `arguments`, one line each, or Hydra's own message.

    Each override is checked alone first: its syntax and its group. The valid ones are then composed
    with unknown keys allowed, so that the schema reports all of them.
    """
    overrides = command_arguments.parsed(arguments).overrides
    conf_dirs = [conf_dir, *filter(Path.is_dir, user_dirs(arguments))]
    choices = groups(*conf_dirs)
    lines, valid = [], []
    searchers = ("hydra/sweeper=", "experiment=")  # which may choose one too
    searches = any(text.startswith(searchers) for text in overrides)
    is_ambiguous = "--multirun" in str(error)
    for text in overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException as syntax_error:
            reason = str(syntax_error).splitlines()[0]
            if os.path.isdir(text):
                reason = f"a folder; {quoting.typed('resume', text)} resumes its run"
            lines.append(f"{text}: cannot be read as option=value: {reason}")
            continue
        if problem := _sweep_problem(override, searches) or _group_problem(override, choices):
            lines.append(problem)
        elif is_ambiguous and override.is_sweep_override():
            lines.append(f"{text}: several values, of which -m trains each")
        elif not str(override.key_or_group).startswith("hydra"):
            valid.append(_with_first_value(override, choices))
    if files := _file_problems(error, conf_dirs[1:]):  # nothing can be composed with them
        return lines + files
    if merged := [*_merged(valid, conf_dirs)]:
        return lines + merged
    reported = {*map(_option, lines)}
    wrong = reported & {*choices}  # groups with an unknown choice, whose options are unknown
    valid = [text for text in valid if text.lstrip("+~").partition(".")[0] not in wrong]
    lines += [line for line in _schema_problems(valid, conf_dirs) if _option(line) not in reported]
    flags = command_arguments.of_the_configuration(arguments)  # which may be wrong
    place = "".join(map("{}={}: ".format, flags[::2], flags[1::2]))
    return lines or _unlisted(error, overrides) or [place + resolution.message(error)]


def _merged(overrides: list[str], conf_dirs: list[Path]) -> Iterator[str]:
    """How to type each override by a node that Hydra would merge with the node there."""
    for text in overrides:
        option, value = _option(text), _value(text)
        if not (isinstance(value, list) or isinstance(value, dict) and "_target_" in value):
            continue
        others = [each for each in overrides if each is not text]
        typed = [f"~{option}", f"+{option}={text.partition('=')[2]}"]
        with suppress(Exception):  # Hydra's: the others have mistakes of their own
            there = OmegaConf.select(composed_by_hydra(others, *conf_dirs), option)
            problems = _schema_problems([*others, *typed], conf_dirs)
            if OmegaConf.is_dict(there) and (isinstance(value, list) or not problems):
                way = f"is merged with the node there; replace it: {shlex.join(typed)}"
                yield from problems or [f"{text.lstrip('+')}: {way}"]


def _unlisted(error: Exception, overrides: list[str]) -> list[str]:
    """The + that an option needs which no file lists, if that is the error."""
    option = re.match(r"Could not override '([^']+)'", str(error))
    return [
        f"{text}: no file of the configuration lists it; add it with a +: {shlex.quote(f'+{text}')}"
        for text in overrides
        if option and _option(text) == option[1]
    ]


def with_quoting(error: Exception, overrides: list[str], conf_dirs: list[Path]) -> Exception:
    """The error, with the argument to type for each value that Hydra reads otherwise than as text.

    For a ConfigError about an option that would take the text, and a DataError that has the text.
    An error with such arguments has the given one as its cause.
    """
    shown = error
    if isinstance(error, errors.ConfigError):
        lines = dict.fromkeys(error.problems, "")
        for text in overrides:
            wrong = [line for line in lines if _option(line) == _option(text)]
            is_variable = text[0] == "+" and "." not in _option(text)
            if wrong and is_variable and "no such option" in wrong[0]:
                use = f"${{{_option(text)}}}"
                lines[wrong[0]] = f"; as a variable, it needs a use of {use} in a file, or goes"
            elif wrong and (_value(text) != text.partition("=")[2] or "${" in text):
                lines[wrong[0]] = _remedy(text, overrides, conf_dirs)
        if any(lines.values()):
            shown = errors.ConfigError(line + remedy for line, remedy in lines.items())
    for text in overrides if isinstance(error, errors.DataError) else ():
        value, given = _value(text), text.partition("=")[2]
        if value is not None and given and str(value) != given and given in str(error):
            shown = errors.DataError(f"{error}{quoting.remedy(quoting.as_text(text)[:1])}")
            break
    if shown is not error:
        shown.__cause__ = error
    return shown


def _value(text: str) -> Any:
    """The value that Hydra reads in an override; None for an invalid one."""
    override = command_arguments.parsed_override(text)
    value = override and override.value()
    return [getattr(each, "text", each) for each in value] if isinstance(value, list) else value


def _remedy(text: str, overrides: list[str], conf_dirs: list[Path]) -> str:
    """The ways to type the value of an override as text that its option accepts; may be empty.

    Of an override that Hydra cannot read, and no option accepts: why not.
    """
    option = _option(text)
    is_choice = "/" in option or option in groups(*conf_dirs)
    owners = {option.partition(".")[0], "experiment"} - {option}
    choices = [each for each in overrides if _option(each) in owners]
    value = _value(text)
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return ""
    if isinstance(value, dict) and not _refusals(option, text, choices, conf_dirs):
        return ""  # a mapping is what the option takes
    refused = {
        form: _refusals(option, form, choices, conf_dirs)
        for form in ([] if is_choice else quoting.as_text(text))
    }
    accepted = [form for form, lines in refused.items() if not lines and _value(form) != value]
    if accepted or command_arguments.parsed_override(text) is not None:
        return quoting.remedy(accepted)
    return "".join(f"; as a text, {lines[0]}" for lines in [*refused.values()][:1])


def _refusals(option: str, form: str, choices: list[str], conf_dirs: list[Path]) -> list[str]:
    """The problems of an option with the value of an override; composed if it is in a group."""
    if "." not in option:
        problem = schema.problems({option: _value(form)}).get(option)
        return [problem] if problem else []
    problems = _schema_problems([*choices, f"++{form.lstrip('+')}"], conf_dirs)
    return [line for line in problems if _option(line) == option]


def _option(text: str) -> str:
    """The option that an override, or a line about a problem, begins with."""
    return text.partition(": ")[0].partition("=")[0].lstrip("+")


def _file_problems(error: Exception, folders: list[Path]) -> list[str]:
    """The problems of files that are not readable as YAML, if `error` comes from one."""
    if isinstance(error, yaml.MarkedYAMLError):
        return [resolution.message(error)]
    lines: list[str] = []
    if not isinstance(error, UnicodeDecodeError | RecursionError):
        return lines
    for path in sorted(file for folder in folders for file in folder.rglob("*.yaml")):
        try:
            if path.is_file():
                OmegaConf.load(path)
        except (UnicodeDecodeError, RecursionError) as problem:
            if isinstance(problem, type(error)):
                lines.append(f"{path}: cannot be read: {problem}")
        except (OSError, yaml.YAMLError, OmegaConfBaseException):
            continue  # not the cause of this error
    return lines


def user_dirs(arguments: list[str]) -> list[Path]:
    """The folder of `--config-dir`, or the project's; its files are used beside `conf/`'s."""
    given = command_arguments.parsed(arguments).config_dir
    return [Path(given).absolute()] if given else [*project.current().conf]


def groups(*conf_dirs: Path) -> Groups:
    """The choices of every config group, by group name."""
    files = [file for folder in conf_dirs for file in folder.glob("*/*.yaml")]
    choices: Groups = {}
    for group, option in sorted((file.parent.name, file.stem) for file in files):
        choices.setdefault(group, []).append(option)
    return choices


def _sweep_problem(override: Override, searches: bool) -> str | None:
    """Why an override cannot be swept over; `searches` if a sweeper is chosen."""
    if override.is_interval_sweep() and not searches:
        remedy = "give values, such as lr=0.1,0.2 with -m, or choose hydra/sweeper=optuna"
        return f"{override.input_line}: an interval needs a sweeper that searches it; {remedy}"
    try:
        if override.is_sweep_override():
            _first_value(override)
    except (ValueError, TypeError, HydraException) as error:
        return f"{override.input_line}: cannot be swept over: {error}"
    return None


def _first_value(override: Override) -> str:
    if override.is_interval_sweep():
        return str(override.value().start)  # type: ignore[union-attr]
    if override.is_sweep_override():
        return next(override.sweep_string_iterator(), "null")
    return str(override.get_value_element_as_str())


def _group_problem(override: Override, choices: Groups) -> str | None:
    group = override.key_or_group
    if group not in choices or override.is_delete():
        return None
    for option in ("null" if value is None else str(value) for value in _values(override)):
        if option not in choices[group]:
            hint = errors.nearest(option, choices[group])
            there = f"available: {', '.join(choices[group])}"
            is_optional = option == "null" and getattr(schema.Train, group, option) is None
            instead = f"; ~{group} leaves it out" if is_optional else ""
            if isinstance(override.value(), dict):
                typed = f"~{group}", f"+{group}={override.get_value_string()}"
                instead = f"; a class is given as {shlex.join(typed)}"
            line = f"{group}={option}: no such {group}{hint}; {there}{instead}"
            near = errors.choices(option, choices[group])
            return Problem(line, kind="unknown_choice", option=group, value=option, **near)
    return None


def _values(override: Override) -> list[object]:
    if override.is_interval_sweep():
        return [_first_value(override)]
    if override.is_sweep_override():
        return list(override.sweep_iterator())
    value = override.value()
    return value if isinstance(value, list) else [value]


def _with_first_value(override: Override, choices: Groups) -> str:
    """The override with its first value, with `++` if its key may not exist."""
    if override.is_delete():
        return str(override.input_line)
    key = override.get_key_element()
    key = key if override.key_or_group in choices else f"++{key.lstrip('+')}"
    return f"{key}={_first_value(override)}"


def composed_by_hydra(overrides: list[str], conf_dir: Path, *others: Path) -> DictConfig:
    """The configuration as Hydra composes it from these overrides and folders."""
    GlobalHydra.instance().clear()
    places = ",".join(quoting.quoted(f"file://{folder}") for folder in others)
    folders = [f"hydra.searchpath=[{places}]".replace(r"\${", "${")]  # Hydra resolves none there
    with initialize_config_dir(str(conf_dir), version_base="1.3"):
        return compose("train", overrides=(folders if others else []) + overrides)


def _schema_problems(overrides: list[str], conf_dirs: list[Path]) -> list[str]:
    try:
        return resolution.problems(composed_by_hydra(overrides, *conf_dirs), conf_dirs)
    except Exception as error:  # Hydra's: an assertion or a TypeError of its own may be among them
        return [resolution.message(error)]
