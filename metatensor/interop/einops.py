"""einops on metatensor's tensors: importing this module is all.

    import einops
    import metatensor.interop.einops

    einops.rearrange(mt.empty(2, 3, 4, device="meta"), "a b c -> (a b) c")

einops finds its backends among the subclasses of its `AbstractBackend`, as its documentation of backends says. Code that
uses einops with PyTorch, its layers too, runs with `metatensor.torch_api` and does not need this.
"""

from __future__ import annotations

from typing import Any

from einops._backends import AbstractBackend

import metatensor as mt

__all__ = ["MetatensorBackend"]


class MetatensorBackend(AbstractBackend):
    """What einops asks of a library of tensors."""

    framework_name = "metatensor"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether it is one of ours."""
        return isinstance(tensor, mt.Tensor)

    def from_numpy(self, x: Any) -> Any:
        """A tensor over an array."""
        return mt.from_numpy(x)

    def to_numpy(self, x: Any) -> Any:
        """An array of a tensor with data."""
        return x.detach().cpu().numpy()

    def arange(self, start: int, stop: int) -> Any:
        """Whole numbers."""
        return mt.arange(start, stop, dtype=mt.int64)

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        """min, max, sum, mean, prod, any or all over some axes."""
        if operation in ("min", "max"):
            return getattr(x, f"a{operation}")(dim=axes)
        if operation in ("sum", "mean"):
            return getattr(x, operation)(dim=axes)
        for axis in sorted(axes, reverse=True):
            x = getattr(x, operation)(dim=axis)
        return x

    def transpose(self, x: Any, axes: Any) -> Any:
        """The axes in another order."""
        return x.permute(axes)

    def stack_on_zeroth_dimension(self, tensors: list) -> Any:
        """Tensors along a new first axis."""
        return mt.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """A new axis of size 1."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
        """New axes along which the tensor is repeated, without a copy."""
        sizes = [-1] * n_axes
        for position, length in pos2len.items():
            x = x.unsqueeze(position)
            sizes[position] = length
        return x.expand(sizes)

    def tile(self, x: Any, repeats: Any) -> Any:
        """The tensor over and over."""
        return x.repeat(repeats)

    def concat(self, tensors: list, axis: int) -> Any:
        """Tensors one after the other."""
        return mt.cat(tensors, dim=axis)

    def is_float_type(self, x: Any) -> bool:
        """Whether it holds floating-point numbers."""
        return bool(x.is_floating_point())

    def einsum(self, pattern: str, *x: Any) -> Any:
        """A sum of products."""
        return mt.einsum(pattern, *x)
