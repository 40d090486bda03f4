"""The temporary tensors of reductions and element-wise operators."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops
from metatensor.rules.parts import parts

__all__: list[str] = []


@parts("softmax", "nn.functional.softmax", "log_softmax", "nn.functional.log_softmax")
def softmax(input: Any, dim: Any, *options: Any) -> Any:
    dtype = next((option for option in options if isinstance(option, mt.dtype)), None)
    converted = input if dtype is None else input.to(dtype)
    return ops.empty_like(converted)


@parts("nn.functional.softmin")
def softmin(input: Any, dim: Any, level: int, dtype: Any) -> Any:
    negative = -input
    return softmax(negative, dim, dtype)


@parts("float_power", "float_power.Tensor")
def float_power(input: Any, exponent: Any) -> Any:
    complexes = [x for x in (input, exponent) if isinstance(x, complex) or (isinstance(x, mt.Tensor) and x.is_complex())]
    wide = mt.complex128 if complexes else mt.float64
    base, power = (x.to(wide) if isinstance(x, mt.Tensor) else x for x in (input, exponent))
    return ops.pow(base, power)
