"""The values of names in an ONNX graph during a run: tensors, tensors with known values, small types, unknowns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.modes import _disable_modes, _restore_modes
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.dtypes import element_type, type_name

__all__ = ["LIMIT", "Known", "OnnxError", "Small", "Texts", "Unknown", "beside_the_run", "described", "element_kind", "lifts", "plain",
           "read"]  # fmt: skip

LIMIT = 1 << 14
"""Largest number of elements of a tensor that is computed on the host if all its inputs are known."""


class OnnxError(ValueError):
    """Raised where an ONNX model cannot be run: it is damaged, or a node does not fit its inputs."""


class Small:
    """A tensor of a type smaller than a byte, one element per byte."""

    __slots__ = ("kind", "tensor")

    def __init__(self, tensor: Tensor, kind: int) -> None:
        self.tensor, self.kind = tensor, kind


class Known:
    """A tensor whose values can be read on the host, whatever the device of the run is."""

    __slots__ = ("_lifted", "folds", "host")

    def __init__(self, host: Tensor | Small, folds: bool = True) -> None:
        self.host = host
        self.folds = folds
        """Whether nodes that depend on nothing else are computed on the host."""
        self._lifted: dict[str, Any] = {}

    def on(self, device: mt.device) -> Tensor | Small:
        """Return the tensor on a device. The same object is returned each time."""
        key = str(device)
        found = self._lifted.get(key)
        if found is None:
            with beside_the_run():
                found = Small(plain(self.host).to(device), self.host.kind) if isinstance(self.host, Small) else self.host.to(device)
            self._lifted[key] = found
        log = getattr(_lifts, "log", None)
        if log is not None:
            log.append((plain(found), plain(self.host)))
        return found


def plain(value: Tensor | Small) -> Tensor:
    """Return the tensor that has the elements."""
    return value.tensor if isinstance(value, Small) else value


class Unknown:
    """The value of a name about which nothing is known, and why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


_lifts = threading.local()


@contextmanager
def lifts() -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect the tensors that `Known.on` returns in this thread, each with the host tensor that has the values."""
    before = getattr(_lifts, "log", None)
    _lifts.log = []
    try:
        yield _lifts.log
    finally:
        _lifts.log = before


@contextmanager
def beside_the_run() -> Iterator[None]:
    """Suspend modes and gradients, so that computations on the host are not part of a capture or an estimate."""
    level = _disable_modes()
    try:
        with mt.no_grad():
            yield
    finally:
        _restore_modes(level)


def read(value: Any, what: str) -> Any:
    """Return the elements of a value as a nested list, or as a number.

    Raises
    ------
    DataDependentError
        If the tensor is on meta.
    OnnxError
        If it has more than `LIMIT` elements.
    """
    tensor = value.host if isinstance(value, Known) else value
    if isinstance(tensor, Small):
        tensor = tensor.tensor
    if not isinstance(tensor, Tensor):
        raise OnnxError(f"{what} must be a tensor, got {described(value)}")
    if tensor.numel() > LIMIT:
        raise OnnxError(f"{what} has {tensor.numel():,} elements; at most {LIMIT:,} are read")
    if tensor.is_meta:
        raise DataDependentError(f"{what} depends on the values of a tensor of shape {list(tensor.shape)} on meta, which holds no data")
    if isinstance(value, Known):
        with beside_the_run():
            return tensor.tolist()
    return tensor.tolist()


def element_kind(value: Any) -> int:
    """Return the ONNX element type of a tensor."""
    if isinstance(value, Known):
        value = value.host
    if isinstance(value, Small):
        return value.kind
    if isinstance(value, Tensor):
        return element_type(value.dtype)
    raise OnnxError(f"expected a tensor, got {described(value)}")


def described(value: Any) -> str:
    """Return the type of a value for messages, such as ``FLOAT[2,3]``."""
    if isinstance(value, Known):
        value = value.host
    if isinstance(value, (Tensor, Small)):
        tensor = value.tensor if isinstance(value, Small) else value
        name = type_name(value.kind) if isinstance(value, Small) else tensor.dtype.name
        return f"{name}[{','.join(map(str, tensor.shape))}]"
    if isinstance(value, (list, tuple)):
        return f"a sequence of {len(value)}"
    if isinstance(value, Unknown):
        return "an unknown value"
    return "nothing" if value is None else type(value).__name__


class Texts:
    """A tensor of strings, which no operator here computes with."""

    __slots__ = ("shape", "texts")

    def __init__(self, texts: list[str], shape: tuple[int, ...]) -> None:
        self.texts, self.shape = texts, shape
