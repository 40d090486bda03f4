"""Softmax over many classes, most of which are rare."""

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
    """Log-probability of target classes, ordered from frequent to rare, by clusters (Grave and others, 2017).

    ``head`` scores the classes below ``cutoffs[0]`` and one entry for each further cluster; ``tail`` scores the
    classes of a cluster after a projection to ``in_features // div_value ** i`` features. Input (N, in_features) and
    target (N,) give a pair (output (N,), loss ()); without N both lose it. ValueError for cutoffs that are not
    increasing, unique and between 1 and ``n_classes - 1``.

    On meta, where it is not known which rows belong to which cluster, all rows go through every cluster.
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
        """Draw the initial values again."""
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
        entry = target.clone()  # of the head: the class itself, or its cluster's
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
        """The log-probabilities of all classes: (N, in_features) to (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: mt.Tensor) -> mt.Tensor:
        """The most probable class of each row: (N, in_features) to (N,)."""
        scores = self.head(input)
        if input.is_meta:
            return self._get_full_log_prob(input, scores).argmax(1)
        output = scores.argmax(1)
        rare = (output >= self.shortlist_size).nonzero().squeeze(1)
        if rare.numel():
            full = self._get_full_log_prob(input.index_select(0, rare), scores.index_select(0, rare))
            output.index_copy_(0, rare, full.argmax(1))
        return output
