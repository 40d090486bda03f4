"""Derivatives of functions. There is no backward pass yet: every function here raises NotImplementedError."""

from __future__ import annotations

from typing import Any

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _refuse(name: str) -> Any:
    raise NotImplementedError(f"torch.autograd.functional.{name}: metatensor does not compute gradients yet")


def jacobian(func: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients yet."""
    _refuse("jacobian")


def hessian(func: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients yet."""
    _refuse("hessian")


def vjp(func: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients yet."""
    _refuse("vjp")


def jvp(func: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients yet."""
    _refuse("jvp")


def vhp(func: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients yet."""
    _refuse("vhp")


def hvp(func: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients yet."""
    _refuse("hvp")
