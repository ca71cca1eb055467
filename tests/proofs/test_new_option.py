"""A new option of the learner stands in options.py alone: schema, page and help follow."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEW_OPTION = """
    patience_of_saints: Proportion = option(
        0.5, "a new option", resume="free", hparam="if set"
    )

    def __post_init__("""
USE = """
import sys
from andiron import errors
from andiron.shell.config import resolution, schema
from hydra import compose, initialize_config_dir
with initialize_config_dir(sys.argv[1] + "/conf", version_base="1.3"):
    try:
        resolution.checked(compose("train", overrides=["patience_of_saints=0"]))
    except errors.ConfigError as error:
        print(*error.problems)
    composed = compose("train", overrides=["patience_of_saints=0.25"])
    config = schema.Train(**resolution.checked(composed))
print(schema.hyperparameters(vars(config))["patience_of_saints"])
print(schema.resume_policy()["patience_of_saints"])
assert "torch" not in sys.modules
from andiron.learner import LearnerBuilder
LearnerBuilder(patience_of_saints=0.25)
"""


def test_a_new_option_of_the_learner_stands_in_options_py_alone(tmp_path):
    for name in ("src", "conf", "scripts", "proofs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "AGENTS.md", tmp_path)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "commands.md", tmp_path / "docs")
    options = tmp_path / "src" / "andiron" / "options.py"
    text = options.read_text(encoding="utf-8")
    assert text.count("\n    def __post_init__(") == 1
    assert "import Count," in text and "Proportion" not in text  # a type that is new to both files
    text = text.replace("import Count,", "import Count, Proportion,")
    options.write_text(text.replace("\n    def __post_init__(", NEW_OPTION), encoding="utf-8")

    generate = [sys.executable, str(tmp_path / "scripts" / "generate_reference.py")]
    subprocess.run(generate, check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=120,
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": ""},
    )  # fmt: skip

    assert done.stdout.splitlines() == [
        "patience_of_saints=0: should be greater than 0",
        "0.25",
        "free",
    ]
    assert "`patience_of_saints=" in (tmp_path / "docs" / "configuration.md").read_text()
