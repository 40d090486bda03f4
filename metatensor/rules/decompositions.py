"""Ops computed by other ops, on devices that have no kernel for them.

`TABLE` maps an op's qualified name (``"add"``, ``"max.dim"``) to a function that takes the op's arguments in
schema order and returns what the op returns. The dispatcher holds the result against the meta kernel's shape and
dtype. A function for a mutating op writes to its first argument and returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["TABLE", "decomposition"]

TABLE: dict[str, Callable[..., Any]] = {}


def decomposition(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function for the ops ``names``. Raises RuntimeError for a name that is taken."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in TABLE:
                raise RuntimeError(f"{name!r} has a decomposition already")
            TABLE[name] = function
        return function

    return register


@decomposition("copy_")
def copy_(dst: Any, src: Any, non_blocking: bool = False) -> Any:
    """Values from one tensor to another: within a device by the device itself, between devices by way of the host."""
    from metatensor._core.device import backend_for

    backend = backend_for(dst.device)
    if dst.device.type != src.device.type:
        import metatensor

        # Sent in the source's dtype and converted where it arrives, unexpanded where it is broadcast.
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


@decomposition("_grouped_mm")
def grouped_mm(input: Any, mat2: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """One product for each group; rows and columns that are in none are 0."""
    import metatensor

    if offs is None:
        return input @ mat2
    ends = offs.tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    if input.dim() == mat2.dim():
        return metatensor.stack([input[:, start:end] @ mat2[start:end] for start, end in spans])
    out = input.new_zeros((input.shape[-2], mat2.shape[-1]))
    for group, (start, end) in enumerate(spans):
        if input.dim() == 2:
            out[start:end] = input[start:end] @ mat2[group]
        else:
            out[:, start:end] = input[group] @ mat2[:, start:end]
    return out
