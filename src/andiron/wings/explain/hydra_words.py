"""Messages of Hydra and omegaconf with the remedy that they lack."""

import re

import yaml

from andiron import errors
from andiron.shell.config import resolution, schema
from andiron.wings.explain import misplaced

OWN_GROUPS = "; a group of your own is added in project/default.yaml (docs/from_lightning.md)"
APPEND = " To append to your config use +"  # in Hydra's words
HIDDEN = "an option, which a folder of yours with its name hides: rename the folder"
UNCHOSEN = re.compile(r"Could not override '([^']+)'\. No match in the defaults list\..*")
REMEDIES = {  # by patterns of Hydra's words
    "Unknown plugin class": "leave _target_ out: `override /hydra/sweeper: optuna` chooses a class",
    "Multiple values for": "on the command line without a plus before it",
    "@.+Did you mean to override": "the first line of that file is to be: # @package _global_",
    "override '[^@]+Did you mean to override":
        "a file chooses of the groups above its own in train.yaml: choose this one in "
        "project/default.yaml or an experiment",
    "Cannot merge":
        "`override /GROUP: null` among the defaults of the file removes what stands there; choices "
        "stand there too, as `override /writers: [csv]` in place of `writers: [csv]`",
}


def message(error: Exception, overrides: list[str]) -> str:
    """The error on one line, after the option or file that it names, with a remedy if it has one.

    It came of these `overrides`.
    """
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}"
        return f"{mark.name}: no YAML: {place}: {error.problem}"
    if isinstance(error, RecursionError):
        return "nested too deeply, or a defaults list that includes itself: choose another file"
    line = resolution.message(error)
    if unchosen := UNCHOSEN.search(line):
        group, place = unchosen[1], line[: unchosen.start()]
        if is_hidden(group):
            return f"{place}{group}: {HIDDEN}"
        near = errors.nearest(misplaced.current_name(group), schema.resume_policy())
        return f"{place}{group}: no such group{near}{OWN_GROUPS}"
    wrong, _, option = line.partition(APPEND)
    if option.startswith("hydra"):  # which does not exist either
        return f"{wrong} There is no such option of Hydra; --cfg hydra prints all"
    swept = f"{option.partition('.')[0]}="
    if option and any(text.startswith(swept) and "," in text for text in overrides):
        return f"{wrong} If some choices alone have it, sweep them in a command of their own"
    return "; ".join([line, *(REMEDIES[words] for words in REMEDIES if re.search(words, line))])


def is_hidden(group: str) -> bool:
    """Whether this group of a user's has the name of an option that no file chooses."""
    return group in schema.resume_policy().keys() - schema.CHOSEN
