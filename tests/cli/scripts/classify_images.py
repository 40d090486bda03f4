"""Train a small CNN on a Dataset of images, with argparse, NumPy transforms, mixed precision, a scheduler and checkpoints."""

import argparse
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, Dataset, random_split


class Blobs(Dataset):
    def __init__(self, count, classes=4):
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 255, (count, 16, 16, 3), dtype=np.uint8)
        self.labels = rng.integers(0, classes, count)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index].astype(np.float32) / 255).permute(2, 0, 1)
        if torch.rand(1) < 0.5:
            image = image.flip(-1)
        return image, int(self.labels[index])


class Net(nn.Module):
    def __init__(self, classes=4, width=8):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def accuracy(output, target, topk=(1, 2)):
    with torch.no_grad():
        _, found = output.topk(max(topk), 1, True, True)
        correct = found.t().eq(target.view(1, -1).expand_as(found.t()))
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0)) for k in topk]


def evaluate(model, loader, device):
    model.eval()
    loss, correct = 0, 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            output = model(images)
            loss += F.cross_entropy(output, labels, reduction="sum").item()
            correct += output.argmax(dim=1, keepdim=True).eq(labels.view_as(output.argmax(1, keepdim=True))).sum().item()
    count = len(loader.dataset)
    print(f"test: loss {loss / count:.4f}, {correct}/{count} ({100.0 * correct / count:.0f}%)")
    return loss / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--out", required=True)
    parser.add_argument("--no-cuda", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    torch.backends.cudnn.benchmark = True
    train, test = random_split(Blobs(40), [32, 8])
    extra = {"pin_memory": True, "num_workers": 0} if use_cuda else {}
    train_loader = DataLoader(train, batch_size=8, shuffle=True, drop_last=True, **extra)
    test_loader = DataLoader(test, batch_size=8, **extra)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = CosineAnnealingLR(optimizer, T_max=args.epochs)
    scaler = torch.amp.GradScaler("cuda", enabled=use_cuda)
    best = math.inf
    for epoch in range(args.epochs):
        model.train()
        start = time.time()
        running = 0.0
        for step, (images, labels) in enumerate(train_loader):
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=use_cuda):
                output = model(images)
                loss = F.cross_entropy(output, labels, label_smoothing=0.1)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            running += loss.item() * images.size(0)
            top1, top2 = accuracy(output, labels)
            if step % 2 == 0:
                print(f"epoch {epoch} step {step} loss {loss:.4f} top1 {top1[0]:.2f} top2 {top2.item():.2f}")
        scheduler.step()
        assert not torch.isnan(loss)
        print(f"epoch {epoch}: {running / len(train):.4f} in {time.time() - start:.1f} s, lr {scheduler.get_last_lr()[0]:.4f}")
        found = evaluate(model, test_loader, device)
        if found < best:
            best = found
            torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": best,
                        "scaler": scaler.state_dict()}, os.path.join(args.out, "best.pt"))  # fmt: skip
    checkpoint = torch.load(os.path.join(args.out, "best.pt"), map_location=device)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    print("done, best epoch", checkpoint["epoch"])


if __name__ == "__main__":
    main()
