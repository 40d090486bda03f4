"""Operators that take an index on cpu together with tensors on meta.

Meta stands for tensors of any device, and what runs on meta has to run on a device, so tensors must be on one device. The
exception is an idiom of code written for PyTorch: a table on meta, looked up with indices that were computed on cpu. The
result is on meta. `embedding`, `index_select`, `gather` and ``x[index]`` choose their device themselves; the operators
listed here follow the same rule.
"""

from typing import Any

__all__ = ["CPU_INDICES", "only_indices_on_cpu"]

CPU_INDICES = {
    **dict.fromkeys(
        "put put_ scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take".split(), 1
    ),
    "nn.functional.embedding_bag": 0,
}
"""The number of the index among an operator's tensors."""


def only_indices_on_cpu(name: str, tensors: list[Any]) -> bool:
    """Return whether all tensors of operator `name` are on meta, except for an integer index and 0-d tensors on cpu."""
    place = CPU_INDICES.get(name)
    return place is not None and all(
        t.device.type == "meta"
        or (t.device.type == "cpu" and (not t.dim() or (i == place and not t.is_floating_point() and not t.is_complex())))
        for i, t in enumerate(tensors)
    )
