"""The temporary tensors of products of matrices."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradients import ops
from metatensor.rules.parts import parts

__all__: list[str] = []


@parts("nn.functional.bilinear")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> Any:
    made = input1.new_empty((*input1.shape[:-1], weight.shape[0]))
    return made if bias is None else made + bias
