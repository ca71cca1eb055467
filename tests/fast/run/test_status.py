"""The status of a run is restored."""

import os

from andiron.run import status


def test_a_file_that_is_too_large_is_not_read_to_be_put_back(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "status.json").touch()
    os.truncate(tmp_path / "status.json", 100 * 2**30)  # sparse
    paths = [tmp_path / name for name in ("config.json", "status.json", "none.json")]
    assert status.contents(paths) == {paths[0]: b"{}"}
