"""Layers that extract sliding blocks from an image or add them back into one."""

from __future__ import annotations

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """Extract the sliding blocks of an image, as columns.

    An input (N, C, H, W) or (C, H, W) becomes (N, C * kernel_height * kernel_width, L) or the same without N. L is the
    number of positions of a convolution with the same sizes.

    Parameters
    ----------
    kernel_size : int or pair of int
        Size of a block.
    dilation : int or pair of int
        Distance between neighbouring elements of a block. Default 1.
    padding : int or pair of int
        Zeros added on all sides of the image. Default 0.
    stride : int or pair of int
        Distance between neighbouring blocks. Default 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Unfold(2, stride=2)(mt.empty(1, 3, 4, 6)).shape
    metatensor.Size([1, 12, 6])
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        kernel_size: int | tuple[int, ...],
        dilation: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        stride: int | tuple[int, ...] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Fold(Module):
    """Add columns of sliding blocks back into an image: the adjoint of `Unfold`.

    An input ``(N, C * kernel_height * kernel_width, L)``, or without N, becomes ``(N, C, *output_size)``. Elements of
    overlapping blocks are summed.

    Parameters
    ----------
    output_size : int or pair of int
        Height and width of the image.
    kernel_size, dilation, padding, stride : int or pair of int
        As in `Unfold`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Fold((4, 6), 2, stride=2)(mt.empty(1, 12, 6)).shape
    metatensor.Size([1, 3, 4, 6])
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        output_size: int | tuple[int, ...],
        kernel_size: int | tuple[int, ...],
        dilation: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        stride: int | tuple[int, ...] = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
