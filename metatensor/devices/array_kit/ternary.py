"""Kernels of selection, clamping, interpolation and fused arithmetic."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.pointwise import in_dtype
from metatensor.devices.array_kit.registry import kernel


@kernel("where")
def where(kit: Any, out: Any, condition: Any, input: Any, other: Any) -> Any:
    if condition.dtype.kind != "b":
        condition = condition != 0
    dtype = out.dtype
    if getattr(input, "dtype", None) is not dtype:
        input = in_dtype(input, dtype)
    if getattr(other, "dtype", None) is not dtype:
        other = in_dtype(other, dtype)
    return kit.xp.where(condition, input, other)


@kernel("where.indices")
def where_indices(kit: Any, out: Any, condition: Any) -> Any:
    """Return one int64 array per dimension. A 0-d condition counts as 1-d."""
    return kit.xp.nonzero(kit.xp.atleast_1d(condition))


@kernel("masked_fill")
def masked_fill(kit: Any, out: Any, input: Any, mask: Any, value: Any) -> Any:
    value = in_dtype(value, out.dtype)
    if not kit.xp.may_share_memory(out, input):
        return kit.xp.where(mask, value, input)
    kit.xp.copyto(out, value, where=mask)       # in place, because several elements of `out` may share memory
    return None


@kernel("clamp")
def clamp(kit: Any, out: Any, input: Any, min: Any, max: Any) -> Any:
    result = in_dtype(input, out.dtype)
    if not hasattr(min, "shape") and not hasattr(max, "shape"):
        bounds = [None if bound is None else in_dtype(bound, out.dtype) for bound in (min, max)]
        kit.xp.clip(result, *bounds, out=out)
        return None
    if min is not None:
        result = kit.xp.maximum(result, in_dtype(min, out.dtype))
    if max is not None:
        result = kit.xp.minimum(result, in_dtype(max, out.dtype))
    return result


@kernel("clamp_min")
def clamp_min(kit: Any, out: Any, input: Any, min: Any) -> Any:
    return clamp(kit, out, input, min, None)


@kernel("clamp_max")
def clamp_max(kit: Any, out: Any, input: Any, max: Any) -> Any:
    return clamp(kit, out, input, None, max)


@kernel("lerp")
def lerp(kit: Any, out: Any, input: Any, end: Any, weight: Any) -> Any:
    """Interpolate from the nearer operand, so that weight 0 gives exactly ``input`` and weight 1 exactly ``end``."""
    xp = kit.xp
    weight = in_dtype(weight, out.dtype)
    step = end - input
    return xp.where(xp.absolute(weight) < 0.5, input + weight * step, end - step * (1 - weight))


@kernel("addcmul")
def addcmul(kit: Any, out: Any, input: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    dtype = out.dtype
    product = in_dtype(tensor1, dtype) * in_dtype(tensor2, dtype)
    return in_dtype(input, dtype) + (product if value == 1 else in_dtype(value, dtype) * product)


@kernel("addcdiv")
def addcdiv(kit: Any, out: Any, input: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    dtype = out.dtype
    quotient = in_dtype(tensor1, dtype) / in_dtype(tensor2, dtype)
    return in_dtype(input, dtype) + (quotient if value == 1 else in_dtype(value, dtype) * quotient)
