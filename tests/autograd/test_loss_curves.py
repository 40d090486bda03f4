"""Training is training: the loss curves of four models agree with PyTorch's."""

import math

import pytest

import metatensor as mt
from autograd import small_models as models

np = pytest.importorskip("numpy")

STEPS = 100


def batches(name, rng):
    """Return a few batches of inputs and labels, which are used in turn."""
    if name == "resnet18":
        return [(rng.standard_normal((8, 3, 32, 32)).astype("float32"), rng.integers(0, 10, 8)) for _ in range(4)]
    if name == "minilm":
        tokens = rng.integers(1, 1000, (4, 8, 12))
        tokens[:, :, 9:] = 0
        tokens[:, ::2, 7:] = 0
        return [(each, rng.random(4).astype("float32")) for each in tokens]
    return [(rng.integers(0, 50, (4, 24)), np.zeros(1)) for _ in range(4)]


def initial(model, rng):
    """Return values for the parameters, by name: the same for both libraries."""
    values = {}
    for name, p in model.named_parameters():
        shape = tuple(p.shape)
        if len(shape) > 1:
            deviation = 0.05 if "wte" in name or "wpe" in name else 1 / math.sqrt(math.prod(shape[1:]))
            values[name] = (rng.standard_normal(shape) * deviation).astype("float32")
        elif p.detach().sum().item() == math.prod(shape):  # weights of normalization layers
            values[name] = np.ones(shape, "float32")
        else:
            values[name] = (rng.standard_normal(shape) * 0.01).astype("float32")
    return values


OPTIMIZERS = {
    "gpt2": lambda t, ps: t.optim.AdamW(ps, lr=1e-3),
    # Batch normalization over 32 numbers amplifies rounding: at a higher rate, float32 diverges (float64 agrees to 1e-14).
    "resnet18": lambda t, ps: t.optim.SGD(ps, lr=5e-4),
    "lstm": lambda t, ps: t.optim.Adam(ps, lr=1e-3, eps=1e-5),
    "minilm": lambda t, ps: t.optim.AdamW(ps, lr=2e-6, eps=1e-6),
}


def curve(t, name, given, steps=STEPS):
    """Return the losses of the steps."""
    model = getattr(models, name)(t).to("cpu")
    values = given or initial(model, np.random.default_rng(0))
    with t.no_grad():
        for key, p in model.named_parameters():
            p.copy_(t.from_numpy(values[key]) if t is not mt else mt.tensor(values[key], device="cpu"))
    model.train()
    data = [[t.tensor(a, device="cpu") for a in batch] for batch in batches(name, np.random.default_rng(1))]
    optimizer = OPTIMIZERS[name](t, model.parameters())
    losses = []
    for step in range(steps):
        loss = model.loss(*data[step % len(data)])
        optimizer.zero_grad()
        loss.backward()
        t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, values


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loss_curves(name):
    torch = pytest.importorskip("torch")
    ours, values = curve(mt, name, None)
    theirs, _ = curve(torch, name, values)
    assert ours == pytest.approx(theirs, rel=1e-4), max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
    assert sum(ours[-4:]) < 0.9 * sum(ours[:4])  # each batch once


@pytest.mark.torch
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_first_steps(name):
    torch = pytest.importorskip("torch")
    ours, values = curve(mt, name, None, 3)
    assert ours == pytest.approx(curve(torch, name, values, 3)[0], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_on_meta_has_the_shapes_of_the_real_one(name):
    real, planned = getattr(models, name)(mt).to("cpu"), getattr(models, name)(mt).to("meta")
    inputs = [mt.tensor(a, device="cpu") for a in batches(name, np.random.default_rng(1))[0]]
    for model, device in ((real, "cpu"), (planned, "meta")):
        model.loss(*(a.to(device) for a in inputs)).backward()
    for (key, a), b in zip(real.named_parameters(), planned.parameters(), strict=True):
        assert b.grad.is_meta and a.grad.shape == b.grad.shape and a.grad.stride() == b.grad.stride(), key
        assert a.grad.isfinite().all(), key
