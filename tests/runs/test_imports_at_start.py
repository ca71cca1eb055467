"""Nothing is imported before it is needed: torch after the configuration is checked, slow packages
when a run names them.
"""

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"


def modules_after(statement: str) -> set[str]:
    script = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_a_config_is_checked_before_torch_is_imported():
    assert "torch" not in modules_after("import andiron.commands.train")


def test_what_a_run_does_not_need_is_not_imported():
    loaded = modules_after("import andiron.experiment, andiron.models.zoo")

    assert "torch" in loaded
    assert not loaded & {"torchvision", "torch._dynamo", "sklearn", "torch.utils.tensorboard"}
