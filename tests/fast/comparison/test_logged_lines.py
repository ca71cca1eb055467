"""Reading metrics.jsonl back: the bound on a table of it."""

import pytest

from andiron import errors
from andiron.wings.comparison import logged_lines

LINE = '{{"split": "train", "updates": {0}, "epoch": 1, "over": "window"{1}}}\n'


def test_a_table_too_large_is_refused_before_its_columns_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(logged_lines, "MOST_CELLS", 200)
    path = tmp_path / "metrics.jsonl"
    many = "".join(f', "metric-{column}": 0.5' for column in range(50))
    lines = [LINE.format(number, "") for number in range(20)]
    path.write_text("".join([*lines, LINE.format(20, many)]))

    with pytest.raises(errors.DataError, match="has 54 columns in 20 lines, more than a table"):
        logged_lines.as_table(path)
