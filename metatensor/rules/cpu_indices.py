"""Operators that accept an index on the cpu together with tensors on meta.

In general all tensors of a call must be on the same device. This includes meta, because a meta tensor represents a
tensor on some device, and code that runs on meta should also run there. Code written for PyTorch needs one exception:
it looks up elements of a table on meta with indices that are on the cpu. The result is on meta. `embedding`,
`index_select`, `gather` and ``x[index]`` choose their device themselves. The operators listed here follow the same
rule.
"""

from typing import Any

__all__ = ["CPU_INDICES", "only_indices_on_cpu"]

CPU_INDICES = {
    **dict.fromkeys(
        "put put_ scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take".split(), 1
    ),
    "nn.functional.embedding_bag": 0,
}
"""The position of the index among the tensors of each operator."""


def only_indices_on_cpu(name: str, tensors: list[Any]) -> bool:
    """Return whether all tensors of operator `name` are on meta, except for an integer index and 0-d tensors on cpu."""
    place = CPU_INDICES.get(name)
    return place is not None and all(
        t.device.type == "meta"
        or (t.device.type == "cpu" and (not t.dim() or (i == place and not t.is_floating_point() and not t.is_complex())))
        for i, t in enumerate(tensors)
    )
