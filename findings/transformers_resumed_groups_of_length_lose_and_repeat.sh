#!/usr/bin/env bash
# transformers 5.24.0 Trainer with train_sampling_strategy="group_by_length": a run that is resumed within its second epoch, or a later one,
# goes on in another order than the one that it left, and skips as many batches of that as it had done of the other. Samples of
# the epoch are lost, others are trained on twice, and the run ends with other weights. The order is drawn from torch's global
# generator (LengthGroupedSampler gets none of its own in training), which a resumed run sets to another state before the
# epoch is drawn. In the first epoch, and at the end of an epoch, it repeats; random order does so everywhere.
# Seen, 24 samples, batches of 4, resumed after 6 + 3 batches: lost and twice in that epoch above 0 by length, 0 and 0 at random.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q transformers==5.24.0 torch==2.14.1 accelerate==1.15.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments

transformers.logging.set_verbosity_error()
rows = [{"input_ids": [0] * (number % 7 + 1), "number": number} for number in range(24)]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(24))

    def forward(self, number):
        return {"loss": self.weight[number].mean()}


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, arguments, state, control, **others):
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def train(folder, strategy, stop, resumed=None):
    seen = []

    class Watched(Trainer):
        def training_step(self, model, inputs, *others, **options):
            seen.extend(inputs["number"].tolist())
            return super().training_step(model, inputs, *others, **options)

    arguments = TrainingArguments(
        folder, train_sampling_strategy=strategy, num_train_epochs=3, per_device_train_batch_size=4, save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True, remove_unused_columns=False, dataloader_pin_memory=False,
    )
    batch = lambda samples: {"number": torch.tensor([sample["number"] for sample in samples])}
    trainer = Watched(Network(), arguments, train_dataset=rows, data_collator=batch, callbacks=[StopAt(stop)])
    trainer.train(resume_from_checkpoint=resumed)
    return seen


def second_epoch(strategy, stop):
    first = train(f"{strategy}{stop}", strategy, stop)
    rest = train(f"{strategy}{stop}", strategy, 100, f"{strategy}{stop}/checkpoint-{stop}")
    whole = train(f"{strategy}{stop}-whole", strategy, 100)
    epoch = (first + rest)[24:48]
    return len(set(range(24)) - set(epoch)), 24 - len(set(epoch)), first + rest == whole


grouped, ended, at_random = second_epoch("group_by_length", 9), second_epoch("group_by_length", 6), second_epoch("random", 9)
print(transformers.__version__, "lost, twice, as the whole run: by length", grouped, "at the end of an epoch", ended, "random", at_random)
assert min(grouped[:2]) > 0 and not grouped[2], "a resumed epoch is the one that was left"
assert ended == at_random == (0, 0, True), "these were right"
PY
