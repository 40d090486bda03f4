"""Operators whose cpu arguments may go with meta ones, which stand for tensors of any device.

As in PyTorch, the others insist on one device: there a mistake shows on meta already. The result is on meta. A row is an
operator's name and which of its tensors may be on cpu, by number; most say all but the first.
"""

from typing import Any

__all__ = ["GUESTS", "are_guests"]

_BUT_THE_FIRST = range(1, 64)

GUESTS = {
    **dict.fromkeys(
        """
        add_ baddbmm bucketize cdist conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
        cross div_ linalg.cross masked_fill_ mm mul_ nn.functional.bilinear nn.functional.conv1d
        nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
        nn.functional.conv_transpose3d scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ sub_ take tensordot
        """.split(),
        _BUT_THE_FIRST,
    ),
    **dict.fromkeys(("bmm", "einsum", "matmul"), range(64)),
    "addmm": (2,),
    "nn.functional.embedding_bag": (0,),
    "nn.functional.linear": (1,),
    "searchsorted": (0,),
}
"""Which tensors of an operator may be on cpu where the others are on meta."""


def are_guests(name: str, tensors: list[Any]) -> bool:
    """Whether an operator's tensors are all on meta, but for cpu ones that it lets go with these."""
    places = GUESTS.get(name, ())
    return all(
        t.device.type == "meta" or t.device.type == "cpu" and (i in places or not t.dim()) for i, t in enumerate(tensors)
    )
