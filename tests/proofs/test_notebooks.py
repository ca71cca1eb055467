"""The notebooks of docs/notebooks, in a real Jupyter kernel, with each cell executed twice."""

import subprocess
from pathlib import Path

import nbformat
import pytest
from jupyter_client import launcher
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
KILLED = "resume_after_a_kill"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def kernels(preloaded_processes, monkeypatch):
    """Kernels are forked with the package of this checkout, on one thread."""
    monkeypatch.setattr(launcher, "Popen", subprocess.Popen)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parents[1] / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def notebook(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def executed(book, folder, *, times=2):
    """The outputs of each code cell, executed several times in the kernel of one notebook."""
    client = NotebookClient(book, timeout=300, resources={"metadata": {"path": str(folder)}})
    outputs = []
    with client.setup_kernel():
        for number, cell in enumerate(book.cells):
            if cell.cell_type == "code":
                for _ in range(times):
                    client.execute_cell(cell, number)
                outputs.append("".join(map(text_of, cell.outputs)))
    return outputs


def text_of(output):
    return output.get("text", "") or output.get("data", {}).get("text/plain", "")


def test_there_are_five_notebooks_without_outputs():
    code = [cell for name in NAMES for cell in notebook(name).cells if cell.cell_type == "code"]
    assert len(NAMES) == 5 and KILLED in NAMES
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.parametrize("name", NAMES)
def test_each_cell_can_be_executed_twice(name, tmp_path):
    *_, last = executed(notebook(name), tmp_path)
    expected = {
        "first_run": "accuracy", "load_and_evaluate": "MLP(", "own_loop": "network.layers.1.weight",
        KILLED: "[21, 42, 63, 84]", "two_optimizers": "torch.optim.AdamW",
    }  # fmt: skip
    assert expected[name] in last


def test_a_run_continues_after_its_kernel_was_killed(tmp_path):
    book = notebook(KILLED)
    (choice,) = [cell for cell in book.cells if cell.source == "kill_at = None"]
    choice.source = "kill_at = 50"
    with pytest.raises(DeadKernelError):
        executed(book, tmp_path, times=1)
    outputs = executed(notebook(KILLED), tmp_path, times=1)
    assert "begins at update 42" in outputs[-2] and "ends at update 84" in outputs[-2]
    assert outputs[-1] == "[21, 42, 63, 84]"
