"""The tags of operator overloads, such as ``torch.ops.aten.add.Tensor.tags``."""

from __future__ import annotations

import enum
from typing import Any

from metatensor._core.op import operator_flags

__all__ = ["Tag", "is_pointwise", "tags_of"]

Tag = enum.IntEnum(  # type: ignore[misc]
    "Tag",
    "core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view "
    "maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order nondeterministic_bitwise "
    "nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy",
    start=0,
    module="torch",
)
Tag.__doc__ = "Properties of operators, under PyTorch's names. metatensor sets only those that `tags_of` derives."

# Operators whose kernels may write to the memory of an input (ELEMENTWISE), although an element of the result depends on
# other elements or on its position.
_NOT_POINTWISE = frozenset("""
    addbmm addmm addmv addr baddbmm cumprod cumsum feature_alpha_dropout feature_dropout index_add index_copy index_fill
    index_reduce masked_scatter nn.functional.dropout1d nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.feature_alpha_dropout put renorm scatter scatter_add scatter_reduce tril triu
""".split())


def is_pointwise(op: Any) -> bool:
    """Return whether each element of the result depends only on the elements at the same position of the inputs.

    The answer applies only to overloads whose results have the shape of the inputs, not to reductions such as
    ``max(input)``.
    """
    plain = op.functional
    return bool(plain.flags & operator_flags.ELEMENTWISE) and not plain.flags & operator_flags.VIEW and plain.name not in _NOT_POINTWISE


def tags_of(op: Any) -> list[Any]:
    """Return the tags that follow from an operator's flags and name. Other tags are never set."""
    flags = op.functional.flags
    found = []
    if flags & operator_flags.DATA:
        found.append(Tag.dynamic_output_shape)
    if is_pointwise(op):
        found.append(Tag.pointwise)
    if flags & operator_flags.RANDOM:
        found.append(Tag.nondeterministic_seeded)
    if op.functional.name == "item":
        found.append(Tag.data_dependent_output)
    return found
