"""Gradients as values: an ordered mapping from parameter name to tensor, apart from the model.

>>> model = nn.Linear(3, 2)
>>> gradients = backward(model(torch.ones(4, 3)).square().mean(), model)
>>> list(gradients), model.weight.grad
(['weight', 'bias'], None)
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from andiron.plain import fast_paths, private_torch

BACKWARD = Tensor.backward
Tensors = Mapping[str, Tensor]  # by name, of parameters for the most part
# of a step's weight: a context in which processes exchange gradients, and the loss's factor
During = Callable[[Any], AbstractContextManager[Any]]
_around: ContextVar[tuple[float, During | None]] = ContextVar("around", default=(1.0, None))


class Gradients(dict[str, Tensor]):
    """The gradients of one loss by parameter name, in the order of `model.named_parameters()`.

    A parameter that the loss does not reach has no entry, which differs from a gradient of zeros:
    an optimizer leaves the parameter and its state alone. Parts are taken out by module or by name.
    `loss`, if known, is the loss (or mean of losses) without its graph.
    """

    found_inf: Tensor | None = None  # 1 if any was inf or NaN when the mean was divided
    flag: Tensor | None = None  # 1 if a step is to change nothing; None if the host knows

    def __init__(self, tensors: Tensors, model: nn.Module, loss: Tensor | None = None):
        super().__init__(tensors)
        self.model = model
        self.loss = loss

    @property
    def with_loss(self) -> list[Tensor]:
        """The gradients, then the loss if known."""
        return [*self.values(), *([] if self.loss is None else [self.loss])]

    def __repr__(self) -> str:
        shapes = [f"{name}: {list(tensor.shape)}" for name, tensor in self.items()]
        return f"Gradients({', '.join(shapes)})"

    def take(self, module: nn.Module) -> "Gradients":
        """The gradients of `module`'s parameters, removed from here.

        Raises: ValueError if `module` is not part of the model that these gradients belong to.
        """
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        if not names.keys() >= {*module.parameters()}:
            raise ValueError(
                f"{type(module).__name__} is not part of the {type(self.model).__name__} that "
                "these gradients belong to; take a submodule of the model given to backward"
            )
        return self.take_names(*[n for p in module.parameters() if (n := names[p]) in self])

    def take_names(self, *names: str) -> "Gradients":
        """The gradients of these parameters, removed from here.

        Raises: KeyError naming the first parameter without a gradient, and those with one.
        """
        for name in names:
            if name not in self:
                raise KeyError(f"no gradient for parameter {name!r}; available: {', '.join(self)}")
        return self.replaced({name: self.pop(name) for name in dict.fromkeys(names)})

    def replaced(self, tensors: Tensors) -> "Gradients":
        """Other tensors as gradients of the same loss and model."""
        other = Gradients(tensors, self.model, self.loss)
        other.flag = self.flag
        return other


def backward(loss: Tensor, model: nn.Module, weight: Tensor | float | None = None) -> Gradients:
    """The gradients of a scalar `loss` with respect to `model`'s parameters; `.grad` stays None.

    `weight` is the count the loss is a mean over. With it, several processes add up large gradients
    while others are computed; they are then multiplied by `weight`, and a step returns them as they
    are. One process ignores it.
    """
    scale, exchange = _around.get()
    scaled = loss if scale == 1.0 else loss * scale
    # the gradients are moved off `.grad`: torch.autograd.grad would bypass the hooks by which
    # DistributedDataParallel averages them
    if exchange is None or weight is None or scale != 1.0:
        _run_backward(scaled)
    else:
        with exchange(weight) as factor:
            _run_backward(scaled if factor is None else scaled * factor)
    tensors = _taken(model)
    if scale != 1.0:
        private_torch.foreach_div_(list(tensors.values()), scale)
    return Gradients(tensors, model, loss.detach())


def _run_backward(loss: Tensor) -> None:
    """`loss.backward()` outside autocast: it takes its dtypes from the forward pass.

    A plain scalar on a CPU goes straight to torch's engine. On other devices Tensor.backward also
    passes its context to the device threads.
    """
    kind = loss.device.type
    if torch.is_autocast_enabled(kind):
        with torch.autocast(kind, enabled=False):
            _run_backward(loss)
        return
    if (
        type(loss) is Tensor and loss.is_cpu and loss.is_floating_point() and not loss.dim()
        and Tensor.backward is BACKWARD and _engine_agrees() and not private_torch.is_watched()
        and fast_paths.on["engine"]
    ):
        private_torch.run_engine(loss)
    else:
        loss.backward()  # type: ignore[no-untyped-call]


@functools.cache
def _engine_agrees() -> bool:
    """Whether torch's engine, called like this, gives the same gradient as `loss.backward()`.

    Another version of torch may need another call: it is tried once, on three numbers.
    """
    ours, theirs = (torch.tensor([0.5, -2.0, 3.0], requires_grad=True) for _ in range(2))
    with torch.enable_grad():
        loss, public = ours.exp().sum(), theirs.exp().sum()
    public.backward()  # type: ignore[no-untyped-call]
    try:
        private_torch.is_watched()
        private_torch.run_engine(loss)
    except (AttributeError, TypeError, RuntimeError):
        return False
    own, expected = ours.grad, theirs.grad
    return own is not None and expected is not None and torch.equal(own, expected)


def _taken(model: nn.Module) -> dict[str, Tensor]:
    """The gradients, moved off the parameters; one of a shared parameter has its first name."""
    tensors: dict[str, Tensor] = {}
    own = type(model).named_parameters is nn.Module.named_parameters
    if own and fast_paths.on["named parameters"]:
        entries = private_torch.parameters(model)
    else:
        entries = [("", dict(model.named_parameters()))]
    for prefix, parameters in entries:
        for name, parameter in parameters.items():
            if parameter is not None and (gradient := parameter.grad) is not None:
                tensors[prefix + name] = gradient
                parameter.grad = None
    return tensors


class Detachable:
    """A value with tensors, such as a step's item, that can be detached."""

    def detached(self) -> Any:
        """The values without their graph, safe from later updates of the weights."""
        values = {**vars(self)}
        for name, value in values.items():
            if isinstance(value, Tensor) and value.requires_grad:
                base = private_torch.base(value)
                values[name] = value.detach()
                if (value if base is None else base).is_leaf:
                    # a network that returns its own weights, which the update overwrites
                    values[name] = value.detach().clone()
        return type(self)(**values)


