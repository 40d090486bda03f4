"""Multivariate normal distributions: MultivariateNormal and LowRankMultivariateNormal."""

from __future__ import annotations

from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions.utils import HALF_LOG_2PI, exactly_one, lazy_property, noise

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal", "ScaleTriple"]


def by_columns(act: Any, matrix: Any, vectors: Any) -> Any:
    """Apply ``act(matrix, columns)`` to vectors. The matrix is not copied for each sample.

    Parameters
    ----------
    act : callable
        Function of a matrix (*batch, m, n) and columns (*batch, k, samples) that returns columns.
    matrix : Tensor
        Shape (*batch, m, n).
    vectors : Tensor
        Shape (*samples, *batch, k). The sample dimensions become columns.

    Returns
    -------
    Tensor
        Shape (*samples, *batch, k').
    """
    batch = matrix.ndim - 2
    if vectors.ndim - 1 < batch:
        vectors = vectors.expand((*matrix.shape[:-2], vectors.shape[-1]))
    extra = vectors.ndim - 1 - batch
    samples = vectors.shape[:extra]
    columns = vectors.movedim(tuple(range(extra)), tuple(range(-extra, 0))).flatten(batch + 1) if extra else vectors.unsqueeze(-1)
    done = act(matrix, columns)
    if not extra:
        return done.squeeze(-1)
    return done.unflatten(-1, samples).movedim(tuple(range(-extra, 0)), tuple(range(extra)))


def solve_lower(factor: Any, columns: Any) -> Any:
    """Solve linear systems with a lower triangular matrix."""
    return mt.linalg.solve_triangular(factor, columns, upper=False)


def log_diagonal(factor: Any) -> Any:
    """Return the sum of the logarithms of the diagonal, which is half the log determinant of ``factor @ factor.mT``."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


def factor_of_inverse(precision: Any) -> Any:
    """Return the lower Cholesky factor of the inverse of a positive definite matrix."""
    # Reversing rows and columns of the Cholesky factor of the reversed matrix gives an upper triangular U with
    # precision = U U^T. Then the inverse is U^-T U^-1, and U^-T is lower triangular.
    both = (-2, -1)
    upper = mt.linalg.cholesky(precision.flip(both)).flip(both)
    eye = mt.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return mt.linalg.solve_triangular(upper.mT, eye.expand(upper.shape), upper=False)


class ScaleTriple(Parametric):
    """Base class of families with a positive definite matrix, given as itself, its inverse or its Cholesky factor."""

    arg_constraints: ClassVar[Any] = {
        "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip

    def _set_scale(
        self, validate_args: bool | None, event_shape: Any, covariance_matrix: Any, precision_matrix: Any, scale_tril: Any, **others: Any
    ) -> None:
        name, given = exactly_one(
            self, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        if given.ndim < 2:
            raise ValueError(f"{type(self).__name__}(): {name} must be a matrix or a batch of them, got shape {tuple(given.shape)}")
        # Computations use this matrix, which is smaller than the one that is broadcast over the batch.
        self._given = name, given
        self._set_parameters(validate_args, event_shape, **others, **{name: given})

    def _expand_into(self, new: Any, batch_shape: Any) -> None:
        super()._expand_into(new, batch_shape)
        new._given = self._given
        if "_unbroadcasted_scale_tril" in self.__dict__:
            new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    @lazy_property
    def _unbroadcasted_scale_tril(self) -> Any:
        name, given = self._given
        if name == "scale_tril":
            return given
        return mt.linalg.cholesky(given) if name == "covariance_matrix" else factor_of_inverse(given)

    def _over_batch(self, matrix: Any) -> Any:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance, of shape (..., d, d)."""
        return self._over_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance, of shape (..., d, d)."""
        factor = self._unbroadcasted_scale_tril
        return self._over_batch(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance, of shape (..., d, d)."""
        return self._over_batch(mt.cholesky_inverse(self._unbroadcasted_scale_tril))


class _Gaussian(Parametric):
    """Base class of distributions whose density depends on a log determinant and a squared Mahalanobis distance."""

    support = constraints.real_vector
    has_rsample = True

    def _half_log_det(self) -> Any:
        raise NotImplementedError

    def _distance(self, columns: Any) -> Any:
        """Return ``x^T covariance^-1 x`` for each column x of a tensor (*batch, d, n). The result is (*batch, n)."""
        raise NotImplementedError

    def _factor(self) -> Any:
        """Return a matrix F with ``covariance == F @ F.mT``."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    def _log_density(self, value: Any) -> Any:
        difference = value - self.loc
        model = self._whitener()
        distance = by_columns(lambda _, columns: self._distance(columns).unsqueeze(-2), model, difference).squeeze(-1)
        return -0.5 * distance - self._half_log_det() - self._event_shape[0] * HALF_LOG_2PI

    def _whitener(self) -> Any:
        """Return a matrix with the batch dimensions that `_distance` expects."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the entropy in nats: half the log determinant of 2 pi e times the covariance."""
        return (self._half_log_det() + self._event_shape[0] * (0.5 + HALF_LOG_2PI)).expand(self._batch_shape)


