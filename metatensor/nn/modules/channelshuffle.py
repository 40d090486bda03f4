"""The channel shuffle layer."""

from __future__ import annotations

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleave groups of channels: channels (g, C / g) are transposed to (C / g, g), with g = ``groups``.

    Input and output have shape (N, C, ...) (Zhang et al., 2018).

    Parameters
    ----------
    groups : int
        Number of groups. It must divide C.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.arange(4, device="cpu").view(1, 4, 1)
    >>> mt.nn.ChannelShuffle(2)(x).flatten()
    tensor([0, 2, 1, 3])
    """

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
