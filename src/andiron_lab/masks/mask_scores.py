"""IoU and Dice: how much of each class the predicted masks share with the true ones."""

from dataclasses import dataclass

from andiron.metrics.classification.decision_scores import Counts, Ratio, Score, f_beta


@dataclass(kw_only=True)
class IoU(Score):
    """TP / (TP + FP + FN), the Jaccard index or intersection over union.

    Of masks, of every class over all pixels of the split that count, not image by image. The mean
    is over the classes that occur in a target or a prediction; an absent class does not count, nor
    do IGNORED pixels. torchmetrics' `JaccardIndex` (macro) is the same; its `segmentation.MeanIoU`
    averages image by image, and segmentation-models-pytorch counts an absent class as 1.
    Source: Everingham et al. 2010, "The PASCAL Visual Object Classes (VOC) Challenge", section 4.3.
    """

    name: str = "iou"

    def ratio(self, counts: Counts) -> Ratio:
        true_positives = counts.true_positives
        return true_positives, counts.predicted + counts.support - true_positives


@dataclass(kw_only=True)
class Dice(Score):
    """2 TP / (2 TP + FP + FN), which is F1; pixels and classes count as in `IoU`.

    Source: Dice 1945, "Measures of the amount of ecologic association between species".
    """

    name: str = "dice"

    def ratio(self, counts: Counts) -> Ratio:
        return f_beta(counts, 1)