class MultivariateNormal(ScaleTriple, _Gaussian):
    """The multivariate normal distribution.

    Parameters
    ----------
    loc : Tensor
        Mean, of shape (..., d).
    covariance_matrix, precision_matrix, scale_tril : Tensor, optional
        The covariance, its inverse, or its lower Cholesky factor, of shape (..., d, d). Exactly one must be given.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import MultivariateNormal
    >>> d = MultivariateNormal(mt.zeros(4, 3, device="meta"), scale_tril=mt.eye(3, device="meta"))
    >>> d.batch_shape, d.event_shape
    (metatensor.Size([4]), metatensor.Size([3]))
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real_vector, **ScaleTriple.arg_constraints}

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("MultivariateNormal(): loc must have at least one dimension, got a scalar")
        self._set_scale(validate_args, loc.shape[-1:], covariance_matrix, precision_matrix, scale_tril, loc=loc)

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.square().sum(-1)
        return squares.expand((*self._batch_shape, *self._event_shape))

    def _draw(self, shape: Any) -> Any:
        return self.loc + by_columns(mt.matmul, self._unbroadcasted_scale_tril, noise("normal", shape, self.loc))

    def _half_log_det(self) -> Any:
        return log_diagonal(self._unbroadcasted_scale_tril)

    def _distance(self, columns: Any) -> Any:
        return solve_lower(self._unbroadcasted_scale_tril, columns).square().sum(-2)

    def _whitener(self) -> Any:
        return self._unbroadcasted_scale_tril

    def _factor(self) -> Any:
        return self._unbroadcasted_scale_tril


class LowRankMultivariateNormal(_Gaussian):
    """The multivariate normal distribution with covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    The cost of `log_prob` is linear in d.

    Parameters
    ----------
    loc : Tensor
        Mean, of shape (..., d).
    cov_factor : Tensor
        Shape (..., d, rank).
    cov_diag : Tensor
        Positive numbers of shape (..., d).
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import LowRankMultivariateNormal
    >>> loc = mt.zeros(4, device="meta")
    >>> LowRankMultivariateNormal(loc, mt.ones(4, 1, device="meta"), mt.ones(4, device="meta")).sample((2,)).shape
    metatensor.Size([2, 4])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.ndim < 1:
            raise ValueError("LowRankMultivariateNormal(): loc must have at least one dimension, got a scalar")
        d = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != d or cov_diag.ndim < 1 or cov_diag.shape[-1] != d:
            raise ValueError(
                f"LowRankMultivariateNormal(): for loc of shape {tuple(loc.shape)}, cov_factor must have shape (..., {d}, rank) and "
                f"cov_diag (..., {d}); got {tuple(cov_factor.shape)} and {tuple(cov_diag.shape)}"
            )
        self._set_parameters(validate_args, (d,), loc=loc, cov_factor=cov_factor, cov_diag=cov_diag)

    @lazy_property
    def _capacitance_tril(self) -> Any:
        """The lower Cholesky factor of the capacitance matrix I + W^T D^-1 W."""
        scaled = self.cov_factor / self.cov_diag.unsqueeze(-1)
        eye = mt.eye(scaled.shape[-1], dtype=scaled.dtype, device=scaled.device)
        return mt.linalg.cholesky(eye + self.cov_factor.mT @ scaled)

    @property
    def variance(self) -> Any:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance, of shape (..., d, d)."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance, of shape (..., d, d)."""
        return mt.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance, computed by the Woodbury identity."""
        inverse = self.cov_diag.reciprocal()
        half = solve_lower(self._capacitance_tril, (self.cov_factor * inverse.unsqueeze(-1)).mT)
        return inverse.diag_embed() - half.mT @ half

    def _draw(self, shape: Any) -> Any:
        low = noise("normal", (*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        return self.loc + by_columns(mt.matmul, self.cov_factor, low) + self.cov_diag.sqrt() * noise("normal", shape, self.loc)

    def _half_log_det(self) -> Any:
        return 0.5 * self.cov_diag.log().sum(-1) + log_diagonal(self._capacitance_tril)

    def _distance(self, columns: Any) -> Any:
        weighted = columns / self.cov_diag.unsqueeze(-1)
        inner = solve_lower(self._capacitance_tril, self.cov_factor.mT @ weighted)
        return (columns * weighted).sum(-2) - inner.square().sum(-2)

    def _whitener(self) -> Any:
        return self.cov_factor

    def _factor(self) -> Any:
        return mt.cat([self.cov_factor, self.cov_diag.sqrt().diag_embed()], -1)
