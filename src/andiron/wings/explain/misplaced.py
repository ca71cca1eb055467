"""The right place of a misplaced option, and the name here of another codebase's."""

from andiron.errors import Problem
from andiron.plain.plain_values import Named
from andiron.shell.config import node_checks, trust
from andiron.shell.config.leaves import leaves
from andiron.shell.config.schema import Train
from andiron.shell.config.signatures import signature
from andiron.shell.config.violations import Problems, UNKNOWN, fields_of

IN_OTHER_CODEBASES = {  # their names, and the option here
    "ema": "averages",
    "bs train_batch_size": "batch_size",
    "enable_checkpointing model_checkpoint": "checkpoint",
    "gradient_clip_val max_grad_norm grad_clip": "clip",
    "fast_dev_run": "debug",
    "gpus devices accelerator trainer": "device",  # as trainer=gpu
    "drop_rate": "dropout",
    "patience": "early_stopping",
    "save_steps": "every",
    "accumulate_grad_batches": "grads_accumulation",
    "output_dir default_root_dir": "hydra.run.dir",
    "logging_steps log_every_n_steps": "log_every",
    "criterion": "loss",
    "learning_rate": "lr",
    "net arch": "model",
    "epochs max_epochs": "num_epochs",
    "steps max_steps num_steps": "num_updates",
    "workers": "num_workers",
    "optimized_metric": "objective",
    "callbacks": "observers",
    "opt": "optimizer",
    "amp fp16 bf16": "precision",
    "enable_progress_bar": "render",
    "ckpt_path resume_from_checkpoint": "resume",
    "warmup warmup_steps": "scheduler",
    "random_seed": "seed",
    "pretrained": "start_from",
    "val_check_interval check_val_every_n_epoch eval_steps": "validate_every",
    "num_sanity_val_steps": "validate_first",
    "wd": "weight_decay",
    "logger wandb": "writers",
}
OTHER_NAMES = {
    name: option for names, option in IN_OTHER_CODEBASES.items() for name in names.split()
}


def current_name(name: str) -> str:
    """The name here of an option with this name, or of another codebase.

    >>> current_name("max-epochs"), current_name("lr")
    ('num_epochs', 'lr')
    """
    name = name.replace("-", "_")
    return OTHER_NAMES.get(name, name)


def corrected(problems: Problems, plain: Named) -> Problems:
    """The problems, with the right place of each unknown option whose name is valid elsewhere.

    The options of a run precede the arguments of the nodes in `plain`.
    """
    unknown = [option for option, line in problems.items() if line.startswith(f"{option}{UNKNOWN}")]
    if not unknown:
        return problems
    places = _places(plain)
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


def _places(plain: Named) -> dict[str, list[str]]:
    """Options by name: every option of a run, and arguments of nodes under other names."""
    options = fields_of(Train).parameters
    places = {name: [name] for name in (*options, "hydra.run.dir")}
    for path, place, node in trust.nodes(plain):
        expected = signature(str(node["_target_"]))
        for name in expected.parameters if expected else ():
            if name not in {*options, *node_checks.SUPPLIED.get(place, ())}:
                places.setdefault(name, []).append(f"{path}.{name}")
    return places
