"""Nothing is imported before it is needed: torch after the configuration is checked, slow packages
when a run names them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from andiron import __main__

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


def modules_after(*statements: str) -> list[set[str]]:
    """The modules that a fresh process has imported after each of the statements."""
    show = "print('imported', *sys.modules)"
    parts = "; ".join(f"{statement}; {show}" for statement in statements)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {parts}"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    lines = map(str.split, done.stdout.splitlines())
    return [{*names} for first, *names in filter(None, lines) if first == "imported"]


def test_a_wrong_value_is_answered_with_hydra_and_pydantic_alone():
    main = f"train.main(pathlib.Path({str(ROOT / 'conf')!r}))"
    imports = "import pathlib; from andiron.shell.training import train"
    refused = f"{imports}; sys.argv[1:] = ['lr=-1']; {main}"
    (loaded,) = modules_after(refused)
    packages = {name.partition(".")[0] for name in loaded}

    assert not packages & {"subprocess", "multiprocessing", "asyncio", "unittest"}
    foreign = {name for name in packages if name[0] != "_"} - sys.stdlib_module_names
    assert foreign - {"attr", "cython_runtime"} == {  # of omegaconf and yaml, where installed
        "andiron", "andiron_lab", "hydra", "hydra_plugins", "omegaconf", "antlr4", "yaml",
        "packaging", "pydantic", "pydantic_core", "annotated_types", "typing_inspection",
        "typing_extensions",
    }  # fmt: skip


WITH_TORCH = {  # commands whose arguments are of weights, or that train a recorded run again
    "import-state-dict", "bisect", "consolidate", "recheck", "replay", "rerun", "seeds", "try",
    "verify-resume",
}  # fmt: skip


def test_commands_check_their_arguments_before_torch_is_imported():
    commands = __main__.COMMANDS | __main__.others()
    modules = [commands[name].partition(":")[0] for name in commands.keys() - WITH_TORCH]
    (loaded,) = modules_after(f"import {', '.join(modules)}, andiron.wings.sweep.launching")
    assert not loaded & {"torch", "numpy", "matplotlib", "tensorboard"}


def test_commands_without_a_configuration_do_not_import_hydra():
    imports = "from andiron.wings.runs import accept_changes, command"
    (loaded,) = modules_after(f"{imports}; from andiron.wings.screen import watch")
    assert not loaded & {"hydra", "omegaconf"}


SUMMARY = {"model": "Net", "num_parameters": 1, "updates": 1, "seconds": 1.0, "metrics": [],
           "param_groups": {}}  # fmt: skip


@pytest.fixture(scope="module")
def imported():
    """The modules after a learner is imported, a line and a summary printed, and a run imported."""
    return modules_after(
        "import andiron.learner; andiron.learner.LearnerBuilder('run')",
        "from andiron import protocols, render; "
        "render.for_python().epoch_ended(protocols.Progress(num_epochs=1), 1.0)",
        "import random; before = random.getstate(); "
        f"render.Plain().show({SUMMARY}); assert random.getstate() == before",
        "import andiron.shell.training.experiment, andiron.models.zoo",
    )


def test_a_learner_is_imported_without_hydra_and_its_lines_printed_without_rich(imported):
    """rich draws from Python's generator when it is imported, which leaves no trace."""
    builder, line, summary, _ = imported
    assert not builder & {"hydra", "omegaconf", "rich"}
    assert "rich" not in line and "rich" in summary


def test_a_single_process_run_imports_no_more_of_torch_distributed():
    main = f"train.main(pathlib.Path({str(ROOT / 'conf')!r}))"
    options = "['num_epochs=1', 'data=partial', 'hydra.run.dir=' + tempfile.mkdtemp()]"
    imports = "import pathlib, tempfile; from andiron.shell.training import train"
    of_torch, alone = modules_after("import torch", f"{imports}; sys.argv[1:] = {options}; {main}")
    assert "andiron.distributed" in alone
    assert {name for name in alone - of_torch if name.startswith("torch.distributed")} == set()


def test_unneeded_packages_are_not_imported(imported):
    *_, loaded = imported
    assert "torch" in loaded
    slow = {"torchvision", "torch._dynamo", "triton", "sklearn", "torch.utils.tensorboard"}
    assert not loaded & {*slow, "polars", "fsspec"}
