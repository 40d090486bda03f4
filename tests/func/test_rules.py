"""Operators under `vmap`: each gives what a loop over the members gives, and few run for one member after another."""

import warnings

import numpy as np
import pytest

import metatensor as mt
from metatensor.func import grad, jacrev, vmap

F = mt.nn.functional

# Function, and the shapes of its arguments for one member.
LAYERS = {
    "conv": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [(2, 3, 5, 5), (4, 3, 3, 3), (4,)]),
    "conv of an image": (lambda x, w: F.conv1d(x, w, stride=2), [(3, 8), (4, 3, 3)]),
    "conv in groups": (lambda x, w: F.conv1d(x, w, groups=2), [(2, 4, 8), (6, 2, 3)]),
    "transposed conv": (lambda x, w, b: F.conv_transpose2d(x, w, b), [(2, 3, 4, 4), (3, 2, 3, 3), (2,)]),
    "max_pool": (lambda x: F.max_pool2d(x, 2), [(2, 3, 4, 4)]),
    "avg_pool of an image": (lambda x: F.avg_pool1d(x, 2), [(3, 6)]),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 2), [(2, 3, 5, 5)]),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [(2, 3, 4, 4)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), [(3, 4), (4,), (4,)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [(5, 4), (4,), (4,)]),
    "instance_norm": (lambda x: F.instance_norm(x), [(2, 3, 4)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 5, 4), (2, 6, 4), (2, 6, 4)]),
    "addmm": (lambda x, a, b: mt.addmm(x, a, b, beta=2, alpha=0.5), [(2, 4), (2, 3), (3, 4)]),
    "index_add": (lambda x, s: x.index_add(0, mt.tensor([1, 0]), s), [(3, 4), (2, 4)]),
    "scatter_add": (lambda x, s: x.scatter_add(1, mt.tensor([[0, 1], [2, 2]]), s), [(2, 4), (2, 2)]),
    "solve": (lambda a, b: mt.linalg.solve(a @ a.mT + 3 * mt.eye(3), b), [(3, 3), (3, 2)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, mt.tensor([0, 2, 1])), [(3, 4)]),
    "quantile": (lambda x: mt.quantile(x, mt.tensor([0.2, 0.7]), dim=0), [(5, 2)]),
    "pad": (lambda x: F.pad(x, (1, 2), mode="reflect"), [(2, 3, 4)]),
    "renorm": (lambda x: mt.renorm(x, 2, 0, 1.0), [(3, 4)]),
    "fft": (lambda x: mt.fft.rfft(x, dim=0).abs(), [(4, 3)]),
}  # fmt: skip


def tensors(shapes, batch):
    rng = np.random.default_rng(0)
    return [mt.from_numpy(rng.standard_normal((*((3,) if b else ()), *s)).astype("float32")) for s, b in zip(shapes, batch, strict=True)]


@pytest.mark.parametrize("name", LAYERS)
def test_members(name):
    function, shapes = LAYERS[name]
    n = len(shapes)
    for batch in {(True,) * n, *(tuple(i == k for i in range(n)) for k in range(n))}:
        given = tensors(shapes, batch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # no operator runs for one member after another
            got = vmap(function, in_dims=tuple(0 if b else None for b in batch))(*given)
        want = mt.stack([function(*[x[i] if b else x for x, b in zip(given, batch, strict=True)]) for i in range(3)])
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in LAYERS if "mt.tensor" not in name])
def test_on_meta(name):
    function, shapes = LAYERS[name]
    given = tensors(shapes, (True,) * len(shapes))
    want = vmap(function)(*given)
    with mt.device("meta"):
        got = vmap(function)(*[x.to("meta") for x in given])
    assert got.device.type == "meta" and got.shape == want.shape


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "solve"])
def test_gradients_of_members(name):
    function, shapes = LAYERS[name]
    given = tensors(shapes, (True,) * len(shapes))

    def loss(*xs):
        return function(*xs).square().sum()

    for i in range(len(shapes)):
        got = vmap(grad(loss, i))(*given)
        want = mt.stack([grad(loss, i)(*[x[k] for x in given]) for k in range(3)])
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-3, atol=2e-4)
    rows = jacrev(function)(*[x[0] for x in given])
    assert rows.shape == (*function(*[x[0] for x in given]).shape, *shapes[0])


def test_a_custom_operator_without_a_rule_runs_one_by_one_and_warns():
    from metatensor.torch_api import torch

    @torch.library.custom_op("rules::reversed", mutates_args=())
    def reverse(x: torch.Tensor) -> torch.Tensor:
        return x.flip(0)

    reverse.register_fake(lambda x: torch.empty_like(x))
    with pytest.warns(UserWarning, match="reversed has no rule"):
        assert vmap(lambda x: reverse(x))(mt.tensor([[0, 1], [2, 3]])).tolist() == [[1, 0], [3, 2]]


def test_custom_rules():
    from metatensor.torch_api import torch

    @torch.library.custom_op("rules::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double.register_fake(lambda x: torch.empty_like(x))
    seen = []

    @double.register_vmap
    def _(info, in_dims, x):
        seen.append((info.batch_size, in_dims))
        return x * 2, 0

    assert vmap(lambda x: double(x))(mt.ones(3, 2)).tolist() == [[2, 2]] * 3
    assert seen == [(3, (0,))]


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ops", ["cumsum", "gather", "linalg.solve", "nn.functional.conv2d", "nn.functional.batch_norm", "sort", "var"])
def test_samples_of_the_database(ops):
    from oracle import batches, database

    for op in database.entries({ops}):
        right, n, first, _ = batches.run(op, 3)
        assert n and right == n, first
