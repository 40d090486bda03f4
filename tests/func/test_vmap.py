"""vmap gives the results of PyTorch's vmap and of a loop over the members."""

import time
from collections import namedtuple

import numpy as np
import pytest

import metatensor as mt
from metatensor.func import vmap
from metatensor.func._rules import RULES

Pair = namedtuple("Pair", "first second")

# Function (`t` is the library, `f` its nn.functional), shapes of the arguments, in_dims and out_dims.
CASES = {
    "add": (lambda t, f, x, y: x + y, [(3, 4), (3, 4)], 0, 0),
    "add of ranks": (lambda t, f, x, y: x + y, [(3, 4), (3, 2, 4)], 0, 0),
    "add of another dimension": (lambda t, f, x, y: x + y, [(4, 3), (3, 4)], (1, 0), 0),
    "add of a shared tensor": (lambda t, f, x, y: x + y, [(3, 4), (4,)], (0, None), 1),
    "add of a scalar member": (lambda t, f, x, y: x * y, [(3,), (2, 4)], (0, None), -1),
    "unary": (lambda t, f, x: (x.exp().sin() - 1).abs().sqrt(), [(3, 4)], 0, 0),
    "activations": (lambda t, f, x: f.gelu(x) + f.silu(x) + f.leaky_relu(x, 0.1) + x.relu().clamp(0, 1), [(3, 4)], 0, 0),
    "negative in_dims": (lambda t, f, x: x * 2, [(3, 4)], -1, -1),
    "where": (lambda t, f, x, y: t.where(x > 0, x, y), [(3, 4), (3, 4)], 0, 0),
    "where with a number": (lambda t, f, x: t.where(x > 0, x, 0.0), [(3, 4)], 0, 0),
    "where by a scalar": (lambda t, f, x, y: t.where(x > 0, y, -y), [(3,), (3, 4)], 0, 0),
    "masked_fill": (lambda t, f, x: x.masked_fill(x > 0, -1.0), [(3, 4)], 0, 0),
    "masked_fill of a shared tensor": (lambda t, f, x, y: y.masked_fill(x > 0, -1.0), [(3, 4), (4,)], (0, None), 0),
    "clamp": (lambda t, f, x, y: t.clamp(x, min=y), [(3, 4), (3, 4)], 0, 0),
    "view": (lambda t, f, x: x.view(2, 6).unsqueeze(0).flatten(1).reshape(-1, 3), [(3, 4, 3)], 0, 0),
    "squeeze": (lambda t, f, x: (x.squeeze(), x.squeeze(1), x.unflatten(0, (2, 2))), [(3, 4, 1)], 0, 0),
    "permute": (lambda t, f, x: x.permute(2, 0, 1).transpose(0, 1).movedim(0, -1).mT, [(3, 4, 2, 5)], 1, 2),
    "T": (lambda t, f, x: (x.T, x.t()), [(3, 4, 2)], 0, (0, 1)),
    "expand": (lambda t, f, x: x.expand(2, 5, 4), [(3, 4)], 0, 0),
    "expand_as": (lambda t, f, x, y: x.expand_as(y), [(3, 4), (3, 2, 4)], 0, 0),
    "select, slice": (lambda t, f, x: (x[0], x[:, 1:], x[..., -1], x[None], x[1:3, ::2]), [(3, 4, 5)], 0, 0),
    "narrow, chunk": (lambda t, f, x: (x.narrow(0, 1, 2), *x.chunk(2, dim=1), *x.unbind(), *x.split(2)), [(3, 4, 5)], 0, 0),
    "flip, roll": (lambda t, f, x: (x.flip(0), x.flip((0, 1)), x.roll(1, 0), x.roll(2), x.diff()), [(3, 4, 5)], 0, 0),
    "sums": (lambda t, f, x: (x.sum(), x.sum(0), x.sum((0, 1)), x.sum(-1, keepdim=True), x.mean(), x.mean(1)), [(3, 4, 5)], 0, 0),
    "extrema": (lambda t, f, x: (x.max(), x.amax(0), x.max(0), x.min(1, keepdim=True), x.argmax(), x.argmin(1)), [(3, 4, 5)], 0, 0),
    "extrema of two": (lambda t, f, x, y: (t.max(x, y), t.minimum(x, y)), [(3, 4), (3, 4)], 0, 0),
    "any, all": (lambda t, f, x: ((x > 0).any(), (x > 0).all(0), (x > 0).sum(), t.count_nonzero(x > 0)), [(3, 4, 5)], 0, 0),
    "var": (lambda t, f, x: (x.var(), x.std(0), x.var(1, unbiased=False), x.logsumexp(0), x.norm(), x.prod()), [(3, 4, 5)], 0, 0),
    "keepdim of all": (lambda t, f, x: x.sum((0, 1), keepdim=True), [(3, 4, 5)], 0, 0),
    "softmax": (lambda t, f, x: (x.softmax(0), f.log_softmax(x, -1), x.cumsum(1), x.sort(0), x.topk(2)), [(3, 4, 5)], 0, 0),
    "a scalar": (lambda t, f, x: (x.sum(), x * 2, x.max(), x.unsqueeze(0), x.expand(2), x.view(1)), [(3,)], 0, 0),
    "cat": (lambda t, f, x, y: (t.cat([x, y]), t.stack([x, y], -1), t.cat([x, x], dim=-1)), [(3, 4), (3, 4)], 0, 0),
    "stack with a shared tensor": (lambda t, f, x, y: t.stack([x, y]), [(3, 4), (4,)], (0, None), 0),
    "dot": (lambda t, f, x, y: (t.dot(x, y), x @ y), [(3, 4), (3, 4)], 0, 0),
    "dot with a shared tensor": (lambda t, f, x, y: t.dot(x, y), [(3, 4), (4,)], (0, None), 0),
    "mv": (lambda t, f, x, y: t.mv(x, y), [(3, 5, 4), (3, 4)], 0, 0),
    "mv with a shared matrix": (lambda t, f, x, y: t.mv(x, y), [(5, 4), (3, 4)], (None, 0), 0),
    "mm": (lambda t, f, x, y: x @ y, [(3, 5, 4), (3, 4, 2)], 0, 0),
    "mm with a shared matrix": (lambda t, f, x, y: x @ y, [(3, 5, 4), (4, 2)], (0, None), 0),
    "mm of itself": (lambda t, f, x: x @ x, [(3, 4, 4)], 0, 0),
    "matmul of ranks": (lambda t, f, x, y: x @ y, [(3, 4), (3, 2, 4, 5)], 0, 0),
    "bmm": (lambda t, f, x, y: t.bmm(x, y), [(3, 2, 5, 4), (3, 2, 4, 5)], 0, 0),
    "linear": (lambda t, f, x, w, b: f.linear(x, w, b), [(3, 2, 4), (5, 4), (5,)], (0, None, None), 0),
    "linear of many": (lambda t, f, x, w, b: f.linear(x, w, b), [(2, 4), (3, 5, 4), (3, 5)], (None, 0, 0), 0),
    "conv": (lambda t, f, x, w: f.conv2d(x, w, padding=1), [(3, 2, 2, 5, 5), (4, 2, 3, 3)], (0, None), 0),
    "conv of many": (lambda t, f, x, w: f.conv1d(x, w), [(2, 2, 5), (3, 4, 2, 3)], (None, 0), 0),
    "layer_norm": (lambda t, f, x, w: f.layer_norm(x, (4,), w), [(3, 2, 4), (4,)], (0, None), 0),
    "einsum": (lambda t, f, x, y: t.einsum("ij,jk->ik", x, y), [(3, 2, 4), (3, 4, 5)], 0, 0),
    "attention": (lambda t, f, q, k: f.scaled_dot_product_attention(q, k, k), [(3, 2, 5, 4), (3, 2, 6, 4)], 0, 0),
    "pairs": (lambda t, f, x: {"a": x * 2, "b": [x.sum(), x]}, [(3, 4)], 0, 0),
    "pairs to places": (lambda t, f, x: {"a": x * 2, "b": [x.sum(), x]}, [(3, 4)], 0, {"a": 1, "b": [0, -1]}),
    "a result that all members share": (lambda t, f, x, y: (y * 2, x), [(3, 4), (5,)], (0, None), 0),
    "what is None": (lambda t, f, x, y: (y * 2, x), [(3, 4), (5,)], (0, None), (None, 0)),
    "named": (lambda t, f, x: Pair(x, x + 1), [(3, 4)], 0, 0),
    "factories": (lambda t, f, x: (x + t.zeros(4), x.new_ones(2, 4) * x, t.ones_like(x), x.new_full((2,), 3.0)), [(3, 4)], 0, 0),
    "dtypes": (lambda t, f, x: (x.to(t.float64) + 1, x.int(), x.double(), x.long().float()), [(3, 4)], 0, 0),
    "a scalar of another dtype": (lambda t, f, x, y: (x.double() * y, x.long() + y, (x > 0) * y), [(3,), (3, 4)], 0, 0),
    "in place": (lambda t, f, x, y: x.clone().add_(y).mul_(2).clamp_(min=0), [(3, 4), (3, 4)], 0, 0),
    "in place of a scalar": (lambda t, f, x, y: x.clone().add_(y), [(3, 2, 4), (3,)], 0, 0),
    "assigned": (lambda t, f, x, y: _assigned(x, y), [(3, 4), (3,)], 0, 0),
    "views in place": (lambda t, f, x: _in_place_views(x), [(3, 4, 5)], 0, 0),
    "views of a strided tensor": (lambda t, f, x: (x.T[1:].unfold(0, 2, 1), *x.tensor_split(2, 1), x.diagonal()), [(5, 4, 3)], 2, 0),
    "nested views": (
        lambda t, f, x: (t.vmap if hasattr(t, "vmap") else vmap)(lambda a: a.T[1:].diagonal() + a.view(-1)[:1])(x), [(3, 2, 4, 5)], 0, 0
    ),
    "nested": (lambda t, f, x, y: (t.vmap if hasattr(t, "vmap") else vmap)(lambda a: a * y)(x), [(3, 4), (3,)], 0, 0),
    "nested sums": (
        lambda t, f, x, y: (t.vmap if hasattr(t, "vmap") else vmap)(lambda a: t.outer(a, y).sum(0), in_dims=1, out_dims=1)(x),
        [(3, 4, 2), (3, 5)], 0, 0,
    ),
    "normalised": (lambda t, f, x: f.normalize(x, dim=0) + f.pad(x, (0, 0)), [(3, 4)], 0, 0),
    "pooled": (lambda t, f, x: f.max_pool1d(x, 2), [(3, 2, 4)], 0, 0),
    "outer": (lambda t, f, x, y: t.outer(x, y), [(3, 4), (3, 2)], 0, 0),
    "cdist": (lambda t, f, x, y: ((x[:, None] - y[None]) ** 2).sum(-1), [(3, 4, 2), (3, 5, 2)], 0, 0),
    "tril": (lambda t, f, x: x.tril() + x.triu(1), [(3, 4, 4)], 0, 0),
    "gather": (lambda t, f, x: x.gather(1, x.argsort(1)), [(3, 4, 5)], 0, 0),
    "interpolated": (lambda t, f, x: f.interpolate(x, scale_factor=2), [(3, 1, 2, 4)], 0, 0),
    "loss": (lambda t, f, x, y: f.mse_loss(x, y), [(3, 4), (3, 4)], 0, 0),
    "solved": (lambda t, f, x: t.linalg.det(x), [(3, 4, 4)], 0, 0),
}  # fmt: skip


