"""Every mistake in a command line or a composed configuration; Hydra stops at the first."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
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
from andiron.config import arguments as command_arguments
from andiron.config import quoting, schema
from andiron.config.leaves import leaves

Groups = dict[str, list[str]]  # the choices of every config group


def explain(arguments: list[str], conf_dir: Path, error: Exception) -> list[str]:
    """The mistakes in the overrides among `arguments`, one line each, or Hydra's own message.

    Each override is checked alone first: its syntax and its group. The valid ones are then composed
    with unknown keys allowed, so that the schema reports all of them.
    """
    options = command_arguments.parsed(arguments)
    folders = [folder for folder in user_dirs(arguments) if folder.is_dir()]
    choices = groups(conf_dir, *folders)
    unread = set[str]()  # options whose values Hydra cannot read
    lines, valid = [], [f"hydra.searchpath=[file://{folder}]" for folder in folders]
    wrong = set[str]()  # groups with an unknown choice, whose options are unknown
    searchers = ("hydra/sweeper=", "experiment=")  # which may choose one too
    searches = any(text.startswith(searchers) for text in options.overrides)
    for text in options.overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException as syntax_error:
            reason = str(syntax_error).splitlines()[0]
            if os.path.isdir(text):
                reason = f"a folder; resume={text} resumes its run, `runs show {text}` shows it"
            remedy = _remedy(text, arguments, conf_dir)
            lines.append(f"{text}: cannot be read as option=value: {reason}{remedy}")
            unread.add(_key(text))
            continue
        group_problem = _group_problem(override, choices)
        complaint = _sweep_problem(override, searches) or group_problem
        if not complaint and "--multirun" in str(error) and override.is_sweep_override():
            remedy = _remedy(text, arguments, conf_dir)
            complaint = remedy and f"{text}: several values, of which -m trains each{remedy}"
        if complaint:
            lines.append(complaint)
            unread.add(_key(text))
            wrong |= {override.key_or_group} if group_problem else set()
        elif not str(override.key_or_group).startswith("hydra"):
            valid.append(_with_first_value(override, choices))
    files = _file_problems(error, folders)
    if files:  # nothing can be composed with them
        return lines + files
    valid = [text for text in valid if text.lstrip("+~").partition(".")[0] not in wrong]
    problems = _schema_problems(valid, conf_dir)
    lines += [line for line in problems if _option(line) not in unread]
    flags = command_arguments.of_the_configuration(arguments)  # which may be wrong
    place = "".join(map("{}={}: ".format, flags[::2], flags[1::2]))
    return lines or _unlisted(error, options.overrides) or [place + _message(error)]


def _unlisted(error: Exception, overrides: list[str]) -> list[str]:
    """The + that an option needs which no file lists, if that is the error."""
    option = re.match(r"Could not override '([^']+)'", str(error))
    return [
        f"{text}: no file of the configuration lists it; add it with a +: {shlex.quote(f'+{text}')}"
        for text in overrides
        if option and _key(text) == option[1]
    ]


@contextmanager
def texts_explained(arguments: list[str], conf_dir: Path) -> Iterator[None]:
    """Adds to an error the argument for each value that Hydra reads otherwise than as its text.

    To a ConfigError if the option has no problem with the text; to a DataError that has the text.
    """
    try:
        yield
    except errors.ConfigError as error:
        lines = dict.fromkeys(error.problems, "")
        for text in command_arguments.parsed(arguments).overrides:
            wrong = [line for line in lines if _option(line) == _key(text)]
            if wrong and quoting.MARK not in wrong[0] and not _is_text(text):
                lines[wrong[0]] = _remedy(text, arguments, conf_dir)
        if not any(lines.values()):
            raise
        raise errors.ConfigError(map("".join, lines.items())) from error
    except errors.DataError as error:
        texts = [text for text in command_arguments.parsed(arguments).overrides if "=" in text]
        reread = filter(_is_reread, texts)
        typed = [text for text in reread if text.partition("=")[2] in str(error)]
        if not typed:
            raise
        raise errors.DataError(f"{error}{quoting.remedy(quoting.as_text(typed[0])[:1])}") from error


def _is_text(text: str) -> bool:
    """Whether Hydra takes the value on the command line as that text, and no interpolation."""
    override = command_arguments.parsed_override(text)
    is_same = override is not None and override.value() == text.partition("=")[2]
    return is_same and "${" not in text


def _is_reread(text: str) -> bool:
    """Whether Hydra gives an option another value than the text on the command line."""
    override = command_arguments.parsed_override(text)
    return override is not None and str(override.value()) != text.partition("=")[2]


def _remedy(text: str, arguments: list[str], conf_dir: Path) -> str:
    """The ways to type the value of an override as text that its option accepts; may be empty."""
    is_choice = "/" in _key(text) or _key(text) in groups(conf_dir)
    forms = [] if is_choice else quoting.as_text(text)
    return quoting.remedy([form for form in forms if _accepts(form, arguments, conf_dir)])


def _accepts(override: str, arguments: list[str], conf_dir: Path) -> bool:
    """Whether an option has no problem with a value, beside the choice of its group."""
    given = command_arguments.parsed(arguments).overrides
    key = _key(override)
    owners = {key.partition(".")[0], "experiment"} - {key}
    choices = [text for text in given if _key(text) in owners]
    folders = [f"hydra.searchpath=[file://{folder}]" for folder in user_dirs(arguments)]
    composed = [*folders, *choices, f"++{override.lstrip('+')}"]
    return key not in map(_option, _schema_problems(composed, conf_dir))


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+")


def _option(problem: str) -> str:
    """The option that a line about it begins with."""
    return problem.partition(": ")[0].partition("=")[0]


def _file_problems(error: Exception, folders: list[Path]) -> list[str]:
    """The problems of files that are not readable as YAML, if `error` comes from one."""
    if isinstance(error, yaml.MarkedYAMLError):
        return [_message(error)]
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
    """The folder of `--config-dir`, if given; its files are used beside `conf/`'s."""
    options = command_arguments.parsed(arguments)
    return [Path(options.config_dir).absolute()] if options.config_dir else []


