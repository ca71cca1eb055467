"""docs/from_burn.md: its Python runs, with a file that Burn wrote."""

import shutil

import pytest
import torch
from pages import ROOT, run_python

SAMPLE = ROOT / "tests" / "lab" / "records" / "burn" / "sample.bpk"


def test_the_python_of_the_page_runs_and_reads_burns_weights(tmp_path, monkeypatch):
    pytest.importorskip("andiron_lab", reason="reads Burn's records")
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, tmp_path)
    names = run_python("from_burn.md")

    images = torch.arange(18.0).div(9).reshape(2, 1, 3, 3)
    outputs = names["network"].eval()(images)[:, 0]  # as Burn prints them; added in another order
    torch.testing.assert_close(outputs, torch.tensor([-1.693349, -1.714452]), rtol=0, atol=1e-5)
    assert (tmp_path / "runs" / "burn" / "checkpoints").is_dir()
    assert len(names["losses"]) == 1
