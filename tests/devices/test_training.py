"""Training on devices: a device with ten kernels, one with the core operators, the kit over another library, disk and fake tensors."""

import numpy as np
import pytest

import metatensor as mt
from devices.few_kernels import KERNELS, Small
from devices.registered import unregister
from metatensor import nn, plugins

pytest.importorskip("metatensor_cpu")
F = nn.functional
TEN = ("add", "sub", "mul", "div", "exp", "sqrt", "sum", "mm", "le", "where")


@pytest.fixture
def installed():
    """Register backends for one test."""
    added = []

    def register(backend):
        plugins.register_backend(backend)
        added.append(backend.type)
        return backend

    yield register
    for name in added:
        unregister(name)


def perceptron(device):
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
    return net, (16, 6), lambda y, x: F.mse_loss(y, x[:, :3])


def with_dropout(device):
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 3)), (16, 6), lambda y, x: F.mse_loss(y, x[:, :3])


def convnet(device):
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
                        nn.Conv2d(4, 4, 3, stride=2, groups=2, bias=False), nn.GroupNorm(2, 4), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))  # fmt: skip
    return net, (4, 2, 8, 8), lambda y, x: F.mse_loss(y, x[:, 0, 0, :3])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(7, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.cell, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x):
        numbers = (mt.arange(10) % 7).reshape(2, 5).to(x.device)
        return self.head(self.cell(self.encoder(self.embedding(numbers)))[0]).flatten(0, 1)


def tagger(device):
    return Tagger(), (1,), lambda y, x: F.cross_entropy(y, (mt.arange(10) % 5).to(device))


def pooled(device):
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.Tanh(), nn.AvgPool2d(2, padding=1), nn.Flatten(), nn.Linear(16, 4))
    return net, (3, 2, 8, 8), lambda y, x: F.cross_entropy(y, (mt.arange(3)).to(device), label_smoothing=0.1)


def trained(model, device, optimizer=mt.optim.SGD, steps=3):
    """Return the losses of some steps, and the parameters and buffers after them."""
    mt.manual_seed(0)
    net, shape, loss_of = model(device)
    x = mt.randn(shape).to(device)
    net = net.to(device)
    optimizer = optimizer(net.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(net(x), x)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu().item())
    return losses, {name: t.detach().cpu().numpy() for name, t in net.state_dict().items()}


def assert_trains_like_cpu(model, device, **how):
    losses, state = trained(model, device, **how)
    expected, due = trained(model, "cpu", **how)
    assert losses == pytest.approx(expected, rel=1e-4) and losses[-1] != losses[0]
    for name, values in due.items():
        assert np.allclose(state[name], values, rtol=1e-3, atol=2e-5), name


@pytest.mark.parametrize("model", [perceptron, with_dropout, convnet])
@pytest.mark.parametrize("optimizer", [mt.optim.SGD, mt.optim.AdamW])
def test_a_device_with_ten_kernels(installed, model, optimizer):
    backend = installed(Small("few", {name: KERNELS[name] for name in TEN}))
    assert_trains_like_cpu(model, "few", optimizer=optimizer)
    assert {name for name, _ in backend.seen} <= set(TEN)


@pytest.mark.parametrize("model", [perceptron, convnet, tagger, pooled])
def test_a_device_without_kernels_and_with_the_fallback(installed, model):
    installed(Small("none", {}, "cpu"))
    assert_trains_like_cpu(model, "none", steps=2)


@pytest.mark.parametrize("model", [perceptron, convnet, tagger, pooled])
def test_a_device_with_the_core_operators(installed, model):
    from metatensor.devices.array_kit import ArrayBackend
    from metatensor.rules.core import CORE

    class Core(ArrayBackend):
        def kernel(self, name):
            return super().kernel(name) if name in CORE else None

    installed(Core("corelike", np, special="scipy.special"))
    assert_trains_like_cpu(model, "corelike", steps=2)


@pytest.mark.parametrize("model", [perceptron, convnet])
def test_disk(model, tmp_path, monkeypatch):
    pytest.importorskip("metatensor_disk")
    monkeypatch.setenv("METATENSOR_DISK_DIR", str(tmp_path))
    assert_trains_like_cpu(model, "disk", steps=2)


@pytest.mark.parametrize("model", [perceptron, convnet, tagger, pooled])
def test_fake_tensors_have_the_metadata_of_a_step(model):
    from metatensor.deferred import FakeTensorMode

    net, shape, loss_of = model("cpu")
    x = mt.randn(shape)
    loss_of(net(x), x).backward()
    with FakeTensorMode():
        fake, _, loss_of = model("cpu")
        optimizer = mt.optim.AdamW(fake.parameters())
        x = mt.randn(shape)
        loss_of(fake(x), x).backward()
        optimizer.step()
        for (name, real), p in zip(net.named_parameters(), fake.parameters(), strict=True):
            assert (p.grad.shape, p.grad.dtype, p.grad.stride(), p.grad.device) == (
                real.grad.shape, real.grad.dtype, real.grad.stride(), real.grad.device), name  # fmt: skip
            assert optimizer.state[p]["exp_avg"].shape == p.shape
