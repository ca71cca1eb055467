"""The configurations of `proofs/several_processes.py`, and the runs that each needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofs.rank_runs import Job, Stop

# 196 samples in batches of 13: the last batch, and so the last update of an epoch, has a single one
SMALL = ("batch_size=13", "device=cpu", "log_every=1", "test_weights=last", "num_epochs=10")
ACCUMULATED = (*SMALL, "grads_accumulation=3", "clip=1.0", "checkpoint.every=15")
LONG = (*ACCUMULATED, "num_updates=50", "validate_every=20")
SLICED = (*ACCUMULATED, "num_updates=30", "validate_every=10")
DIGITS = ("data=partial", "data.data.valid=test", "data.fraction=0.136")
MLP = (*DIGITS, "model.hidden=[32,32]")
CONVNET = (*DIGITS, "model=convnet", "model.hidden=16")
TEXT = ("data=text", "data.path={text}", "data.context_length=16", "model=gpt", "model.layers=2",
        "model.dim=16", "model.heads=2", "task.sample_length=8")  # fmt: skip
NETWORKS = {"mlp": MLP, "convnet": CONVNET, "text": TEXT}
METHODS = {
    "adam": ("optimizer=adam",),
    "adamw_groups": ("optimizer=adamw", "param_groups=no_decay"),
    "sgd_momentum": ("optimizer=sgd", "optimizer.momentum=0.9", "lr=0.01"),
    "sam": ("optimizer=sgd", "sam=0.05"),
    "ema": ("optimizer=adam", "averages=ema"),
}
RANDOM = {  # what draws random numbers, and who gathers
    "mlp": ("model.dropout=0.2", "augmentation=[shift,cutout]", "augmentation.cutout.size=3",
            "num_workers=1"),
    "convnet": ("model.dropout=0.5", "augmentation=[shift]", "num_workers=1"),
    "text": ("model.dropout=0.1", "num_workers=1"),
}  # fmt: skip
FULL = ("metrics=classification_full",)
OTHERS = {  # with slices, beside every network with every method; stopped between log points
    "lbfgs_8": (*MLP, "model.dropout=0.2", "optimizer=lbfgs", "optimizer.max_iter=5",
                "num_updates=12"),
    "muon_4": (*MLP, "model.dropout=0.2", "param_groups=muon", "scheduler=warmup"),
    "muon_text_8": (*TEXT, "model.dropout=0.1", "param_groups=muon"),
    "langevin_8": (*MLP, "optimizer=sgd", "optimizer._target_=proofs.rank_parts.Langevin",
                   "~optimizer.momentum", "~optimizer.dampening", "~optimizer.weight_decay",
                   "~optimizer.nesterov"),
    "schedule_free_4": (*MLP, "model.dropout=0.2", "optimizer=schedule_free_adamw"),
    "swa_4": (*CONVNET, "averages=[ema,swa]", "averages.swa.start=10", "averages.swa.every=7",
              "scheduler=cosine"),
    "batch_norm_8": (*DIGITS, "model=resnet", "model.depth=8", "model.width=4", "batch_size=26",
                     "num_updates=12", "averages=swa", "averages.swa.start=2",
                     "averages.swa.every=2"),
    "gan_4": ("experiment=gan_digits", "batch_size=64", "num_updates=12"),
    "mixup_4": (*CONVNET, "augmentation=[flip,mixup]", "optimizer=adamw"),
    "fp16_8": (*MLP, "model.dropout=0.2", "precision=fp16", "histograms=true"),
    "plateau_4": (*MLP, "gradients=[noise,centralise]", "scheduler=plateau",
                  "scheduler.patience=0", "early_stopping=patience"),
    "full_metrics_4": (*MLP, *FULL, "model.dropout=0.2"),
    "pictures_4": (*MLP, "metrics=classification_pictures", "model.dropout=0.2"),
    "regression_4": ("experiment=diabetes",),
    "labels_4": ("data=digit_pairs", "data.num_pairs=196", "model.hidden=[16]",
                 "model.dropout=0.2"),
}  # fmt: skip
# of several processes with strategy=fsdp, against one process: no part of a batch may be empty
EVEN = ("batch_size=24", "device=cpu", "log_every=4", "test_weights=last", "num_epochs=10",
        "num_updates=12", "validate_every=4", "checkpoint.every=6", "slices=4")  # fmt: skip
GROUPS = ("param_groups=no_decay", "optimizer=adamw",
          "+param_groups.no_decay.optimizer={_target_:torch.optim.SGD,momentum:0.9}")  # fmt: skip
ROWS = ("data=partial", "data.data.valid=test", "data.fraction=0.15")
SHARDED = {
    "dropout": (*TEXT, "model.dropout=0.2", "optimizer=adamw"),
    "two_optimizers": (*TEXT, *GROUPS, "model.dropout=0.1"),
    "frozen": (*TEXT, "+param_groups.first={match:{name:blocks.0},frozen:true}",
               "+param_groups.second={match:{name:blocks.1},frozen:5}"),
    "ema": (*TEXT, "averages=ema", "early_stopping=patience", "scheduler=cosine"),
    "tied": (*TEXT, "model.layers=3", "optimizer=sgd", "optimizer.momentum=0.9", "lr=0.1"),
    "clip": (*TEXT, "clip=0.1", "optimizer=nadam"),
    "accumulation": (*TEXT, "grads_accumulation=3", "clip=0.1", "model.dropout=0.1"),
    "mixed_sizes": (*ROWS, "batch_size=31", "model.hidden=[33,7]", "optimizer=adam"),
    "bf16": (*TEXT, "precision=bf16", "model.dropout=0.1"),
    "skipped": (*ROWS, "model._target_=proofs.rank_parts.Holed", "model.hidden=[16]",
                "on_nonfinite=skip"),
    "lora": (*TEXT, "+param_groups.lora={match:{module:Linear},adapter:{rank:4,alpha:8}}"),
    "batch_norm": (*ROWS, "model=resnet", "model.depth=8", "model.width=4", "sam=0.05",
                   "optimizer=sgd"),
    "rank_files": (*TEXT, "averages=ema", "optimizer=adamw", "checkpoint.files=rank"),
}  # fmt: skip
DIVIDED = {"fsdp": ("strategy=fsdp",), "hsdp": ("strategy=fsdp", "shards=2")}
IN_COPIES = "two_optimizers", "ema", "clip", "accumulation", "mixed_sizes", "batch_norm"  # hsdp too
IN_EIGHT = ("mlp_adam_8", "convnet_adam_8", "text_adam_8", "batch_norm_8")  # by 8 processes too
# without slices, where the method itself amplifies rounding: the first updates
FIRST = {
    "muon": (3, 1e-5, (*MLP, "param_groups=muon")),
    "muon_text": (3, 1e-5, (*TEXT, "param_groups=muon")),
    "lbfgs": (1, 2e-6, (*MLP, "optimizer=lbfgs")),
}
# without slices: begun by two processes, continued by three and ended by one
RESIZED = ("mlp_ema", "convnet_adam", "text_adamw_groups")
# measured before the first update, so with the same weights
MEASURED = {
    "classification": (*MLP, *FULL, "start_from={folder}/mlp_adam-1/checkpoints/step-50"),
    "multilabel": ("data=digit_pairs", "data.num_pairs=196", "model.hidden=[16]"),
    "regression": ("data=diabetes", "model.hidden=[32]"),
    "language": TEXT,
    "torchmetrics": (*TEXT, "metrics=text"),
}
# a stop while gradients are accumulated, and one while a validation is under way; by `num_updates`
STOPS = {50: (Stop(None, 20), Stop("valid", 40)), 30: (Stop(None, 13), Stop("valid", 20)),
         12: (Stop(None, 1), Stop("valid", 8))}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One configuration, what is trained for it, and how the runs of several processes compare."""

    name: str
    overrides: Sequence[str]
    kind: str  # rounded, resized, first, measured or sliced
    slices: int | None = None
    divided: Sequence[str] = ()  # more options, of several processes
    updates: int = 50
    tolerance: float = 2e-6

    def jobs(self, config: str, folder: Path) -> Iterator[tuple[int, int, Job]]:
        """(round, number of processes, job), each round after the one before."""
        within, validating = STOPS.get(self.updates, (None, None))  # few updates are not stopped
        chain = str(folder / f"{self.name}-chain")
        several = config.replace(".json", "-fsdp.json") if self.divided else config
        sizes = (1, 2, 4) if self.slices else (1,) if self.kind == "resized" else (1, 2, 3, 4)
        for size in sizes:
            straight = str(folder / f"{self.name}-{size}")
            yield 0, size, Job(config if size == 1 else several, straight)
            if self.kind == "rounded":
                again = str(folder / f"{self.name}-{size}-again")
                for number, stop in enumerate((within, validating, None)):
                    yield 0, size, Job(config, again, number > 0, stop)
        if self.name in IN_EIGHT:
            yield 0, 8, Job(config, str(folder / f"{self.name}-8"))
        if self.slices or self.kind == "resized":
            yield 0, 2, Job(several, chain, False, within)
            yield 0, 4 if self.slices else 3, Job(several, chain, True, validating)
            yield 1, 1, Job(config, chain, True)


