"""A small decoder whose layers are mixtures of experts, for tests of layouts."""

import metatensor as mt
from metatensor import nn
from metatensor.distributed.tensor import DTensor
from metatensor.nn import functional as F
from plan.transformers_like import Attention


class Experts(nn.Module):
    def __init__(self, number, width, hidden):
        super().__init__()
        self.w1, self.w3 = (nn.Parameter(mt.randn(number, hidden, width) / width**0.5) for _ in range(2))
        self.w2 = nn.Parameter(mt.randn(number, width, hidden) / hidden**0.5)

    def forward(self, x, counts):
        w1, w2, w3 = (one.to_local() if isinstance(one, DTensor) else one for one in (self.w1, self.w2, self.w3))
        ends = counts.cumsum(0, dtype=mt.int32)
        return F.grouped_mm(F.silu(F.grouped_mm(x, w1.mT, offs=ends)) * F.grouped_mm(x, w3.mT, offs=ends), w2.mT, offs=ends)


class Mixture(nn.Module):
    """The expert with the highest score computes a token."""

    def __init__(self, number, width, hidden):
        super().__init__()
        self.number, self.gate, self.experts = number, nn.Linear(width, number, bias=False), Experts(number, width, hidden)

    def forward(self, x):
        rows = x.flatten(0, 1)
        scores, chosen = self.gate(rows).softmax(-1).topk(1)
        counts = (chosen == mt.arange(self.number, device=x.device)).sum(0)
        order = chosen.flatten().argsort(stable=True)
        out = self.experts(rows.index_select(0, order), counts) * scores.flatten().index_select(0, order).unsqueeze(1)
        return mt.zeros_like(rows).index_add(0, order, out).view_as(x)


class SparseLayer(nn.Module):
    def __init__(self, width, experts=4):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.RMSNorm(width), nn.RMSNorm(width), Attention(width, 8, 4)
        self.mixture = Mixture(experts, width, 2 * width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mixture(self.norm2(x))
