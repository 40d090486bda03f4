"""Decompositions, which compute ops by other ops on devices without a kernel for them.

`TABLE` maps an op's qualified name (``"add"``, ``"max.dim"``) to a function that takes the op's arguments in schema
order and returns the op's results. A function for a mutating op writes to its first argument and returns it. The
dispatcher checks results against the shape and dtype of the meta kernel. The first call of `decompositions` fills the
table from the modules of `metatensor.rules.decomposed`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from metatensor._core.nested import map_tensors

__all__ = ["TABLE", "decomposition", "decompositions", "numeric"]

TABLE: dict[str, Callable[..., Any]] = {}
_lock = threading.RLock()
_loaded = False


def decompositions() -> dict[str, Callable[..., Any]]:
    """Return `TABLE`, after loading metatensor's own decompositions."""
    global _loaded
    with _lock:
        if not _loaded:
            _loaded = True
            from metatensor.rules import decomposed

            decomposed.load()
    return TABLE


def decomposition(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function for the ops ``names``. Raise RuntimeError if a name is already registered."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in TABLE:
                raise RuntimeError(f"{name!r} already has a decomposition")
            TABLE[name] = function
        return function

    return register


def numeric(*names: str, complex: bool = False, half: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function like `decomposition`, for formulas that are evaluated in several steps.

    Parameters
    ----------
    complex : bool
        Whether the formula holds for complex numbers. If False, calls with complex tensors run on the cpu if the device
        has a fallback, else they raise NotImplementedError. Default: False.
    half : bool
        Whether to compute float16 and bfloat16 in float32 and round once at the end. If another argument is a float32
        or float64 tensor with dimensions, no conversion is needed, because the result has that dtype. Default: True.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            decomposition(name)(_prepared(name, function, complex, half))
        return function

    return register


def _prepared(name: str, function: Callable[..., Any], takes_complex: bool, half: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def prepared(*args: Any) -> Any:
        import metatensor as mt

        tensors = [item for value in args for item in (value if isinstance(value, (list, tuple)) else (value,))
                   if isinstance(item, mt.Tensor)]  # fmt: skip
        if not takes_complex and any(t.dtype.is_complex for t in tensors):
            return _on_cpu(name, tensors[0].device, args)
        low = next((t.dtype for t in tensors if t.dtype in (mt.float16, mt.bfloat16)), None) if half else None
        if low is None or any(t.dtype in (mt.float32, mt.float64) and t.dim() for t in tensors):
            return function(*args)
        result = function(*map_tensors(lambda t: t.to(mt.float32) if t.dtype is low else t, args))
        return map_tensors(lambda t: t.to(low) if t.dtype is mt.float32 else t, result)

    return prepared


def _on_cpu(name: str, device: Any, args: tuple[Any, ...]) -> Any:
    """Compute a call on the cpu and move the results back, if the device has a fallback."""
    from metatensor._core.device import backend_for
    from metatensor._core.op import registry

    if backend_for(device.type).fallback is None:
        raise NotImplementedError(f"{name}: the device {device} has no kernel, and the decomposition supports only "
                                  "real numbers")
    op = registry.get(name) or registry[name.rpartition(".")[0]]
    return map_tensors(lambda t: t.to(device), op(*map_tensors(lambda t: t.cpu(), args)))


@decomposition("copy_")
def copy_(dst: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy values from one tensor to another, through host memory if the device types differ."""
    from metatensor._core.device import backend_for

    backend = backend_for(dst.device)
    if dst.device.type != src.device.type:
        import metatensor

        # Transfer in the source's dtype and without broadcasting. Then the target device converts and expands.
        moved = metatensor.empty(src.shape, dtype=src.dtype, device=dst.device)
        if src.numel():
            backend.from_host(moved, backend_for(src.device).to_host(src))
        src = moved
    backend.copy(dst, src.expand(dst.shape))
    return dst


@decomposition("clone")
def clone(input: Any, memory_format: Any = None) -> Any:
    import metatensor

    return metatensor.empty_like(input, memory_format=memory_format).copy_(input)


@decomposition("_to_copy", "_to_copy.move")
def to_copy(input: Any, *options: Any) -> Any:
    import metatensor

    dtype = options[0] if len(options) == 4 else input.dtype
    device, memory_format = options[-3], options[-1]
    return metatensor.empty_like(input, dtype=dtype, device=device or input.device, memory_format=memory_format).copy_(input)
