"""Files written atomically by processes that are killed."""

import os
import subprocess
import sys
from pathlib import Path

from andiron.disk import files

ROOT = Path(__file__).resolve().parents[2]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_process_killed_while_writing_leaves_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "status").write_bytes(b"the old content")
    program = (
        "import os, sys; from pathlib import Path; from andiron.disk import files\nos.fsync = "
        "lambda descriptor: os._exit(9)\nfiles.write(Path(sys.argv[1]), b'the new content')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "status")], env=environment
    )
    assert done.returncode == 9
    assert (tmp_path / "status").read_bytes() == b"the old content"


def test_partials_are_leftovers_of_killed_writes_and_no_lookalikes(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from andiron.disk import files\nos.fsync = "
        "lambda descriptor: os._exit(9)\nfolder = Path(sys.argv[1])\nif sys.argv[2] == "
        "'folder':\n    files.write_folder(folder / 'step-7', {'a': "
        "[b'half']})\nfiles.write(folder / 'status', b'half')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for what in ("folder", "file"):
        assert (
            subprocess.run(
                [sys.executable, "-c", program, str(tmp_path), what], env=environment
            ).returncode
            == 9
        )
    for name in (
        ".step-7.partial", ".step-7.0123456.partial", "step-7.01234567.partial",
        ".step-7.0123456z.partial",
    ):  # fmt: skip
        (tmp_path / name).write_bytes(b"somebody's")
    result = files.partials(tmp_path)
    assert sorted(result.values()) == ["status", "step-7"]
    for path in result:
        files.remove_partial(path, ["a"])
    assert files.partials(tmp_path) == {} and len(names(tmp_path)) == 4
