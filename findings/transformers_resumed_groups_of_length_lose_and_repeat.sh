#!/usr/bin/env bash
# transformers 5.24.0 Trainer with train_sampling_strategy="group_by_length": a run that is resumed within its second epoch, or a later one,
# goes on in another order than the one that it left, and skips as many batches of that as it had done of the other. Samples of
# the epoch are lost, others are trained on twice, and the run ends with other weights. The order is drawn from torch's global
# generator (LengthGroupedSampler gets none of its own in training), which a resumed run sets to another state before the
# epoch is drawn. In the first epoch, and at the end of an epoch, it repeats; random order does so everywhere.
# With accelerator_config={"dispatch_batches": True} (accelerate 1.15.0) the resumed epoch has the order of the first one, also at
# random: the number of the epoch does not reach the sampler through the one that skips. A stream (IterableDataset) begins
# its pass again: what is skipped is its first pass (huggingface/transformers#33544, when that ended the training). No report
# of the other two was seen.
# Seen, 24 samples, batches of 4, resumed after 6 + 3 batches, lost and repeated in the second epoch: 8 and 8 by length, above 0
# dispatched, the stream repeats its first 12; 0 and 0 at random, and by length when resumed after 6.
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


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(rows)


def train(folder, strategy, stop, resumed=None, is_stream=False, **accelerator):
    seen = []

    class Watched(Trainer):
        def training_step(self, model, inputs, *others, **options):
            seen.extend(inputs["number"].tolist())
            return super().training_step(model, inputs, *others, **options)

    arguments = TrainingArguments(
        folder, train_sampling_strategy=strategy, per_device_train_batch_size=4, save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True, remove_unused_columns=False, dataloader_pin_memory=False, max_steps=18,
        accelerator_config=accelerator,
    )
    batch = lambda samples: {"number": torch.tensor([sample["number"] for sample in samples])}
    trainer = Watched(Network(), arguments, train_dataset=Stream() if is_stream else rows, data_collator=batch, callbacks=[StopAt(stop)])
    trainer.train(resume_from_checkpoint=resumed)
    return seen


def second_epoch(name, stop, strategy="random", **options):
    first = train(name, strategy, stop, **options)
    rest = train(name, strategy, 100, f"{name}/checkpoint-{stop}", **options)
    whole = train(f"{name}-whole", strategy, 100, **options)
    epoch = (first + rest)[24:48]
    return len(set(range(24)) - set(epoch)), 24 - len(set(epoch)), first + rest == whole


grouped = second_epoch("grouped", 9, "group_by_length")
ended = second_epoch("ended", 6, "group_by_length")
dispatched = second_epoch("dispatched", 9, dispatch_batches=True)
streamed = second_epoch("streamed", 9, is_stream=True)
at_random = second_epoch("random", 9)
print(
    transformers.__version__, "lost, repeated, as the whole run: by length", grouped, "at the end of an epoch", ended,
    "dispatched", dispatched, "stream", streamed, "random", at_random,
)
assert min(grouped[:2]) > 0 and not grouped[2], "an epoch by length is the one that was left"
assert min(dispatched[:2]) > 0 and not dispatched[2], "a dispatched epoch is the one that was left"
assert streamed == (12, 12, False), "a stream goes on where it was left"
assert ended == at_random == (0, 0, True), "these were right"
PY
