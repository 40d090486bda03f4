"""Kernels of comparisons, logical and bitwise operators."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.pointwise import elementwise, in_common, in_dtype
from metatensor.devices.array_kit.registry import kernel

elementwise({"bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor"})


def _comparison(name: str, function: str) -> None:
    @kernel(name, ufunc=function)
    def run(kit: Any, out: Any, input: Any, other: Any) -> None:
        a, b = in_common(kit, input, other)
        if function.startswith("logical"):  # not every library supports complex numbers here
            a, b = (value != 0 if getattr(value, "dtype", out.dtype).kind == "c" else value for value in (a, b))
        if out.dtype.kind == "b":
            getattr(kit.xp, function)(a, b, out=out)
        else:
            out[...] = getattr(kit.xp, function)(a, b)


for _name, _function in (
    ("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
    ("ge", "greater_equal"), ("logical_and", "logical_and"), ("logical_or", "logical_or"),
    ("logical_xor", "logical_xor"),
):  # fmt: skip
    _comparison(_name, _function)


@kernel("isclose")
def isclose(kit: Any, out: Any, input: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    xp = kit.xp
    close = input == other
    if input.dtype.kind in "fc" or rtol or atol:
        a, b = input, other
        if a.dtype.kind not in "fc":
            a, b = a.astype("f8"), b.astype("f8")
        distance = xp.absolute(a - b)
        close = close | (xp.isfinite(distance) & (distance <= atol + rtol * xp.absolute(b)))
    if equal_nan:
        close = close | ((input != input) & (other != other))
    return close


@kernel("bitwise_left_shift")
def bitwise_left_shift(kit: Any, out: Any, input: Any, other: Any) -> Any:
    """Shift left. A count that is negative or at least the number of bits gives 0."""
    a, b = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    bits = out.dtype.itemsize * 8
    return kit.xp.where((b < 0) | (b >= bits), out.dtype.type(0), kit.xp.left_shift(a, b & (bits - 1)))


@kernel("bitwise_right_shift")
def bitwise_right_shift(kit: Any, out: Any, input: Any, other: Any) -> Any:
    """Shift right. A count that is negative or at least the number of bits leaves only the sign bit."""
    xp = kit.xp
    a, b = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    bits = out.dtype.itemsize * 8
    return xp.where((b < 0) | (b >= bits), (-(a < 0).astype(out.dtype)), xp.right_shift(a, b & (bits - 1)))


@kernel("isin", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(kit: Any, out: Any, elements: Any, test_elements: Any, assume_unique: bool, invert: bool) -> Any:
    """Test membership. NaN is never found, even if ``test_elements`` contains NaN."""
    a, b = in_common(kit, elements, test_elements)
    return kit.xp.isin(kit.xp.asarray(a), kit.xp.asarray(b), invert=invert)
