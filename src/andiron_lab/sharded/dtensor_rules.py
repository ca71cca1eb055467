"""Operations on DTensors that each process computes on its parts, and norms of whole tensors.

A DTensor is a tensor of which each process holds some rows. torch has no rule for some operations
of optimizers, and computes norms in an order that depends on the number of processes. `install`
adds rules to torch's table: elementwise operations on lists use the parts; a norm is that of the
whole tensor, computed by one process, so that its bits do not depend on their number.
"""

import functools
import operator
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import functional

from andiron.distributed import World
from andiron_lab.sharded import whole_norms
from andiron_lab.sharded.parameter_rows import bounds, like, part, rows

aten = torch.ops.aten
ELEMENTWISE = (
    "abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "div", "exp", "lerp", "log",
    "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sign", "sqrt",
    "sub", "zero",
)  # fmt: skip
# torch's own rules for single operations stand there too; nothing public replaces a rule
TABLE: Any = operator.attrgetter("_op_dispatcher._custom_op_handlers")
LANES = 64  # a multiple of the elements that any CPU computes at once
REFUSED = (
    "bernoulli", "bernoulli_", "exponential_", "native_dropout", "rand_like", "randint_like",
    "randn_like", "select", "slice", "uniform_",
)  # fmt: skip
KERNELS = "_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"


def install(world: World) -> None:
    """Adds the rules to torch's table, for the processes of `world`.

    Raises: AttributeError in a version of torch without such a table.
    """
    table = TABLE(DTensor)
    for name in (f"{name}{in_place}" for name in ELEMENTWISE for in_place in ("", "_")):
        table.update(dict.fromkeys(_overloads(name), _on_part))
        table.update(dict.fromkeys(_overloads(f"_foreach_{name}"), _on_parts))
    for kernel in KERNELS:
        table.update(dict.fromkeys(_overloads(kernel), _on_parts))
    for name in REFUSED:
        table.update(dict.fromkeys(_overloads(name), _refused))
    single = {
        "normal_": _normal, "copy_": _copied, "_foreach_copy_": _all_copied,
        "_foreach_norm": functools.partial(whole_norms.norms, world),
        "linalg_vector_norm": functools.partial(whole_norms.norm, world),
        "_amp_foreach_non_finite_check_and_unscale_": functools.partial(_checked, world),
    }  # fmt: skip
    for name, rule in single.items():
        table.update(dict.fromkeys(_overloads(name), rule))


def _overloads(name: str) -> list[Any]:
    packet = getattr(aten, name, None)
    overloads = packet.overloads() if packet else ()
    return [getattr(packet, overload) for overload in overloads if "out" not in overload]


class _Lanes:
    """The rows of this process as an elementwise kernel meets them in the whole tensor.

    A CPU's vector instructions round a multiplication and an addition once, and what is left over
    at the end of a tensor is rounded twice. So that each element gets the bits that it has in one
    process, parts that do not begin or end at a multiple of `LANES` elements are computed in a copy
    with zeros around them, which `end` copies back.
    """

    def __init__(self) -> None:
        self._copies: list[tuple[Tensor, Tensor]] = []  # the part, and its place in the copy

    def of(self, value: Any) -> Any:
        """The rows to compute with; other values as they are."""
        if not isinstance(value, DTensor):
            return value
        own = part(value)
        before, after = self.around(value)
        if not before and not after:
            return own
        flat = functional.pad(own.reshape(-1), (before, after))
        self._copies.append((own, flat[before : before + own.numel()]))
        return flat

    def around(self, tensor: DTensor) -> tuple[int, int]:
        """The number of zeros before and after the rows of this process."""
        if tensor.device.type != "cpu" or not part(tensor).numel():
            return 0, 0
        of_row = tensor.shape[1:].numel()
        mesh = tensor.device_mesh
        own = bounds(len(tensor), mesh)[mesh.get_local_rank()]
        first, last = (row * of_row for row in own)
        return first % LANES, min(-last % LANES, tensor.numel() - last)

    def rows(self, made: Any, tensor: Any) -> Any:
        """A computed value as a tensor that is divided like `tensor`."""
        if not isinstance(tensor, DTensor):
            return made
        before, after = self.around(tensor)
        if before or after:
            own = part(tensor)
            made = made[before : before + own.numel()].view(own.shape)
        return like(made, tensor)

    def end(self) -> None:
        """Copies back what an operation may have changed."""
        for own, copy in self._copies:
            own.copy_(copy.view(own.shape))


def _on_parts(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """An elementwise operation on lists of tensors."""
    lanes = _Lanes()
    given = [[*map(lanes.of, own)] if isinstance(own, list) else own for own in arguments]
    made = operation(*given, **{
        name: [*map(lanes.of, own)] if isinstance(own, list) else own
        for name, own in options.items()
    })  # fmt: skip
    if made is None:
        lanes.end()
        return None
    return [*map(lanes.rows, made, arguments[0])]


def _on_part(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """An elementwise operation on a tensor and others of its shape, or numbers."""
    first = next(value for value in arguments if isinstance(value, DTensor))
    given = [_divided(value, first) for value in arguments]
    lanes = _Lanes()
    is_aligned = all(v.shape == first.shape for v in given if isinstance(v, DTensor))
    made = operation(*map(lanes.of if is_aligned else part, given), **options)
    if str(operation).split(".")[1].endswith("_"):
        lanes.end()
        return arguments[0]
    return lanes.rows(made, first) if is_aligned else like(made, first)


def _divided(value: Any, first: DTensor) -> Any:
    """An operand with its rows divided like `first`, the largest one.

    Raises: NotImplementedError for an operand without the rows of `first`.
    """
    if not isinstance(value, Tensor) or not value.dim():
        return value
    if value.dim() == first.dim() and len(value) == len(first):
        if not isinstance(value, DTensor) and value.shape == first.shape:
            return like(rows(value, first.device_mesh).contiguous(), first)
        if isinstance(value, DTensor) and value.placements == first.placements:
            return value
    shapes = f"{[*value.shape]} and {[*first.shape]}"
    raise NotImplementedError(f"strategy=fsdp: no operation on parts of {shapes}")


def _normal(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Normal numbers drawn as for the whole tensor, of which each process keeps its rows."""
    target, *more = arguments
    whole = torch.empty(target.shape, dtype=target.dtype, device=target.device)
    part(target).copy_(rows(operation(whole, *more, **options), target.device_mesh))
    return target


def _refused(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Operations that would draw the same numbers in each process, or write into a copy."""
    raise NotImplementedError(f"strategy=fsdp: {operation} of a parameter or its gradient")


def _copied(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """target.copy_(source), where either may be divided; a whole target is filled everywhere."""
    target, source, *more = arguments
    if isinstance(source, DTensor) and not isinstance(target, DTensor):
        source = source.full_tensor()
    elif isinstance(target, DTensor) and not isinstance(source, DTensor) and source.dim():
        source = rows(source, target.device_mesh)
    operation(part(target), part(source), *more, **options)
    return target


def _all_copied(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    targets, sources, *more = arguments
    for target, source in zip(targets, sources, strict=True):
        _copied(aten.copy_.default, (target, source, *more), options)
    return None


def _checked(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Divides the parts, and sets the flag in every process if any has inf or NaN."""
    tensors, flag, scale = arguments
    operation([*map(part, tensors)], flag, scale)
    with world.explained():
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
