"""One rank's share of a decoder in tensor-, sequence-, context- and pipeline-parallel training, as Megatron-LM lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import metatensor as mt
from metatensor import nn
from metatensor.utils.checkpoint import checkpoint

from . import kernels

__all__ = ["Layout", "Stage", "Layer"]

F = nn.functional


@dataclass(frozen=True)
class Layout:
    """The sizes of a decoder and of the groups of ranks."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    vocabulary: int
    sequence: int
    micro_batch: int
    groups: int = 0
    """Key and value heads; 0: as many as heads."""
    head_width: int = 0
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    sequence_parallel: bool = False
    virtual: int = 1
    """Pieces of the model on each pipeline rank."""
    gpus: int = 8
    activation: str = "gelu"
    norm: str = "layer"
    bias: bool = True
    positions: str = "learned"
    tied: bool = True
    fused: bool = True
    """Whether attention is one kernel."""
    dropout: float = 0.1
    recompute: str = ""
    """What backward computes again: nothing, "full" (whole layers) or "attention" (scores and what follows them)."""
    distributed_optimizer: bool = False
    accumulated: bool = True
    """Whether kernels of products add to the main gradients themselves."""
    loss: str = "in place"
    """How cross entropy is computed in float32: "in place" in one copy of the logits, "compiled" in two
    (``--cross-entropy-loss-fusion``), or "engine" without one (with ``--cross-entropy-fusion-impl te``)."""
    experts: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    expert: int = 1
    expert_tensor: int = 0
    """Tensor-parallel size of the experts; 0: that of the other layers."""

    @property
    def shards(self) -> int:
        """The number of shards that the sequence has besides context parallelism."""
        return self.tensor if self.sequence_parallel else 1

    @property
    def tokens(self) -> int:
        """Tokens of the sequence on this rank, gathered."""
        return self.sequence // self.context

    @property
    def data(self) -> int:
        """Ranks over which a distributed optimizer divides its states."""
        return self.gpus // (self.tensor * self.pipeline)


class Norm(nn.Module):
    """Layer norm or RMS norm."""

    def __init__(self, c: Layout) -> None:
        super().__init__()
        self.weight = nn.Parameter(mt.empty(c.hidden))
        self.bias = nn.Parameter(mt.empty(c.hidden)) if c.norm == "layer" else None

    def forward(self, x: Any) -> Any:
        if self.bias is None:
            return kernels.rms_norm(x, self.weight)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class Column(nn.Module):
    """A linear layer of which this rank has some of the outputs. It gathers the shards of the sequence."""

    def __init__(self, c: Layout, out: int, bias: bool) -> None:
        super().__init__()
        self.c = c
        self.weight = nn.Parameter(mt.empty(out, c.hidden))
        self.bias = nn.Parameter(mt.empty(out)) if bias else None

    def forward(self, x: Any) -> Any:
        return kernels.gathered_linear(x, self.weight, self.bias, self.c.shards)


class Row(nn.Module):
    """A linear layer of which this rank has some of the inputs. Its results are summed over the ranks."""

    def __init__(self, c: Layout, width: int) -> None:
        super().__init__()
        self.c = c
        self.weight = nn.Parameter(mt.empty(c.hidden, width))
        self.bias = nn.Parameter(mt.empty(c.hidden)) if c.bias else None

    def forward(self, x: Any) -> Any:
        x = kernels.reduced(kernels.gathered_linear(x, self.weight, None, 1), self.c.shards)
        return x if self.bias is None else _biased(x, self.bias)


