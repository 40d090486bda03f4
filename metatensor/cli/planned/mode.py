"""The mode that redirects every device to meta and allows operations between tensors on meta and on cpu."""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor import plugins
from metatensor._core.errors import DataDependentError
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.cli.planned import bounds
from metatensor.cli.planned.values import Values
from metatensor.deferred.known import is_constant

__all__ = ["PlanMode"]

GIVEN = frozenset(("_from_host", "arange", "linspace", "logspace", "range", "randperm"))
"""Operators whose results have known values. These results are created on cpu, unless an accelerator is named."""
MOST_GIVEN = 1 << 24
"""Maximum number of elements of such a result."""
DRAWN = frozenset(("rand", "randn", "randint", "normal"))
MOST_DRAWN = 1 << 16
"""Maximum number of elements of integers that are drawn on cpu. Scripts use them as indices, and slice with them."""
DRAWN_INTO = frozenset(("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_",
                        "geometric_"))  # fmt: skip
"""Operators that draw random numbers. A single number is drawn on cpu, because scripts often read its value."""
_MUTATED = re.compile(r"Tensor(?:\[\])?\([a-z]!\)\S* (\w+)")


@functools.cache
def _written(op: Any) -> tuple[int, ...]:
    """Return the positions of the arguments that an operator writes to, except ``out``."""
    if op.variant == 1:  # the in-place form of a functional operator
        return (0,)
    overload = op.overloads[0]
    names = set(_MUTATED.findall(overload.text))
    return tuple(i for i, name in enumerate(overload.argument_names) if name in names)


@functools.cache
def _takes_device(op: Any) -> bool:
    return any("device" in overload.argument_names for overload in op.overloads)


def _all(function: Callable[[Any], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return map_tensors(function, args), map_tensors(function, kwargs)


class PlanMode(mt.DispatchMode):
    """A mode that redirects every device to meta.

    Tensors with values known to the script, such as ``tensor([1, 2])`` or tensors of NumPy arrays, stay on cpu with
    their values. An operation on them and a tensor on meta has its result on meta. If an operation would write values
    from meta into a tensor on cpu, that tensor is moved to meta. If the tensor is a view, substitute values are written
    instead.
    """

    def __init__(self, values: Values) -> None:
        self.values = values
        self.meta = mt.device("meta")
        self.has_cpu = "cpu" in plugins.device_types()  # if not, small constants on meta have values, and nothing else
        self.handlers = {
            "item": self._item,
            "tolist": self._tolist,
            "_to_copy": self._move,
            "share_memory_": lambda op, args, kwargs: args[0],
        }

    def dispatch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        if sys._getframe(1).f_globals.get("__name__", "").startswith("metatensor.data"):
            return self.on_cpu(op, args, kwargs)  # samplers draw indices on cpu
        return self.run(op, args, kwargs)

    def on_cpu(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator unchanged."""
        return op(*args, **kwargs)

    def run(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator on meta."""
        handler = self.handlers.get(op.name)
        if handler is not None and args and isinstance(args[0], mt.Tensor) and args[0].is_meta:
            return handler(op, args, kwargs)
        if op.name in GIVEN and self.has_cpu:
            return self._given(op, args, kwargs, MOST_GIVEN)
        if op.name in DRAWN and self.has_cpu and not any(True for _ in tensors_in(args)):
            return self._given(op, args, kwargs, MOST_DRAWN if op.name == "randint" else 1)
        if op.name in DRAWN_INTO and self.has_cpu and type(args[0]) is mt.Tensor and args[0].numel() == 1 and args[0]._base is None:
            self._to_cpu(args[0])
        args, kwargs = self._placed(op, args, kwargs)
        args, kwargs = self._together(op, args, kwargs)
        try:
            return op(*args, **kwargs)
        except DataDependentError:
            if not self.values.replaces:
                raise
            self.values.requests.count()
            return bounds.result(op, args, kwargs, self.values)

    # Devices --------------------------------------------------------------------------

    def _placed(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Replace the device of a call, explicit or default, with meta."""
        if any(isinstance(value, mt.device) for value in args):
            args = tuple(self.meta if self._elsewhere(value) else value for value in args)
        elif _takes_device(op):
            device = kwargs.get("device")
            if device is not None:
                if self._elsewhere(device):
                    kwargs = {**kwargs, "device": self.meta}
            elif not any(True for _ in tensors_in(args)) and mt.get_default_device() != self.meta:
                kwargs = {**kwargs, "device": self.meta}
        return args, kwargs

    def _elsewhere(self, value: Any) -> bool:
        return isinstance(value, mt.device) and value.type != "meta"

    def _given(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], most: int) -> Any:
        """Create a tensor with known values on cpu, or on meta if it is large or another device is named."""
        if op.name == "_from_host":
            here = args[4].type in ("cpu", "meta") and math.prod(args[1]) <= most  # meta is the default
            return op(*args[:4], mt.device("cpu") if here else self.meta)
        device = kwargs.get("device")
        made = op(*args, **{**kwargs, "device": self.meta})
        if device is not None and device.type != "cpu" or made.numel() > most:
            return made
        return op(*args, **{**kwargs, "device": mt.device("cpu")})

    def _to_cpu(self, tensor: Any) -> None:
        if tensor.is_meta and not tensor.requires_grad:
            tensor.data = mt.empty(tuple(tensor.shape), dtype=tensor.dtype, device="cpu")

    # Tensors with and without data -------------------------------------------------------

    def _together(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Move the tensors of a call to meta.

        If the call writes to a view on cpu, instead replace each tensor on meta by one on cpu with substitute values.
        """
        places = {tensor.is_meta for tensor in tensors_in((args, tuple(kwargs.values())))}
        if len(places) < 2:
            return args, kwargs
        targets = [args[i] for i in _written(op) if i < len(args)]
        if "out" in kwargs:
            targets += kwargs["out"] if isinstance(kwargs["out"], (tuple, list)) else [kwargs["out"]]
        targets = [tensor for tensor in tensors_in(targets) if not tensor.is_meta]
        if any(tensor._base is not None for tensor in targets):
            if not self.values.replaces:
                next(tensor for tensor in tensors_in((args, tuple(kwargs.values()))) if tensor.is_meta).tolist()  # raises
            self.values.requests.count()
            return _all(self._stand_in, args, kwargs)
        for tensor in targets:
            with mt.no_grad():
                tensor.data = mt.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
        return _all(lambda tensor: tensor if tensor.is_meta else tensor.to(self.meta), args, kwargs)

    def _stand_in(self, tensor: Any) -> Any:
        return self.values.filled(tensor, index=True) if tensor.is_meta else tensor

    # Requests -----------------------------------------------------------------------

    def _item(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.values.item(args[0]) if self.values.replaces and not is_constant(args[0]) else op(*args)

    def _tolist(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.values.nested(args[0]) if self.values.replaces and not is_constant(args[0]) else op(*args)

    def _move(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Convert a tensor on meta. Moving it to another device returns it unchanged."""
        devices = [value for value in (*args[1:], kwargs.get("device")) if self._elsewhere(value)]
        others = [value for value in (*args[1:], *kwargs.values()) if value is not None and value is not False and value not in devices]
        if devices and all(value is True or value == args[0].dtype for value in others):
            return args[0]
        args, kwargs = self._placed(op, args, kwargs)
        return op(*args, **kwargs)
