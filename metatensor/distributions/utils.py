"""Helpers for distributions: broadcasting of parameters, probabilities and logits, triangular matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import metatensor as mt

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "has_data", "lazy_property", "logits_to_probs", "noise",
    "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060


def has_data(value: Any) -> bool:
    """Return whether the values of a tensor can be read. They cannot on meta, or if it is deferred or fake."""
    return value.untyped_storage().data is not None


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Broadcast tensors and numbers to one shape.

    Parameters
    ----------
    *values : Tensor or number
        Numbers become tensors with the dtype and device of the first tensor. If there is none, they take the default
        dtype and device.

    Returns
    -------
    tuple of Tensor

    Raises
    ------
    ValueError
        If a value is neither a tensor nor a number.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions.utils import broadcast_all
    >>> [x.shape for x in broadcast_all(mt.empty(3, 1, device="meta"), 2.0)]
    [metatensor.Size([3, 1]), metatensor.Size([3, 1])]
    """
    tensor_like = [isinstance(v, mt.Tensor) or hasattr(type(v), "__torch_function__") for v in values]
    for value, known in zip(values, tensor_like, strict=True):
        if not known and not isinstance(value, Number):
            raise ValueError(f"broadcast_all(): expected tensors and numbers, got {type(value).__name__}")
    model = next((v for v, known in zip(values, tensor_like, strict=True) if known), None)
    options = {} if model is None else {"dtype": model.dtype, "device": model.device}
    if model is None:
        options["dtype"] = mt.get_default_dtype()
    tensors = [v if known else mt.tensor(v, **options) for v, known in zip(values, tensor_like, strict=True)]
    return tuple(mt.broadcast_tensors(*tensors))


def noise(kind: str, shape: Sequence[int], like: Any) -> Any:
    """Draw independent values from a standard distribution, with the dtype and device of `like`.

    Parameters
    ----------
    kind : {"normal", "exponential", "cauchy", "uniform"}
        "uniform" is the uniform distribution on the open interval (0, 1).
    shape : sequence of int
        Shape of the result.
    like : Tensor
        Tensor that gives the dtype and device.
    """
    empty = mt.empty(shape, dtype=like.dtype, device=like.device)
    if kind == "uniform":
        return empty.uniform_().clamp(min=mt.finfo(like.dtype).tiny)
    return getattr(empty, f"{kind}_")()


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Any:
    """Draw standard normal values."""
    return mt.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """Sum over the last `dim` dimensions."""
    return value if dim == 0 else value.flatten(value.ndim - dim).sum(-1)


def softplus(x: Any) -> Any:
    """Compute log(1 + exp(x)) without overflow."""
    return mt.logaddexp(x, mt.zeros_like(x))


def clamp_probs(probs: Any) -> Any:
    """Clamp probabilities to [eps, 1 - eps], where eps is the machine epsilon of their dtype."""
    wide = probs.dtype if probs.dtype.is_floating_point else mt.get_default_dtype()
    eps = mt.finfo(wide).eps
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Convert logits to probabilities.

    Parameters
    ----------
    logits : Tensor
        Log odds if `is_binary`, else unnormalized log probabilities along the last dimension.
    is_binary : bool
        Apply the sigmoid function if True, softmax over the last dimension if False. Default: False.
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Convert probabilities to logits. Probabilities are clamped first, so that the result is finite.

    Parameters
    ----------
    probs : Tensor
        Probabilities of one outcome if `is_binary`, else of the categories along the last dimension.
    is_binary : bool
        Return log odds if True, log probabilities if False. Default: False.
    """
    inner = clamp_probs(probs)
    return inner.log() - (-inner).log1p() if is_binary else inner.log()


class lazy_property:
    """Decorator for an attribute that is computed on first access and then stored in the instance.

    Accessed on the class, it returns itself, so that documentation tools find its docstring.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = getattr(wrapped, "__name__", "lazy_property")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with mt.enable_grad():  # the value outlives a no_grad block around the first access
            value = self.wrapped(instance)
        instance.__dict__[self.__name__] = value
        return value


def exactly_one(owner: Any, **given: Any) -> tuple[str, Any]:
    """Return the name and value of the only argument that is not None.

    Raises
    ------
    ValueError
        If none of the arguments, or several, are given.
    """
    present = [(name, value) for name, value in given.items() if value is not None]
    if len(present) != 1:
        raise ValueError(f"{type(owner).__name__}(): give exactly one of {', '.join(given)}; got {len(present)} of them")
    return present[0]


def _triangle_size(length: int, diag: int) -> int:
    """Return n such that the part of an n x n matrix up to diagonal `diag` has `length` elements."""
    n = elements = 0
    while elements < length:
        n += 1
        elements = sum(min(max(row + diag + 1, 0), n) for row in range(n))
    if elements == length:
        return n
    raise ValueError(f"no lower triangle (diagonal {diag}) has {length} elements")


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Fill the lower triangle of square matrices row by row.

    Parameters
    ----------
    vec : Tensor
        Elements of the triangle, of shape (..., m).
    diag : int
        Topmost diagonal of the triangle: 0 for the main diagonal, -1 for the one below. Default: 0.

    Returns
    -------
    Tensor
        Shape (..., n, n), zero above the triangle.

    Raises
    ------
    ValueError
        If no square matrix has a triangle of m elements.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(mt.tensor([1.0, 2.0, 3.0], device="cpu"))
    tensor([[1., 0.],
            [2., 3.]])
    """
    n = _triangle_size(vec.shape[-1], diag)
    rows, columns = mt.tril_indices(n, n, diag, device=vec.device)
    flat = mt.zeros((*vec.shape[:-1], n * n), dtype=vec.dtype, device=vec.device)
    places = (rows * n + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).unflatten(-1, (n, n))


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """Return the lower triangle of square matrices as vectors, row by row.

    Parameters
    ----------
    mat : Tensor
        Matrices of shape (..., n, n).
    diag : int
        Topmost diagonal of the triangle: 0 for the main diagonal, -1 for the one below. Default: 0.

    Returns
    -------
    Tensor
        Shape (..., m), where m is the number of elements of the triangle.

    Raises
    ------
    ValueError
        If the matrices have no diagonal `diag`.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"tril_matrix_to_vec(): diag is {diag}, but a matrix of shape {tuple(mat.shape)} has diagonals {-n} to {n - 1}")
    rows, columns = mt.tril_indices(n, n, diag, device=mat.device)
    return mat.flatten(-2).index_select(-1, rows * n + columns)


def log_beta(a: Any, b: Any) -> Any:
    """Compute log B(a, b), the logarithm of the beta function."""
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
