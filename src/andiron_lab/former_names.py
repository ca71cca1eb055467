"""Names that records of earlier versions have for what is in the lab now.

>>> node = {"_target_": "andiron.models.UNet", "width": 4}
>>> rename([node])
>>> node["_target_"], node["norm"]
('andiron_lab.masks.UNet', 'batch')
"""

from collections.abc import Sequence
from typing import Any

SCORES = (
    "BalancedAccuracy BrierScore CharacterErrorRate CohenKappa ExpectedCalibrationError "
    "HammingLoss MatthewsCorrelation PrecisionRecallCurve RocCurve Torchmetrics WordErrorRate "
    "WorstErrors"
)
ADAPTER = "andiron.metrics.adapted.torchmetrics_adapter.Torchmetrics"
MOVED = {f"andiron.metrics.{name}": f"andiron_lab.scores.{name}" for name in SCORES.split()} | {
    f"andiron.{place}.{name}": f"andiron_lab.masks.{name}"
    for place, names in {"data": "image_masks", "metrics": "Dice IoU WorstMasks",
                         "models": "UNet smp"}.items()
    for name in names.split()
} | {
    f"andiron.optim{module}.{name}": f"andiron_lab.optim.{name}"
    for module, names in {"": "Adan Lamb layerwise noise", ".own.adaptive": "Adan Lamb",
                          ".own.layer_rates": "layerwise", ".transformations": "noise"}.items()
    for name in names.split()
} | {
    f"andiron.data.{name}": f"andiron_lab.data.{name}.{name}"
    for name in ("digit_pairs", "synthetic")
} | {
    f"andiron.data.{module}{name}": f"andiron_lab.data.cifar.{name}"
    for module in ("", "sources.cifar.")
    for name in ("cifar10", "cifar100")
} | {
    f"andiron.data.{module}OnFields": "andiron_lab.masks.OnFields"
    for module in ("", "augment.on_fields.")
} | {
    f"andiron.data.{module}Mixup": "andiron_lab.data.mixup.Mixup"
    for module in ("", "augment.mixing.")
} | {
    f"andiron.writers{module}.{tool}Writer": f"andiron_lab.{tool.lower()}_writer.{tool}Writer"
    for tool in ("Mlflow", "Wandb")
    for module in ("", f".shipped.{tool.lower()}")
} | {
    f"andiron.models.{module}{name}": f"andiron_lab.networks.{name}"
    for module, names in {"": "ViT hf timm", "libraries.": "hf timm", "vit.": "ViT"}.items()
    for name in names.split()
} | {
    ADAPTER: "andiron_lab.scores.Torchmetrics",
    "andiron.models.GAN": "andiron_lab.adversarial.GAN",
    "andiron.tasks.Adversarial": "andiron_lab.adversarial.Adversarial",
}  # fmt: skip
FUNCTIONS = "andiron.tasks.adversarial.", "andiron_lab.adversarial."


def rename(nodes: Sequence[dict[str, Any]]) -> None:
    """Gives the nodes of a recorded configuration the current names of their targets."""
    names = dict(MOVED)
    if any(node["_target_"] == "andiron.data.image_masks" for node in nodes):
        names["andiron.tasks.Classifier"] = "andiron_lab.masks.Segmentation"
    for node in nodes:
        if isinstance(function := node.get("of"), str):  # of a Mean
            node["of"] = function.replace(*FUNCTIONS)
        for former, name in names.items():
            if node["_target_"] == former:
                node |= {"_target_": name} | ({"norm": "batch"} if name.endswith("UNet") else {})
