"""Editors complete the options of LearnerBuilder."""

import dataclasses
from pathlib import Path

import jedi

from andiron.shell.config.options import LearnerOptions

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {field.name for field in dataclasses.fields(LearnerOptions)}
IMPORT = "from andiron.learner import LearnerBuilder\n"


def completions(line):
    project = jedi.Project(ROOT, added_sys_path=[str(ROOT / "src")])
    return jedi.Script(IMPORT + line, project=project).complete(2, len(line))


def test_every_option_is_completed_with_its_docstring():
    methods = {each.name: each.docstring(raw=True) for each in completions("LearnerBuilder('x').")}
    assert methods.keys() >= OPTIONS
    assert all("Default: " in " ".join(methods[option].split()) for option in OPTIONS)
    keywords = {each.name.removesuffix("=") for each in completions("LearnerBuilder('x', ")}
    assert keywords >= OPTIONS
