"""Keeps the arguments with which objects are made, so that a run's folder can make them again.

>>> from torch import nn
>>> node_of(call(nn.Linear, 4, out_features=3))
{'_target_': 'torch.nn.Linear', 'in_features': 4, 'out_features': 3}
"""

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from andiron.plain import readable
from andiron.plain.plain_values import Named, Plain

KEPT = "_andiron_call"  # the attribute with the callable and its arguments
PLAIN = (type(None), bool, int, float, str)
Result = TypeVar("Result")
Target = TypeVar("Target", bound=Callable[..., Any])


class NotRecordedError(ValueError):
    """Why an object cannot be made again from a record."""


def call(target: Callable[..., Result], /, *arguments: object, **named: object) -> Result:
    """The result of `target(*arguments, **named)`, which keeps this call.

    For classes and functions of other packages; decorate your own with `keep_arguments`. Later
    changes of the object are not recorded.
    """
    result = target(*arguments, **named)
    _keep(result, target, arguments, named)
    return result


def keep_arguments(target: Target) -> Target:
    """Decorates a class or function, so that what it makes keeps the arguments of its call.

    >>> @keep_arguments
    ... class Net:
    ...     def __init__(self, hidden: int): ...
    >>> arguments_of(Net(hidden=64))
    {'hidden': 64}
    """
    if not inspect.isclass(target):

        @functools.wraps(target)
        def call_and_keep(*arguments: object, **named: object) -> Any:
            result = target(*arguments, **named)
            _keep(result, call_and_keep, arguments, named)
            return result

        return call_and_keep  # type: ignore[return-value]
    owner: Any = target
    constructor = owner.__init__

    @functools.wraps(constructor)
    def construct_and_keep(self: object, *arguments: object, **named: object) -> None:
        constructor(self, *arguments, **named)
        if type(self) is target:  # a subclass has arguments of its own
            _keep(self, target, arguments, named)

    owner.__init__ = construct_and_keep
    return target


def node_of(value: object, leave_out: Collection[str] = ()) -> Any:
    """The value as plain data: an object as `_target_` and arguments, a function by its name.

    The object's arguments `leave_out` are not recorded.
    Raises: NotRecordedError, with the reason, for what cannot be made again from that.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: node_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [node_of(item) for item in value]
    if inspect.isclass(value) or inspect.isroutine(value):
        return name_of(value)
    if isinstance(value, functools.partial) and not value.args:
        if isinstance(value.func, functools.partial):
            return node_of(value.func) | _nodes(value.keywords)
        return {"_target_": name_of(value.func), "_partial_": True} | _nodes(value.keywords)
    maker, arguments = _call_of(value)
    kept = {name: arguments[name] for name in arguments if name not in leave_out}
    return {"_target_": name_of(maker), **_nodes(kept, maker)}


def arguments_of(value: object) -> Plain:
    """The arguments with which an object was made, by name.

    They are known if the call was kept, for a dataclass, and if the class takes none.
    Raises: NotRecordedError.
    """
    return _call_of(value)[1]


def name_of(target: object) -> str:
    """The shortest dotted name by which a class or function can be imported.

    Raises: NotRecordedError for a lambda, and for what a script, a notebook or a function defines.
    """
    if not hasattr(target, "__qualname__"):
        raise NotRecordedError(f"an object of {type(target).__qualname__} has no name of its own")
    module, name = str(target.__module__), str(target.__qualname__)
    if name.endswith("<lambda>"):
        raise NotRecordedError("a lambda has no name by which it could be imported")
    if module == "__main__" or "<locals>" in name:
        place = "a function" if "<locals>" in name else "a script or notebook"
        raise NotRecordedError(f"{name} is defined in {place}; move it to a module to record it")
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        package = ".".join(parts[:length])
        if getattr(sys.modules.get(package), name, None) is target:
            return f"{package}.{name}"
    raise NotRecordedError(f"{module}.{name} is another object than the one in use")


def described(value: object) -> dict[str, str]:
    """The class of an object, or the name of a function, as text for readers."""
    kind = value if inspect.isroutine(value) or inspect.isclass(value) else type(value)
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "repr": repr(value)[:2000]}


def _keep(result: object, maker: object, arguments: tuple[object, ...], named: Plain) -> None:
    if hasattr(result, "__dict__"):
        # not by nn.Module's own __setattr__, nor by that of a frozen dataclass
        vars(result)[KEPT] = maker, arguments, named


def _call_of(value: object) -> tuple[Any, Plain]:
    """The maker of an object, and its arguments by name; raises as `arguments_of`."""
    kind = type(value)
    if kept := getattr(value, "__dict__", {}).get(KEPT):
        maker, arguments, named = kept
        return maker, _by_name(maker, arguments, named)
    if dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind) if field.init]
        if fields == [*inspect.signature(kind).parameters]:  # else it has another constructor
            return kind, {name: getattr(value, name) for name in fields}
    with suppress(ValueError):
        if not inspect.signature(kind).parameters:
            return kind, {}
    name_of(kind)  # a class without a name has that reason
    raise NotRecordedError(
        f"the arguments of {kind.__name__} were not kept: decorate the class with "
        f"@keep_arguments, or make it by call({kind.__name__}, ...), both of andiron.recording"
    )


def _nodes(arguments: Named, maker: Any = None) -> Plain:
    """The arguments as plain data; a function only where the annotation says that one is taken."""
    takes = {} if maker is None else inspect.signature(maker).parameters
    nodes = {}
    for name, argument in arguments.items():
        nodes[name] = node_of(argument)
        is_function = inspect.isclass(argument) or inspect.isroutine(argument)
        if is_function and name in takes and "Callable" not in str(takes[name].annotation):
            owner = readable.name_of(maker)
            raise NotRecordedError(f"{name} of {owner} is not annotated as taking a Callable")
    return nodes


def _by_name(maker: Any, arguments: tuple[object, ...], named: Named) -> Plain:
    signature = inspect.signature(maker)
    bound = signature.bind(*arguments, **named).arguments
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL and name in bound:
            owner = readable.name_of(maker)
            raise NotRecordedError(f"{owner} was given *{name}, which have no names to record")
        if parameter.kind is parameter.VAR_KEYWORD:
            bound |= bound.pop(name, {})
    return bound
