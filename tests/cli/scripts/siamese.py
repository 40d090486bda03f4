"""Train a siamese network on triplets, an LSTM on sliding windows, and an autoencoder, with custom modules with buffers."""

import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Subset, WeightedRandomSampler

device = "cuda" if torch.cuda.is_available() else "cpu"
random.seed(0)


class Triplets(Dataset):
    def __init__(self):
        self.data = torch.randn(30, 12)
        self.labels = torch.arange(30) % 3
        self.groups = {k: torch.where(self.labels == k)[0] for k in range(3)}

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        label = self.labels[i].item()
        other = random.choice([k for k in range(3) if k != label])
        positive = self.groups[label][torch.randint(len(self.groups[label]), (1,)).item()]
        negative = random.choice(self.groups[other])
        return self.data[i], self.data[positive], self.data[negative]


class RunningNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("count", torch.tensor(0, dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.count += 1
            self.mean.lerp_(x.detach().mean(0), 1.0 / self.count.item())
        return x - self.mean


class Forecast(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm = RunningNorm(1)
        self.lstm = nn.LSTM(1, width, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        h0 = torch.zeros(2, x.size(0), 8).to(x.device)
        c0 = torch.zeros(2, x.size(0), 8).to(x.device)
        out, _ = self.lstm(self.norm(x.flatten(0, 1)).view_as(x), (h0.detach(), c0.detach()))
        return self.head(out[:, -1, :])


net = nn.Sequential(nn.Linear(12, 16), nn.PReLU(), nn.Linear(16, 4)).to(device)
data = Triplets()
sampler = WeightedRandomSampler([1.0] * 10 + [2.0] * 20, 16)
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.01)
for anchor, positive, negative in DataLoader(data, batch_size=8, sampler=sampler):
    a, p, n = (net(x.to(device)) for x in (anchor, positive, negative))
    loss = nn.TripletMarginLoss(margin=1.0)(a, p, n)
    hard = (a - p).norm(dim=1) > (a - n).norm(dim=1)
    loss = loss + (a[hard] - p[hard]).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("triplet", round(loss.item(), 3), f"{(hard.float().mean() * 100).item():.0f}% hard")

wave = np.sin(np.arange(60) * 0.3).astype(np.float32)
windows = np.lib.stride_tricks.sliding_window_view(wave, 11)
x, y = torch.from_numpy(windows[:, :10].copy()).unsqueeze(-1), torch.from_numpy(windows[:, 10:].copy())
loader = DataLoader(Subset(torch.utils.data.TensorDataset(x, y), range(32)), 16)
model = Forecast().to(device)
optimizer = torch.optim.Adam(model.parameters())
onecycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=4)
losses = []
for _ in range(2):
    for inputs, outputs in loader:
        loss = nn.functional.huber_loss(model(inputs.to(device)), outputs.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        onecycle.step()
        losses.append(loss.item())
model.eval()
history = x[-1:].to(device)
future = []
with torch.no_grad():
    for _ in range(5):
        following = model(history)
        future.append(following.item())
        history = torch.cat((history[:, 1:], following.view(1, 1, 1)), dim=1)
print("forecast", len(future), f"mean loss {np.mean(losses):.3f}", model.norm.count.item() >= 0)
mask = torch.rand(6, 12, device=device) > 0.3
auto = nn.Sequential(nn.Linear(12, 3), nn.Tanh(), nn.Linear(3, 12)).to(device)
corrupted = data.data[:6].to(device).masked_fill(~mask, 0.0)
error = (auto(corrupted) - data.data[:6].to(device)).abs()[mask]
print("error", f"{error.mean():.3f}", error.dim())
