"""Train a DDPM with schedules as buffers, gathered coefficients, sinusoidal embeddings and LBFGS, and sample from it."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Embedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, t):
        half = self.width // 2
        rates = torch.exp(torch.arange(half, device=t.device) * -(math.log(10000) / (half - 1)))
        angles = t[:, None] * rates[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Denoiser(nn.Module):
    def __init__(self, size=6, width=16):
        super().__init__()
        self.time = nn.Sequential(Embedding(width), nn.Linear(width, width), nn.SiLU())
        self.inside, self.middle, self.out = nn.Linear(size, width), nn.Linear(width, width), nn.Linear(width, size)

    def forward(self, x, t):
        h = F.silu(self.inside(x) + self.time(t))
        return self.out(F.silu(self.middle(h)))


class Diffusion(nn.Module):
    def __init__(self, model, steps=10):
        super().__init__()
        self.model, self.steps = model, steps
        betas = torch.linspace(1e-4, 0.02, steps, dtype=torch.float64)
        cumulated = torch.cumprod(1.0 - betas, dim=0)
        previous = F.pad(cumulated[:-1], (1, 0), value=1.0)
        for name, value in (("betas", betas), ("kept", cumulated.sqrt()), ("noise", (1 - cumulated).sqrt()),
                            ("variance", betas * (1 - previous) / (1 - cumulated))):  # fmt: skip
            self.register_buffer(name, value.to(torch.float32))

    def at(self, table, t, x):
        return table.gather(-1, t).reshape(t.shape[0], *((1,) * (x.dim() - 1)))

    def forward(self, x):
        t = torch.randint(0, self.steps, (x.shape[0],), device=x.device).long()
        noise = torch.randn_like(x)
        noisy = self.at(self.kept, t, x) * x + self.at(self.noise, t, x) * noise
        return F.mse_loss(self.model(noisy, t), noise)

    @torch.inference_mode()
    def sample(self, count, size):
        x = torch.randn((count, size), device=self.betas.device)
        for i in reversed(range(self.steps)):
            t = torch.full((count,), i, device=x.device, dtype=torch.long)
            x = (x - self.at(self.betas, t, x) / self.at(self.noise, t, x) * self.model(x, t)) / (1 - self.at(self.betas, t, x)).sqrt()
            if i > 0:
                x = x + self.at(self.variance, t, x).sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1)


device = "cuda" if torch.cuda.is_available() else "cpu"
diffusion = Diffusion(Denoiser()).to(device)
average = AveragedModel(diffusion, multi_avg_fn=get_ema_multi_avg_fn(0.99))
optimizer = torch.optim.AdamW(diffusion.parameters(), lr=1e-3)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
for step in range(3):
    loss = diffusion(torch.rand(8, 6, device=device) * 2 - 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    warmup.step()
    average.update_parameters(diffusion)
    print(f"step {step}: {loss.item():.4f} {warmup.get_last_lr()[0]:.5f}")
scale = torch.nn.Parameter(torch.ones(6, device=device))
lbfgs = torch.optim.LBFGS([scale], lr=0.5, max_iter=3, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    value = ((scale * average.module.sample(4, 6).clone() - 0.5) ** 2).mean()
    value.backward()
    return value


print("lbfgs", float(lbfgs.step(closure)))
print("samples", tuple(average.module.sample(2, 6).shape))
