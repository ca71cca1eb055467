"""The arguments of a command: overrides, and Hydra's flags in any place among them.

>>> in_order(["lr=1", "-m", "seed=1,2", "--config-dir", "mine"])
['lr=1', 'seed=1,2', '-m', '--config-dir', 'mine']
>>> in_order(["loss={_target_: mine.Loss}", "metrics.f1={_target_: mine.F1}"])
['~loss', '+loss={_target_: mine.Loss}', '++metrics.f1=null', '++metrics.f1={_target_: mine.F1}']
"""

from argparse import ArgumentParser, Namespace
from itertools import chain
from typing import NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.errors import HydraException

from andiron import errors
from andiron.disk import files
from andiron.plain import wings
from andiron.plain.plain_values import Plain
from andiron.shell.config import quoting
from andiron.shell.config.schema import APART, NAMED_GROUPS, NODE_GROUPS

FOLDERS = ("hydra.run.dir", "hydra.sweep.dir")
TEXTS = {*FOLDERS, "fork_from", "name", "resume", "start_from", "sweep_name"}
# a sweep of resumed runs has its own error
OF_ALL_JOBS = (APART | {"fork_from"}) - {"resume", "resume_allow"}
OPTUNA, SEARCH = "hydra/sweeper=optuna", "andiron_lab.search.optuna_package"
MOST_JOBS = 100_000  # of one sweep; each takes a second at least


def in_order(arguments: list[str]) -> list[str]:
    """The overrides, then the flags: Hydra does not read overrides that follow a flag.

    A node given as a value replaces what stands there.
    Raises: ConfigError for a flag that is unknown, lacks its value, or would read a pickle.
    """
    options, unknown = _parser().parse_known_intermixed_args(arguments)
    mistakes = wings.optional("explain.mistakes") if unknown else None
    problems = [
        mistakes.unknown_flag(flag, arguments) if mistakes else f"{flag}: no such flag"
        for flag in unknown
        if flag[:1] == "-"
    ]
    if options.experimental_rerun is not None:
        problems.append(
            f"--experimental-rerun={options.experimental_rerun}: would read a pickle; resume=<run "
            f"folder> resumes a run, `{wings.command('rerun')}` repeats one"
        )
    if problems:
        raise errors.ConfigError(problems)
    flags = [argument for argument in arguments if argument not in options.overrides]
    return [*chain.from_iterable(map(_replacing, options.overrides)), *flags]


def _replacing(text: str) -> list[str]:
    """The override; if each of its values is a node, or a list with one, first what empties it.

    Hydra would merge the node with what stands there.
    """
    is_node = "_target_" in text and text[:1] not in "+~"  # else it is not parsed here
    if not is_node or (override := parsed_override(text)) is None:
        return [text]
    values = override.sweep_iterator() if override.is_sweep_override() else [override.value()]
    nodes = (value[:1] if isinstance(value, list) else [value] for value in values)
    if not all(isinstance(node, dict) and "_target_" in node for node, in filter(None, nodes)):
        return [text]
    option = str(override.key_or_group)
    is_group = option in NODE_GROUPS
    return [f"~{option}", f"+{text}"] if is_group else [f"++{option}=null", f"++{text}"]


def parsed(arguments: list[str]) -> Namespace:
    """Hydra's flags by name, and `overrides`.

    Raises: ConfigError for a flag that lacks its value.
    """
    return _parser().parse_known_intermixed_args(arguments)[0]


def of_the_configuration(arguments: list[str]) -> list[str]:
    """The flags that say where the configuration is, such as `--config-dir mine`.

    Raises: as `parsed`.
    """
    values = vars(parsed(arguments))
    names = "config_path", "config_name", "config_dir"
    return [
        text
        for name in names
        if values[name]
        for text in (f"--{name.replace('_', '-')}", values[name])
    ]


def in_this_process(arguments: list[str]) -> list[str]:
    """The arguments of a command that runs the jobs of a sweep in this process."""
    return ["hydra/launcher=basic", *arguments] if parsed(arguments).multirun else arguments


