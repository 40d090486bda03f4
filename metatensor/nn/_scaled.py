"""Products of 8-bit factors with scales, as ``nn.functional.scaled_mm`` describes them."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

import metatensor as mt

__all__ = ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(Enum):
    """Which elements of a factor have one scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """In which order scales lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _only(value: Any) -> Any:
    """The one of a list, or what is no list. NotImplementedError for several, which are scales of scales."""
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) != 1:
        raise NotImplementedError("scaled_mm: scales of scales are not supported")
    return value[0]


def scaled_mm(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Any = None,
    output_dtype: Any = mt.bfloat16,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:
    """``mat_a @ mat_b`` times a scale for each factor, or for each row of one and each column of the other.

    NotImplementedError for scales of blocks.
    """
    for recipe, swizzle in ((scale_recipe_a, swizzle_a), (scale_recipe_b, swizzle_b)):
        if _only(recipe) not in (ScalingType.TensorWise, ScalingType.RowWise):
            raise NotImplementedError(f"scaled_mm: scales by {_only(recipe)} are not supported")
        if swizzle is not None and _only(swizzle) is not SwizzleType.NO_SWIZZLE:
            raise NotImplementedError(f"scaled_mm: scales in the order {_only(swizzle)} are not supported")
    return mt._scaled_mm(mat_a, mat_b, _only(scale_a), _only(scale_b), bias, None, output_dtype, use_fast_accum)


def scaled_grouped_mm(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Any = None,
    offs: Any = None,
    output_dtype: Any = mt.bfloat16,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> NoReturn:
    """NotImplementedError: groups of 8-bit factors are not supported."""
    raise NotImplementedError("scaled_grouped_mm: groups of 8-bit factors are not supported")
