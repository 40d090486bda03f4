"""The table of operators, and `Node`, which gives an operator access to its node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.dtypes import held_dtype
from metatensor.program.onnx.importing.values import Known, OnnxError, beside_the_run, read
from metatensor.program.onnx.importing.values import plain as plain_tensor

__all__ = ["CONTRIB", "TABLE", "Node", "Operator", "operator", "plain"]

CONTRIB = "com.microsoft"


class Operator(NamedTuple):
    """How the nodes of one type are computed."""

    fn: Callable[..., Any]
    """Takes the `Node` and the inputs. Returns an output, or a tuple of outputs. A list is a sequence.

    If it returns NotImplemented, the operator's function body in the ``onnx`` package is run instead.
    """
    host: frozenset[int] | bool
    """Positions of the inputs that are read as numbers: they are not moved to the device. True: all."""
    folds: bool
    """Whether the node is computed on the host if all its inputs are known."""
    moves: bool
    """Whether it only moves elements, so that it works for types smaller than a byte as well."""
    small: bool
    """Whether it receives tensors of such types as `Small`."""


TABLE: dict[tuple[str, str], Operator] = {}
"""Operators by domain and type."""


def operator(
    *names: str, host: tuple[int, ...] | bool = (), folds: bool = True, moves: bool = False, small: bool = False, domain: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function as an operator."""
    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[domain, name] = Operator(fn, host if isinstance(host, bool) else frozenset(host), folds, moves, small)
        return fn

    return enter


def plain(table: dict[str, Callable[..., Any]], domain: str = "", **options: Any) -> None:
    """Register functions that take only the inputs."""
    for name, fn in table.items():
        operator(name, domain=domain, **options)(lambda node, *inputs, fn=fn: fn(*inputs))


class Node:
    """A node that is being computed: its attributes, and the device where results are made."""

    __slots__ = ("device", "run", "step")

    def __init__(self, step: Any, run: Any, device: mt.device) -> None:
        self.step, self.run, self.device = step, run, device

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.step.attributes.get(name, default)

    def need(self, name: str) -> Any:
        """Return an attribute that must be there."""
        try:
            return self.step.attributes[name]
        except KeyError:
            raise OnnxError(f"the attribute {name!r} is missing") from None

    @property
    def version(self) -> int:
        """The version of the operator set."""
        found: int = self.step.version
        return found

    @property
    def outputs(self) -> int:
        """The number of outputs; unnamed ones at the end are not counted."""
        return len(self.step.outputs)

    def wants(self, index: int) -> bool:
        """Return whether an output has a name."""
        return index < len(self.step.outputs) and bool(self.step.outputs[index])

    def ints(self, value: Any, what: str) -> list[int]:
        """Return the elements of a tensor of integers with one dimension."""
        found = read(value, what)
        flat = found if isinstance(found, list) else [found]
        if any(type(n) not in (int, bool) for n in flat):
            raise OnnxError(f"{what} must be a list of integers")
        return [int(n) for n in flat]

    def numbers(self, value: Any, what: str) -> list[float]:
        """Return the elements of a tensor with one dimension."""
        found = read(value, what)
        flat = found if isinstance(found, list) else [found]
        if any(isinstance(n, list) for n in flat):
            raise OnnxError(f"{what} must have one dimension")
        return flat

    def number(self, value: Any, what: str, default: Any = None) -> Any:
        """Return the only element of a tensor, or the default if there is no tensor."""
        if value is None:
            return default
        found = read(value, what)
        while isinstance(found, list):
            if len(found) != 1:
                raise OnnxError(f"{what} must have one element")
            found = found[0]
        return found

    def axes(self, value: Any, default: Any = None, name: str = "axes") -> Any:
        """Return axes, which are an input in newer versions and an attribute in older ones."""
        if value is not None:
            return self.ints(value, name)
        return self.get(name, default)

    def dtype(self, name: str, default: int | None = None) -> mt.dtype:
        """Return the dtype that an attribute names."""
        kind = self.get(name, default)
        if kind is None:
            raise OnnxError(f"the attribute {name!r} is missing")
        return held_dtype(kind)

    def tensor(self, numbers: Any, dtype: mt.dtype) -> Tensor:
        """Return a tensor of numbers on the device."""
        if self.device.type == "meta":
            return plain_tensor(self.known(numbers, dtype).on(self.device))  # a trace must know the values
        return mt.tensor(numbers, dtype=dtype, device=self.device)

    def known(self, numbers: Any, dtype: mt.dtype = mt.int64) -> Known:
        """Return a tensor whose values are known."""
        with beside_the_run():
            return Known(mt.tensor(numbers, dtype=dtype, device="cpu"))

    def lift(self, value: Any) -> Any:
        """Return a value on the device of the node."""
        return value.on(self.device) if isinstance(value, Known) else value
