"""Parametrizations of weights: orthogonal matrices, spectral normalization and weight normalization."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn._parameter import without_grad
from metatensor.nn.module import Module
from metatensor.nn.utils._norms import as_matrix, norm_except_dim, weight_of
from metatensor.nn.utils.parametrize import register_parametrization
from metatensor.nn.utils.spectral_norm import default_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str, function: str) -> mt.Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, mt.Tensor):
        raise ValueError(f"{function}: {type(module).__name__} has no parameter or buffer {name!r}")
    return tensor


# Machine epsilon: the distance from 1 to the next larger number.
_STEP = {mt.float32: 2.0**-23, mt.float64: 2.0**-52, mt.complex64: 2.0**-23, mt.complex128: 2.0**-52}


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _made_orthogonal(a: mt.Tensor) -> mt.Tensor:
    """Return the Q of the QR decomposition whose R has a positive diagonal."""
    q, r = mt.linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(q: mt.Tensor) -> bool:
    """Return True if the columns are orthonormal. On meta this is unknown, and the result is False."""
    if q.is_meta:
        return False
    identity = mt.eye(q.size(-1), dtype=q.dtype, device=q.device)
    return mt.allclose(q.mH @ q, identity, atol=10.0 * q.size(-2) * _STEP[q.dtype])


class _Orthogonal(Module):
    """Parametrization that maps any matrix to one with orthonormal rows or columns.

    With trivialization the result is multiplied by the buffer ``base``.
    """

    base: Any

    def __init__(self, weight: mt.Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: mt.Tensor) -> mt.Tensor:
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        q = self._by_householder(X) if self.orthogonal_map == _OrthMaps.householder else self._by_skew(X)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _by_householder(self, X: mt.Tensor) -> mt.Tensor:
        below = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
        q = mt.linalg.householder_product(below, tau)
        return q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _by_skew(self, X: mt.Tensor) -> mt.Tensor:
        """Apply the matrix exponential or the Cayley map to a skew-symmetric matrix."""
        n, k = X.size(-2), X.size(-1)
        X = X.tril()
        if n != k:
            X = mt.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
        skew = X - X.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            q = mt.linalg.matrix_exp(skew)
        else:
            identity = mt.eye(n, dtype=skew.dtype, device=skew.device)
            q = mt.linalg.solve(identity - 0.5 * skew, identity + 0.5 * skew)
        return q[..., :k] if n != k else q

    def right_inverse(self, Q: mt.Tensor) -> mt.Tensor:
        """Return a matrix that `forward` maps to ``Q``, or to an orthogonal matrix near it."""
        if Q.shape != self.shape:
            raise ValueError(f"orthogonal: expected shape {list(self.shape)}, got {list(Q.shape)}")
        return without_grad(self._inverse, Q)

    def _inverse(self, Q: mt.Tensor) -> mt.Tensor:
        wide = Q.size(-2) < Q.size(-1)
        q = Q.mT if wide else Q
        n, k = q.size(-2), q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError(
                    f"orthogonal: a tensor with the map {self.orthogonal_map.name!r} cannot be assigned to without "
                    "trivialization"
                )
            packed, tau = mt.geqrf(q)
            signs = packed.diagonal(dim1=-2, dim2=-1)
            signs.copy_(signs.sign() * (1 - 2 * (tau == 0.0).to(packed.dtype)))
            return packed.mT if wide else packed
        if n != k:
            more = mt.randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
            self.base = _made_orthogonal(mt.cat([q, more], dim=-1))
        else:
            self.base = q.clone() if _is_orthogonal(q) else _made_orthogonal(q)
        made = mt.zeros_like(Q)
        made.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return made


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrize a weight by an orthogonal matrix, or by one for each matrix of a batch.

    The columns are orthonormal or, if the matrix is wider than high, the rows.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter or buffer. Default "weight".
    orthogonal_map : str, optional
        "matrix_exp", "cayley" or "householder". Default: "matrix_exp" for square and complex matrices, else
        "householder".
    use_trivialization : bool
        Center the map at the value that was assigned last. Default True.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions, the map is unknown, or the map is "householder" and the tensor is
        complex.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.parametrizations import orthogonal
    >>> layer = orthogonal(mt.nn.Linear(4, 4, device="cpu"))
    >>> mt.allclose(layer.weight @ layer.weight.T, mt.eye(4, device="cpu"), atol=1e-5)
    True
    """
    weight = _tensor_of(module, name, "orthogonal")
    if weight.dim() < 2:
        raise ValueError(f"orthogonal: expected at least 2 dimensions, got shape {list(weight.shape)}")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(f"orthogonal: orthogonal_map must be one of {[*_OrthMaps.__members__]}, not {orthogonal_map!r}")
    if weight.is_complex() and orthogonal_map == "householder":
        raise ValueError("orthogonal: the map 'householder' is for real tensors")
    made = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: mt.Tensor, weight_v: mt.Tensor) -> mt.Tensor:
        return weight_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: mt.Tensor) -> tuple[mt.Tensor, mt.Tensor]:
        return norm_except_dim(weight, self.dim), weight


class _OldNames:
    """Hook that loads state dicts of the older `metatensor.nn.utils.weight_norm`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{self.name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{i}"] = state_dict.pop(key)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a weight by its norms and directions (Salimans and Kingma, 2016).

    ``original0`` holds the norms and ``original1`` the directions.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter. Default "weight".
    dim : int, optional
        Dimension along which each slice has its own norm. Default 0. None means a single norm.

    Returns
    -------
    Module
        ``module``.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.parametrizations import weight_norm
    >>> sorted(weight_norm(mt.nn.Linear(3, 2)).state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OldNames(name))
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: mt.Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.dim()
        if not -ndim <= dim < ndim:
            raise IndexError(f"spectral_norm: dim={dim} is out of range for {ndim} dimensions")
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, not {n_power_iterations}")
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            for name, n in zip(("_u", "_v"), matrix.shape):
                self.register_buffer(name, F.normalize(matrix.new_empty(n).normal_(0, 1), dim=0, eps=eps))
            without_grad(self._power_method, matrix, 15)

    def _power_method(self, matrix: mt.Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(mt.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(mt.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: mt.Tensor) -> mt.Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            without_grad(self._power_method, matrix, self.n_power_iterations)
        return weight / mt.vdot(self._u.clone(), mt.mv(matrix, self._v.clone()))

    def right_inverse(self, value: mt.Tensor) -> mt.Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al., 2018).

    The singular value is estimated by power iteration, which continues in each call in training mode. The weight is
    treated as a matrix whose rows are its slices along ``dim``. A vector is divided by its norm.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter. Default "weight".
    n_power_iterations : int
        Iterations per call. Default 1.
    eps : float
        Lower bound of the norms used as divisors. Default 1e-12.
    dim : int, optional
        Dimension of the outputs. Default: 1 for transposed convolutions, else 0.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    IndexError
        If ``dim`` is out of range.
    ValueError
        If ``n_power_iterations`` is not positive.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.parametrizations import spectral_norm
    >>> spectral_norm(mt.nn.Linear(3, 2)).weight.shape
    metatensor.Size([2, 3])
    """
    weight = _tensor_of(module, name, "spectral_norm")
    made = _SpectralNorm(weight, n_power_iterations, default_dim(module, dim), eps)
    return register_parametrization(module, name, made)
