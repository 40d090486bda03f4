"""Layers that merge or split dimensions."""

from __future__ import annotations

import metatensor as mt
from metatensor.nn.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge a range of dimensions into one.

    Parameters
    ----------
    start_dim, end_dim : int
        First and last dimension to merge. The defaults, 1 and -1, merge all dimensions but the first.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Flatten()(mt.empty(8, 3, 4, 4)).shape
    metatensor.Size([8, 48])
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split one dimension into several.

    Parameters
    ----------
    dim : int
        Dimension to split.
    unflattened_size : tuple or list of int
        Sizes of the new dimensions. One of them may be -1, which stands for the size that fits.

    Raises
    ------
    TypeError
        If ``dim`` is not an int or ``unflattened_size`` is not a tuple or list of ints.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Unflatten(1, (3, -1))(mt.empty(8, 48)).shape
    metatensor.Size([8, 3, 16])
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: tuple[int, ...] | list[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an int, not {dim!r}")
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise TypeError(f"Unflatten: the sizes must be a tuple of ints, not {unflattened_size!r}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
