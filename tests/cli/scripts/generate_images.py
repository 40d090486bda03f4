"""Train a VAE and a super-resolution network with KL divergence, pixel shuffle, PSNR and SSIM, and write images as arrays."""

import sys
from math import log10
from pathlib import Path

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(64, 32)
        self.mean, self.spread = nn.Linear(32, 4), nn.Linear(32, 4)
        self.decode = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())

    def forward(self, x):
        h = F.relu(self.encode(x.view(-1, 64)))
        mu, logvar = self.mean(h), self.spread(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decode(z), mu, logvar


class Upscale(nn.Module):
    def __init__(self, factor=2):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 8, 5, 1, 2), nn.Conv2d(8, factor**2, 3, 1, 1)
        self.shuffle = nn.PixelShuffle(factor)
        nn.init.orthogonal_(self.first.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.last.weight)

    def forward(self, x):
        return self.shuffle(self.last(F.relu(self.first(x))))


def ssim(a, b, size=5):
    places = torch.arange(size).float() - size // 2
    g = torch.exp(-(places**2) / (2 * 1.5**2))
    window = (g[:, None] * g[None, :] / g.sum() ** 2).expand(1, 1, size, size).contiguous().type_as(a)
    mean_a, mean_b = F.conv2d(a, window), F.conv2d(b, window)
    var_a, var_b = F.conv2d(a * a, window) - mean_a.pow(2), F.conv2d(b * b, window) - mean_b.pow(2)
    both = F.conv2d(a * b, window) - mean_a * mean_b
    return (((2 * mean_a * mean_b + 1e-4) * (2 * both + 9e-4)) / ((mean_a**2 + mean_b**2 + 1e-4) * (var_a + var_b + 9e-4))).mean()


out = Path(sys.argv[1])
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
images = torch.as_tensor(np.random.default_rng(0).random((8, 1, 8, 8)), dtype=torch.float32)
vae, upscale = VAE().to(device), Upscale().to(device)
optimizer = optim.Adam([*vae.parameters(), *upscale.parameters()], lr=1e-3)
scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
for epoch in range(2):
    total = 0
    for batch in images.split(4):
        batch = batch.to(device)
        optimizer.zero_grad()
        rebuilt, mu, logvar = vae(batch)
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        small = F.interpolate(batch, scale_factor=0.5, mode="bicubic", align_corners=False, antialias=True)
        sharp = upscale(small)
        loss = F.binary_cross_entropy(rebuilt, batch.view(-1, 64), reduction="sum") + kl + F.mse_loss(sharp, batch)
        loss.backward()
        total += loss.item()
        optimizer.step()
    scheduler.step()
    mse = F.mse_loss(sharp, batch)
    print(f"epoch {epoch}: {total / len(images):.3f}, PSNR {10 * log10(1 / mse.item()):.2f} dB, SSIM {ssim(sharp, batch).item():.3f}")
with torch.no_grad():
    sample = vae.decode(torch.randn(4, 4).to(device)).cpu().view(4, 8, 8)
array = (sample.clamp(0, 1) * 255).byte().numpy()
np.save(out / "samples.npy", array)
torch.save(vae, out / "vae.pt")
again = torch.load(out / "vae.pt", weights_only=False)
print("saved", array.shape, array.dtype, type(again).__name__)
