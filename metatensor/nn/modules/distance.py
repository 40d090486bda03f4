"""Distance and similarity layers."""

from __future__ import annotations

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """Cosine of the angle between two tensors along one dimension.

    The inputs have the same shape or shapes that broadcast. Dimension ``dim`` is removed.

    Parameters
    ----------
    dim : int
        Dimension of the vectors. Default 1.
    eps : float
        Lower bound of the norms, which avoids division by 0. Default 1e-8.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.CosineSimilarity()(mt.empty(8, 16), mt.empty(8, 16)).shape
    metatensor.Size([8])
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: mt.Tensor, x2: mt.Tensor) -> mt.Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """``p``-norm of ``x1 - x2 + eps`` along the last dimension.

    Inputs of shape (N, D) or (D,) give an output of shape (N,) or ().

    Parameters
    ----------
    p : float
        Order of the norm. Default 2.
    eps : float
        Value added to each difference, which keeps the gradient finite. Default 1e-6.
    keepdim : bool
        Keep the last dimension, with size 1. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.PairwiseDistance()(mt.empty(8, 16), mt.empty(8, 16)).shape
    metatensor.Size([8])
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: mt.Tensor, x2: mt.Tensor) -> mt.Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