def parsed_override(text: str) -> Override | None:
    """The argument as an override; None if it is not valid."""
    try:
        return OverridesParser.create().parse_override(text)
    except (HydraException, RecursionError):
        return None


def values(arguments: list[str]) -> Plain:
    """The value of each valid override by key, text for a sweep; Hydra reports the invalid ones."""
    return {
        str(override.key_or_group): _written(override)
        if override.is_sweep_override() else override.value()
        for override in _overrides(arguments)
    }


def _overrides(arguments: list[str]) -> list[Override]:
    return [*filter(None, map(parsed_override, parsed(arguments).overrides))]


def _written(override: Override) -> str:
    return str(override.input_line).partition("=")[2]


def check(arguments: list[str]) -> None:
    """Refuses overrides that Hydra would silently misread.

    A run without a folder would use the current one; an endless sweep would fill the memory.
    Raises: ConfigError with every such override.
    """
    overrides = _overrides(arguments)
    problems = [
        f"{override.input_line}: {reason}"
        for override in overrides
        if (reason := _misreading(override))
    ]
    names = [str(override.key_or_group) for override in overrides]
    if {"sweep_name", "hydra.sweep.dir"} <= {*names}:
        problems += ["sweep_name and hydra.sweep.dir: both name the sweep's folder; leave one out"]
    if problems:
        raise errors.ConfigError(problems)
    if OPTUNA in arguments and (package := wings.optional(SEARCH)):
        package.check()  # before Hydra finds two sweepers of that name


def _misreading(override: Override) -> str:
    """Why Hydra would misread an override; empty if it does not."""
    option, value = str(override.key_or_group), override.value()
    if not _length(value) <= MOST_JOBS:  # or NaN
        return f"should have at most {MOST_JOBS} values; narrow the range"
    if override.is_sweep_override():
        several = "; several metrics are a list: 'objective=[valid/loss,valid/accuracy]'"
        reason = "is one value for all jobs" + (several if option == "objective" else "")
        return reason if option in OF_ALL_JOBS else ""
    if option in NAMED_GROUPS and isinstance(value, list) and len({*map(str, value)}) < len(value):
        return "names a choice twice, which is made once; leave one out"
    text = "" if value is None or isinstance(value, list | dict) else str(value)
    if option in NODE_GROUPS and isinstance(value, list) and len(value) > 1:
        names = ",".join(map(str, value))
        return f"Hydra would merge them; -m {option}={names} trains each"
    if option in TEXTS and type(value) in (int, float) and _written(override) != text:
        remedy = quoting.remedy(quoting.override(option, _written(override)))
        return f"would be read as the number {text}; {remedy}"
    if option in FOLDERS and (not text.strip() or "\0" in text):
        return "no folder; give one, or leave it out"
    if option in FOLDERS and files.is_ambiguous(text):
        return "leads elsewhere, because .. follows a link; give the folder itself"
    if option == "hydra.output_subdir" and value is not None:
        return "Andiron writes Hydra's record to .hydra; leave it out"
    return ""


def _length(value: object) -> float:
    """The number of values in a range; 1 for any other value, and where Hydra refuses the step."""
    if not (isinstance(value, RangeSweep) and value.step):
        return 1
    return (float(value.stop or 0) - float(value.start or 0)) / float(value.step)


def flags() -> list[str]:
    """The long names of Hydra's flags."""
    # private: argparse lists its options in the text of its help only
    names = (name for action in _parser()._actions for name in action.option_strings)
    return [name for name in names if name.startswith("--")]


def _parser() -> ArgumentParser:
    parser = get_args_parser()  # private: Hydra has no other list of its flags
    parser.error = _refuse  # type: ignore[method-assign]
    return parser


def _refuse(message: str) -> NoReturn:
    raise errors.ConfigError(f"{message.removeprefix('argument ')}; --hydra-help lists the flags")
