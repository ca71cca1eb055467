"""The best weights by an average's values are that average's, wherever they are used."""

import pytest
import torch
from torch import nn

from andiron.checkpoint import KeepBest
from andiron.learner import EarlyStopping, LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import Ema, Optimizer, Swa
from andiron.tasks import Classifier

torch.manual_seed(3)
BATCHES = [(torch.randn(7, 4), torch.randint(3, (7,))) for _ in range(5)]
AVERAGES = {"ema": Ema(0.9), "swa": Swa(start=1)}


def trained(folder, split, *, restores=False, stops_after=6):
    """A learner whose values get worse from the first epoch on, and its average at the best."""
    torch.manual_seed(1)
    task = Classifier(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)))
    rule = EarlyStopping("loss", split=split, restores_best=True)
    builder = LearnerBuilder(folder, num_epochs=stops_after, test_weights="best")
    builder.metric_valid_numeric(Loss()).renderer(None).averages(**AVERAGES)
    if restores:
        builder = builder.early_stopping(rule=rule)
    builder = builder.with_file_checkpointer(KeepBest("loss", split))
    made = builder.build(task, Optimizer(torch.optim.SGD, task), 0.8)
    seen, values = [], []
    with made:
        for step in made.steps(BATCHES, BATCHES[:2], BATCHES[2:]):
            if step.kind == "validation":
                average = made.averages[split.partition("-")[2]]
                seen.append({n: t.clone() for n, t in average.state_dict().items()})
                values.append(made.metric_log.latest[split]["loss"])
        best = values.index(min(values))
        return made, seen[best], best + 1


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("name", AVERAGES)
def test_the_averaged_weights_that_were_best_are_given(tmp_path, name, restores):
    made, expected, epoch = trained(tmp_path, f"valid-{name}", restores=restores)
    if restores:
        result = made.model.state_dict()
    else:
        result = made.best().state_dict()
    assert all(torch.equal(result[key], tensor.to(result[key].dtype))
               for key, tensor in expected.items())  # fmt: skip
    assert made.summary()["weights"]["test"] == f"best, of epoch {epoch}, average {name}"
