"""Burn's layout of a module's tensors in a file.

It is that of burn-store without its PyTorch adapter: the weight of a linear layer is [in, out],
and normalisations call weight and bias gamma and beta.
Source: tracel-ai/burn, crates/burn-store/src/adapter.rs and crates/burn-nn.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from andiron import errors
from andiron.plain import private_torch
from andiron.serialization.layouts import Place, Places

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


def places(module: nn.Module, own: Mapping[str, Tensor]) -> Places:
    """The tensors `own` of a module by their names in a file of Burn's.

    Raises: MismatchError naming the modules that such a file cannot hold.
    """
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
