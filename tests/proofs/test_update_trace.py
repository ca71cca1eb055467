"""The trace of some updates by torch.profiler; starting it imports much, so that it is not fast."""

import json

import pytest
import torch
from small_digits import BATCHES, LR, builder, classifier, loaders, same
from stops_at import stops_at

from andiron.errors import Interrupted
from andiron.optim import Optimizer

UPDATES = -(-BATCHES // 2)  # in an epoch, of two batches each


def fitted(folder, wanted, interrupter=None, *, resumes=False, between=lambda: None):
    model = classifier()
    made = builder(folder).options(grads_accumulation=2, profile=wanted).with_file_checkpointer()
    if interrupter is not None:
        made.interrupter(interrupter)
    with made.build(model, Optimizer(torch.optim.Adam, model), LR) as learner:
        if resumes:
            learner.resume()
        for _ in learner.steps(*loaders()):
            between()
    return model.state_dict()


def traced(path):
    """The updates that a trace has by name."""
    events = json.loads(path.read_text())["traceEvents"]
    result = [e["name"] for e in events if e["ph"] == "X" and e["name"].startswith("update ")]
    return sorted({int(name.split()[1]) for name in result})


@pytest.mark.slow
def test_the_updates_wanted_are_traced_across_epochs_and_a_resume(tmp_path):
    first, last = UPDATES - 1, UPDATES + 2
    plain = fitted(tmp_path / "plain", None)
    assert not (tmp_path / "plain" / "profile").exists()

    whole = fitted(tmp_path / "whole", {"updates": [first, last]})
    assert same(plain, whole)
    folder = tmp_path / "whole" / "profile"
    names = [f"updates-{first}-{last}.json", f"updates-{first}-{last}.txt"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert traced(folder / names[0]) == [*range(first, last + 1)]
    assert "aten::" in (folder / names[1]).read_text()

    with pytest.raises(Interrupted):
        fitted(tmp_path / "two", {"updates": [first, last]}, stops_at("train", first))
    again = fitted(tmp_path / "two", {"updates": [first, last]}, resumes=True)
    assert same(plain, again)
    result = sorted(path.name for path in (tmp_path / "two" / "profile").glob("*.json"))
    assert result == [f"updates-{first}-{first}.json", f"updates-{UPDATES}-{last}.json"]


@pytest.mark.slow
def test_a_trace_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    in_its_place = tmp_path / "profile"
    fitted(tmp_path, {"updates": [2, 3]}, between=lambda: in_its_place.write_text("not a folder"))
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("the trace of updates cannot be written: ")
