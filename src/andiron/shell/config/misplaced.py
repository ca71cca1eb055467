"""The right place of a misplaced option: `optimizer.lr` is `lr`."""

from andiron.errors import Problem
from andiron.shell.config import node_checks, trust
from andiron.shell.config.signatures import Signature, signature
from andiron.shell.config.violations import Options, Problems, UNKNOWN


def corrected(problems: Problems, options: Signature, plain: Options) -> Problems:
    """The problems, with the right place of each unknown option whose name is valid elsewhere.

    `options` are the options of a run; they precede the arguments of the nodes in `plain`.
    """
    unknown = [option for option, line in problems.items() if line.startswith(f"{option}{UNKNOWN}")]
    places = _places(options, plain) if unknown else {}
    lines = dict(problems)
    for option in unknown:
        if right := places.get(option.rpartition(".")[2]):
            line = f"{option}{UNKNOWN}; did you mean {' or '.join(map(repr, right))}?"
            fields = {"kind": "unknown_option", "option": option, "nearest": right[0]}
            lines[option] = Problem(line, **fields, allowed={"enum": right})
    return lines


def _places(options: Signature, plain: Options) -> dict[str, list[str]]:
    """Options by name: every option of a run, and arguments of nodes under other names."""
    places = {name: [name] for name in (*options.parameters, "hydra.run.dir")}
    for path, place, node in trust.nodes(plain):
        expected = signature(str(node["_target_"]))
        for name in expected.parameters if expected else ():
            if name not in {*options.parameters, *node_checks.SUPPLIED.get(place, ())}:
                places.setdefault(name, []).append(f"{path}.{name}")
    return places
