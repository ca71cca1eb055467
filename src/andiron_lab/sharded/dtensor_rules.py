"""Operations on DTensors that each process computes on its parts, and norms of whole tensors.

A DTensor is a tensor of which each process holds some rows. torch has no rule for some operations
of optimizers, and computes norms in an order that depends on the number of processes. `install`
adds rules to torch's table: elementwise operations on lists use the parts; a norm is that of the
whole tensor, computed by one process, so that its bits do not depend on their number.
"""

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import functional

from andiron.distributed import World

aten = torch.ops.aten
ELEMENTWISE = (
    "abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "div", "exp", "lerp", "log",
    "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sign", "sqrt",
    "sub", "zero",
)  # fmt: skip
# torch's own rules for single operations stand there too; nothing public replaces a rule
TABLE: Any = operator.attrgetter("_op_dispatcher._custom_op_handlers")
LANES = 64  # a multiple of the elements that any CPU computes at once
KERNELS = "_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"


def install(world: World) -> None:
    """Adds the rules to torch's table, for the processes of `world`.

    Raises: AttributeError in a version of torch without such a table.
    """
    table = TABLE(DTensor)
    on_part, on_parts = (functools.partial(rule, world) for rule in (_on_part, _on_parts))
    for name in (f"{name}{in_place}" for name in ELEMENTWISE for in_place in ("", "_")):
        table.update(dict.fromkeys(_overloads(name), on_part))
        table.update(dict.fromkeys(_overloads(f"_foreach_{name}"), on_parts))
    for kernel in KERNELS:
        table.update(dict.fromkeys(_overloads(kernel), on_parts))
    table[aten.copy_.default] = functools.partial(_copied, world)
    table[aten._foreach_copy_.default] = functools.partial(_all_copied, world)
    table[aten._foreach_norm.Scalar] = functools.partial(_norms, world)
    table[aten.linalg_vector_norm.default] = functools.partial(_norm, world)
    table[aten._amp_foreach_non_finite_check_and_unscale_.default] = functools.partial(
        _checked, world
    )


def _overloads(name: str) -> list[Any]:
    packet = getattr(aten, name, None)
    overloads = packet.overloads() if packet else ()
    return [getattr(packet, overload) for overload in overloads if "out" not in overload]


