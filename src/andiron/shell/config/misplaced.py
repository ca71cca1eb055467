"""The right place of a misplaced option, and the name here of another codebase's."""

from andiron.errors import Problem
from andiron.plain.plain_values import Named
from andiron.shell.config import node_checks, trust
from andiron.shell.config.leaves import leaves
from andiron.shell.config.signatures import Signature, signature
from andiron.shell.config.violations import Problems, UNKNOWN

OTHER_NAMES = {  # by their names in other codebases
    "learning_rate": "lr", "epochs": "num_epochs", "max_epochs": "num_epochs",
    "steps": "num_updates", "max_steps": "num_updates", "num_steps": "num_updates",
    "bs": "batch_size", "train_batch_size": "batch_size", "workers": "num_workers",
    "accumulate_grad_batches": "grads_accumulation", "gradient_clip_val": "clip",
    "max_grad_norm": "clip", "grad_clip": "clip", "wd": "weight_decay", "random_seed": "seed",
    "amp": "precision", "fp16": "precision", "bf16": "precision", "gpus": "device",
    "devices": "device", "accelerator": "device", "ckpt_path": "resume",
    "resume_from_checkpoint": "resume", "pretrained": "start_from", "opt": "optimizer",
    "criterion": "loss", "net": "model", "arch": "model", "logger": "writers", "wandb": "writers",
    "callbacks": "observers", "ema": "averages", "patience": "early_stopping",
    "drop_rate": "dropout", "output_dir": "hydra.run.dir", "val_check_interval": "validate_every",
    "check_val_every_n_epoch": "validate_every", "eval_steps": "validate_every",
    "logging_steps": "log_every", "save_steps": "every", "warmup": "scheduler",
    "warmup_steps": "scheduler", "fast_dev_run": "debug", "log_every_n_steps": "log_every",
    "default_root_dir": "hydra.run.dir", "enable_progress_bar": "render",
    "enable_checkpointing": "checkpoint", "model_checkpoint": "checkpoint",
    "num_sanity_val_steps": "validate_first", "optimized_metric": "objective",
    "trainer": "device",  # as trainer=gpu
}  # fmt: skip


def current_name(name: str) -> str:
    """The name here of an option with this name, or of another codebase.

    >>> current_name("max-epochs"), current_name("lr")
    ('num_epochs', 'lr')
    """
    name = name.replace("-", "_")
    return OTHER_NAMES.get(name, name)


def corrected(problems: Problems, options: Signature, plain: Named) -> Problems:
    """The problems, with the right place of each unknown option whose name is valid elsewhere.

    `options` are the options of a run; they precede the arguments of the nodes in `plain`.
    """
    unknown = [option for option, line in problems.items() if line.startswith(f"{option}{UNKNOWN}")]
    if not unknown:
        return problems
    places = _places(options, plain)
    lines = dict(problems)
    for option in unknown:
        depth = option.count(".")
        inner = [path for path, _ in leaves(plain) if ".".join(path[: depth + 1]) == option]
        for path in inner or [tuple(option.split("."))]:  # the options in its mapping
            inner_first = [*reversed(path[depth:])]
            names = (*inner_first, *map(current_name, inner_first))
            if right := next((places[name] for name in names if name in places), None):
                lines.pop(option, None)
                whole = ".".join(path)
                lines[whole] = Problem(
                    f"{whole}{UNKNOWN}; did you mean {' or '.join(map(repr, right))}?",
                    kind="unknown_option", option=whole, nearest=right[0], allowed={"enum": right},
                )  # fmt: skip
    return lines


def _places(options: Signature, plain: Named) -> dict[str, list[str]]:
    """Options by name: every option of a run, and arguments of nodes under other names."""
    places = {name: [name] for name in (*options.parameters, "hydra.run.dir")}
    for path, place, node in trust.nodes(plain):
        expected = signature(str(node["_target_"]))
        for name in expected.parameters if expected else ():
            if name not in {*options.parameters, *node_checks.SUPPLIED.get(place, ())}:
                places.setdefault(name, []).append(f"{path}.{name}")
    return places
