"""Padding layers for the last 1, 2 or 3 dimensions."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module
from metatensor.nn.modules.utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_sides = {n: _ntuple(2 * n, f"_sides{n}") for n in (1, 2, 3)}


class _PadNd(Module):
    """Base of padding layers.

    ``padding`` is one size for all sides, or a tuple (left, right), (left, right, top, bottom) or (left, right, top,
    bottom, front, back) for 1, 2 or 3 dimensions. The input has ``_dims + 1`` dimensions, one more with a batch.
    """

    __constants__ = ["padding"]
    _dims: int
    _mode: str

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = _sides[self._dims](padding)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]
    _mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise ValueError(
                f"{type(self).__name__}: expected {self._dims + 1} or {self._dims + 2} dimensions, "
                f"got shape {list(input.shape)}"
            )
        return super().forward(input)


class _ReflectionPadNd(_PadNd):
    """Base of layers that pad by reflection at the edge element."""

    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    """Base of layers that pad by repeating the edge element."""

    _mode = "replicate"


def _family(base: type, name: str, what: str) -> list[Any]:
    """Return the classes of one padding mode for 1, 2 and 3 dimensions."""
    made = []
    for n in (1, 2, 3):
        sizes = f"{2 * n} sizes (left, right{', top, bottom' if n > 1 else ''}{', front, back' if n > 2 else ''})"
        fields: dict[str, Any] = {
            "__module__": __name__,
            "__doc__": f"Pad the last {n} dimension{'s' * (n > 1)} {what}.\n\n"
            f"    The input has shape (N, C, {('L', 'H, W', 'D, H, W')[n - 1]}), or the same without N.\n\n"
            "    Parameters\n    ----------\n    padding : int or tuple of int\n"
            f"        One size for all sides, or {sizes}.\n"
            f"{'    value : float' + chr(10) + '        Value of the new elements.' + chr(10) if name == 'Constant' else ''}\n"
            "    Examples\n    --------\n    >>> import metatensor as mt\n"
            f"    >>> mt.nn.{name}Pad{n}d(1{', 0.5' * (name == 'Constant')})(mt.empty(2, 3{', 4' * n})).shape\n"
            f"    metatensor.Size([2, 3{', 6' * n}])\n    ",
            "_dims": n,
        }
        made.append(type(f"{name}Pad{n}d", (base,), fields))
    return made


ConstantPad1d, ConstantPad2d, ConstantPad3d = _family(_ConstantPadNd, "Constant", "with ``value``")
ZeroPad1d, ZeroPad2d, ZeroPad3d = _family(_ZeroPadNd, "Zero", "with zeros")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _family(
    _ReflectionPadNd, "Reflection", "by reflection at the edge element, which is not repeated"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _family(_ReplicationPadNd, "Replication", "by repeating the edge element")
CircularPad1d, CircularPad2d, CircularPad3d = _family(_CircularPadNd, "Circular", "with values from the other side")
