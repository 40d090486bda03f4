"""Train a GPT on characters with causal attention, gradient accumulation, torch.compile and AdamW groups, and generate text."""

import math

import torch
import torch.nn as nn
from torch.nn import functional as F

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
chars = sorted(set(TEXT))
stoi = {c: i for i, c in enumerate(chars)}
device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
data = torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)
block, batch = 16, 4


def get_batch():
    starts = torch.randint(len(data) - block, (batch,))
    x = torch.stack([data[i : i + block] for i in starts])
    y = torch.stack([data[i + 1 : i + block + 1] for i in starts])
    if device == "cuda":
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x.to(device), y.to(device)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.qkv(x).split(C, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, vocabulary, width=32, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(block, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, 0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x, targets=None):
        places = torch.arange(x.size(1), dtype=torch.long, device=x.device)
        logits = self.head(self.norm(self.blocks(self.tokens(x) + self.positions(places))))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, x, count, top_k=5):
        for _ in range(count):
            logits, _ = self(x[:, -block:])
            logits = logits[:, -1, :] / 0.8
            values, _ = torch.topk(logits, min(top_k, logits.size(-1)))
            logits[logits < values[:, [-1]]] = -float("inf")
            x = torch.cat((x, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return x


@torch.no_grad()
def estimate_loss(model, rounds=2):
    model.eval()
    losses = torch.zeros(rounds)
    for k in range(rounds):
        losses[k] = model(*get_batch())[1].item()
    model.train()
    return losses.mean()


torch.manual_seed(1337)
model = GPT(len(chars)).to(device)
print(f"{sum(p.numel() for p in model.parameters()) / 1e3:.1f} K parameters on {device}")
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95),
                              fused=device == "cuda")  # fmt: skip
model = torch.compile(model)
for step in range(4):
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * 0.5 * (1 + math.cos(math.pi * step / 4))
    for _ in range(2):
        _, loss = model(*get_batch())
        (loss / 2).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 2 == 0:
        lossf = loss.item() * 2
        print(f"step {step}: loss {lossf:.4f}, perplexity {math.exp(loss):.2f}, validation {estimate_loss(model):.4f}")
out = model.generate(torch.zeros((1, 1), dtype=torch.long, device=device), 20)
print("sample:", len("".join(chars[i % len(chars)] for i in out[0].tolist())))
