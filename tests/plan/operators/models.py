"""Small models, and a comparison of a placed model with the same model on one device."""

from collections import Counter
from math import prod

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, init_device_mesh
from metatensor.nn import functional as F


def cross_entropy(output, targets):
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())


def mlp():
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64), nn.Linear(64, 16))


def dropout():
    return nn.Sequential(nn.Linear(64, 256), nn.Dropout(0.3), nn.ReLU(), nn.Linear(256, 16))


def frozen():
    return nn.Sequential(nn.Linear(64, 256).requires_grad_(False), nn.ReLU(), nn.Linear(256, 16))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 16),
    )  # fmt: skip


class Language(nn.Module):
    """Blocks that get a mask besides the activation. The head may have the embedding's weight."""

    def __init__(self, tied=False):
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(64, 100, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1]).to(tokens.device)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.head(x)


class Gated(nn.Module):
    """All experts, weighted; a block with a residual connection outside of it, and a buffer."""

    def __init__(self, width=32, experts=4, hidden=64):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up, self.down = nn.Parameter(mt.randn(experts, width, hidden) * 0.1), nn.Parameter(mt.randn(experts, hidden, width) * 0.1)
        self.register_buffer("gain", mt.full((width,), 2.0))

    def forward(self, x):
        hidden = mt.einsum("bsw,nwh->bsnh", x, self.up).relu()
        return mt.einsum("bsnh,nhw,bsn->bsw", hidden, self.down, self.router(x).softmax(-1)) * self.gain


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.blocks = nn.ModuleList(Gated() for _ in range(2))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Rescaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.linear, self.factor = nn.Linear(32, 32), factor

    def forward(self, x, power):
        return x + self.factor * self.linear(x).relu() ** power


class Scaled(nn.Module):
    """Blocks of one class with equal parameters, but with other settings or arguments."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.blocks = nn.ModuleList(Rescaled(factor) for factor in (0.5, 2.0, 0.5))

    def forward(self, tokens):
        x = self.embed(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, 1 + (i == 2))
        return self.head(x)


def like(t):
    return mt.empty(t.shape, dtype=t.dtype, device="meta")


def placed(build, inputs, targets, mesh, memory, **options):
    """Return the plan of a model on a mesh of H100, in float32."""
    with mt.device("meta"):
        model = build()
    devices, targets = f"{prod(mesh)}xH100, {prod(mesh)} per node", tuple(map(like, targets))
    return mt.plan.place_operators(model, *map(like, inputs), devices=devices, mesh=mesh, loss=cross_entropy, targets=targets,
                                   precision="fp32", max_memory=memory, **options)  # fmt: skip


def seeded(build):
    mt.manual_seed(0)
    model = build()
    mt.manual_seed(5)
    return model


def trained(step, model):
    """Return losses of two steps, the last gradients as whole tensors, the buffers, and what the last step communicated."""
    optimizer, losses = mt.optim.SGD(model.parameters(), lr=0.01), []
    for i in range(2):
        log = CommunicationLog()
        optimizer.zero_grad()
        with log:
            loss = step(model)
            loss.backward()
        losses.append(loss.item())
        if i == 0:
            optimizer.step()
    grads = {name: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for name, p in model.named_parameters()
             if p.grad is not None}  # fmt: skip
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    return losses, grads, buffers, Counter((entry.kind, entry.bytes, entry.group) for entry in log if entry.bytes)


def compare(plan, build, inputs, targets, tolerance=1e-4):
    """Compare a placed model on simulated ranks with the model on one."""

    def alone():
        dist.init_process_group()
        return trained(lambda model: cross_entropy(model(*inputs), *targets), seeded(build))

    def together():
        dist.init_process_group()
        model = plan.apply(seeded(build), init_device_mesh("cpu", plan.mesh_shape))
        return trained(lambda model: model(*inputs, *targets), model)

    expected = dist.sim.run(alone, world_size=1)[0]
    found = dist.sim.run(together, world_size=prod(plan.mesh_shape))
    assert found[0][3] == Counter(plan.communication)
    for losses, grads, buffers, communicated in found:
        assert all(abs(a / b - 1) < 1e-5 for a, b in zip(losses, expected[0], strict=True))
        assert grads.keys() == expected[1].keys()
        for name, grad in expected[1].items():
            assert mt.allclose(grads[name], grad, rtol=tolerance, atol=tolerance * float(grad.abs().max())), name
        for name, buffer in expected[2].items():
            assert mt.allclose(buffers[name], buffer, rtol=1e-5, atol=1e-6), name
        assert sum(communicated.values()) == len(plan.communication)
