"""The right place of a misplaced option: `optimizer.lr` is `lr`."""

from andiron.errors import Problem
from andiron.shell.config import former_options, node_checks, trust
from andiron.shell.config.signatures import Signature, signature
from andiron.shell.config.violations import Options, Problems, UNKNOWN

OTHER_NAMES = {  # by their names in other codebases
    "learning_rate": "lr", "epochs": "num_epochs", "max_epochs": "num_epochs",
    "steps": "num_updates", "max_steps": "num_updates", "num_steps": "num_updates",
    "bs": "batch_size", "train_batch_size": "batch_size", "workers": "num_workers",
    "accumulate_grad_batches": "grads_accumulation", "gradient_clip_val": "clip",
    "grad_clip": "clip", "wd": "weight_decay", "random_seed": "seed", "amp": "precision",
    "ckpt_path": "resume", "gpus": "device", "accelerator": "device",
}  # fmt: skip


def corrected(problems: Problems, options: Signature, plain: Options) -> Problems:
    """The problems, with the right place of each unknown option whose name is valid elsewhere.

    `options` are the options of a run; they precede the arguments of the nodes in `plain`.
    """
    unknown = [option for option, line in problems.items() if line.startswith(f"{option}{UNKNOWN}")]
    if not unknown:
        return problems
    places = {name: [name] for name in options.parameters}
    for path, place, node in trust.nodes(plain):
        expected = signature(str(node["_target_"]))
        for name in expected.parameters if expected else ():
            if name not in {*options.parameters, *node_checks.SUPPLIED.get(place, ())}:
                places.setdefault(name, []).append(f"{path}.{name}")
    hints = {}
    for option in unknown:
        name = option.rpartition(".")[2]
        if remedy := former_options.remedy(option, plain):
            line = f"{option}{UNKNOWN}; {remedy}"
            hints[option] = Problem(line, kind="unknown_option", option=option)
        elif right := places.get(name) or places.get(OTHER_NAMES.get(name, "")):
            line = f"{option}{UNKNOWN}; did you mean {' or '.join(map(repr, right))}?"
            near = right[0] if len(right) == 1 else None
            fields = {"kind": "unknown_option", "option": option, "nearest": near}
            hints[option] = Problem(line, **fields, allowed={"enum": right})
    return {**problems, **hints}
