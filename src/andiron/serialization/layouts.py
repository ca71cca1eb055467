"""The names and shapes of a module's tensors in a file: torch's layout, or Burn's.

Burn's layout is that of burn-store without its PyTorch adapter: the weight of a linear layer
is [in, out], and normalisations call weight and bias gamma and beta.
Source: tracel-ai/burn, crates/burn-store/src/adapter.rs and crates/burn-nn.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from andiron import errors
from andiron.plain import private_torch

LAYOUTS = ("torch", "burn")
NORMS = (private_torch.NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
BURN_NAMES = {NORMS: {"weight": "gamma", "bias": "beta"}, (nn.PReLU,): {"weight": "alpha"}}
ONE_TENSOR_FOR_ALL_GATES = "Burn has two linears a gate, torch has all gates in one tensor"
# Burn has modules of these kinds, but with other tensors
WITHOUT_COUNTERPART = {
    nn.MultiheadAttention: "Burn has query, key, value and output linears, torch has one in_proj",
    nn.RNNBase: ONE_TENSOR_FOR_ALL_GATES,
    nn.RNNCellBase: ONE_TENSOR_FOR_ALL_GATES,
    nn.Bilinear: "Burn has none",
}


@dataclass(frozen=True)
class Place:
    """A tensor of a module, and whether the file has it transposed."""

    own: Tensor
    is_transposed: bool = False

    @property
    def in_file(self) -> Tensor:
        """The tensor laid out as in the file: a view, so copying into it changes the module."""
        return self.own.t() if self.is_transposed else self.own


Places = Mapping[str, Place]


def places(module: nn.Module, layout: str) -> Places:
    """The parameters and persistent buffers of a module, by their names in a file of this layout.

    Raises: ValueError for an unknown layout; MismatchError naming the tensors or modules that a
    file of this layout cannot hold.
    """
    if layout not in LAYOUTS:
        raise ValueError(
            f"layout is {layout!r}; choose from {', '.join(LAYOUTS)}"
            f"{errors.nearest(layout, LAYOUTS)}"
        )
    own = module.state_dict(keep_vars=True)
    _check_tensors(own)
    if layout == "torch":
        return {name: Place(tensor.detach()) for name, tensor in own.items()}
    modules = dict(module.named_modules(remove_duplicate=False))
    _check_burn(modules)
    in_burn: dict[str, Place] = {}
    for name, tensor in own.items():
        prefix, dot, leaf = name.rpartition(".")
        owner = modules.get(prefix)
        if isinstance(owner, NORMS) and leaf == "num_batches_tracked":  # Burn has none
            continue
        renames = next((new for kind, new in BURN_NAMES.items() if isinstance(owner, kind)), {})
        is_transposed = isinstance(owner, nn.Linear) and leaf == "weight"
        in_burn[prefix + dot + renames.get(leaf, leaf)] = Place(tensor.detach(), is_transposed)
    return in_burn


def _check_tensors(own: dict[str, Tensor]) -> None:
    extra = [name for name, value in own.items() if not isinstance(value, Tensor)]
    if extra:
        raise errors.MismatchError(
            f"{', '.join(extra)}: extra state that is not a tensor; record it separately, as values"
        )
    hollow = [name for name, tensor in own.items() if is_lazy(tensor) or tensor.is_meta]
    if hollow:
        raise errors.MismatchError(
            f"{', '.join(hollow)}: on the meta device, without data; "
            "call module.to_empty(device=...) first, or run a lazy module once"
        )


def _check_burn(modules: dict[str, nn.Module]) -> None:
    problems = []
    for name, module in modules.items():
        reasons = [why for kind, why in WITHOUT_COUNTERPART.items() if isinstance(module, kind)]
        if isinstance(module, private_torch.InstanceNorm) and module.track_running_stats:
            reasons.append("Burn's instance norm has no running statistics")
        where = repr(name) if name else "the module itself"
        problems += [f"  {where} is a {type(module).__name__}: {reason}" for reason in reasons]
    if problems:
        raise errors.MismatchError(
            "layout 'burn' has no counterpart of:\n"
            + "\n".join(problems)
            + "\nuse layout 'torch', or build the module from parts that Burn has"
        )
