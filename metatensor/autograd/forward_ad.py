"""Forward-mode differentiation: tensors with tangents.

Inside a `dual_level`, `make_dual` gives a tensor a tangent, operators compute the tangents of their results, and
`unpack_dual` returns them. Levels may be nested.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core import duals
from metatensor._core.late import later

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.numbers: list[int] = []  # the levels of this thread, by their numbers in `metatensor._core.duals`


_stack = _Stack()


class UnpackedDualTensor(NamedTuple):
    """A tensor without its tangent (``primal``), and the tangent, which may be None."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Begin a level inside the current one. Return the level: 0 for the outermost one, 1 for the next, and so on."""
    _stack.numbers.append(duals.enter_level())
    return len(_stack.numbers) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End a level. Tensors lose their tangents at that level.

    Parameters
    ----------
    level : int, optional
        The level to end. It must be the innermost one, which is the default.

    Raises
    ------
    RuntimeError
        If there is no level, or `level` is not the innermost one.
    """
    if not _stack.numbers:
        raise RuntimeError("exit_dual_level: no level has been entered")
    if level is not None and level != len(_stack.numbers) - 1:
        raise RuntimeError(f"exit_dual_level: levels end in reverse order; the innermost is {len(_stack.numbers) - 1}, not {level}")
    duals.leave_level(_stack.numbers.pop())


class dual_level:
    """A context manager or decorator inside which tensors can have tangents.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.autograd import forward_ad
    >>> x = mt.tensor([1.0, 2.0], device="cpu")
    >>> with forward_ad.dual_level():
    ...     y = forward_ad.make_dual(x, mt.ones(2, device="cpu")) ** 2
    ...     forward_ad.unpack_dual(y).tangent
    tensor([2., 4.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: Any) -> None:
        exit_dual_level()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return func(*args, **kwargs)

        return decorated


def _number(level: int | None) -> int | None:
    """Return the number of a level, by default the innermost one, or None if there is none."""
    if level is None:
        level = len(_stack.numbers) - 1
    if level < 0:
        return None
    if level >= len(_stack.numbers):
        raise RuntimeError(f"forward_ad: there is no level {level}; {len(_stack.numbers)} have been entered")
    return _stack.numbers[level]


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Return a view of `tensor` that has the given tangent.

    Parameters
    ----------
    tensor : Tensor
        A floating-point or complex tensor.
    tangent : Tensor
        A tensor of the same shape. It is used without a copy if it has the dtype and strides of `tensor`.
    level : int, optional
        The level of the tangent. Default: the innermost one.

    Raises
    ------
    RuntimeError
        If there is no level, the shapes differ, or the tensor has a tangent at that level already.
    ValueError
        If `tensor` or `tangent` is neither floating-point nor complex.
    """
    number = _number(level)
    if number is None:
        raise RuntimeError("make_dual: a tangent needs a level; use it inside `with dual_level():`")
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(value, mt.Tensor):
            raise TypeError(f"make_dual: the {name} must be a Tensor, not {type(value).__name__}")
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"make_dual: the {name} must be floating-point or complex, not {value.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(f"make_dual: the tensor has shape {list(tensor.shape)}, but the tangent has shape {list(tangent.shape)}")
    if tangent.is_complex() and not tensor.is_complex():
        raise RuntimeError("make_dual: the tangent of a real tensor must be real")
    return _dual(tensor, tangent, number)


def _dual(tensor: Any, tangent: Any, number: int) -> Any:
    """Return a view of `tensor` with a tangent. If `tensor` is batched, every member of the batch gets one."""
    if not duals.is_plain(tensor):
        batches = later("_batched")
        if isinstance(tensor, batches.Batched):
            return batches.wrap(_dual(tensor.value, batches.peel(tangent, tensor.level), number), tensor.level)
    if duals.tangent_of(tensor, number) is not None:
        raise RuntimeError("make_dual: the tensor has a tangent at this level already")
    return duals.make_dual(tensor, tangent, number)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Return `tensor` without its tangent, and the tangent. The tangent is None if the tensor has none.

    Parameters
    ----------
    tensor : Tensor
    level : int, optional
        The level of the tangent. Default: the innermost one. Outside all levels, no tensor has a tangent.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.autograd import forward_ad
    >>> forward_ad.unpack_dual(mt.ones(2, device="cpu"))
    UnpackedDualTensor(primal=tensor([1., 1.]), tangent=None)
    """
    number = _number(level)
    if number is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_unpacked(tensor, number))


def _unpacked(tensor: Any, number: int) -> tuple[Any, Any]:
    if not duals.is_plain(tensor):
        batches = later("_batched")
        if isinstance(tensor, batches.Batched):
            wrap = batches.wrap
            primal, tangent = _unpacked(tensor.value, number)
            return wrap(primal, tensor.level), None if tangent is None else wrap(tangent, tensor.level)
    tangent = duals.tangent_of(tensor, number)
    return (tensor, None) if tangent is None else (duals.primal_of(tensor, number), tangent)


def _is_fwd_grad_enabled() -> bool:
    """Return whether operators compute tangents."""
    limit = duals.set_limit(0)
    duals.set_limit(limit)
    return limit != 0


class _set_fwd_grad_enabled:
    """A context manager that turns the computation of tangents on or off."""

    def __init__(self, mode: bool) -> None:
        self._before = duals.set_limit(None if mode else 0)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        duals.set_limit(self._before)
