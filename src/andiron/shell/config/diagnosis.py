"""Every mistake in a command line or a composed configuration; Hydra stops at the first."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from andiron import errors
from andiron.plain import wings
from andiron.run_folder import RunFolder
from andiron.shell.config import (
    arguments as command_arguments,
    hydra_node,
    misplaced,
    project,
    quoting,
    resolution,
    schema,
    search_path,
    violations,
)

Groups = dict[str, list[str]]  # the choices of every config group
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
    conf_dirs = [*filter(Path.is_dir, all_dirs(conf_dir, arguments))]
    left_out = {text[1:] for text in overrides if text[:1] == "~"}  # perhaps for a class
    choices = {name: group for name, group in groups(*conf_dirs).items() if name not in left_out}
    lines, valid = _checked_alone(overrides, choices, "--multirun" in str(error))
    if isinstance(error, UnicodeDecodeError | RecursionError):  # nothing can be composed
        return lines + (_unreadable(conf_dirs[1:], type(error)) or [resolution.message(error)])
    if isinstance(error, yaml.MarkedYAMLError):  # in a file that is perhaps no choice of these
        return [resolution.message(error)]
    reported = {*map(_option, lines)}
    # of a group with an unknown choice the options are unknown too
    valid = [text for text in valid if text.lstrip("+~").partition(".")[0] not in reported]
    lines += [line for line in _schema_problems(valid, conf_dirs) if _option(line) not in reported]
    flags = command_arguments.of_the_configuration(arguments)  # which may be wrong
    place = "".join(map("{}={}: ".format, flags[::2], flags[1::2]))
    place = "".join(getattr(error, "__notes__", [place]))  # a job of a sweep
    line = place + resolution.message(error)
    wrong, appended, option = line.partition(resolution.APPEND)
    swept = f"{option.partition('.')[0]}="
    if appended and any(text.startswith(swept) and "," in text for text in overrides):
        line = f"{wrong} If some choices alone have it, sweep them in a command of their own"
    return lines or [line]


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
            problem = _problem(override, choices)
            single = _with_first_value(override, choices)
        except OF_HYDRA as unread:
            reason = str(unread).splitlines()[0]
            option, _, value = text.partition("=")
            texts = quoting.remedy(f"{option}={quoting.texts(value)}")
            remedy = KEYS if value[:1] == "{" else texts
            lines.append(f"{text}: cannot be read as option=value: {reason}; {remedy}")
            continue
        if is_ambiguous and override.is_sweep_override():
            problem = problem or f"{text}: several values, of which -m trains each"
        if problem:
            lines.append(problem)
        elif not str(override.key_or_group).startswith("hydra"):
            valid.append(single)
    return lines, valid


def _without_value(text: str, overrides: list[str], choices: Groups) -> list[str]:
    """The line for an argument without an equals sign; none for a value after its option."""
    place = overrides.index(text)
    before, after = overrides[:place][-1:], overrides[place + 1 :][:1]
    if any(map(_is_option, before)):
        return []
    groups = [group for group, names in choices.items() if text in names]
    if os.path.exists(RunFolder(Path(text)).manifest):
        reason = f"a run's folder, resume={text} resumes it"
    elif os.path.exists(text):
        of_data = quoting.typed("data.path", text)
        reason = f"a path; data=csv {of_data} trains on a table, resume={text} resumes a run"
    elif _is_option(text):
        value = next((value for value in after if "=" not in value), "...")
        typed = shlex.quote(f"{misplaced.current_name(text)}={value}")
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


def _option(text: str) -> str:
    """The option that an override, or a line about a problem, begins with."""
    return text.partition(": ")[0].partition("=")[0].lstrip("+")


def _unreadable(folders: list[Path], kind: type[Exception]) -> list[str]:
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


def all_dirs(conf_dir: Path, arguments: list[str]) -> list[Path]:
    """The folders that a command line is composed from: `conf/`, the user's, the lab's.

    The user's is that of `--config-dir`, or the project's.
    Raises: ConfigError for a train.yaml of the user, as of another trainer, without a
    project/default.yaml: nothing would be of the user; and for a choice of theirs with the name
    of one of `conf/`, which Hydra would read instead.
    """
    given = command_arguments.parsed(arguments).config_dir
    own = [Path(given).absolute()] if given else project.current().conf
    mine = [folder for folder in own if folder.resolve() != conf_dir.resolve()]
    for page in (folder / "train.yaml" for folder in mine):
        if page.is_file() and not (default := page.parent / "project" / "default.yaml").is_file():
            raise errors.ConfigError(
                f"{page}: is not read, as Andiron has its own: what it chooses belongs in "
                f"{default} (docs/from_lightning.md)"
            )
    pages = [
        folder / file.relative_to(conf_dir)
        for folder in mine
        for file in sorted(conf_dir.glob("*/**/*.yaml"))
    ]
    why = "is not read, as Andiron has its own: give it another name"
    if passed_over := [f"{page}: {why}" for page in pages if page.is_file()]:
        raise errors.ConfigError(passed_over)
    return [conf_dir, *mine, *project.shipped_conf_dirs()[1:]]


def groups(*conf_dirs: Path) -> Groups:
    """The choices of every config group, by group name."""
    files = [file for folder in conf_dirs for file in folder.glob("*/*.yaml")]
    choices: Groups = {}
    for group, option in sorted((file.parent.name, file.stem) for file in files):
        choices.setdefault(group, []).append(option)
    return choices


def _problem(override: Override, choices: Groups) -> str | None:
    """The first value of an override that is no choice of its group."""
    group = override.key_or_group
    if group not in choices or override.is_delete():
        return None
    for option in ("null" if value is None else str(value) for value in _values(override)):
        if option in choices[group]:
            continue
        hint = errors.nearest(option, choices[group])
        is_optional = option == "null" and getattr(schema.Train, group, option) is None
        instead = f"; '{group}=[]' leaves it out" if is_optional else ""
        further = "" if wings.optional(f"{wings.LAB}.commands") else f"; more are in {wings.IN_LAB}"
        available = f"available: {', '.join(choices[group])}{further}{instead}"
        is_there = Path("conf", group, f"{option}.yaml").is_file()
        own = "--config-dir conf reads the one below conf/; " if is_there else ""
        no_such = f"no such {group}{hint}; {own}{available}"
        line = f"{group}={option}: {resolution.HIDDEN if resolution.is_hidden(group) else no_such}"
        near = errors.choices(option, choices[group])
        return errors.Problem(line, kind="unknown_choice", option=group, value=option, **near)
    return None


def _values(override: Override) -> list[Any]:
    if override.is_interval_sweep():
        return [override.value().start]  # type: ignore[union-attr]
    if override.is_sweep_override():
        return [*override.sweep_string_iterator()]
    value = override.value()
    return value if isinstance(value, list) else [value]


def _with_first_value(override: Override, choices: Groups) -> str:
    """The override with its first value, with `++` if its key may not exist."""
    if override.is_delete():
        return str(override.input_line)
    key = override.get_key_element()
    key = key if override.key_or_group in choices else f"++{key.lstrip('+')}"
    is_swept = override.is_sweep_override()
    first = [*_values(override), "null"][0] if is_swept else override.get_value_element_as_str()
    return f"{key}={first}"


def composed_by_hydra(
    overrides: list[str], conf_dir: Path, *others: Path, has_hydra: bool = False
) -> DictConfig:
    """The configuration as Hydra composes it from these overrides and folders.

    With `has_hydra` it has Hydra's own node.
    """
    GlobalHydra.instance().clear()
    search_path.use(others)
    with initialize_config_dir(str(conf_dir), version_base="1.3"):
        return compose("train", overrides=overrides, return_hydra_config=has_hydra)


def _schema_problems(overrides: list[str], conf_dirs: list[Path]) -> list[str]:
    try:
        config = composed_by_hydra(overrides, *conf_dirs, has_hydra=True)
        return hydra_node.apart(config, partial(resolution.problems, folders=conf_dirs))
    except Exception as error:  # Hydra's: an assertion or a TypeError of its own may be among them
        return [resolution.message(error)]
