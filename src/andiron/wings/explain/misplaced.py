"""The right place of a misplaced option, and the name here of another codebase's."""

from andiron.errors import Problem
from andiron.plain.plain_values import Named
from andiron.shell.config import node_checks, trust
from andiron.shell.config.leaves import leaves
from andiron.shell.config.schema import Train
from andiron.shell.config.signatures import signature
from andiron.shell.config.violations import Problems, UNKNOWN, fields_of

IN_OTHER_CODEBASES = {  # the names of each option
    "averages": "ema",
    "batch_size": "bs train_batch_size",
    "checkpoint": "enable_checkpointing model_checkpoint",
    "clip": "gradient_clip_val max_grad_norm grad_clip",
    "debug": "fast_dev_run",
    "device": "gpus devices accelerator trainer",  # as trainer=gpu
    "dropout": "drop_rate",
    "early_stopping": "patience",
    "every": "save_steps",
    "grads_accumulation": "accumulate_grad_batches",
    "hydra.run.dir": "output_dir default_root_dir",
    "log_every": "logging_steps log_every_n_steps",
    "loss": "criterion",
    "lr": "learning_rate",
    "model": "net arch",
    "num_epochs": "epochs max_epochs",
    "num_updates": "steps max_steps num_steps",
    "num_workers": "workers",
    "objective": "optimized_metric",
    "observers": "callbacks",
    "optimizer": "opt",
    "precision": "amp fp16 bf16",
    "render": "enable_progress_bar",
    "resume": "ckpt_path resume_from_checkpoint",
    "scheduler": "warmup warmup_steps",
    "seed": "random_seed",
    "start_from": "pretrained",
    "validate_every": "val_check_interval check_val_every_n_epoch eval_steps",
    "validate_first": "num_sanity_val_steps",
    "weight_decay": "wd",
    "writers": "logger wandb",
}
OTHER_NAMES = {
    name: option for option, names in IN_OTHER_CODEBASES.items() for name in names.split()
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
