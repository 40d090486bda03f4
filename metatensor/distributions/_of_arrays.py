"""Transforms of vectors and matrices, and of parts along a dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._elementwise import log_sech_squared
from metatensor.distributions._transform import Transform
from metatensor.distributions.utils import _sum_rightmost, _triangle_size, softplus, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "CatTransform", "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "ReshapeTransform",
    "SoftmaxTransform", "StackTransform", "StickBreakingTransform",
]  # fmt: skip


def _need_dims(transform: Transform, shape: Sequence[int], n: int) -> None:
    if len(shape) < n:
        raise ValueError(f"{transform!r} needs at least {n} dimensions, got shape {tuple(shape)}")


def _sums_after(x: Any) -> Any:
    """Return the sum of each element and all elements after it along the last dimension."""
    return x.flip(-1).cumsum(-1).flip(-1)


def _sums_before(x: Any) -> Any:
    """Return the sum of all elements before each element along the last dimension."""
    return mt.nn.functional.pad(x.cumsum(-1)[..., :-1], [1, 0])


class SoftmaxTransform(Transform):
    """Map vectors to the simplex of the same length by ``y = softmax(x)``.

    The transform is not bijective: its inverse returns the preimage ``log(y)``, and it has no `log_abs_det_jacobian`.
    For a bijection see `StickBreakingTransform`.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import SoftmaxTransform
    >>> SoftmaxTransform()(mt.zeros(2, device="cpu"))
    tensor([0.5000, 0.5000])
    """

    domain, codomain, _compared = constraints.real_vector, constraints.simplex, ()

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _need_dims(self, shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Map vectors of n real numbers to the simplex of n + 1 numbers, as a bijection.

    Element i, counted from 0, is the fraction ``sigmoid(x_i - log(n - i))`` of 1 minus the sum of the elements before
    it. The last element is the remainder. A vector of zeros is thus mapped to equal elements. This is the
    stick-breaking transform of the Stan reference manual.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import StickBreakingTransform
    >>> StickBreakingTransform()(mt.zeros(1, device="cpu"))
    tensor([0.5000, 0.5000])
    """

    domain, codomain, bijective, _compared = constraints.real_vector, constraints.simplex, True, ()

    def _log_odds(self, x: Any) -> Any:
        return x - self._log_rest(x)

    def _log_rest(self, x: Any) -> Any:
        n = x.shape[-1]
        return mt.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        odds = self._log_odds(x)
        left = mt.nn.functional.pad(-softplus(odds), [0, 1]).cumsum(-1)  # log of the rest after each element
        before = mt.nn.functional.pad(left[..., :-1], [1, 0])
        return (before + mt.nn.functional.pad(-softplus(-odds), [0, 1])).exp()

    def _inverse(self, y: Any) -> Any:
        parts = y.clamp(min=mt.finfo(y.dtype).tiny)
        rest = _sums_after(parts)[..., 1:]
        odds = parts[..., :-1].log() - rest.log()
        return odds + self._log_rest(odds)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # The Jacobian is triangular. Its diagonal element dy_i / dx_i is y_i times (1 - the fraction for element i).
        return (y[..., :-1].log() - softplus(self._log_odds(x))).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _need_dims(self, shape, 1)
        return mt.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _need_dims(self, shape, 1)
        return mt.Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """Map vectors of n (n - 1) / 2 real numbers to lower Cholesky factors of n x n correlation matrices.

    ``tanh(x)`` gives the partial correlations, row by row. An element of the factor is its partial correlation times
    the square root of ``1 - s``, where s is the sum of squares of the elements before it in the row. See Lewandowski,
    Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion method" (2009).

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import CorrCholeskyTransform
    >>> CorrCholeskyTransform()(mt.zeros(3, device="cpu"))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """

    domain, codomain, bijective, _compared = constraints.real_vector, constraints.corr_cholesky, True, ()

    def _call(self, x: Any) -> Any:
        shares = vec_to_tril_matrix(x.tanh(), -1)
        left = _sums_before(vec_to_tril_matrix(log_sech_squared(x), -1)) / 2
        eye = mt.eye(shares.shape[-1], dtype=x.dtype, device=x.device)
        return ((shares + eye) * left.exp()).tril()

    def _inverse(self, y: Any) -> Any:
        left = _sums_after(y.square()).sqrt()
        return tril_matrix_to_vec(y / left.clamp(min=mt.finfo(y.dtype).tiny), -1).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # The logarithm of 1 - tanh(x)**2 for element j of row i counts once for that element, and 1/2 for each of the
        # i - 1 - j elements after it.
        n = _triangle_size(x.shape[-1], -1)
        rows, columns = mt.tril_indices(n, n, -1, device=x.device)
        weights = 1 + (rows - 1 - columns).to(x.dtype) / 2
        return (weights * log_sech_squared(x)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _need_dims(self, shape, 1)
        n = _triangle_size(shape[-1], -1)
        return mt.Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _need_dims(self, shape, 2)
        if shape[-1] != shape[-2]:
            raise ValueError(f"{self!r} needs square matrices, got shape {tuple(shape)}")
        return mt.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _on_diagonal(act: Any, x: Any) -> Any:
    """Return the lower triangle of `x`, with `act` applied to the diagonal."""
    return x.tril(-1) + act(x.diagonal(0, -2, -1)).diag_embed()


class LowerCholeskyTransform(Transform):
    """Map square matrices to lower triangular matrices with a positive diagonal.

    The diagonal is exponentiated, and the elements above it are set to 0. The transform has no `log_abs_det_jacobian`.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import LowerCholeskyTransform
    >>> LowerCholeskyTransform()(mt.tensor([[0.0, 5.0], [2.0, 0.0]], device="cpu"))
    tensor([[1., 0.],
            [2., 1.]])
    """

    domain, codomain, _compared = constraints.independent(constraints.real, 2), constraints.lower_cholesky, ()

    def _call(self, x: Any) -> Any:
        return _on_diagonal(mt.exp, x)

    def _inverse(self, y: Any) -> Any:
        return _on_diagonal(mt.log, y)


class PositiveDefiniteTransform(Transform):
    """Map square matrices to positive definite matrices.

    `LowerCholeskyTransform` maps the input to the Cholesky factor L of the result ``L @ L.mT``. The transform has no
    `log_abs_det_jacobian`.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import PositiveDefiniteTransform
    >>> PositiveDefiniteTransform()(mt.tensor([[0.0, 5.0], [2.0, 0.0]], device="cpu"))
    tensor([[1., 2.],
            [2., 5.]])
    """

    domain, codomain, _compared = constraints.independent(constraints.real, 2), constraints.positive_definite, ()

    def _call(self, x: Any) -> Any:
        factor = _on_diagonal(mt.exp, x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return _on_diagonal(mt.log, mt.linalg.cholesky(y))


class ReshapeTransform(Transform):
    """Reshape values from `in_shape` to `out_shape`.

    Parameters
    ----------
    in_shape, out_shape : sequence of int
        Event shapes with equal numbers of elements.
    cache_size : int
        As in `Transform`. Default: 0.

    Raises
    ------
    ValueError
        If the numbers of elements differ.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import ReshapeTransform
    >>> ReshapeTransform((2, 3), (6,))(mt.empty(4, 2, 3, device="meta")).shape
    metatensor.Size([4, 6])
    """

    bijective = True
    _compared = ("in_shape", "out_shape")

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = mt.Size(in_shape), mt.Size(out_shape)
        if math.prod(in_shape) != math.prod(out_shape):
            raise ValueError(f"ReshapeTransform(): shapes {tuple(in_shape)} and {tuple(out_shape)} have different numbers of elements")
        super().__init__(cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def _swap(self, shape: Sequence[int], old: Any, new: Any) -> Any:
        batch = len(shape) - len(old)
        if batch < 0 or tuple(shape[batch:]) != tuple(old):
            raise ValueError(f"ReshapeTransform: a value of shape {tuple(shape)} does not end with {tuple(old)}")
        return mt.Size((*shape[:batch], *new))

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._swap(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._swap(shape, self.out_shape, self.in_shape)

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])


class _Parts(Transform):
    """Base class of transforms that apply other transforms to the parts of a value along a dimension."""

    _constraint: Any

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise TypeError(f"{type(self).__name__}(): expected transforms, got {list(tseq)}")
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim

    def _split(self, value: Any) -> Sequence[Any]:
        raise NotImplementedError

    def _join(self, parts: Sequence[Any], dim: int) -> Any:
        raise NotImplementedError

    def _regions(self, regions: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return self._join([t._inv_call(part) for t, part in zip(self.transforms, self._split(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        event = max(t.domain.event_dim for t in self.transforms)
        terms = [
            _sum_rightmost(t.log_abs_det_jacobian(a, b), event - t.domain.event_dim)
            for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True)
        ]
        at = self.dim - x.ndim if self.dim >= 0 else self.dim
        if at + event < 0:  # the parts lie along a batch dimension
            return self._join(terms, at + event)
        return sum(terms[1:], terms[0])

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return self._regions([t.domain for t in self.transforms])

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return self._regions([t.codomain for t in self.transforms])


class CatTransform(_Parts):
    """Apply a transform to each of several consecutive parts along a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
        Transform of each part. It must keep the length of the part.
    dim : int
        Dimension along which the parts lie. Default: 0.
    lengths : sequence of int, optional
        Length of each part. Default: 1 each.
    cache_size : int
        As in `Transform`. Default: 0.

    Raises
    ------
    ValueError
        If there are not as many lengths as transforms.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import AffineTransform, CatTransform, ExpTransform
    >>> CatTransform([ExpTransform(), AffineTransform(1.0, 1.0)], lengths=[2, 1])(mt.zeros(3, device="cpu"))
    tensor([1., 1., 1.])
    """

    _compared = ("transforms", "dim", "lengths")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"CatTransform(): {len(self.transforms)} transforms, but {len(self.lengths)} lengths")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The total length of the parts."""
        return sum(self.lengths)

    def _split(self, value: Any) -> Sequence[Any]:
        if value.shape[self.dim] != self.length:
            raise ValueError(f"CatTransform: dimension {self.dim} of shape {tuple(value.shape)} must have length {self.length}")
        return value.split(self.lengths, self.dim)

    def _join(self, parts: Sequence[Any], dim: int) -> Any:
        return mt.cat(list(parts), dim)

    def _regions(self, regions: Sequence[Any]) -> Any:
        return constraints.cat(regions, self.dim, self.lengths)


class StackTransform(_Parts):
    """Apply a transform to each slice along a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
        One transform for each slice.
    dim : int
        Dimension along which the slices lie. Default: 0.
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import AffineTransform, ExpTransform, StackTransform
    >>> StackTransform([ExpTransform(), AffineTransform(1.0, 2.0)], dim=-1)(mt.ones(2, device="cpu"))
    tensor([2.7183, 3.0000])
    """

    _compared = ("transforms", "dim")

    def _split(self, value: Any) -> Sequence[Any]:
        if value.shape[self.dim] != len(self.transforms):
            raise ValueError(
                f"StackTransform: dimension {self.dim} of shape {tuple(value.shape)} must have length {len(self.transforms)}"
            )
        return value.unbind(self.dim)

    def _join(self, parts: Sequence[Any], dim: int) -> Any:
        return mt.stack(list(parts), dim)

    def _regions(self, regions: Sequence[Any]) -> Any:
        return constraints.stack(regions, self.dim)
