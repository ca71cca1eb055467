"""torchvision is imported only when a configuration names it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_importing_it_imports_no_torchvision() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import andiron.models.zoo; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "andiron.models.zoo" in done.stdout.split()
    assert "torchvision" not in done.stdout.split()
