#!/usr/bin/env bash
# lightning 2.6.6, accelerate 1.15.0: the batches left at the end of an epoch, fewer than are accumulated, make a step of their own, and
# their gradient is divided by the full number: 2 batches of 4 give half of their mean. With SGD the step is half as long, with
# Adam the moments take in a gradient of another scale, and clipping does not see it; once an epoch, and always if an epoch
# has fewer batches than are accumulated. The Trainer of transformers 5.24.0 divides by the batches that there are.
# Seen, 10 batches of the same gradient 5, 4 accumulated: Lightning 5, 5, 2.5; accelerate 5, 5, 2.5; Trainer 5, 5, 5.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; FINDINGS_PY=venv/bin/python
  venv/bin/pip install -q torch==2.14.1 lightning==2.6.6 accelerate==1.15.0 transformers==5.24.0 numpy
fi
"$FINDINGS_PY" - <<'PY' 2> errors.txt || { cat errors.txt; exit 1; }
import accelerate
import lightning
import torch
import transformers
from torch import nn

BATCHES, ACCUMULATED = torch.full((10, 1), 5.0), 4


class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight, self.gradients = nn.Parameter(torch.zeros(1)), []

    def forward(self, inputs):
        return {"loss": (self.weight * inputs).mean()}

    def training_step(self, batch):
        return self(batch)["loss"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)

    def on_before_optimizer_step(self, optimizer):
        self.gradients.append(self.weight.grad.item())


class Noted(transformers.TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **others):
        model.gradients.append(model.weight.grad.item())


def by_lightning(network):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(accelerator="cpu", max_epochs=1, accumulate_grad_batches=ACCUMULATED, **quiet)
    trainer.fit(network, torch.utils.data.DataLoader(BATCHES))


def by_accelerate(network):
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)
    loader, optimizer = torch.utils.data.DataLoader(BATCHES), network.configure_optimizers()
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(network):
            accelerator.backward(network(batch)["loss"])
            if accelerator.sync_gradients:
                network.on_before_optimizer_step(optimizer)
            optimizer.step()
            optimizer.zero_grad()


def by_trainer(network):
    settings = transformers.TrainingArguments(
        "trainer", use_cpu=True, per_device_train_batch_size=1, gradient_accumulation_steps=ACCUMULATED,
        num_train_epochs=1, max_grad_norm=0, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
    )
    samples = [{"inputs": batch} for batch in BATCHES]
    transformers.Trainer(network, settings, train_dataset=samples, callbacks=[Noted()]).train()


gradients = {}
for train in (by_lightning, by_accelerate, by_trainer):
    network = Network()
    train(network)
    gradients[train.__name__] = network.gradients
print(lightning.__version__, accelerate.__version__, transformers.__version__, gradients)
assert gradients == {
    "by_lightning": [5.0, 5.0, 2.5], "by_accelerate": [5.0, 5.0, 2.5], "by_trainer": [5.0, 5.0, 5.0],
}, "a short last group is divided otherwise"
PY
