"""A run that pauses after a validation, and resumes: where it stands, and its bits."""

import pytest
import torch
from conftest import without_time
from small_digits import BATCHES, LR, builder, classifier, loaders, same

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.learner.extras.early_stopping import EarlyStopping
from andiron.optim import Optimizer


def built(folder, pause_at, configured):
    configure = configured(builder(folder, num_epochs=3).with_file_checkpointer())
    model = classifier()
    interrupter = Interrupter(pause_at)
    return configure.interrupter(interrupter).build(model, Optimizer(torch.optim.Adam, model), LR)


@pytest.mark.parametrize(
    ("configured", "pauses", "places"),
    {
        "epochs": (lambda b: b, (1, 2), [(7, 1, 0), (14, 2, 0)]),
        "updates": (lambda b: b.options(num_updates=20, validate_every=5), (5, 15),
                    [(5, 0, 5), (15, 2, 1)]),
        "the last update of an epoch": (lambda b: b.options(num_updates=20, validate_every=BATCHES),
                                        (7, 14), [(7, 1, 0), (14, 2, 0)]),
    }.values(),
)  # fmt: skip
def test_a_run_pauses_exactly_there_and_resumes_to_the_same_bits(
    tmp_path, configured, pauses, places
):
    straight = built(tmp_path / "straight", None, configured)
    with straight:
        straight.fit(*loaders())

    result = []
    # the second 1 is a leg that was cut off as it ended: it does not train beyond its pause
    for number, pause_at in enumerate([pauses[0], *pauses, None]):
        made = built(tmp_path / "paused", pause_at, configured)
        with made:
            if number:
                made.resume()
            if pause_at is None:
                made.fit(*loaders())
            else:
                with pytest.raises(errors.Paused, match=f"^after {pause_at} (epoch|update)s?$"):
                    made.fit(*loaders())
                at = made.position
                result.append((at.updates, at.epoch, at.batch))

    assert result == [places[0], *places]
    assert same(straight.model.state_dict(), made.model.state_dict())
    one, other = (without_time(value.state().state) for value in (straight, made))
    for state in (one, other):
        state["metric_log"].pop("writers")
    assert one == other


def test_a_run_that_early_stopping_ends_does_not_pause_there(tmp_path):
    def stopping(builder):
        return builder.early_stopping(rule=EarlyStopping(metric="loss", goal=100.0))

    with built(tmp_path, 1, stopping) as made:
        made.fit(*loaders())

    assert made.is_over and made.position.epoch == 1
