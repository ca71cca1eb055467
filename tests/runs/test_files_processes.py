"""Files written atomically by processes that are killed."""

import os
from collections.abc import Callable
from pathlib import Path

from andiron.disk import files


def killed_at_its_first_sync(act: Callable[[], object]) -> None:
    """Has a forked process act until it first waits for the disk."""
    child = os.fork()
    if not child:
        os.fsync = lambda descriptor: os._exit(9)
        try:
            act()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_process_killed_while_writing_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "status"
    path.write_bytes(b"the old content")
    killed_at_its_first_sync(lambda: files.write(path, b"the new content"))
    assert path.read_bytes() == b"the old content" and len([*tmp_path.iterdir()]) == 2


def test_partials_are_leftovers_of_killed_writes_and_no_lookalikes(tmp_path: Path) -> None:
    killed_at_its_first_sync(lambda: files.write_folder(tmp_path / "step-7", {"a": [b"half"]}))
    killed_at_its_first_sync(lambda: files.write(tmp_path / "status", b"half"))
    lookalikes = (
        ".step-7.partial", ".step-7.0123456.partial", "step-7.01234567.partial",
        ".step-7.0123456z.partial",
    )  # fmt: skip
    for name in lookalikes:
        (tmp_path / name).write_bytes(b"somebody's")
    result = files.partials(tmp_path)
    assert sorted(result.values()) == ["status", "step-7"]
    for path in result:
        files.remove_partial(path, ["a"])
    assert files.partials(tmp_path) == {}
    assert {path.name for path in tmp_path.iterdir()} == {*lookalikes}
