"""einops for metatensor's tensors. Importing this module registers the backend.

    import einops
    import metatensor as mt
    import metatensor.interop.einops

    einops.rearrange(mt.empty(2, 3, 4, device="meta"), "a b c -> (a b) c").shape  # metatensor.Size([6, 4])

einops finds its backends among the subclasses of `AbstractBackend`. Code that uses einops with PyTorch, including
`einops.layers.torch`, runs with `metatensor.torch_api` and does not need this module.
"""

from __future__ import annotations

from typing import Any

from einops._backends import AbstractBackend

import metatensor as mt

__all__ = ["MetatensorBackend"]


class MetatensorBackend(AbstractBackend):
    """The einops backend for metatensor."""

    framework_name = "metatensor"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Return whether `tensor` is a metatensor tensor."""
        return isinstance(tensor, mt.Tensor)

    def from_numpy(self, x: Any) -> Any:
        """Return a tensor over the memory of a NumPy array."""
        return mt.from_numpy(x)

    def to_numpy(self, x: Any) -> Any:
        """Return the values of a tensor as a NumPy array. The tensor is copied to cpu if necessary."""
        return x.detach().cpu().numpy()

    def arange(self, start: int, stop: int) -> Any:
        """Return the integers from `start` up to, but not including, `stop`, as an int64 vector."""
        return mt.arange(start, stop, dtype=mt.int64)

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        """Reduce `x` over `axes` with min, max, sum, mean, prod, any or all."""
        if operation in ("min", "max"):
            return getattr(x, f"a{operation}")(dim=axes)
        if operation in ("sum", "mean"):
            return getattr(x, operation)(dim=axes)
        for axis in sorted(axes, reverse=True):
            x = getattr(x, operation)(dim=axis)
        return x

    def transpose(self, x: Any, axes: Any) -> Any:
        """Return a view of `x` with its axes in the given order."""
        return x.permute(axes)

    def stack_on_zeroth_dimension(self, tensors: list) -> Any:
        """Stack tensors along a new first axis."""
        return mt.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """Return a view of `x` with a new axis of size 1."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
        """Return a view of `x` with new axes, along which it is repeated."""
        sizes = [-1] * n_axes
        for position, length in pos2len.items():
            x = x.unsqueeze(position)
            sizes[position] = length
        return x.expand(sizes)

    def tile(self, x: Any, repeats: Any) -> Any:
        """Repeat `x` along each axis."""
        return x.repeat(repeats)

    def concat(self, tensors: list, axis: int) -> Any:
        """Concatenate tensors along an axis."""
        return mt.cat(tensors, dim=axis)

    def is_float_type(self, x: Any) -> bool:
        """Return whether `x` is floating-point."""
        return bool(x.is_floating_point())

    def einsum(self, pattern: str, *x: Any) -> Any:
        """Return the Einstein sum of the tensors."""
        return mt.einsum(pattern, *x)