def _in_place_views(x):
    x = x.clone()
    x.view(-1)[::5].add_(1)
    x.unsqueeze_(0).transpose_(1, 2).squeeze_(0)
    x.diagonal()[1:].fill_(7.0)
    x.T.select(0, 1).mul_(2)
    return x


def _assigned(x, y):
    x = x.clone()
    x[1] = y
    x[2:] = 0.0
    return x


def tensors(t, shapes, device):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    if t is mt:
        return [mt.from_numpy(array.copy()).to(device) for array in arrays]
    return [t.from_numpy(array.copy()).to(device) for array in arrays]


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def same(ours, theirs, values=True):
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        assert tuple(x.shape) == tuple(y.shape)
        assert str(x.dtype).split(".")[-1] == str(y.dtype).split(".")[-1]
        if values:
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:The use of")
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", CASES)
def test_like_torch(name, device):
    torch = pytest.importorskip("torch")
    function, shapes, in_dims, out_dims = CASES[name]
    with mt.device(device):
        ours = vmap(lambda *xs: function(mt, mt.nn.functional, *xs), in_dims, out_dims)(*tensors(mt, shapes, device))
    theirs = torch.vmap(lambda *xs: function(torch, torch.nn.functional, *xs), in_dims, out_dims)(*tensors(torch, shapes, "cpu"))
    same(ours, theirs, values=device == "cpu")