def part(tensor: Any) -> Any:
    """The rows of this process, in the same memory; other values as they are."""
    if not isinstance(tensor, DTensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def like(value: Tensor, whole: DTensor) -> DTensor:
    """Rows of this process as a part of a tensor that is divided like `whole`."""
    return DTensor.from_local(
        value, whole.device_mesh, whole.placements, run_check=False,
        shape=whole.shape, stride=whole.stride(),
    )  # fmt: skip


class _Lanes:
    """The rows of this process as an elementwise kernel meets them in the whole tensor.

    A CPU's vector instructions round a multiplication and an addition once, and what is left over
    at the end of a tensor is rounded twice. So that each element gets the bits that it has in one
    process, parts that do not begin or end at a multiple of `LANES` elements are computed in a copy
    with zeros around them, which `end` copies back.
    """

    def __init__(self, world: World):
        self._world = world
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
        first, last = (row * of_row for row in bounds(len(tensor), self._world)[self._world.rank])
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


def _on_parts(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """An elementwise operation on lists of tensors."""
    lanes = _Lanes(world)
    given = [[*map(lanes.of, own)] if isinstance(own, list) else own for own in arguments]
    made = operation(*given, **{
        name: [*map(lanes.of, own)] if isinstance(own, list) else own
        for name, own in options.items()
    })  # fmt: skip
    if made is None:
        lanes.end()
        return None
    return [*map(lanes.rows, made, arguments[0])]


def _on_part(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """An elementwise operation on a tensor and others of its shape, or numbers."""
    first = next(value for value in arguments if isinstance(value, DTensor))
    for value in arguments:
        if isinstance(value, Tensor) and value.dim() and not (
            isinstance(value, DTensor) and value.shape == first.shape
        ):
            raise NotImplementedError(
                f"strategy=fsdp: {operation} of {[*value.shape]} and {[*first.shape]}"
            )
    lanes = _Lanes(world)
    made = operation(*map(lanes.of, arguments), **options)
    if str(operation).split(".")[1].endswith("_"):
        lanes.end()
        return arguments[0]
    return lanes.rows(made, first)


def _copied(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """target.copy_(source), where either may be divided; a whole target is filled everywhere."""
    target, source, *more = arguments
    if isinstance(source, DTensor) and not isinstance(target, DTensor):
        source = source.full_tensor()
    elif isinstance(target, DTensor) and not isinstance(source, DTensor) and source.dim():
        source = rows(source, target, world)
    operation(part(target), part(source), *more, **options)
    return target


def _all_copied(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    targets, sources, *more = arguments
    for target, source in zip(targets, sources, strict=True):
        _copied(world, aten.copy_.default, (target, source, *more), options)
    return None


def rows(whole: Tensor, divided: DTensor, world: World) -> Tensor:
    """The rows of a whole tensor that this process holds of `divided`."""
    first, last = bounds(len(whole), world)[world.rank]
    return whole[first:last]


def bounds(length: int, world: World) -> list[tuple[int, int]]:
    """The first row of each process and the row after its last, as in `torch.chunk`."""
    size = -(-length // world.size)
    return [
        (min(size * rank, length), min(size * (rank + 1), length)) for rank in range(world.size)
    ]


def _norm(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Tensor:
    """The norm of all elements of one tensor."""
    tensor, *more = arguments
    if more[1:] and more[1] is not None or options.get("dim") is not None:
        raise NotImplementedError("strategy=fsdp: a norm over some dimensions of a parameter")
    return _norms(world, operation, ([tensor], *more[:1]), options)[0]


def _norms(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> list[Tensor]:
    """The norm of each tensor, equal bits in every process.

    With `slices` the bits of torch's norm of the whole tensor, which one process computes.
    """
    tensors, order = arguments[0], arguments[1] if len(arguments) > 1 else options.get("ord", 2)
    device = tensors[0].device
    norms = torch.zeros(len(tensors), dtype=tensors[0].dtype, device=device)
    if world.slices is None and order == 2:
        for place, tensor in enumerate(tensors):
            divided = isinstance(tensor, DTensor)
            own = torch.linalg.vector_norm(part(tensor), dtype=torch.float32)
            norms[place] = own.square() if divided or world.rank == 0 else 0.0
        _add(norms, world)
        return [*norms.sqrt()]
    divided = [place for place, tensor in enumerate(tensors) if isinstance(tensor, DTensor)]
    for place, whole in _wholes([tensors[place] for place in divided], world):
        norms[divided[place]] = torch.linalg.vector_norm(whole, order)
    if world.rank == 0:
        for place in {*range(len(tensors))}.difference(divided):
            norms[place] = torch.linalg.vector_norm(tensors[place], order)
    _add(norms, world)
    return [*norms]


def _wholes(tensors: Sequence[Tensor], world: World) -> Iterator[tuple[int, Tensor]]:
    """The places and tensors of which this process computes the norm, whole.

    `size` tensors are exchanged at a time, each to the process that has its place among them.
    """
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        of_dtype = [place for place, tensor in enumerate(tensors) if tensor.dtype == dtype]
        for start in range(0, len(of_dtype), world.size):
            places = of_dtype[start : start + world.size]
            whole = _exchanged([tensors[place] for place in places], world)
            if whole is not None:
                yield places[world.rank], whole


def _exchanged(tensors: Sequence[Tensor], world: World) -> Tensor | None:
    """Sends the parts of each tensor to the process of its place; the whole one of this process."""
    own, rank = [*map(part, tensors)], world.rank
    sent = [tensor.numel() for tensor in own] + [0] * (world.size - len(own))
    received = [0] * world.size
    if rank < len(own):
        shape = tensors[rank].shape
        of_row = shape[1:].numel()
        received = [(last - first) * of_row for first, last in bounds(shape[0], world)]
    memory = own[0].new_empty(sum(received))
    flat = torch.cat([tensor.reshape(-1) for tensor in own])
    with world.explained():
        torch.distributed.all_to_all_single(memory, flat, received, sent)
    return memory.view(shape) if rank < len(own) else None


def _add(values: Tensor, world: World) -> None:
    with world.explained():
        torch.distributed.all_reduce(values)


def _checked(
    world: World, operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Divides the parts, and sets the flag in every process if any has inf or NaN."""
    tensors, flag, scale = arguments
    operation([*map(part, tensors)], flag, scale)
    with world.explained():
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
