"""Processes that tokenise one text at the same time."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "src"
POEM = "".join(
    f"Zeile {line}: äöü – Øre 😀 und Ende\r\n" for line in range(40)
)  # characters of one to four bytes


SCRIPT = """
import sys
from pathlib import Path
from andiron.data.on_disk import character_tokens
found = character_tokens.tokens(Path(sys.argv[1]), sha256="0" * 16, cache=None)
print(len(found.tokens), type(found.tokens).__name__)
"""


def test_processes_that_make_the_tokens_at_once_all_find_them_whole(tmp_path):
    path = tmp_path / "poem.txt"
    path.write_bytes((POEM * 50).encode())
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, path],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    assert [process.communicate(timeout=120)[0].decode() for process in running] == [
        f"{50 * len(POEM)} StoredArray\n"
    ] * 3
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "poem.txt",
        f"poem.txt.{'0' * 16}.characters.safetensors",
    ]
