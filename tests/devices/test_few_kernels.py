"""Devices with few kernels: decompositions and the cpu's kernels compute the rest."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import metatensor as mt
from devices.few_kernels import KERNELS, Small
from devices.registered import unregister
from metatensor import nn, plugins
from metatensor.devices.coverage import coverage
from metatensor.rules.core import CORE

pytest.importorskip("metatensor_cpu")


@pytest.fixture
def installed():
    """Register backends for one test."""
    added = []

    def register(type, kernels, fallback=None):
        backend = Small(type, kernels, fallback)
        plugins.register_backend(backend)
        added.append(type)
        return backend

    yield register
    for name in added:
        unregister(name)


def perceptron():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(-1)), (4, 6)


def convnet():
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 4, 3, groups=2),
                         nn.GELU(), nn.Flatten(), nn.Linear(16, 3)), (2, 2, 8, 8)  # fmt: skip


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
                                     for _ in range(2)])  # fmt: skip
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return mt.softmax(self.head(x), -1)


def transformer():
    return Transformer(), (2, 5, 8)


@pytest.mark.parametrize("model", [perceptron, convnet, transformer])
@pytest.mark.parametrize("kernels, fallback", [(KERNELS, None), ({}, "cpu"), ({"mm": KERNELS["mm"]}, "cpu")],
                         ids=["decompositions", "fallback", "one kernel and fallback"])  # fmt: skip
def test_networks(installed, model, kernels, fallback):
    backend = installed("few", kernels, fallback)
    mt.manual_seed(0)
    net, shape = model()
    net.eval()
    x = mt.randn(shape)
    with mt.no_grad():
        expected = net(x)
        got = net.to("few")(x.to("few"))
    assert got.device.type == "few"
    assert np.allclose(got.cpu().numpy(), expected.numpy(), atol=1e-5)
    assert not kernels or any(name == "mm" for name, _ in backend.seen)


def test_a_kernel_gets_whole_tuples(installed):
    """An ``int[2]`` reaches the kernel as a tuple of two ints, however the caller passes it."""
    seen = []

    def convolve(x, weight, bias, *options):
        seen.append(options)
        return np.zeros((1, 1, 2, 2), np.float32)

    installed("few", {"nn.functional.conv2d": convolve})
    x, w = mt.zeros(1, 1, 4, 4, device="few"), mt.zeros(1, 1, 3, 3, device="few")
    for one in (1, (1,), [1], (1, 1), [1, 1], mt.Size((1, 1)), np.int64(1)):
        nn.functional.conv2d(x, w, None, one, 0, one)
    assert seen == [((1, 1), (0, 0), (1, 1), 1)] * 7
    assert all(type(n) is int for options in seen for value in options[:3] for n in value)


def test_dimensions_are_a_tuple(installed):
    seen = []

    def total(x, dim, keepdim, dtype):
        seen.append(dim)
        return x.sum(many(x, dim), keepdims=keepdim)

    from devices.few_kernels import many

    installed("few", {"sum": total})
    x = mt.ones(2, 3, device="few")
    for dim in (None, 1, (1,), [0, 1], ()):
        x.sum(dim)
    assert seen == [None, (1,), (1,), (0, 1), ()]


@pytest.mark.parametrize("name", ["relu", "nn.functional.relu"])
def test_one_kernel_for_two_names(installed, name):
    backend = installed("few", {name: lambda x, *options: np.maximum(x, 0)})
    x = mt.tensor([-1.0, 2.0]).to("few")
    for result in (x.relu(), mt.relu(x), nn.functional.relu(x), nn.functional.relu(x, inplace=True)):
        assert result.tolist() == [0.0, 2.0]
    assert [seen for seen, _ in backend.seen] == [name] * 4
    assert {row.how for row in coverage(backend) if row.name in ("relu", "nn.functional.relu")} == {"kernel"}


def test_pairs_fill_in_what_the_other_lacks(installed):
    installed("few", {"softmax": lambda x, dim, dtype: np.full(x.shape, dim, np.float32)})
    assert nn.functional.softmax(mt.zeros(2, 3, device="few"), None, _stacklevel=3).tolist() == [[1.0] * 3] * 2


def test_random_numbers_are_those_of_the_cpu(installed):
    installed("few", {})
    for draw in (lambda **to: mt.rand(5, **to), lambda **to: mt.randn(5, **to), lambda **to: mt.randint(0, 9, (5,), **to),
                 lambda **to: mt.randperm(7, **to), lambda **to: mt.empty(5, **to).uniform_(1, 2),
                 lambda **to: mt.zeros(5, **to).normal_()):
        mt.manual_seed(3)
        expected = draw(device="cpu").tolist()
        mt.manual_seed(3)
        assert draw(device="few").tolist() == expected
    assert nn.Linear(3, 2, device="few").weight.cpu().abs().max() <= 3**-0.5


def test_the_fallback_minds_aliases(installed):
    installed("few", {}, "cpu")
    base = mt.arange(6.0).to("few")
    base[1:4].add_(base[1:4])
    assert base.tolist() == [0.0, 2.0, 4.0, 6.0, 4.0, 5.0]
    base.index_add_(0, mt.tensor([0, 0]).to("few"), base[4:].clone())
    assert base.tolist() == [9.0, 2.0, 4.0, 6.0, 4.0, 5.0]
    out = mt.zeros(3, 2, device="few").t()
    mt.add(base.reshape(2, 3), 1, out=out)
    assert out.tolist() == [[10.0, 3.0, 5.0], [7.0, 5.0, 6.0]]
    assert mt.nonzero(base > 5).device.type == "few" and mt.nonzero(base > 5).tolist() == [[0], [3]]
    values, places = base.sort()
    assert values.tolist() == [2.0, 4.0, 4.0, 5.0, 6.0, 9.0] and places.device.type == "few"
    running = mt.zeros(2, device="few")
    nn.functional.batch_norm(mt.ones(4, 2).to("few"), running, mt.ones(2).to("few"), training=True)
    assert running.tolist() == pytest.approx([0.1, 0.1])


def test_dtypes_that_the_device_lacks_fall_back(installed):
    backend = installed("few", {"add": KERNELS["add"]}, "cpu")
    backend.dtypes = frozenset({"float32"})
    x = mt.ones(2, dtype=mt.int64).to("few")
    assert (x + 1).tolist() == [2, 2] and not backend.seen
    assert (x.float() + 1).tolist() == [2.0, 2.0] and len(backend.seen) == 1


def test_without_a_fallback_the_operator_is_named(installed):
    installed("few", {})
    with pytest.raises(NotImplementedError, match="erfinv.*few"):
        mt.ones(2, device="few").erfinv()
    other = installed("odd", {}, "gpu")
    with pytest.raises(ValueError, match="the fallback of the device odd must be \"cpu\" or None, got 'gpu'"):
        mt.ones(2, device=other.type).erfinv()


def test_the_list_of_operators(installed):
    from metatensor.cli.devices import command

    installed("few", KERNELS, "cpu")
    rows = json.loads(CliRunner().invoke(command, ["--ops", "few", "--json"]).output)
    assert "mm" in rows["kernel"] and "nn.functional.linear" in rows["decomposition"] and "erfinv" in rows["fallback"]
    assert not [name for name in rows["missing"] if "::" not in name]
    installed("bare", {})
    text = CliRunner().invoke(command, ["--ops", "bare"]).output
    assert "missing        mm (core)" in text and "decomposition  nn.functional.linear" in text
    assert 70 <= len(CORE) <= 95
