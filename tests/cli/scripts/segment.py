"""Train a U-Net with dice loss, boolean masks, a confusion matrix and intersection over union."""

import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLASSES = 3


def double(inner, outer):
    first, second = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
    return nn.Sequential(first, nn.GroupNorm(2, outer), nn.SiLU(), second, nn.SiLU())


class UNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.down = nn.ModuleList([double(3, width), double(width, 2 * width)])
        self.middle = double(2 * width, 4 * width)
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.merge = nn.ModuleList([double(4 * width, 2 * width), double(2 * width, width)])
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge in zip(self.up, self.merge):
            x = up(x)
            skip = kept.pop()
            dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = merge(torch.cat([skip, F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])], dim=1))
        return self.head(x)


def dice_loss(logits, target, eps=1e-6):
    probs = logits.softmax(1)
    onehot = F.one_hot(target, CLASSES).permute(0, 3, 1, 2).float()
    inter = (probs * onehot).sum(dim=(0, 2, 3))
    return 1 - ((2 * inter + eps) / (probs.sum(dim=(0, 2, 3)) + onehot.sum(dim=(0, 2, 3)) + eps)).mean()


model = UNet().to(device=device, memory_format=torch.channels_last)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.9, foreach=True)
confusion = torch.zeros(CLASSES, CLASSES, dtype=torch.int64)
for step in range(2):
    images = torch.rand(2, 3, 20, 18).to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
    target = torch.randint(0, CLASSES, (2, 20, 18)).to(device)
    target[:, 0] = 255
    valid = target != 255
    optimizer.zero_grad()
    logits = model(images)
    loss = F.cross_entropy(logits, target, ignore_index=255) + dice_loss(logits, target.clamp(max=CLASSES - 1))
    loss.backward()
    optimizer.step()
    predicted = logits.argmax(1)
    pairs = CLASSES * target[valid] + predicted[valid]
    confusion += torch.bincount(pairs, minlength=CLASSES**2).reshape(CLASSES, CLASSES).cpu()
    wrong = (predicted != target)[valid]
    if wrong.any():
        print("wrong", wrong.sum().item(), "of", wrong.numel())
    print(f"step {step}: loss {loss.item():.4f}, {len(torch.unique(predicted))} classes predicted")
union = confusion.sum(0) + confusion.sum(1) - confusion.diag()
iou = confusion.diag().float() / union.clamp(min=1)
print("iou", [f"{value:.3f}" for value in iou.tolist()])
