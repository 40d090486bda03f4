"""Approximate softmax over a large number of classes."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module
from metatensor.nn.modules.container import ModuleList, Sequential
from metatensor.nn.modules.linear import Linear

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of target classes by adaptive softmax (Grave et al., 2017), and their mean loss.

    Classes are numbered from frequent to rare and grouped into clusters. The layer ``head`` scores the classes below
    ``cutoffs[0]`` and has one more output for each cluster of rarer classes. ``tail[i]`` scores the classes of cluster
    ``i`` after a projection to ``in_features // div_value ** (i + 1)`` features.

    Calling the layer with an input (N, in_features) and a target (N,) returns a named tuple: ``output`` (N,) holds the
    log-probability of each target class, and ``loss`` () is minus its mean. An input (in_features,) with a target ()
    gives an ``output`` ().

    On the meta device the cluster of each row is unknown, so every row passes through all clusters.

    Parameters
    ----------
    in_features : int
        Size of the input's last dimension.
    n_classes : int
        Number of classes.
    cutoffs : sequence of int
        First class of each cluster, increasing, between 1 and ``n_classes - 1``.
    div_value : float
        Factor by which the projections shrink from one cluster to the next. Default 4.
    head_bias : bool
        Add a bias to ``head``. Default False.
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    ValueError
        If ``cutoffs`` is empty, not strictly increasing, not integral or out of range.
    RuntimeError
        On a call, if the shapes do not match or a target is out of range (not checked on meta).

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 40])
    >>> output, loss = layer(mt.zeros(8, 16), mt.arange(8))
    >>> output.shape, loss.shape
    (metatensor.Size([8]), metatensor.Size([]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("AdaptiveLogSoftmaxWithLoss: there must be at least one cutoff")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be unique increasing integers between 1 and "
                f"n_classes - 1 = {n_classes - 1}, not {cutoffs}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // div_value ** (i + 1))
            first = Linear(in_features, width, bias=False, **options)
            self.tail.append(Sequential(first, Linear(width, high - low, bias=False, **options)))

    def reset_parameters(self) -> None:
        """Draw new initial values for the head and all clusters."""
        for layer in (self.head, *(layer for cluster in self.tail for layer in cluster)):
            layer.reset_parameters()

    def forward(self, input_: mt.Tensor, target_: mt.Tensor) -> Any:
        dims = target_.dim()
        if dims > 1 or input_.dim() != dims + 1 or (dims and input_.size(0) != target_.size(0)):
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: expected an input (N, features) with a target (N,), or both without N, "
                f"got shapes {list(input_.shape)} and {list(target_.shape)}"
            )
        input, target = (input_, target_) if dims else (input_.unsqueeze(0), target_.unsqueeze(0))
        head = F.log_softmax(self.head(input), 1)
        compute = self._without_values if input.is_meta or target.is_meta else self._by_cluster
        output = compute(input, target, head)
        loss = (-output).mean()
        return _ASMoutput(output if dims else output.squeeze(0), loss)

    def _by_cluster(self, input: mt.Tensor, target: mt.Tensor, head: mt.Tensor) -> mt.Tensor:
        output = input.new_zeros(target.size(0))
        entry = target.clone()  # column of `head`: the class itself, or the entry of its cluster
        used = 0
        for i, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            used += rows.numel()
            if i == 0 or not rows.numel():
                continue
            entry.index_fill_(0, rows, self.shortlist_size + i - 1)
            scores = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), 1)
            within = target.index_select(0, rows) - low
            output.index_copy_(0, rows, scores.gather(1, within.unsqueeze(1)).squeeze(1))
        if used != target.size(0):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: targets must lie in [0, {self.n_classes - 1}], "
                f"got values from {target.min().item()} to {target.max().item()}"
            )
        return output + head.gather(1, entry.unsqueeze(1)).squeeze(1)

    def _without_values(self, input: mt.Tensor, target: mt.Tensor, head: mt.Tensor) -> mt.Tensor:
        output = head.gather(1, target.unsqueeze(1)).squeeze(1)
        for cluster in self.tail:
            output = output + F.log_softmax(cluster(input), 1).gather(1, target.unsqueeze(1)).squeeze(1)
        return output

    def _get_full_log_prob(self, input: mt.Tensor, head_output: mt.Tensor) -> mt.Tensor:
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            entry = self.shortlist_size + i
            parts.append(F.log_softmax(cluster(input), 1) + head[:, entry : entry + 1])
        return mt.cat(parts, 1)

    def log_prob(self, input: mt.Tensor) -> mt.Tensor:
        """Return the log-probabilities of all classes, (N, n_classes), for an input (N, in_features)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: mt.Tensor) -> mt.Tensor:
        """Return the most probable class of each row, (N,), for an input (N, in_features)."""
        scores = self.head(input)
        if input.is_meta:
            return self._get_full_log_prob(input, scores).argmax(1)
        output = scores.argmax(1)
        rare = (output >= self.shortlist_size).nonzero().squeeze(1)
        if rare.numel():
            full = self._get_full_log_prob(input.index_select(0, rare), scores.index_select(0, rare))
            output.index_copy_(0, rare, full.argmax(1))
        return output