@contextmanager
def loss_scaled(scale: float, during: During | None = None) -> Iterator[None]:
    """A context in which `backward` scales the loss by `scale`, and the gradients by 1 / `scale`.

    Small gradients then do not underflow in half precision; large ones overflow to inf or NaN.
    With a scale of 1, a `backward` with a weight runs in the context of `during`.
    """
    token = _around.set((scale, during))
    try:
        yield
    finally:
        _around.reset(token)


def global_norm(gradients: Tensors) -> Float[Tensor, ""]:
    """The L2 norm of all gradients as one vector, on their device; 0 if there are none."""
    if not gradients:
        return torch.zeros(())
    return torch.linalg.vector_norm(torch.stack([*norms([*gradients.values()])]))


def norms(tensors: list[Tensor]) -> Sequence[Tensor]:
    """The L2 norm of each tensor; of float16 in float32, as inf would clip all to 0."""
    if torch.float16 not in {tensor.dtype for tensor in tensors}:
        return private_torch.foreach_norm(tensors)
    wider = {torch.float16: torch.float32}
    return [torch.linalg.vector_norm(one, dtype=wider.get(one.dtype)) for one in tensors]


def all_finite(gradients: Gradients) -> bool:
    """Whether every gradient and the loss are finite; reads one value from the device."""
    tensors = gradients.with_loss
    if not tensors:
        return True
    flag, _ = _constants(tensors[0].device)
    _flag_nonfinite(tensors, flag)
    is_finite = not flag.item()
    if not is_finite:
        flag.zero_()
    return is_finite


def _flag_nonfinite(tensors: list[Tensor], flag: Tensor) -> None:
    device = flag.device
    if device.type != "mps" and fast_paths.on["finite check"]:  # mps lacks this operation
        try:
            private_torch.unscale_and_check_(tensors, flag, _constants(device)[1])
            return
        except RuntimeError:  # sparse, complex or expanded tensors, several devices
            pass
    values = [tensor.coalesce().values() if tensor.is_sparse else tensor for tensor in tensors]
    is_finite = torch.stack([tensor.isfinite().all().to(device) for tensor in values]).all()
    flag.masked_fill_(~is_finite, 1.0)


def mean_is_finite(mean: Gradients) -> bool:
    """`all_finite`, or what the division that made the mean has found."""
    return all_finite(mean) if mean.found_inf is None else not mean.found_inf.item()


def flag_nonfinite(mean: Gradients, flag: Tensor) -> None:
    """Sets `flag` to 1 unless the mean is finite; reads nothing from the device."""
    if mean.found_inf is not None:
        torch.maximum(flag, mean.found_inf, out=flag)
    elif tensors := mean.with_loss:
        _flag_nonfinite(tensors, flag)


@functools.lru_cache
def _constants(device: torch.device) -> tuple[Tensor, Tensor]:
    """A 0 to overwrite and a 1: creating them takes as long as the check."""
    with torch.inference_mode(False):  # an inference tensor could not be overwritten later
        return torch.zeros((), device=device), torch.ones((), device=device)


def not_finite(gradients: Tensors) -> list[str]:
    """The names of the gradients that contain inf or NaN, in order; reads one value a gradient."""
    return [name for name, tensor in gradients.items() if not bool(torch.isfinite(tensor).all())]


def clip_by_global_norm(gradients: Gradients, max_norm: float) -> Gradients:
    """Gradients scaled so that their joint L2 norm is at most `max_norm`.

    Direction is kept; gradients already below the threshold are returned unchanged. Bits equal
    torch's clip_grad_norm_, with its 1e-6 in the denominator, but for float16.
    Raises: ValueError if max_norm is not positive.
    Source: Pascanu et al. 2013, arXiv:1211.5063, algorithm 1.
    """
    _check_limit("max_norm", max_norm)
    if not gradients:
        return gradients
    scale = (max_norm / (global_norm(gradients) + 1e-6)).clamp(max=1.0)
    scaled = private_torch.foreach_mul(list(gradients.values()), scale)
    return gradients.replaced(dict(zip(gradients, scaled, strict=True)))


def clip_by_norm(gradients: Gradients, max_norm: float) -> Gradients:
    """Gradients, each scaled so that its own L2 norm is at most `max_norm`, as in Burn.

    Raises: ValueError if max_norm is not positive.
    """
    _check_limit("max_norm", max_norm)
    return gradients.replaced(
        {n: g * (max_norm / (norms([g])[0] + 1e-6)).clamp(max=1.0) for n, g in gradients.items()}
    )


def clip_by_value(gradients: Gradients, limit: float) -> Gradients:
    """Gradients with every element clamped to [-limit, limit].

    Raises: ValueError if the limit is not positive.
    """
    _check_limit("limit", limit)
    return gradients.replaced({n: g.clamp(-limit, limit) for n, g in gradients.items()})


def _check_limit(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(
            f"{name}={value}: should be greater than 0; leave clipping out to have none"
        )
