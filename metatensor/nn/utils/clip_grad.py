"""Gradient clipping, in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import metatensor as mt
from metatensor._core.late import later
from metatensor.nn._parameter import without_grad

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = mt.Tensor | Iterable[mt.Tensor]


def _as_list(tensors: Tensors) -> list[mt.Tensor]:
    return [tensors] if isinstance(tensors, mt.Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[mt.Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def _total_norm(tensors: list[mt.Tensor], norm_type: float, error_if_nonfinite: bool) -> mt.Tensor:
    if not tensors:
        return mt.tensor(0.0)
    if any(getattr(t, "_has_parts", False) for t in tensors):
        total = later("total_norm_of_parts")(tensors, norm_type)
    else:
        device = tensors[0].device
        norms = [mt.linalg.vector_norm(t, norm_type).to(device) for t in tensors]
        total = mt.linalg.vector_norm(mt.stack(norms), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(f"the total norm of order {norm_type} is {total.item()}; error_if_nonfinite=False clips anyway")
    return total


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> mt.Tensor:
    """Return the norm of all elements of several tensors, as if they were a single vector.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
        Tensors of any shapes.
    norm_type : float
        Order of the norm. Default 2.
    error_if_nonfinite : bool
        Raise an error if the norm is infinite or NaN. Default False.
    foreach : bool, optional
        Ignored.

    Returns
    -------
    Tensor
        The norm, of shape (), on the device of the first tensor. If one of the tensors is distributed, so is the norm, and all
        ranks have it.

    Raises
    ------
    RuntimeError
        If ``error_if_nonfinite`` and the norm is infinite or NaN.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.utils.get_total_norm([mt.tensor([3.0], device="cpu"), mt.tensor([4.0], device="cpu")])
    tensor(5.)
    """
    return without_grad(_total_norm, _as_list(tensors), float(norm_type), error_if_nonfinite)


def _scale(gradients: list[mt.Tensor], max_norm: float, total_norm: mt.Tensor) -> None:
    plain: Any = total_norm.full_tensor() if getattr(total_norm, "_has_parts", False) else total_norm  # type: ignore[attr-defined]
    factor = mt.clamp(max_norm / (plain + 1e-6), max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.device))


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: mt.Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients of parameters so that their total norm is at most ``max_norm``.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Parameters whose gradients are scaled in place.
    max_norm : float
        Largest norm allowed.
    total_norm : Tensor
        Current norm of the gradients, as `get_total_norm` returns it.
    foreach : bool, optional
        Ignored.
    """
    without_grad(_scale, _gradients(parameters), float(max_norm), total_norm)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> mt.Tensor:
    """Scale the gradients of parameters to a total norm of at most ``max_norm``. Return the norm before scaling.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Parameters whose gradients are scaled in place.
    max_norm : float
        Largest norm allowed.
    norm_type : float
        Order of the norm. Default 2.
    error_if_nonfinite : bool
        Raise an error if the norm is infinite or NaN. Default False.
    foreach : bool, optional
        Ignored.

    Returns
    -------
    Tensor
        Norm of the gradients before clipping, of shape ().

    Raises
    ------
    RuntimeError
        If ``error_if_nonfinite`` and the norm is infinite or NaN.

    Examples
    --------
    >>> import metatensor as mt
    >>> w = mt.nn.Parameter(mt.zeros(2, device="cpu"))
    >>> w.grad = mt.tensor([3.0, 4.0], device="cpu")
    >>> mt.nn.utils.clip_grad_norm_(w, max_norm=1.0)
    tensor(5.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    tensors = _as_list(parameters)
    if not tensors and isinstance(parameters, GeneratorType):
        warnings.warn("clip_grad_norm_: the generator of parameters is empty; nothing is clipped", stacklevel=2)
    total = get_total_norm(_gradients(tensors), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(tensors, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> mt.Tensor:
    """Deprecated name of `clip_grad_norm_`. Calling it emits a FutureWarning."""
    warnings.warn("clip_grad_norm is deprecated: it is clip_grad_norm_ now", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp the elements of the gradients of parameters to [-clip_value, clip_value], in place."""
    limit: Any = float(clip_value)
    for gradient in _gradients(parameters):
        without_grad(gradient.clamp_, -limit, limit)