# Function of index tensors and float tensors, shapes of the index tensors, shapes of the float tensors, in_dims. Index
# values are 0 and 1.
INDEXED = {
    "a scalar": (lambda t, i, x: x[i], [(3,)], [(3, 4)], (0, 0)),
    "a scalar into a shared tensor": (lambda t, i, x: x[i], [(3,)], [(4, 5)], (0, None)),
    "a shared scalar": (lambda t, i, x: x[i], [()], [(3, 4, 5)], (None, 0)),
    "two scalars": (lambda t, i, x: x[i, i], [(3,)], [(3, 4, 5)], (0, 0)),
    "a scalar and a slice": (lambda t, i, x: x[:, i], [(3,)], [(3, 4, 5)], (0, 0)),
    "a scalar between": (lambda t, i, x: x[1:, i, None], [(3,)], [(3, 4, 5)], (0, 0)),
    "a vector": (lambda t, i, x: x[i], [(3, 6)], [(3, 4, 5)], (0, 0)),
    "a vector along the second": (lambda t, i, x: x[:, i], [(3, 6)], [(3, 4, 5, 2)], (0, 0)),
    "a shared vector": (lambda t, i, x: x[:, i], [(6,)], [(3, 4, 5)], (None, 0)),
    "a vector into a shared tensor": (lambda t, i, x: x[:, i], [(3, 6)], [(4, 5)], (0, None)),
    "apart": (lambda t, i, x: x[i, :, i], [(3, 6)], [(3, 4, 5, 2)], (0, 0)),
    "of two ranks": (lambda t, i, x: x[i, i[:, None]], [(3, 6)], [(3, 4, 5, 2)], (0, 0)),
    "a vector and a scalar": (lambda t, i, x: x[i, 0], [(3, 6)], [(3, 4, 5, 2)], (0, 0)),
    "index_select": (lambda t, i, x: x.index_select(0, i), [(3, 6)], [(3, 4, 5)], (0, 0)),
    "gather": (lambda t, i, x: x.gather(1, i), [(3, 4, 2)], [(3, 4, 5)], (0, 0)),
    "embedding": (lambda t, i, x: t.nn.functional.embedding(i, x), [(3, 6)], [(4, 5)], (0, None)),
    "one_hot": (lambda t, i, x: (i[:, None] == t.arange(4)) * x[0], [(3, 6)], [(3, 4)], (0, 0)),
    "scattered": (lambda t, i, x: x.scatter_add(0, i, x), [(3, 4)], [(3, 4)], (0, 0)),
    "comparisons": (lambda t, i, x: ((i >= 1) & (i < 5) | ~(i == 0)) ^ (x[0] > 0), [(3,)], [(3, 4)], (0, 0)),
    "integer arithmetic": (lambda t, i, x: (i // 2 + i % 3 - (i << 1)) * 2 + i.max(), [(3, 6)], [(3, 4)], (0, 0)),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", INDEXED)
def test_indices_like_torch(name, device):
    torch = pytest.importorskip("torch")
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    function, shapes, others, in_dims = INDEXED[name]
    rng = np.random.default_rng(1)
    indices = [rng.integers(0, 2, shape) for shape in shapes]
    in_dims = in_dims[: len(shapes)] + in_dims[len(shapes) :]

    def run(t, vmap, device):
        arrays = [t.from_numpy(np.array(x)).to(device) for x in indices]
        with t.device(device):
            return vmap(lambda *xs: function(t, *xs), in_dims)(*arrays, *tensors(t, others, device))

    with TransformGetItemToIndex():
        theirs = run(torch, torch.vmap, "cpu")
    same(run(mt, vmap, device), theirs, values=device == "cpu")


def masks(t):
    padding = t.tensor([0, 3])
    seen = t.tensor([[True] * 20, [True] * 13 + [False] * 7])
    block = t.arange(20) // 4
    return {
        "causal": lambda b, h, q, k: k <= q,
        "all": lambda b, h, q, k: q >= 0,
        "window": lambda b, h, q, k: (k <= q) & (k > q - 5),
        "padded": lambda b, h, q, k: (k <= q) & seen[b, k],
        "chunks": lambda b, h, q, k: (k - padding[b]) // 4 == (q - padding[b]) // 4,
        "blocks": lambda b, h, q, k: (block[q] == block[k]) | (h == 1),
        "new": lambda b, h, q, k: q.new_ones((), dtype=t.bool) & (q >= k) & b.new_zeros((), dtype=t.bool).logical_not(),
    }


def four_deep(vmap, function):
    for dims in [(None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)]:
        function = vmap(function, in_dims=dims, out_dims=0)
    return function


@pytest.mark.torch
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", list(masks(mt)))
def test_masks(name, device):
    torch = pytest.importorskip("torch")
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    def run(t, vmap, device):
        with t.device(device):
            return four_deep(vmap, masks(t)[name])(t.arange(2), t.arange(3), t.arange(20), t.arange(20))

    with TransformGetItemToIndex():
        theirs = run(torch, torch.vmap, "cpu")
    ours = run(mt, vmap, device)
    same(ours, theirs, values=device == "cpu")
    assert ours.stride() == theirs.stride()


def test_masks_are_fast():
    start = time.perf_counter()
    got = four_deep(vmap, masks(mt)["window"])(mt.arange(1), mt.arange(1), mt.arange(512), mt.arange(512))
    assert time.perf_counter() - start < 1
    assert got.shape == (1, 1, 512, 512)
    assert got.sum().item() == 512 * 5 - 10


@pytest.mark.filterwarnings("ignore:vmap")
def test_a_rule_is_as_the_members():
    """Each rule gives the result of a loop over the members."""
    from metatensor.func import _batched, _rules

    def views(func, level, args, kwargs, mutated):
        return _rules.view(func, level, args, kwargs) if func.functional.flags & _batched.VIEW_FLAG else NotImplemented

    for name, (function, shapes, in_dims, out_dims) in CASES.items():
        if name in ("nested", "nested sums"):
            continue
        given = tensors(mt, shapes, "cpu")
        fast = vmap(lambda *xs: function(mt, mt.nn.functional, *xs), in_dims, out_dims)(*given)
        kept, _batched._WAYS = _batched._WAYS, (views,)
        try:
            slow = vmap(lambda *xs: function(mt, mt.nn.functional, *xs), in_dims, out_dims)(*given)
        finally:
            _batched._WAYS = kept
        same(fast, slow)


def test_rules_are_of_operators():
    from metatensor._core.op import registry

    assert set(RULES) - set(registry) == set()


@pytest.mark.torch
@pytest.mark.parametrize("chunk_size", [1, 2, 3, 10])
def test_chunks(chunk_size):
    torch = pytest.importorskip("torch")

    def function(x):
        return x.sum(), x * 2

    for out_dims in (0, (0, 1)):
        ours = vmap(function, in_dims=1, out_dims=out_dims, chunk_size=chunk_size)(*tensors(mt, [(4, 5)], "cpu"))
        theirs = torch.vmap(function, in_dims=1, out_dims=out_dims, chunk_size=chunk_size)(*tensors(torch, [(4, 5)], "cpu"))
        same(ours, theirs)


ERRORS = {
    "sizes": lambda t, vmap: vmap(lambda x, y: x + y)(t.zeros(3), t.zeros(4)),
    "no arguments": lambda t, vmap: vmap(lambda: 1)(),
    "nothing to map": lambda t, vmap: vmap(lambda x: x, in_dims=(None,))(t.zeros(3)),
    "in_dims of a list": lambda t, vmap: vmap(lambda x: x, in_dims=[0])(t.zeros(3)),
    "in_dims of a str": lambda t, vmap: vmap(lambda x: x, in_dims="0")(t.zeros(3)),
    "in_dims of a float": lambda t, vmap: vmap(lambda x: x, in_dims=(0.5,))(t.zeros(3)),
    "too many in_dims": lambda t, vmap: vmap(lambda x: x, in_dims=(0, 0))(t.zeros(3)),
    "another nest": lambda t, vmap: vmap(lambda x: x, in_dims=((0, 0),))(t.zeros(3)),
    "no tensor": lambda t, vmap: vmap(lambda x: x)(3),
    "no dimension": lambda t, vmap: vmap(lambda x: x)(t.zeros(())),
    "in_dims too large": lambda t, vmap: vmap(lambda x: x, in_dims=2)(t.zeros(3)),
    "out_dims of a str": lambda t, vmap: vmap(lambda x: x, out_dims="0"),
    "out_dims of a str, called": lambda t, vmap: vmap(lambda x: x, out_dims="0")(t.zeros(3)),
    "out_dims of another nest": lambda t, vmap: vmap(lambda x: (x, x), out_dims=(0, 0, 0))(t.zeros(3)),
    "out_dims of a tensor": lambda t, vmap: vmap(lambda x: x, out_dims=(0, 0))(t.zeros(3)),
    "out_dims too large": lambda t, vmap: vmap(lambda x: x, out_dims=3)(t.zeros(3)),
    "out_dims None": lambda t, vmap: vmap(lambda x: x, out_dims=None)(t.zeros(3)),
    "a number returned": lambda t, vmap: vmap(lambda x: 3)(t.zeros(3)),
    "None returned": lambda t, vmap: vmap(lambda x: None)(t.zeros(3)),
    "item": lambda t, vmap: vmap(lambda x: x * x.item())(t.zeros(3)),
    "if": lambda t, vmap: vmap(lambda x: x if x > 0 else -x)(t.zeros(3)),
    "written into a shared tensor": lambda t, vmap: vmap(lambda x, y: y.add_(x), in_dims=(0, None))(t.zeros(3), t.zeros(())),
    "random": lambda t, vmap: vmap(lambda x: x + t.randn(3))(t.zeros(3)),
    "random of a member": lambda t, vmap: vmap(lambda x: t.rand_like(x))(t.zeros(3)),
    "dropout": lambda t, vmap: vmap(lambda x: t.nn.functional.dropout(x))(t.zeros(3)),
    "randomness": lambda t, vmap: vmap(lambda x: x, randomness="some")(t.zeros(3)),
    "chunk_size": lambda t, vmap: vmap(lambda x: x, chunk_size=0)(t.zeros(3)),
    "shapes inside": lambda t, vmap: vmap(lambda x, y: x + y)(t.zeros(3, 4), t.zeros(3, 5)),
    "matmul inside": lambda t, vmap: vmap(lambda x, y: x @ y)(t.zeros(3, 4, 2), t.zeros(3, 4, 2)),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    torch = pytest.importorskip("torch")
    raised = []
    for t, f in ((mt, vmap), (torch, torch.vmap)):
        try:
            ERRORS[name](t, f)
        except Exception as error:
            raised.append(type(error))
        else:
            raised.append(None)
    assert raised[0] is raised[1]


@pytest.mark.parametrize("draw", [lambda x: x + mt.randn(5), lambda x: mt.rand_like(x), lambda x: mt.nn.functional.dropout(x + 1, 0.5)])
def test_randomness(draw):
    x = mt.zeros(4, 5)
    same_numbers = vmap(draw, randomness="same")(x)
    assert all((same_numbers[i] == same_numbers[0]).all() for i in range(4))
    different = vmap(draw, randomness="different")(x)
    assert different.shape == (4, 5)
    assert not all((different[i] == different[0]).all() for i in range(4))


def test_dropout_that_is_off_is_not_random():
    x = mt.ones(3, 4)
    assert (vmap(lambda y: mt.nn.functional.dropout(y, training=False))(x) == x).all()
    assert (vmap(lambda y: mt.nn.functional.dropout(y, 0.0))(x) == x).all()


def test_an_ensemble():
    from metatensor.func import functional_call, stack_module_state

    models = [mt.nn.Sequential(mt.nn.Linear(4, 8), mt.nn.ReLU(), mt.nn.LayerNorm(8), mt.nn.Linear(8, 2)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = mt.randn(5, 4)
    got = vmap(lambda p, b, y: functional_call(models[0], (p, b), (y,)), in_dims=(0, 0, None))(parameters, buffers, x)
    want = mt.stack([model(x) for model in models])
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)
    each = vmap(lambda p, b, y: functional_call(models[0], (p, b), (y,)))(parameters, buffers, mt.stack([x, x + 1, x + 2]))
    assert each.shape == (3, 5, 2)


def test_no_members():
    assert vmap(lambda x: (x @ x.T, x.sum(), mt.linalg.det(x[:, :2])))(mt.zeros(0, 2, 3))[0].shape == (0, 2, 2)


def test_kwargs_are_not_mapped():
    x = mt.arange(6).view(3, 2)
    assert (vmap(lambda a, b: a + b)(x, b=mt.tensor([1, 2])) == x + mt.tensor([1, 2])).all()


def test_it_keeps_the_name():
    def square(x):
        """Return the square."""
        return x * x

    assert vmap(square).__name__ == "square"
    assert vmap(square).__doc__ == "Return the square."


def test_a_mode_outside_sees_what_is_computed():
    class Count(mt.DispatchMode):
        def __init__(self):
            self.names = []

        def dispatch(self, op, args, kwargs):
            self.names.append(op.name)
            return op(*args, **kwargs)

    with Count() as count:
        vmap(lambda x: x.exp())(mt.zeros(3, device="meta"))
    assert "exp" in count.names


def test_functionalize():
    from metatensor.func import functionalize

    assert functionalize(lambda x: x.clone().add_(1))(mt.zeros(2)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="remove"):
        functionalize(print, remove="all")


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_flops_are_counted_once_for_each_member(device):
    from metatensor.utils.flop_counter import FlopCounterMode

    x, w, kernel = (mt.ones(shape, device=device) for shape in ((7, 3, 4), (5, 4), (2, 3, 2)))
    for function in (lambda a: a @ w.T, lambda a: mt.nn.functional.linear(a, w), lambda a: mt.nn.functional.conv1d(a, kernel),
                     lambda a: mt.nn.functional.scaled_dot_product_attention(a[None], a[None], a[None])):  # fmt: skip
        with FlopCounterMode(display=False) as all_members:
            vmap(function)(x)
        with FlopCounterMode(display=False) as one:
            function(x[0])
        assert all_members.get_total_flops() == 7 * one.get_total_flops() > 0
