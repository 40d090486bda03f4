"""Distributions of matrices: Wishart (covariance) and LKJCholesky (Cholesky factors of correlations)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions.exp_family import ExponentialFamily
from metatensor.distributions.multivariate_normal import ScaleTriple, factor_of_inverse, log_diagonal, solve_lower
from metatensor.distributions.utils import has_data, noise

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(ScaleTriple, ExponentialFamily):
    """The Wishart distribution of positive definite matrices: the sum of x x^T over `df` normal vectors x.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom, greater than d - 1.
    covariance_matrix, precision_matrix, scale_tril : Tensor, optional
        Covariance of the vectors, its inverse, or its lower Cholesky factor, of shape (..., d, d). Exactly one must be
        given.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Wishart
    >>> Wishart(3.0, mt.eye(2, device="cpu")).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = next((m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None), None)
        event = mt.Size(()) if given is None else given.shape[-2:]
        if not isinstance(df, mt.Tensor) and given is not None:
            df = mt.tensor(df, dtype=given.dtype, device=given.device)
        # Checked even without validate_args: the density does not exist for fewer degrees of freedom.
        if event and has_data(df) and not bool((df > event[-1] - 1).all()):
            raise ValueError(f"Wishart(): df must be above {event[-1] - 1} for matrices of shape {tuple(event)}, got {df}")
        self._set_scale(validate_args, event, covariance_matrix, precision_matrix, scale_tril, df=df)

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Constraint of each parameter, by name."""
        return {**ScaleTriple.arg_constraints, "df": constraints.greater_than(self._d - 1)}

    @property
    def _d(self) -> int:
        return self._event_shape[-1]

    def _degrees(self) -> Any:
        return self.df[..., None, None]

    @property
    def mean(self) -> Any:
        return self._degrees() * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self._degrees() - self._d - 1
        return mt.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        scales = self.covariance_matrix.diagonal(0, -2, -1)
        return self._degrees() * (self.covariance_matrix.square() + scales.unsqueeze(-1) * scales.unsqueeze(-2))

    def _draw(self, shape: Any) -> Any:
        # Bartlett decomposition: the Cholesky factor of a standard Wishart matrix has independent elements. Those below
        # the diagonal are normal. Diagonal element i, from 0, is the square root of a chi-squared variable with df - i
        # degrees.
        below = noise("normal", shape, self.df).tril(-1)
        degrees = self.df.unsqueeze(-1) - mt.arange(self._d, dtype=self.df.dtype, device=self.df.device)
        squares = 2 * mt._standard_gamma((degrees / 2).expand(shape[:-1]))
        factor = self._unbroadcasted_scale_tril @ (below + squares.sqrt().diag_embed())
        return factor @ factor.mT

    def _log_density(self, value: Any) -> Any:
        half_log_det = log_diagonal(mt.linalg.cholesky(value))
        # The trace of covariance^-1 @ value is the sum of squares of L^-1 F, where L and F are their Cholesky factors.
        white = solve_lower(self._unbroadcasted_scale_tril, mt.linalg.cholesky(value))
        trace = white.square().flatten(-2).sum(-1)
        return (self.df - self._d - 1) * half_log_det - 0.5 * trace - self._log_volume(log_diagonal(self._unbroadcasted_scale_tril))

    def _log_volume(self, half_log_det: Any) -> Any:
        """Return the log normalizer, given half the log determinant of the covariance."""
        return self.df * (half_log_det + self._d * math.log(2) / 2) + (self.df / 2).mvlgamma(self._d)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -0.5 * self.precision_matrix, (self.df - self._d - 1) / 2

    def _log_normalizer(self, first: Any, second: Any) -> Any:  # type: ignore[override]
        half_df = second + (self._d + 1) / 2
        return 2 * half_df * (log_diagonal(factor_of_inverse(-2 * first)) + self._d * math.log(2) / 2) + half_df.mvlgamma(self._d)

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        steps = mt.arange(self._d, dtype=self.df.dtype, device=self.df.device)
        digammas = ((self.df.unsqueeze(-1) - steps) / 2).digamma().sum(-1)
        log_det = 2 * log_diagonal(self._unbroadcasted_scale_tril)
        return self.mean, digammas + self._d * math.log(2) + log_det


class LKJCholesky(Parametric):
    """The LKJ distribution of lower Cholesky factors of correlation matrices.

    A correlation matrix C has a density proportional to ``det(C) ** (concentration - 1)``. See Lewandowski, Kurowicka and
    Joe, "Generating random correlation matrices based on vines and extended onion method" (2009).

    Parameters
    ----------
    dim : int
        Number of rows of the matrices, at least 2.
    concentration : float or Tensor
        Positive number. At 1, the distribution of correlation matrices is uniform. Default: 1.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import LKJCholesky
    >>> LKJCholesky(3, mt.ones(4, device="meta")).sample((2,)).shape
    metatensor.Size([2, 4, 3, 3])
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _settings = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if not isinstance(dim, int):
            raise TypeError(f"LKJCholesky(): dim must be an int, got {type(dim).__name__}")
        if dim < 2:
            raise ValueError(f"LKJCholesky(): dim must be at least 2, got {dim}")
        self.dim = dim
        self._set_parameters(validate_args, (dim, dim), concentration=concentration)

    # Row i, from 1, consists of a vector w of i elements in the unit ball and sqrt(1 - |w|**2). Its density is
    # proportional to (1 - |w|**2) ** (b_i - 1), where b_i = concentration + (dim - 1 - i) / 2. So |w|**2 has the
    # distribution Beta(i / 2, b_i).

    def _rows(self) -> tuple[Any, Any]:
        """Return i and b_i of all rows, along the last dimension."""
        i = mt.arange(1, self.dim, dtype=self.concentration.dtype, device=self.concentration.device)
        return i, self.concentration.unsqueeze(-1) + (self.dim - 1 - i) / 2

    def _draw(self, shape: Any) -> Any:
        i, b = self._rows()
        weights = mt.stack([(i / 2).expand(b.shape), b], -1)
        parts = mt._sample_dirichlet(weights.expand((*shape[:-2], self.dim - 1, 2)))
        # The direction of each row: normal variables below the diagonal, normalized.
        directions = noise("normal", shape, self.concentration).tril(-1)[..., 1:, :]
        rows = directions * (parts[..., :1].sqrt() / mt.linalg.vector_norm(directions, dim=-1, keepdim=True))
        first = mt.zeros((*shape[:-2], 1, self.dim), dtype=rows.dtype, device=rows.device)
        diagonal = parts[..., 1].clamp(min=mt.finfo(rows.dtype).tiny).sqrt()
        return mt.cat([first, rows], -2) + mt.cat([mt.ones_like(diagonal[..., :1]), diagonal], -1).diag_embed()

    def _log_density(self, value: Any) -> Any:
        i, b = self._rows()
        # the integral of (1 - |w|**2) ** (b - 1) over the ball of dimension i
        volumes = i / 2 * math.log(math.pi) + b.lgamma() - (b + i / 2).lgamma()
        return (2 * (b - 1) * value.diagonal(0, -2, -1)[..., 1:].log() - volumes).sum(-1)
