"""What distributions share: broadcasting parameters, between probabilities and logits, drawing standard variables."""

from __future__ import annotations

import functools
from numbers import Number
from typing import Any

import metatensor as mt

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060


def has_data(value: Any) -> bool:
    """Whether a tensor's values can be looked at."""
    return value.untyped_storage().data is not None


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype and device of the tensors.

    ValueError for anything else.
    """
    if not all(isinstance(v, (mt.Tensor, Number)) for v in values):
        raise ValueError(f"expected numbers or tensors, got {[type(v).__name__ for v in values]}")
    options: dict[str, Any] = {"dtype": mt.get_default_dtype()}
    for value in values:
        if isinstance(value, mt.Tensor):
            options = {"dtype": value.dtype, "device": value.device}
            break
    return tuple(mt.broadcast_tensors(*(v if isinstance(v, mt.Tensor) else mt.tensor(v, **options) for v in values)))


def number_shape(*values: Any) -> Any:
    """The shape of a distribution whose parameters were given as ``values``: () where all are numbers, else None."""
    return mt.Size() if all(isinstance(v, Number) for v in values) else None


def clamp_probs(probs: Any) -> Any:
    """Probabilities away from 0 and 1 by their dtype's epsilon."""
    eps = mt.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """The sigmoid of logits, or their softmax along the last dimension."""
    return mt.sigmoid(logits) if is_binary else mt.softmax(logits, dim=-1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log odds of probabilities, or their logarithms."""
    clamped = clamp_probs(probs)
    return mt.log(clamped) - mt.log1p(-clamped) if is_binary else mt.log(clamped)


class lazy_property:
    """A property that is computed when first read, and then kept as an attribute."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        with mt.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements of lower triangular matrices, up to the diagonal ``diag``, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag {diag} is outside of a matrix of {n} columns")
    rows, columns = mt.tril_indices(n, n, diag, device=mat.device).unbind(0)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Lower triangular matrices from their elements row by row, up to the diagonal ``diag``."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > mt.finfo(vec.dtype).eps:
        raise ValueError(f"{vec.shape[-1]} elements do not fill the lower triangle of a square matrix")
    n = round(n)
    mat = mt.zeros((*vec.shape[:-1], n, n), dtype=vec.dtype, device=vec.device)
    rows, columns = mt.tril_indices(n, n, diag, device=vec.device).unbind(0)
    mat[..., rows, columns] = vec
    return mat


def _sum_rightmost(value: Any, dim: int) -> Any:
    """``value`` summed over its last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def standard_normal(shape: Any, like: Any) -> Any:
    """Normal variables of a shape, with the dtype and device of ``like``."""
    return mt.randn(tuple(shape), dtype=like.dtype, device=like.device)


def uniform(shape: Any, like: Any, low: float = 0.0, high: float = 1.0) -> Any:
    """Uniform variables of a shape, with the dtype and device of ``like``."""
    return mt.empty(tuple(shape), dtype=like.dtype, device=like.device).uniform_(low, high)


@mt.no_grad()
def standard_gamma(concentration: Any) -> Any:
    """Gamma variables of rate 1 (Marsaglia and Tsang, 2000: rejection of transformed normal variables)."""
    if not has_data(concentration):
        return mt.empty_like(concentration, memory_format=mt.contiguous_format)
    tiny = mt.finfo(concentration.dtype).tiny
    small = concentration < 1
    d = mt.where(small, concentration + 1, concentration).double() - 1.0 / 3.0
    c = 1.0 / (9.0 * d).sqrt()
    result = mt.zeros_like(d)
    waiting = mt.ones_like(d, dtype=mt.bool)
    while waiting.any():
        x = standard_normal(d.shape, d)
        v = (1.0 + c * x) ** 3
        u = uniform(d.shape, d)
        fits = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp(min=1e-300).log())
        result = mt.where(waiting & fits, d * v, result)
        waiting = waiting & ~fits
    boost = uniform(d.shape, d).pow(1.0 / concentration.double())
    return mt.where(small, result * boost, result).to(concentration.dtype).clamp(min=tiny)