def cases() -> list[Case]:
    """All cases."""
    listed = []
    for network, options in NETWORKS.items():
        for method, more in METHODS.items():
            full = FULL if (network, method) == ("convnet", "adam") else ()
            name, rest = f"{network}_{method}", (*options, *more, *full)
            overrides = (*LONG, *rest, "model.dropout=0")
            listed.append(Case(name, overrides, "rounded"))
            if name in RESIZED:
                listed.append(Case(f"{name}_resized", (*overrides, "log_every=4"), "resized"))
            listed += [_sliced(f"{name}_{slices}", (*rest, *RANDOM[network])) for slices in (4, 8)]
    for name, (updates, tolerance, options) in FIRST.items():
        overrides = (*SMALL, f"num_updates={updates}", *options, "grads_accumulation=3")
        listed.append(
            Case(f"{name}_first", overrides, "first", updates=updates, tolerance=tolerance)
        )
    for name, options in MEASURED.items():
        overrides = (*SMALL, "num_updates=1", "validate_first=true", *options)
        listed.append(Case(f"{name}_measured", overrides, "measured"))
    listed += [_sliced(name, (*options, "log_every=4")) for name, options in OTHERS.items()]
    for name, options in SHARDED.items():
        for suffix, divided in DIVIDED.items():
            if suffix == "fsdp" or name in IN_COPIES:
                case = Case(f"{name}_{suffix}", (*EVEN, *options), "sliced", 4, divided, 12)
                listed.append(case)
    return listed


def _sliced(name: str, options: Sequence[str]) -> Case:
    slices = int(name[-1])
    updates = 12 if "num_updates=12" in options else 30
    overrides = [*SLICED, *options, f"slices={slices}"]
    if updates == 12:
        overrides.append("validate_every=4")
    return Case(name, overrides, "sliced", slices, updates=updates)