def problems(config: DictConfig) -> list[str]:
    """The mistakes in a composed configuration, one line each.

    A value that only repeats another (`initial_lr: ${lr}`) is reported where it was given.
    """
    unresolved = OmegaConf.to_container(config, resolve=False)
    raw = {".".join(path): value for path, value in leaves(unresolved, opens_lists=True)}
    missing = [option for option, value in raw.items() if value == "???"]
    filled = config.copy()
    for option in missing:
        OmegaConf.update(filled, option, None)
    try:
        by_option = schema.problems(plain(filled))
    except OmegaConfBaseException as error:
        return [_message(error)]
    lines = {
        option: line for option, line in by_option.items() if not _is_interpolation(raw.get(option))
    }
    lines |= {option: f"{option}: no value; give one as {option}=..." for option in missing}
    return list(lines.values())


def plain(config: DictConfig) -> dict[str, Any]:
    """The configuration as plain values, with interpolations resolved."""
    resolved = OmegaConf.to_container(config, resolve=True)
    return {str(key): value for key, value in resolved.items()}  # type: ignore[union-attr]


def _is_interpolation(value: Any) -> bool:
    """Whether a value is written as an interpolation of another option."""
    return isinstance(value, str) and value.startswith("${") and not value.startswith("${oc.")


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
            instead = f"; ~{group} leaves it out" if option == "null" else ""
            return f"{group}={option}: no such {group}{hint}; {there}{instead}"
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


def composed_by_hydra(conf_dir: Path, overrides: list[str]) -> DictConfig:
    """The configuration as Hydra composes it from these overrides."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir), version_base="1.3"):
        return compose("train", overrides=overrides)


def _schema_problems(overrides: list[str], conf_dir: Path) -> list[str]:
    try:
        return problems(composed_by_hydra(conf_dir, overrides))
    except Exception as error:  # Hydra's: an assertion or a TypeError of its own may be among them
        return [_message(error)]


def _message(error: Exception) -> str:
    """The message of Hydra or OmegaConf on one line, after the option or file that it names."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}"
        return f"{mark.name}: no YAML: {place}: {error.problem}"
    if isinstance(error, RecursionError):
        return "nested too deeply, or a defaults list that includes itself: choose another file"
    if isinstance(error, OmegaConfBaseException) and error.full_key:
        return f"{error.full_key}: {str(error.msg).splitlines()[0]}"
    return " ".join(str(error).split())
