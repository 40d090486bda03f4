"""Loss layers.

All of them take ``reduction``: "mean", "sum" or "none", which returns the loss of each element or example.
``size_average`` and ``reduce`` are deprecated bools with the same purpose. Passing one emits a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module
from metatensor.nn.modules.distance import PairwiseDistance

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    __constants__ = ["reduction"]
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
            warnings.warn(f"size_average and reduce are deprecated; use reduction={reduction!r}", stacklevel=3)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """Base of losses with an optional weight, stored as a buffer."""

    def __init__(
        self,
        weight: mt.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """Absolute error, ``abs(input - target)``.

    Input and target have the same shape, or shapes that broadcast. The loss is a scalar, or has the broadcast shape for
    ``reduction="none"``.

    Parameters
    ----------
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.L1Loss()(mt.tensor([1.0, 2.0], device="cpu"), mt.tensor([1.0, 4.0], device="cpu"))
    tensor(1.)
    """

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared error, ``(input - target) ** 2``.

    Input and target have the same shape, or shapes that broadcast. The parameters are those of `L1Loss`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.MSELoss()(mt.tensor([1.0, 2.0], device="cpu"), mt.tensor([1.0, 4.0], device="cpu"))
    tensor(2.)
    """

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Error that is quadratic for small differences and linear for large ones (Girshick, 2015).

    With ``d = abs(input - target)``, the loss is ``d ** 2 / (2 * beta)`` if ``d < beta``, else ``d - beta / 2``. Input
    and target have the same shape, or shapes that broadcast.

    Parameters
    ----------
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".
    beta : float
        Difference at which the loss becomes linear. Default 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.SmoothL1Loss()(mt.tensor([1.0, 2.0], device="cpu"), mt.tensor([1.0, 4.0], device="cpu"))
    tensor(0.7500)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """`SmoothL1Loss` with ``beta=delta``, multiplied by ``delta`` (Huber, 1964).

    Parameters
    ----------
    reduction : str
        "mean" (the default), "sum" or "none".
    delta : float
        Difference at which the loss becomes linear. Default 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> loss = mt.nn.HuberLoss(delta=0.5)
    >>> loss(mt.tensor([1.0, 2.0], device="cpu"), mt.tensor([1.0, 4.0], device="cpu"))
    tensor(0.4375)
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of class scores: minus the log-softmax of the scores at the target class.

    Scores have shape (N, C, ...) or (C,). The target holds classes, int64 or uint8 of shape (N, ...) or (), or class
    probabilities of the shape of the scores.

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    ignore_index : int
        Target class to ignore. Default -100.
    reduction : str
        "mean" (the default), "sum" or "none". The mean is weighted by ``weight``.
    label_smoothing : float
        Share of the target probability that is spread evenly over all classes. Default 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.CrossEntropyLoss()(mt.zeros(2, 4, device="cpu"), mt.tensor([1, 3], device="cpu"))
    tensor(1.3863)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: mt.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood: minus the given log-probability of the target class.

    Log-probabilities have shape (N, C, ...) or (C,), and targets have shape (N, ...) or ().

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    ignore_index : int
        Target class to ignore. Default -100.
    reduction : str
        "mean" (the default), "sum" or "none". The mean is weighted by ``weight``.

    Examples
    --------
    >>> import metatensor as mt
    >>> log_probs = mt.tensor([[-0.5, -2.0], [-1.0, -3.0]], device="cpu")
    >>> mt.nn.NLLLoss()(log_probs, mt.tensor([0, 1], device="cpu"))
    tensor(1.7500)
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: mt.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`. Creating one emits a FutureWarning."""

    def __init__(
        self,
        weight: mt.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn("nn.NLLLoss2d is deprecated: nn.NLLLoss does the same", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities: ``-(target * log(input) + (1 - target) * log(1 - input))``.

    Input and target have the same shape and dtype.

    Parameters
    ----------
    weight : Tensor, optional
        Factor of each element, of a shape that broadcasts to the input's.
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.BCELoss()(mt.tensor([0.5, 0.5], device="cpu"), mt.tensor([0.0, 1.0], device="cpu"))
    tensor(0.6931)
    """

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of ``sigmoid(input)``, computed stably from the logits.

    Input and target have the same shape.

    Parameters
    ----------
    weight : Tensor, optional
        Factor of each element, of a shape that broadcasts to the input's.
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".
    pos_weight : Tensor, optional
        Factor of the positive term, of a shape that broadcasts to the input's.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.BCEWithLogitsLoss()(mt.zeros(2, device="cpu"), mt.tensor([0.0, 1.0], device="cpu"))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: mt.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: mt.Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence from log-probabilities: ``target * (log(target) - input)``, elementwise.

    Input and target have the same shape, or shapes that broadcast.

    Parameters
    ----------
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default, over all elements), "batchmean" (the sum divided by the size of dimension 0), "sum" or
        "none".
    log_target : bool
        The target holds log-probabilities too. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.KLDivLoss(reduction="batchmean")(mt.empty(8, 4), mt.empty(8, 4)).shape
    metatensor.Size([])
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts under a Poisson distribution, without constant terms.

    The loss is ``exp(input) - target * input`` if ``log_input``, else ``input - target * log(input + eps)``. Input and
    target have the same shape, or shapes that broadcast.

    Parameters
    ----------
    log_input : bool
        The input is the logarithm of the rate. Default True.
    full : bool
        Add Stirling's approximation of the constant term. Default False.
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    eps : float
        Value added before the logarithm. Default 1e-8.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.PoissonNLLLoss(reduction="none")(mt.empty(8), mt.empty(8)).shape
    metatensor.Size([8])
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of ``target`` under normal distributions of mean ``input`` and variance ``var``.

    The loss is ``(log(v) + (input - target) ** 2 / v) / 2`` with ``v = max(var, eps)``. ``var`` is a number or a
    tensor. A tensor has the shape of the input, that shape with a last dimension of 1, or that shape without the last
    dimension.

    Parameters
    ----------
    full : bool
        Add the constant term ``log(2 * pi) / 2``. Default False.
    eps : float
        Lower bound of the variance. Default 1e-6.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.GaussianNLLLoss()(mt.zeros(8, 4), mt.zeros(8, 4), mt.ones(8, 1)).shape
    metatensor.Size([])
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: mt.Tensor, target: mt.Tensor, var: mt.Tensor | float) -> mt.Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """Logistic loss ``log(1 + exp(-target * input))`` of scores, for targets 1 and -1.

    The target broadcasts to the shape of the input. The parameters are those of `L1Loss`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.SoftMarginLoss()(mt.zeros(2, device="cpu"), mt.tensor([1.0, -1.0], device="cpu"))
    tensor(0.6931)
    """

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge loss between the scores of target classes and those of all other classes.

    Scores have shape (N, C) or (C,). The target is int64 of the same shape and lists the target classes of each
    example, followed by -1. The loss of an example is the sum of ``max(0, 1 - (score of target - score of other)) / C``
    over all pairs. The parameters are those of `L1Loss`.

    Examples
    --------
    >>> import metatensor as mt
    >>> scores = mt.tensor([0.1, 0.2, 0.4, 0.8], device="cpu")
    >>> mt.nn.MultiLabelMarginLoss()(scores, mt.tensor([3, 0, -1, -1], device="cpu"))
    tensor(0.8500)
    """

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy of ``sigmoid(input)``, averaged over the classes of each example.

    Scores and targets have shape (N, C) or (C,).

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.MultiLabelSoftMarginLoss(reduction="none")(mt.zeros(8, 4), mt.ones(8, 4)).shape
    metatensor.Size([8])
    """

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Hinge loss between the score of the target class and those of all other classes.

    Scores have shape (N, C) or (C,), and targets are int64 of shape (N,) or (). The loss of an example is the sum of
    ``max(0, margin - (score of target - score of other)) ** p / C`` over the other classes.

    Parameters
    ----------
    p : int
        Exponent, 1 (the default) or 2.
    margin : float
        Difference of scores beyond which the loss is 0. Default 1.
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Raises
    ------
    ValueError
        If ``p`` is neither 1 nor 2 or ``weight`` does not have 1 dimension.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.MultiMarginLoss()(mt.tensor([[0.1, 0.8]], device="cpu"), mt.tensor([1], device="cpu"))
    tensor(0.1500)
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: mt.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2, not {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: weight must have 1 dimension, got shape {list(weight.shape)}")
        super().__init__(weight, size_average, reduce, reduction)
        self.p, self.margin = p, margin

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """Loss of distances: ``input`` if the target is 1, ``max(0, margin - input)`` if it is -1.

    Input and target have the same shape or shapes that broadcast.

    Parameters
    ----------
    margin : float
        Distance beyond which pairs with target -1 have no loss. Default 1.
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> loss = mt.nn.HingeEmbeddingLoss()
    >>> loss(mt.tensor([0.5, 0.25], device="cpu"), mt.tensor([1.0, -1.0], device="cpu"))
    tensor(0.6250)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """Ranking loss ``max(0, -target * (input1 - input2) + margin)``, for targets 1 and -1.

    The three tensors have the same number of dimensions, and shapes that broadcast. A target of 1 means that ``input1``
    should be larger than ``input2``, and -1 the opposite.

    Parameters
    ----------
    margin : float
        Difference beyond which the loss is 0. Default 0.
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.MarginRankingLoss()(mt.empty(8), mt.empty(8), mt.ones(8)).shape
    metatensor.Size([])
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: mt.Tensor, input2: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """Loss of pairs of vectors: ``1 - cos`` if the target is 1, ``max(0, cos - margin)`` if it is -1.

    ``cos`` is the cosine of the angle between both vectors. The inputs have shape (N, D) and the target has shape
    (N,), or the same without N.

    Parameters
    ----------
    margin : float
        Cosine below which pairs with target -1 have no loss. Default 0.
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.CosineEmbeddingLoss()(mt.empty(8, 16), mt.empty(8, 16), mt.ones(8)).shape
    metatensor.Size([])
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: mt.Tensor, input2: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """Triplet loss ``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` (Balntas et al., 2016).

    ``d`` is the ``p``-norm of the difference. The three inputs have shape (N, D) or (D,).

    Parameters
    ----------
    margin : float
        Difference of the two distances beyond which the loss is 0. It must be positive. Default 1.
    p : float
        Order of the norm. Default 2.
    eps : float
        Value added to each difference. Default 1e-6.
    swap : bool
        Use ``min(d(anchor, negative), d(positive, negative))`` as the second distance. Default False.
    size_average, reduce : bool, optional
        Deprecated. Use ``reduction``.
    reduction : str
        "mean" (the default), "sum" or "none".

    Raises
    ------
    ValueError
        If ``margin`` is not positive.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.TripletMarginLoss()(mt.empty(8, 16), mt.empty(8, 16), mt.empty(8, 16)).shape
    metatensor.Size([])
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin must be positive, not {margin}")
        super().__init__(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: mt.Tensor, positive: mt.Tensor, negative: mt.Tensor) -> mt.Tensor:
        options = self.margin, self.p, self.eps, self.swap
        return F.triplet_margin_loss(anchor, positive, negative, *options, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance function.

    Parameters
    ----------
    distance_function : callable, optional
        Function of two tensors that returns their distances. Default `PairwiseDistance`.
    margin : float
        Difference of the two distances beyond which the loss is 0. It must be positive. Default 1.
    swap : bool
        Use the smaller of the distances from the negative example to the other two. Default False.
    reduction : str
        "mean" (the default), "sum" or "none".

    Raises
    ------
    ValueError
        If ``margin`` is not positive.

    Examples
    --------
    >>> import metatensor as mt
    >>> loss = mt.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))
    >>> loss(mt.empty(8, 16), mt.empty(8, 16), mt.empty(8, 16)).shape
    metatensor.Size([])
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[mt.Tensor, mt.Tensor], mt.Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin must be positive, not {margin}")
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: mt.Tensor, positive: mt.Tensor, negative: mt.Tensor) -> mt.Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification loss (Graves et al., 2006).

    It is called with log-probabilities (T, N, C) or (T, C), with targets (N, S) or one vector of all targets, and with
    the lengths of inputs and targets, both (N,).

    Parameters
    ----------
    blank : int
        Class of the blank label. Default 0.
    reduction : str
        "mean" (the default), "sum" or "none". "mean" divides each loss by its target length before averaging.
    zero_infinity : bool
        Replace infinite losses by 0. They occur if an input is too short for its target. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> log_probs, targets = mt.zeros(10, 2, 5), mt.ones(2, 3, dtype=mt.int64)
    >>> mt.nn.CTCLoss()(log_probs, targets, input_lengths=[10, 10], target_lengths=[3, 3]).shape
    metatensor.Size([])
    """

    __constants__ = ["blank", "reduction"]

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: mt.Tensor, targets: mt.Tensor, input_lengths: Any, target_lengths: Any) -> mt.Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
