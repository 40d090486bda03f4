"""Tangents of results, where a formula is better than the gradient of a rule for gradients."""

from __future__ import annotations

from typing import Any

from metatensor.rules.gradients.activation import implicit_dim

__all__ = ["log_softmax", "logcumsumexp", "softmax", "softmin"]


def softmax(input_tangent: Any, result: Any, dim: Any) -> Any:
    """Return the tangent of a softmax."""
    dim = implicit_dim(dim, result.dim())
    tangent = input_tangent.to(result.dtype)
    return result * (tangent - (result * tangent).sum(dim, keepdim=True))


def softmin(input_tangent: Any, result: Any, dim: Any) -> Any:
    """Return the tangent of a softmin."""
    return -softmax(input_tangent, result, dim)


def log_softmax(input_tangent: Any, result: Any, dim: Any) -> Any:
    """Return the tangent of the logarithm of a softmax."""
    dim = implicit_dim(dim, result.dim())
    tangent = input_tangent.to(result.dtype)
    return tangent - (result.exp() * tangent).sum(dim, keepdim=True)


def logcumsumexp(input: Any, input_tangent: Any, dim: int, result: Any) -> Any:
    """Return the tangent of `logcumsumexp`: the mean of the tangents so far, weighted by the exponentials."""
    if not input.dim() or not input.numel():
        return input_tangent
    if input.is_complex():
        weights = input.exp()
        return (weights * input_tangent).cumsum(dim) / weights.cumsum(dim)
    weights = (input - input.detach().amax(dim, keepdim=True)).exp()
    return (weights * input_tangent).cumsum(dim) / weights.cumsum(dim)
