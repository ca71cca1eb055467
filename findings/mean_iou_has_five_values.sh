#!/usr/bin/env bash
# The mean IoU of the same two masks is five numbers in three libraries (torchmetrics 1.9.0, segmentation-models-pytorch 0.6.0, MONAI 1.6.1),
# because they differ in what a class counts that is in no mask (left out, or a perfect 1), and in whether images are averaged first.
# Two masks of 4x4, four classes, one of them nowhere. Class by class over all pixels the IoU is 5/7, 1/2, 0 and 0/0. Seen:
#   0.4048  torchmetrics JaccardIndex, macro: pixels of all images together, the empty class left out; average="none" says 0 for it
#   0.4792  torchmetrics MeanIoU and MONAI: each class is averaged over the images that have it; per_class says -1 and nan
#   0.5536  smp macro: pixels of all images together, the empty class counts 1
#   0.7396  smp macro-imagewise: image by image, each class that an image lacks counts 1
#   0.6000  smp micro: no classes, all pixels together
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install -q torchmetrics==1.9.0 segmentation-models-pytorch==0.6.0 monai==1.6.1
  FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import torch
from monai.metrics import MeanIoU as MonaiIoU
from segmentation_models_pytorch.metrics import get_stats, iou_score
from torchmetrics import JaccardIndex
from torchmetrics.segmentation import MeanIoU

targets = torch.tensor([[[0, 0, 1, 1]] * 4, [[0, 0, 0, 2]] * 4])
masks = torch.tensor([[[0, 0, 1, 0]] * 4, [[0, 0, 0, 0]] * 4])
values = {
    "JaccardIndex macro": JaccardIndex(task="multiclass", num_classes=4)(masks, targets),
    "torchmetrics MeanIoU": MeanIoU(num_classes=4, input_format="index")(masks, targets),
}
monai = MonaiIoU()
monai(*(torch.nn.functional.one_hot(one, 4).movedim(-1, 1) for one in (masks, targets)))
values["MONAI MeanIoU"] = monai.aggregate()
counts = get_stats(masks, targets, mode="multiclass", num_classes=4)
for reduction in ("macro", "macro-imagewise", "micro"):
    values[f"smp {reduction}"] = iou_score(*counts, reduction=reduction)
values = {name: round(float(value), 4) for name, value in values.items()}
print(values)
assert [*values.values()] == [0.4048, 0.4792, 0.4792, 0.5536, 0.7396, 0.6], "a library changed its mean"
by_class = JaccardIndex(task="multiclass", num_classes=4, average="none")(masks, targets)
print("JaccardIndex none", by_class.tolist())
assert by_class[3] == 0, "the class that no mask has is no longer 0"
PY