class _Biased(mt.autograd.Function):
    """Addition of a bias that the kernel of dropout and residual does; it takes no memory of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any, bias: Any) -> Any:
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, grad.reshape(-1, grad.shape[-1]).sum(0)


def _biased(x: Any, bias: Any) -> Any:
    return _Biased.apply(x, bias)


class Attention(nn.Module):
    """Self-attention with this rank's heads."""

    def __init__(self, c: Layout) -> None:
        super().__init__()
        self.c = c
        self.width = c.head_width or c.hidden // c.heads
        self.heads, self.groups = c.heads // c.tensor, max(1, (c.groups or c.heads) // c.tensor)
        self.qkv = Column(c, (self.heads + 2 * self.groups) * self.width, c.bias)
        self.out = Row(c, self.heads * self.width)

    def forward(self, x: Any) -> Any:
        c, d = self.c, self.width
        mixed = self.qkv(x)
        s, b = mixed.shape[:2]
        mixed = mixed.view(s, b, self.groups, (self.heads // self.groups + 2) * d)
        q, k, v = mixed.split([self.heads // self.groups * d, d, d], -1)
        q = q.reshape(s, b, self.heads, d)
        if c.positions == "rope":
            q, k = kernels.rotated(q), kernels.rotated(k)
        y = checkpoint(self.core, q, k, v, use_reentrant=True) if c.recompute == "attention" else self.core(q, k, v)
        return self.out(y)

    def core(self, q: Any, k: Any, v: Any) -> Any:
        """Return what the heads look up, (S, B, heads * width)."""
        s, b, heads, d = q.shape
        if self.c.fused:
            return kernels.fused_attention(q, k, v).view(s, b, heads * d)
        if heads != k.shape[2]:
            k, v = (t.repeat_interleave(heads // t.shape[2], 2) for t in (k, v))
        weights = kernels.dropout(mt.softmax(kernels.rows_of_scores(q, k), -1), self.c.dropout)
        return mt.bmm(weights, v.reshape(s, b * heads, d).transpose(0, 1)).transpose(0, 1).reshape(s, b, heads * d)


class MLP(nn.Module):
    """Two linear layers with this rank's part of the width between them."""

    def __init__(self, c: Layout, ffn: int, tensor: int) -> None:
        super().__init__()
        self.kind = c.activation
        width = ffn // tensor
        self.first = Column(c, width * (2 if c.activation == "swiglu" else 1), c.bias)
        self.second = Row(c, width)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        if self.kind == "swiglu":
            return self.second(kernels.swiglu(x))
        return self.second(F.gelu(x) if self.kind == "gelu" else F.relu(x).pow(2))


class Experts(nn.Module):
    """This rank's experts and the router. Only their parameters matter: what they save depends on the routing."""

    def __init__(self, c: Layout) -> None:
        super().__init__()
        self.router = nn.Parameter(mt.empty(c.experts, c.hidden))
        width = c.expert_ffn or c.ffn
        self.members = nn.ModuleList([MLP(c, width, c.expert_tensor or c.tensor) for _ in range(c.experts // c.expert)])
        self.shared = MLP(c, c.shared_ffn, c.tensor) if c.shared_ffn else None


class Layer(nn.Module):
    """A layer of a decoder that normalizes first."""

    def __init__(self, c: Layout) -> None:
        super().__init__()
        self.c = c
        self.norm1, self.attention = Norm(c), Attention(c)
        self.norm2, self.mlp = Norm(c), Experts(c) if c.experts else MLP(c, c.ffn, c.tensor)

    def forward(self, x: Any) -> Any:
        x = x + kernels.dropout(self.attention(self.norm1(x)), self.c.dropout)
        return x + kernels.dropout(self.mlp(self.norm2(x)), self.c.dropout)


class Stage(nn.Module):
    """Some consecutive layers, with the embedding before the first and the loss after the last."""

    def __init__(self, c: Layout, layers: int, first: bool, last: bool) -> None:
        super().__init__()
        self.c, self.first, self.last = c, first, last
        if first or (last and c.tied):
            self.words = nn.Parameter(mt.empty(c.vocabulary // c.tensor, c.hidden))
        self.positions = nn.Parameter(mt.empty(c.sequence, c.hidden)) if first and c.positions == "learned" else None
        self.layers = nn.ModuleList([Layer(c) for _ in range(layers)])
        self.norm = Norm(c) if last else None
        self.head = nn.Parameter(mt.empty(c.vocabulary // c.tensor, c.hidden)) if last and not c.tied else None

    def forward(self, x: Any) -> Any:
        c = self.c
        labels = x
        if self.first:
            x = F.embedding(x, self.words)
            if self.positions is not None:
                x = x + self.positions[: x.shape[1]]
            x = kernels.dropout(kernels.reduced(x.transpose(0, 1).contiguous(), c.shards), c.dropout)
        else:
            labels = mt.empty(c.micro_batch, c.tokens, dtype=mt.int64)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=True) if c.recompute == "full" else layer(x)
        if not self.last:
            return x
        assert self.norm is not None
        logits = kernels.gathered_linear(self.norm(x), self.words if self.head is None else self.head, None, c.shards)
        return kernels.cross_entropy(logits, labels.transpose(0, 1).contiguous(), c.loss).mean()
