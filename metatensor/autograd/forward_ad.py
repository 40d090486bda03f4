"""Forward-mode derivatives. There are none: what would make one says so when it is called."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor, and its derivative or None."""

    primal: Any
    tangent: Any


def make_dual(tensor: Any, tangent: Any, *, level: Any = None) -> Any:
    """NotImplementedError."""
    raise NotImplementedError("torch.autograd.forward_ad: metatensor does not compute derivatives yet")


def unpack_dual(tensor: Any, *, level: Any = None) -> Any:
    """The tensor, and None: it has no derivative."""
    return UnpackedDualTensor(tensor, None)


class dual_level:
    """NotImplementedError when it is entered."""

    def __enter__(self) -> Any:
        raise NotImplementedError("torch.autograd.forward_ad: metatensor does not compute derivatives yet")

    def __exit__(self, *_: Any) -> None:
        return None
