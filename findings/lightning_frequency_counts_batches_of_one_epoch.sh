#!/usr/bin/env bash
# lightning 2.6.6: `frequency` of a scheduler with interval "step" counts the batches of one epoch, not steps. It starts anew
# with each epoch, so that a frequency above the number of batches never steps the schedule; and with accumulated gradients a
# step counts only if its batch's number is a multiple of both: the schedule then follows every step, every second or third.
# Seen: 20 steps in 4 epochs of 5 batches, frequency 10: the schedule moved 0 times; 3 steps of 4 batches, frequency 2: 3 times,
# frequency 3: once (12 batches, one epoch).
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q lightning==2.6.6 torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - 2>/dev/null <<'PY'
import logging

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

logging.disable(logging.WARNING)


class Module(lightning.LightningModule):
    def __init__(self, frequency):
        super().__init__()
        self.layer, self.frequency = torch.nn.Linear(1, 1), frequency

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return [optimizer], [{"scheduler": schedule, "interval": "step", "frequency": self.frequency}]


def moves(batches, epochs, accumulated, frequency):
    module = Module(frequency)
    trainer = lightning.Trainer(
        max_epochs=epochs, accumulate_grad_batches=accumulated, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(TensorDataset(torch.ones(batches, 1))))
    return trainer.global_step, module.lr_schedulers().last_epoch


seen = [moves(5, 4, 1, 10), moves(12, 1, 4, 2), moves(12, 1, 4, 3)]
print(lightning.__version__, "steps of the optimizer and of the schedule:", seen)
assert seen == [(20, 0), (3, 3), (3, 1)], "the frequency counts otherwise"
PY
