"""Train a GAN with label tensors, alternating optimizers, spectral norm, an EMA of the generator, and a grid of samples."""

import copy

import numpy as np
import torch
import torch.nn as nn

cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        torch.nn.init.normal_(m.weight, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        m.weight.data.normal_(1.0, 0.02)
        m.bias.data.fill_(0)


class Generator(nn.Module):
    def __init__(self, noise=8, width=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(noise, 2 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, width, 4, 2, 1)), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), nn.Flatten(), nn.Linear(2 * width * 16, 1),
        )  # fmt: skip

    def forward(self, x):
        return self.main(x).view(-1)


generator, discriminator = Generator(), Discriminator()
generator.apply(weights_init)
discriminator.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
if cuda:
    generator.cuda()
    discriminator.cuda()
    criterion.cuda()
ema = copy.deepcopy(generator)
for p in ema.parameters():
    p.requires_grad_(False)
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(12, 1, 16, 16)), batch_size=4, shuffle=True)
history = []
for epoch in range(2):
    for i, (images,) in enumerate(loader):
        real = images.type(Tensor)
        valid = Tensor(real.size(0)).fill_(1.0)
        fake = torch.zeros_like(valid)
        z = torch.tensor(np.random.normal(0, 1, (real.size(0), 8, 1, 1))).type(Tensor)
        opt_d.zero_grad()
        samples = generator(z)
        d_loss = (criterion(discriminator(real), valid) + criterion(discriminator(samples.detach()), fake)) / 2
        d_loss.backward()
        opt_d.step()
        opt_g.zero_grad()
        g_loss = criterion(discriminator(samples), valid)
        g_loss.backward()
        opt_g.step()
        with torch.no_grad():
            for a, b in zip(ema.parameters(), generator.parameters()):
                a.mul_(0.999).add_(b, alpha=0.001)
            for a, b in zip(ema.buffers(), generator.buffers()):
                a.copy_(b)
        history.append((d_loss.item(), float(g_loss)))
        print(f"[{epoch}/{i}] D {d_loss.item():.4f} G {g_loss:.4f}")
ema.eval()
grid = ema(torch.randn(4, 8, 1, 1, device=next(ema.parameters()).device)).detach().cpu().numpy()
print("grid", grid.transpose(0, 2, 3, 1).shape, len(history))
