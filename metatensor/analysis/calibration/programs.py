"""The small programs that calibration runs: together they call the operators that models call, in several sizes.

A program is a function that returns a tensor; its gradients are computed too. Inputs of one size are shared by programs,
and programs take turns, so that weights come from memory and activations from the cache, as in a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F

__all__ = ["Program", "programs"]

WIDTH = 256
ROWS = (1, 8, 64, 512, 2048, 8192)
"""Rows of 256 elements: 1 KiB to 8 MiB of float32."""
IMAGES = ((1, 8, 8), (2, 16, 16), (4, 512, 2), (4, 256, 4), (4, 128, 8), (64, 6, 14), (4, 16, 32), (4, 64, 16), (2, 16, 64), (4, 64, 32))
"""Batch, channels and edge of images."""


class Program(NamedTuple):
    """A program with its inputs."""

    name: str
    run: Callable[[], Any]
    """Returns a tensor to differentiate, or None."""
    inputs: tuple[Any, ...]
    """Tensors that require grad."""


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "add bias": lambda x, y: x + y[0], "mul column": lambda x, y: x * y[:, :1], "maximum": lambda x, y: mt.maximum(x, y),
    "where": lambda x, y: mt.where(x > 0, x, y), "lerp": lambda x, y: mt.lerp(x, y, 0.1), "addcmul": lambda x, y: mt.addcmul(x, x, y),
    "mse": lambda x, y: F.mse_loss(x, y), "cat": lambda x, y: mt.cat([x, y], 1), "stack": lambda x, y: mt.stack([x, y], 1),
    "cat rows": lambda x, y: mt.cat([x, y]), "add strided": lambda x, y: _matrices(x) + _flipped(y),
    "mul strided": lambda x, y: _matrices(x) * _flipped(y),
    "add rows": lambda x, y: x[:, 1:] + y[:, 1:],
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "add number": lambda x: x + 1.0, "mul number": lambda x: x * 2.0, "div number": lambda x: x / 2.0, "neg": lambda x: -x,
    "exp": lambda x: x.exp(), "log": lambda x: x.log(), "sqrt": lambda x: x.sqrt(), "rsqrt": lambda x: x.rsqrt(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(), "relu": lambda x: F.relu(x - 1.0), "gelu": lambda x: F.gelu(x - 1.0),
    "gelu tanh": lambda x: F.gelu(x - 1.0, approximate="tanh"),
    "silu": lambda x: F.silu(x - 1.0), "leaky_relu": lambda x: F.leaky_relu(x - 1.0), "elu": lambda x: F.elu(x - 1.0),
    "hardswish": lambda x: F.hardswish(x - 1.0),
    "softplus": lambda x: F.softplus(x), "abs": lambda x: x.abs(), "pow": lambda x: x**2, "pow 3": lambda x: x**3.0,
    "erf": lambda x: x.erf(),
    "sin": lambda x: x.sin(), "cos": lambda x: x.cos(), "square": lambda x: x.square(), "clamp": lambda x: x.clamp(0.0, 1.0),
    "reciprocal": lambda x: x.reciprocal(), "masked_fill": lambda x: x.masked_fill(x > 0, 0.0), "dropout": lambda x: F.dropout(x, 0.1),
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1), "logsumexp": lambda x: x.logsumexp(-1),
    "sum": lambda x: x.sum(), "sum rows": lambda x: x.sum(-1), "sum columns": lambda x: x.sum(0), "mean": lambda x: x.mean(),
    "mean rows": lambda x: x.mean(-1, keepdim=True), "mean columns": lambda x: x.mean(0), "amax": lambda x: x.amax(-1),
    "var": lambda x: x.var(-1),
    "sum tokens": lambda x: x.view(-1, 8 if len(x) >= 8 else 1, WIDTH).sum(0),
    "mean tokens": lambda x: x.view(-1, 8 if len(x) >= 8 else 1, WIDTH).mean(1),
    "norm": lambda x: mt.linalg.vector_norm(x, dim=-1), "normalize": lambda x: F.normalize(x), "cumsum": lambda x: x.cumsum(-1),
    "layer_norm": lambda x: F.layer_norm(x, (WIDTH,)), "rms_norm": lambda x: F.rms_norm(x, (WIDTH,)),
    "clone": lambda x: x.clone(), "transposed": lambda x: x.view(-1, 8, WIDTH // 8).transpose(0, 1).contiguous(),
    "t": lambda x: x.t().contiguous(),
    "heads": lambda x: x.view(1 if len(x) < 64 else 4, -1, 8, WIDTH // 8).transpose(1, 2).contiguous(), "pad": lambda x: F.pad(x, (1, 1)),
    "narrow": lambda x: x[:, : WIDTH // 2] * 1.0, "select": lambda x: x[0].exp(), "flip": lambda x: x.flip(0), "tril": lambda x: x.tril(),
    "split": lambda x: sum(part.sum() for part in x.chunk(4, -1)), "repeat": lambda x: x.repeat(1, 2), "roll": lambda x: x.roll(1, 0),
    "sum strided": lambda x: _flipped(x).sum(0), "gelu strided": lambda x: F.gelu(_flipped(x - 1.0)), "neg strided": lambda x: -_flipped(x),
    "layer_norm strided": lambda x: F.layer_norm(_flipped(x), (WIDTH,)), "div strided": lambda x: _flipped(x) / 2.0,
    "layer_norm strided back": lambda x: F.layer_norm(_matrices(x).transpose(1, 2), (_matrices(x).shape[1],)).transpose(1, 2),
    "softmax strided": lambda x: _flipped(x).softmax(-1), "dropout off": lambda x: F.dropout(x, 0.0),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, mt.zeros_like(x)),
    "to half": lambda x: x.to(mt.float16).to(mt.float32), "to double": lambda x: x.double().float(),
}  # fmt: skip
_PLAIN: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "comparisons": (lambda x: x > 0, lambda x: x == x, lambda x: x >= 1, lambda x: x < 0.5),
    "orders": (lambda x: x.argmax(-1), lambda x: x.topk(4, -1), lambda x: x.sort(-1)),
    "constants": (lambda x: mt.zeros(x.shape, device=x.device), lambda x: mt.ones_like(x), lambda x: mt.empty_like(x),
                  lambda x: x.new_zeros(x.shape), lambda x: mt.full_like(x, 2.0), lambda x: mt.arange(x.numel(), device=x.device)),
    "random": (lambda x: mt.rand_like(x), lambda x: mt.randn_like(x)),
    "in place": (lambda x: x.clone().add_(x), lambda x: x.clone().mul_(1.5), lambda x: x.clone().copy_(x), lambda x: x.clone().fill_(1.0),
                 lambda x: x.clone().zero_(), lambda x: x.clone().add_(x[0])),
    "in place views": (lambda x: x.clone()[:, 1:].copy_(x[:, 1:]), lambda x: x.clone().view(WIDTH, -1).t().copy_(x),
                       lambda x: x.clone()[:1].copy_(x[:1]), lambda x: _heads(x.clone())[:, 0].copy_(_heads(x)[:, 1]),
                       lambda x: x.clone()[1:].add_(x[1:]), lambda x: x.clone()[:, 1:].add_(x[:, 1:])),
    "updates": (lambda x: x.clone().lerp_(x, 0.1), lambda x: x.clone().addcmul_(x, x), lambda x: x.clone().addcdiv_(x, x), mt.sqrt),
    "flags": (lambda x: (x > 0) & (x < 1), lambda x: ~(x > 0)), "item": (lambda x: x.sum().item(),),
}  # fmt: skip


def _heads(x: Any) -> Any:
    return x.view(-1, 8, WIDTH // 8)


def _matrices(x: Any) -> Any:
    """Return rows as a batch of matrices (64, 256)."""
    return x.view(-1, min(len(x), 64), WIDTH)


def _flipped(x: Any) -> Any:
    """Return rows as a batch of transposed matrices, with the shape of `_matrices`."""
    return x.view(-1, WIDTH, min(len(x), 64)).transpose(1, 2)


def programs(device: Any, scale: int = 1) -> Iterator[Program]:
    """Yield the programs with inputs on a device, the small ones first. ``scale`` divides the number of sizes (2 if quick)."""
    for rows in ROWS[::scale]:
        yield from _elements(device, rows)
    for image in IMAGES[::scale]:
        yield from _images(device, *image)
    yield from _products(device, scale)
    yield from _attention(device, scale)
    yield from _tables(device, scale)
    yield from _recurrences(device, scale)
    yield from _optimizers(device, scale)


def _dropped(runs: tuple[Callable[[Any], object], ...], x: Any) -> None:
    """Run programs without gradients; each result is released before the next, as in a model."""
    for run in runs:
        run(x)


def _made(device: Any, *shape: int, grad: bool = True) -> Any:
    return (mt.rand(*shape, device=device) + 0.5).requires_grad_(grad)


def _elements(device: Any, rows: int) -> Iterator[Program]:
    x, y = _made(device, rows, WIDTH), _made(device, rows, WIDTH)
    plain = x.detach()
    target = mt.arange(rows, device=device) % WIDTH
    weight, bias = _made(device, WIDTH), _made(device, WIDTH)
    for name, unary in _UNARY.items():
        yield Program(f"{name} {rows}", partial(unary, x), (x,))
    for name, binary in _BINARY.items():
        yield Program(f"{name} {rows}", partial(binary, x, y), (x, y))
    for name, no_grad in _PLAIN.items():
        yield Program(f"{name} {rows}", partial(_dropped, no_grad, plain), ())
    yield Program(f"cross entropy {rows}", lambda: F.cross_entropy(x, target), (x,))
    yield Program(f"affine layer_norm {rows}", lambda: F.layer_norm(x, (WIDTH,), weight, bias), (x, weight, bias))


def _images(device: Any, batch: int, channels: int, edge: int) -> Iterator[Program]:
    name = f"{batch}x{channels}x{edge}"
    x = _made(device, batch, channels, edge, edge)
    weight, bias = _made(device, channels), _made(device, channels)
    mean, var = mt.zeros(channels, device=device), mt.ones(channels, device=device)
    pools: dict[str, Callable[[], Any]] = {
        "max_pool2d": lambda: F.max_pool2d(x, 2), "max_pool2d 3": lambda: F.max_pool2d(x, 3, 2, 1),
        "avg_pool2d": lambda: F.avg_pool2d(x, 2),
        "adaptive": lambda: F.adaptive_avg_pool2d(x, 1), "interpolate": lambda: F.interpolate(x, scale_factor=2), "relu": lambda: F.relu(x),
        "bilinear": lambda: F.interpolate(x, scale_factor=2, mode="bilinear"), "cat": lambda: mt.cat([x, x], 1),
        "sum": lambda: x.sum((0, 2, 3)),
        "tokens": lambda: F.layer_norm(x.flatten(2).transpose(1, 2), (channels,)),
        "reshape": lambda: x.permute(0, 2, 3, 1).reshape(-1, channels),
    }  # fmt: skip
    for title, run in pools.items():
        yield Program(f"{title} {name}", run, (x,))
    yield Program(f"batch_norm {name}", lambda: F.batch_norm(x, mean, var, weight, bias, True), (x, weight, bias))
    yield Program(f"batch_norm eval {name}", lambda: F.batch_norm(x, mean, var, weight, bias), (x, weight, bias))
    yield Program(f"group_norm {name}", lambda: F.group_norm(x, 2, weight, bias), (x, weight, bias))
    for kernel, stride, wider in ((1, 1, 2.0), (1, 2, 0.5), (3, 1, 1.0), (3, 2, 2.0), (5, 1, 0.5)):
        if kernel <= edge + 2 * (kernel // 2):
            out = int(channels * wider)
            w, b = _made(device, out, channels, kernel, kernel), _made(device, out)
            yield Program(f"conv2d {kernel}/{stride} to {out} {name}", partial(F.conv2d, x, w, b, stride, kernel // 2), (x, w, b))
    few = _made(device, batch, 3, max(8, 2 * edge), max(8, 2 * edge), grad=False)
    first = _made(device, channels, 3, 7, 7)
    patches = _made(device, 4 * channels, 3, 8, 8)
    yield Program(f"conv2d first {name}", lambda: F.conv2d(few, first, None, 2, 3), (first,))
    yield Program(f"conv2d patches {name}", lambda: F.conv2d(few, patches, None, 8), (patches,))
    each = _made(device, channels, 1, 3, 3)
    yield Program(f"depthwise {name}", lambda: F.conv2d(x, each, None, 1, 1, 1, channels), (x, each))
    up = _made(device, channels, max(1, channels // 2), 2, 2)
    yield Program(f"transposed {name}", lambda: F.conv_transpose2d(x, up, None, 2), (x, up))
    line, w1 = _made(device, batch, channels, edge * edge), _made(device, channels, channels, 3)
    yield Program(f"conv1d {name}", lambda: F.conv1d(line, w1, None, 1, 1), (line, w1))


def _linear_strided(x: Any, w: Any) -> Any:
    return F.linear(x.transpose(1, 2), w)


def _bmm_with_itself(x: Any) -> Any:
    return mt.bmm(x, x.transpose(1, 2))


def _put(table: Any, index: Any, values: Any) -> Any:
    return table.clone().index_put_((index,), values)


def _first(layer: Callable[[Any], Any], x: Any) -> Any:
    return layer(x)[0]


def _products(device: Any, scale: int) -> Iterator[Program]:
    shapes = [(8, 32, 32), (64, 64, 64), (256, 256, 256), (512, 256, 1024), (512, 1024, 256), (256, 384, 1536),
        (512, 192, 768), (128, 1024, 10),
              (128, 784, 1024), (256, 256, 4096), (16, 128, 1024), (16, 1024, 256), (16, 256, 1024), (256, 13, 256),
              (512, 512, 512)]  # fmt: skip
    for m, k, n in shapes[::scale]:
        x, w, b = _made(device, m, k), _made(device, n, k), _made(device, n)
        v = _made(device, k, n)
        yield Program(f"linear {m}x{k}x{n}", partial(F.linear, x, w, b), (x, w, b))
        yield Program(f"mm {m}x{k}x{n}", partial(mt.matmul, x, v), (x, v))
        batch = 8 if m % 8 == 0 else 1
        z = x.detach().view(batch, -1, k).requires_grad_()
        yield Program(f"linear of batch {m}x{k}x{n}", partial(F.linear, z, w), (z, w))
        yield Program(f"addmm {m}x{k}x{n}", partial(mt.addmm, b, x, v), (x, v, b))
        flipped = _made(device, 4, k, max(1, m // 4))
        yield Program(f"linear strided {m}x{k}x{n}", partial(_linear_strided, flipped, w), (flipped, w))
    for b, m, k, n in ((4, 16, 16, 16), (16, 64, 32, 64), (32, 64, 64, 32), (48, 64, 32, 64), (24, 65, 64, 65),
        (8, 256, 64, 256), (256, 9, 64, 9)):
        x, y = _made(device, b, m, k), _made(device, b, k, n)
        yield Program(f"bmm {b}x{m}x{k}x{n}", partial(mt.bmm, x, y), (x, y))
        heads = _made(device, b, m, k)
        yield Program(f"bmm with itself {b}x{m}x{k}", partial(_bmm_with_itself, heads), (heads,))


def _attention(device: Any, scale: int) -> Iterator[Program]:
    for batch, heads, length, width in ((1, 2, 16, 16), (4, 4, 64, 64), (8, 3, 65, 64), (4, 12, 64, 32), (2, 4, 256, 64),
        (1, 8, 512, 64))[::scale]:
        qkv = _made(device, batch, length, 3, heads, width)
        for causal in (False, True):

            def run(qkv: Any = qkv, causal: bool = causal) -> Any:
                q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(qkv.shape[0], qkv.shape[1], -1)

            yield Program(f"attention {batch}x{heads}x{length}x{width}", run, (qkv,))


def _tables(device: Any, scale: int) -> Iterator[Program]:
    for rows, width, count in ((100, 16, 16), (1000, 64, 256), (2000, 64, 1024), (4096, 256, 256), (8192, 384, 256),
        (1000, 128, 1024))[::scale]:
        table, index = _made(device, rows, width), (mt.arange(count, device=device) * 37) % rows
        other, bags = _made(device, count, width), index.view(-1, 4)
        where = index[:, None].expand(-1, width)
        name = f"{rows}x{width} at {count}"
        yield Program(f"embedding {name}", partial(F.embedding, index, table), (table,))
        yield Program(f"bags {name}", partial(F.embedding_bag, bags, table, mode="sum"), (table,))
        yield Program(f"index {name}", partial(table.__getitem__, index), (table,))
        yield Program(f"index_select {name}", partial(table.index_select, 0, index), (table,))
        yield Program(f"gather {name}", partial(table.gather, 0, where), (table,))
        yield Program(f"scatter_add {name}", partial(table.scatter_add, 0, where, other), (table, other))
        yield Program(f"index_add {name}", partial(table.index_add, 0, index, other), (table, other))
        yield Program(f"put {name}", partial(_put, table, index, other), (table, other))


def _recurrences(device: Any, scale: int) -> Iterator[Program]:
    for batch, length, width in ((1, 8, 16), (4, 16, 64), (16, 16, 128), (16, 32, 256), (32, 8, 256))[::scale]:
        x = _made(device, batch, length, width)
        for kind in (nn.LSTM, nn.GRU):
            with mt.device(device):
                layer = kind(width, width, batch_first=True)
            yield Program(f"{kind.__name__} {batch}x{length}x{width}", partial(_first, layer, x), (x, *layer.parameters()))


def _optimizers(device: Any, scale: int) -> Iterator[Program]:
    makers: dict[str, Callable[[Any], Any]] = {
        "AdamW": lambda p: mt.optim.AdamW(p, lr=1e-5), "Adam": lambda p: mt.optim.Adam(p, lr=1e-5),
        "SGD": lambda p: mt.optim.SGD(p, lr=1e-5, momentum=0.9),
    }  # fmt: skip
    for rows in (1, 64, 1024, 4096)[::scale]:
        for name, make in makers.items():
            p = _made(device, rows, WIDTH)
            p.grad = p.detach().clone()
            optimizer = make([p])
            optimizer.step()
            yield Program(f"{name} {rows}", optimizer.step, ())
