"""Transforms that differentiate functions. They raise NotImplementedError, because metatensor does not compute
gradients.

`grad`, `grad_and_value`, `hessian`, `jacfwd` and `jacrev` return a function that raises when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]


def _no_gradients(name: str) -> NoReturn:
    raise NotImplementedError(f"func.{name}: metatensor does not compute gradients")


def _refusing(name: str, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the name of `func` that raises NotImplementedError."""

    def transformed(*args: Any, **kwargs: Any) -> NoReturn:
        _no_gradients(name)

    return wraps(func)(transformed) if hasattr(func, "__name__") else transformed


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that raises NotImplementedError: metatensor does not compute gradients."""
    return _refusing("grad", func)


def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that raises NotImplementedError: metatensor does not compute gradients."""
    return _refusing("grad_and_value", func)


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return a function that raises NotImplementedError: metatensor does not compute gradients."""
    return _refusing("hessian", func)


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that raises NotImplementedError: metatensor does not compute gradients."""
    return _refusing("jacfwd", func)


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that raises NotImplementedError: metatensor does not compute gradients."""
    return _refusing("jacrev", func)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients."""
    _no_gradients("jvp")


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients."""
    _no_gradients("linearize")


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Raise NotImplementedError: metatensor does not compute gradients."""
    _no_gradients("vjp")
