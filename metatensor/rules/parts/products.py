"""The temporary tensors of matrix products."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradients import ops
from metatensor.rules.parts import parts, strided_parts

__all__: list[str] = []


@strided_parts("nn.functional.linear")
def linear(input: Any, weight: Any, bias: Any) -> Any:
    """Copy an input that is not contiguous, and add the bias after the product."""
    if input.dim() < 3 or weight.dim() != 2:
        return None
    product = input.matmul(weight.t())
    return product if bias is None else product + bias


@parts("nn.functional.bilinear")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> Any:
    made = input1.new_empty((*input1.shape[:-1], weight.shape[0]))
    return made if bias is None else made + bias


@parts("_fft_c2r")
def fft_c2r(input: Any, dims: Any, norm: int, last: int) -> Any:
    resolved = input.clone() if input.is_conj() else input
    shape = list(input.shape)
    shape[dims[-1]] = last
    return ops.empty(shape, dtype=input.dtype.to_real(), device=input.device), resolved
