"""README and the pages of docs/, the blocks that they show, and the tests that run these."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
README = "README.md"
ALL = {README: (ROOT / README).read_text(encoding="utf-8"), **PAGES}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
ELSEWHERE = {  # pages whose blocks a test of their own runs
    "ask_a_run.md": "tests/lab/test_ask_page.py",
    "beyond_memory.md": "tests/lab/test_beyond_memory_page.py",
    "clusters.md": "tests/proofs/test_clusters_page.py",
    "data.md": "tests/fast/data/test_data_page.py",
    "distributed.md": "tests/proofs/test_several_processes.py",
    "forking.md": "tests/lab/proofs/test_fork_command.py",
    "extending.md": "tests/proofs/test_extending.py",
    "from_burn.md": "tests/runs/test_from_burn_page.py",
    "from_timm.md": "tests/proofs/test_pretrained_pages.py",
    "from_transformers.md": "tests/proofs/test_pretrained_pages.py",
    "mirror.md": "tests/lab/test_mirror.py",
    "metrics.md": "tests/fast/metrics/test_metrics_page.py",
    "observers.md": "tests/runs/test_observers_page.py",
    "optuna.md": "tests/lab/proofs/test_search.py",
    "parameter_groups.md": "tests/proofs/test_parameter_groups_page.py",
    "own_batches.md": "tests/proofs/data/test_own_batches.py",
    "race.md": "tests/lab/test_race_command.py",
    "records.md": "tests/lab/records/test_records_page.py",
    "resuming.md": "tests/proofs/test_run_pages.py",
    "run_folder.md": "tests/proofs/test_run_pages.py",
    "export.md": "tests/runs/trained/test_using_a_run_page.py",
    "text.md": "tests/runs/trained/test_using_a_run_page.py",
    "tutorial.md": "tests/proofs/trained/test_tutorial.py",
    "using_a_run.md": "tests/runs/trained/test_using_a_run_page.py",
}


def blocks(page, language):
    """The blocks of a page in one language."""
    return [block for result, block in BLOCK.findall(ALL[page]) if result == language]


def run_python(page):
    """The names that the blocks of Python of a page define, run one after the other."""
    names = {}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    return names


def commands(page):
    """The lines of the shell blocks of a page, continued lines joined."""
    return "".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
