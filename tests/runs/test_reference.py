"""Files generated from the options are current, and an option needs no second home in src."""

import ast
import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from pydoc import locate

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from andiron.options import LearnerOptions
from andiron.shell.config import schema
from scripts import generate_reference

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "andiron"


def test_generated_files_are_current():
    stale = [
        path.relative_to(ROOT).as_posix()
        for path, text in generate_reference.generated().items()
        if path.read_text(encoding="utf-8") != text
    ]

    assert stale == [], "run `python scripts/generate_reference.py`"


def names_in(node: ast.AST) -> set[str]:
    """The names that a list, a call or a function's signature enumerates."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            return {elt.value for elt in node.elts if isinstance(elt, ast.Constant)}
        case ast.Dict():
            return {key.value for key in node.keys if isinstance(key, ast.Constant)}
        case ast.Call():
            return {keyword.arg for keyword in node.keywords if keyword.arg}
        case ast.arguments():
            return {argument.arg for argument in [*node.args, *node.kwonlyargs]}
    return set()


def test_no_other_module_lists_the_options_of_the_learner_by_hand():
    options = {field.name for field in dataclasses.fields(LearnerOptions)}
    offenders = [
        f"{path.relative_to(SOURCES)}:{getattr(node, 'lineno', '?')}: {sorted(names & options)}"
        for path in {*SOURCES.rglob("*.py")} - generate_reference.generated().keys()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if len((names := names_in(node)) & options) > 3
    ]

    assert offenders == []


EXPERIMENTS = sorted((ROOT / "conf" / "experiment").glob("*.yaml"))


def test_editors_know_every_option_of_the_page_and_of_experiments():
    known = json.loads((ROOT / "conf" / "schema.json").read_text())["properties"]

    for path in [ROOT / "conf" / "train.yaml", *EXPERIMENTS]:
        assert set(OmegaConf.load(path)) <= set(known), path.name
    node = known["model"]["anyOf"][0]["anyOf"][0]
    assert {"hidden", "dropout", "depth"} <= set(node["properties"])


def test_the_writers_of_a_run_without_a_word_are_those_on_the_page():
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = OmegaConf.to_container(compose("train"))

    for node in (writers := config["writers"]).values():
        constructor = inspect.signature(locate(node["_target_"])).parameters
        for option in node.keys() - {"_target_"}:
            assert node.pop(option) == constructor[option].default
    assert writers == schema.DEFAULT_WRITERS
    assert yaml.safe_load((ROOT / "conf" / "train.yaml").read_text())["num_updates"] is None


@pytest.mark.usefixtures("preloaded_processes")
def test_signatures_show_types_as_they_are_written():
    # in a process of its own: here the checks of shapes replace annotations by their values
    code = """import inspect, andiron
from andiron import checkpoint, data, learner, models, schedules
for shown in (learner.LearnerBuilder, data.csv, data.image_folder, schedules.Cosine, models.MLP,
              schedules.Sequential, schedules.Composed, schedules.Warmup, checkpoint.last_and_best):
    print(inspect.signature(shown))"""
    command, place = [sys.executable, "-c", code], {"PYTHONPATH": str(ROOT / "src")}
    shown = subprocess.run(command, env=os.environ | place, capture_output=True, text=True).stdout
    assert "num_epochs: 'Count | None' = 10, " in shown and "min_lr: 'NonNegative' = 0.0" in shown
    lines = shown.splitlines()
    assert len(lines) == 9 and max(map(len, lines)) < 1000
    assert not re.search("FieldInfo|Annotated|collections.abc", shown)
