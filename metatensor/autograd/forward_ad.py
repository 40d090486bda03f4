"""Forward-mode differentiation. It is not implemented: `make_dual` and `dual_level` raise NotImplementedError."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, which may be None."""

    primal: Any
    tangent: Any


def make_dual(tensor: Any, tangent: Any, *, level: Any = None) -> Any:
    """Raise NotImplementedError: metatensor does not compute derivatives yet."""
    raise NotImplementedError("torch.autograd.forward_ad: metatensor does not compute derivatives yet")


def unpack_dual(tensor: Any, *, level: Any = None) -> Any:
    """Return `tensor` with None as its tangent, because no tensor has a tangent."""
    return UnpackedDualTensor(tensor, None)


class dual_level:
    """A context manager that raises NotImplementedError on entry."""

    def __enter__(self) -> Any:
        raise NotImplementedError("torch.autograd.forward_ad: metatensor does not compute derivatives yet")

    def __exit__(self, *_: Any) -> None:
        return None
