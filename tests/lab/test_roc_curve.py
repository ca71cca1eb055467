"""The picture of ROC curves."""

import pytest
import torch

from andiron.metrics import Tally
from andiron.outputs import BinaryClassificationOutput
from andiron_lab.masks.worst_masks import COLOURS
from andiron_lab.scores.roc_curve import RocCurve, line_chart

LOSS = torch.tensor(0.0)


def test_a_line_is_drawn_without_gaps():
    steep = (torch.tensor([0.0, 0.1, 0.1, 1.0]), torch.tensor([0.0, 0.0, 0.9, 1.0]))
    chart = line_chart([steep], size=64)
    drawn = (chart == torch.tensor(COLOURS["blue"], dtype=torch.uint8)[:, None, None]).all(0)
    assert drawn.any(0).all() and drawn.any(1).all()  # every column and every row
    assert drawn[63, 0] and drawn[0, 63]


def test_a_perfect_classifier_has_its_curve_along_the_border():
    tally = Tally([RocCurve()])
    tally.add(BinaryClassificationOutput(LOSS, torch.tensor([2.0, -1.0]), torch.tensor([1, 0])))
    tally.close_epoch()
    chart = tally.images["roc_curve/curves"]
    blue = torch.tensor(COLOURS["blue"], dtype=torch.uint8)[:, None]
    assert (chart[:, 0, :] == blue).all() and (chart[:, :, 0] == blue).all()
    assert (chart[:, 1:, 1:] == 255).all()


def test_the_area_under_the_drawn_curve_is_the_auroc():
    from sklearn.metrics import roc_auc_score

    draw = torch.Generator().manual_seed(3)
    targets = torch.randint(2, (301,), generator=draw)
    logits = (torch.randn(301, generator=draw) + targets).round(decimals=1)  # with ties
    tally = Tally([RocCurve()])
    tally.add(BinaryClassificationOutput(LOSS, logits, targets))
    tally.close_epoch()
    chart = tally.images["roc_curve/curves"]
    is_drawn = (chart != 255).any(0)
    below = (is_drawn.long().cumsum(0) > 0).double().mean()
    # the pixels of the line itself and the rounding of their places: 2 of 256 pixels
    assert float(below) == pytest.approx(roc_auc_score(targets, logits), abs=2 / 256)
