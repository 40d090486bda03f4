"""The tags of operator overloads, such as ``torch.ops.aten.add.Tensor.tags``."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["Tag", "tags_of"]

Tag = enum.IntEnum(  # type: ignore[misc]
    "Tag",
    "core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view "
    "maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order nondeterministic_bitwise "
    "nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy",
    start=0,
    module="torch",
)
Tag.__doc__ = "Properties of operators, under PyTorch's names. metatensor sets only those that `tags_of` derives."

_DATA, _ELEMENTWISE, _RANDOM = 16, 32, 64  # values of OpFlag in _core/op.pxd


def tags_of(op: Any) -> list[Any]:
    """Return the tags that follow from an operator's flags and name. Other tags are never set."""
    flags = op.functional.flags
    found = []
    if flags & _DATA:
        found.append(Tag.dynamic_output_shape)
    if flags & _ELEMENTWISE:
        found.append(Tag.pointwise)
    if flags & _RANDOM:
        found.append(Tag.nondeterministic_seeded)
    if op.functional.name == "item":
        found.append(Tag.data_dependent_output)
    return found
