"""Matrix products of scaled 8-bit operands: `scaled_mm` and the enumerations of its arguments."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

import metatensor as mt

__all__ = ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(Enum):
    """Granularity of scales: which elements of a matrix share one scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """Memory order of scales."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _only(value: Any) -> Any:
    """Return the only element of a list. Return a value that is not a list unchanged.

    Raise NotImplementedError for several elements, which mean nested scales.
    """
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) != 1:
        raise NotImplementedError("scaled_mm: nested scales are not supported")
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
    """Return the product of two scaled 8-bit matrices.

    Parameters
    ----------
    mat_a : Tensor
        8-bit matrix (M, K).
    mat_b : Tensor
        8-bit matrix (K, N).
    scale_a, scale_b : Tensor or list of one Tensor
        Scales of the matrices: a single one, or one per row of ``mat_a`` and per column of ``mat_b``.
    scale_recipe_a, scale_recipe_b : ScalingType or list of one
        ``TensorWise`` or ``RowWise``.
    swizzle_a, swizzle_b : SwizzleType, optional
        Only ``NO_SWIZZLE`` is supported.
    bias : Tensor, optional
        Added to the product.
    output_dtype : dtype
        Default bfloat16.
    contraction_dim
        Ignored.
    use_fast_accum : bool
        Passed to the operator. Default False.

    Raises
    ------
    NotImplementedError
        For scales of blocks, nested scales and other memory orders of scales.
    """
    for recipe, swizzle in ((scale_recipe_a, swizzle_a), (scale_recipe_b, swizzle_b)):
        if _only(recipe) not in (ScalingType.TensorWise, ScalingType.RowWise):
            raise NotImplementedError(f"scaled_mm: the recipe {_only(recipe)} of scales is not supported")
        if swizzle is not None and _only(swizzle) is not SwizzleType.NO_SWIZZLE:
            raise NotImplementedError(f"scaled_mm: the memory order {_only(swizzle)} of scales is not supported")
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
    """Raise NotImplementedError: grouped products of 8-bit matrices are not supported."""
    raise NotImplementedError("scaled_grouped_mm: groups of 8-bit factors are not supported")
