"""The best weights by an average's values are that average's, wherever they are used."""

import gc

import pytest
import torch
from torch import nn

from andiron.checkpoint import KeepBest
from andiron.data import Batch
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


@pytest.mark.parametrize("restored", [None, False], ids=["a new rule", "one that restored nothing"])
@pytest.mark.parametrize("split", ["valid", "valid-ema"])
def test_a_rule_that_begins_to_restore_in_a_resumed_run_knows_its_best(tmp_path, split, restored):
    wrong = [(inputs, (targets + 1) % 3) for inputs, targets in BATCHES]  # it gets ever worse

    def run(num_epochs, *rules):
        torch.manual_seed(1)
        task = Classifier(nn.Linear(4, 3))
        builder = LearnerBuilder(tmp_path, num_epochs=num_epochs, resume=True)
        builder.metric_valid_numeric(Loss()).renderer(None).averages(ema=Ema(0.9))
        builder.with_file_checkpointer(KeepBest("loss", split))
        builder.early_stopping(**{rule: given for rule, given in zip(["rule"], rules)})
        with builder.build(task, Optimizer(torch.optim.SGD, task), 0.8) as made:
            made.fit(BATCHES, wrong, wrong)
        return made

    first = [EarlyStopping("loss", split=split, patience=9, restores_best=False)]
    weights = run(3, *first[: restored is not None]).best().state_dict()
    rule = EarlyStopping("loss", split=split, patience=5, restores_best=True)
    made, epoch = run(20, rule), 1 + (split == "valid-ema")
    seen = rule.observed
    assert (seen.epoch_of_best, seen.update_of_best) == (epoch, 5 * epoch)
    assert seen.last_update == 5 * (8 if restored is None else epoch + 5)  # patience begins with it
    assert made.summary()["weights"]["test"].startswith(f"best, of epoch {epoch}")
    assert all(torch.equal(made.model.state_dict()[name], weights[name]) for name in weights)


@pytest.mark.parametrize("way", ["rule", "best"])
def test_best_weights_stay_in_a_model_whose_learner_is_gone(tmp_path, way):
    wrong = [(inputs, (targets + 1) % 3) for inputs, targets in BATCHES]  # it gets ever worse
    torch.manual_seed(1)
    task = Classifier(nn.Linear(4, 3))

    def best_loss():
        builder = LearnerBuilder(tmp_path, num_epochs=3).metric_valid_numeric(Loss()).renderer(None)
        builder.with_file_checkpointer(KeepBest("loss"))
        if way == "rule":
            builder.early_stopping(rule=EarlyStopping("loss", patience=9, restores_best=True))
        with builder.build(task, Optimizer(torch.optim.SGD, task), 0.8) as learner:
            learner.fit(BATCHES, wrong)
        if way == "best":
            learner.best()
        (seen,) = learner.summary()["metrics"]
        assert seen["best"] < seen["last"]
        return seen["best"]

    expected = best_loss()
    gc.collect()
    losses = [float(task.valid_step(Batch(*batch)).loss.detach()) for batch in wrong]
    assert sum(losses) / len(losses) == pytest.approx(expected)
