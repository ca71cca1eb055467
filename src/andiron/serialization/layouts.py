"""How a file names and lays out the tensors of a module: as torch does, or as Burn does.

Burn's layout is what burn-store writes without its PyTorch adapter: a linear's weight is [in, out], and normalisations call
weight and bias gamma and beta. Source: tracel-ai/burn, crates/burn-store/src/adapter.rs and crates/burn-nn.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from andiron import errors

LAYOUTS = ("torch", "burn")
NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
# Burn has attention, recurrence and instance norm too, but of other parts: there is no tensor for tensor
NO_LIKE = {
    nn.MultiheadAttention: "Burn has query, key, value and output, each a linear, where torch has one in_proj",
    nn.RNNBase: "Burn has two linears a gate, where torch has all gates in one tensor",
    nn.RNNCellBase: "Burn has two linears a gate, where torch has all gates in one tensor",
    nn.Bilinear: "Burn has none",
}


@dataclass(frozen=True)
class Place:
    """One of a module's own tensors, and whether the file has it transposed."""

    own: Tensor
    is_transposed: bool = False

    @property
    def shown(self) -> Tensor:
        """The tensor as the file lays it out: a view, so copying into it copies into the module."""
        return self.own.t() if self.is_transposed else self.own


def places(module: nn.Module, layout: str) -> dict[str, Place]:
    """Parameters and persistent buffers of a module, under the names that a file of this layout has for them.

    Raises: ValueError for an unknown layout; MismatchError naming the modules that the layout cannot hold.
    """
    if layout not in LAYOUTS:
        raise ValueError(
            f"layout is {layout!r}; choose from {', '.join(LAYOUTS)}{errors.nearest(layout, LAYOUTS)}"
        )
    own = module.state_dict(keep_vars=True)
    others = [name for name, value in own.items() if not isinstance(value, Tensor)]
    if others:
        raise errors.MismatchError(
            f"{', '.join(others)}: a module's extra state, which is no tensor; record it apart, as values"
        )
    hollow = [name for name, tensor in own.items() if is_lazy(tensor) or tensor.is_meta]
    if hollow:
        remedy = "call module.to_empty(device=...) first, or run a lazy module once"
        raise errors.MismatchError(
            f"{', '.join(hollow)}: without memory, so there is nothing to save or to load into; {remedy}"
        )
    if layout == "torch":
        return {name: Place(tensor.detach()) for name, tensor in own.items()}
    modules = dict(module.named_modules(remove_duplicate=False))
    _check_burn(modules)
    found: dict[str, Place] = {}
    for name, tensor in own.items():
        prefix, dot, leaf = name.rpartition(".")
        for in_burn, is_transposed in _in_burn(modules.get(prefix), leaf):
            found[prefix + dot + in_burn] = Place(tensor.detach(), is_transposed)
    return found


def _in_burn(module: nn.Module | None, leaf: str) -> Iterator[tuple[str, bool]]:
    """What Burn calls a module's own tensor, and whether it has it transposed; nothing where it has none."""
    if isinstance(module, nn.Linear):
        yield leaf, leaf == "weight"
    elif isinstance(module, NORMS):
        if leaf != "num_batches_tracked":
            yield {"weight": "gamma", "bias": "beta"}.get(leaf, leaf), False
    elif isinstance(module, nn.PReLU):
        yield {"weight": "alpha"}.get(leaf, leaf), False
    else:
        yield leaf, False


def _check_burn(modules: dict[str, nn.Module]) -> None:
    problems = []
    for name, module in modules.items():
        reasons = [reason for kind, reason in NO_LIKE.items() if isinstance(module, kind)]
        if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
            reasons.append("Burn's instance norm keeps no running statistics")
        problems += [
            f"  {name or 'the module itself'!r} is a {type(module).__name__}: {reason}"
            for reason in reasons
        ]
    if problems:
        raise errors.MismatchError(
            "layout 'burn' has no like of:\n"
            + "\n".join(problems)
            + "\nuse layout 'torch', or build the module of parts that Burn has"
        )
