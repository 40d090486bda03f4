"""A small decoder with grouped heads, for tests of layouts."""

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.size = width // heads
        self.q, self.k, self.v = (nn.Linear(width, n * self.size, bias=False) for n in (heads, groups, groups))
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads=8, groups=4, hidden=None):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.RMSNorm(width), nn.RMSNorm(width), Attention(width, heads, groups)
        self.up, self.down = nn.Linear(width, hidden or 4 * width, bias=False), nn.Linear(hidden or 4 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, width=256, depth=4, vocabulary=1024, layer=Layer):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([layer(width) for _ in range(depth)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def decoder(**options):
    with mt.device("meta"):
        return Decoder(**options)


def tokens(batch=1, length=128):
    return mt.empty(batch, length, dtype=mt.int64, device="meta")
