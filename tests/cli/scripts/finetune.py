"""Fine-tune a frozen transformer with LoRA, distillation, hooks, checkpoints, DDP of one process, events and a profiler."""

import math
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class LoRA(nn.Module):
    def __init__(self, base, rank=2, alpha=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T) * self.scale

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scale * (self.b @ self.a)
        return self.base


class Encoder(nn.Module):
    def __init__(self, width=16, layers=1):
        super().__init__()
        self.embedding = nn.Embedding(30, width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens):
        x = self.encoder(self.embedding(tokens), src_key_padding_mask=tokens == 0)
        keep = (tokens != 0).unsqueeze(-1)
        return self.head((x * keep).sum(1) / keep.sum(1).clamp(min=1))


path = os.path.join(sys.argv[1], "last.pt")
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank = int(os.environ["LOCAL_RANK"])
if torch.cuda.is_available():
    torch.cuda.set_device(rank)
device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
teacher = Encoder(layers=2).to(device).eval()
student = Encoder().to(device)
student.requires_grad_(False)
student.head = LoRA(student.head).to(device)
norms = {}
handle = student.encoder.register_forward_hook(lambda module, args, output: norms.__setitem__("encoder", output.norm().item()))
model = DDP(student, device_ids=[rank] if device.type == "cuda" else None)
trained = [p for p in model.parameters() if p.requires_grad]
print(f"{sum(p.numel() for p in trained)} of {sum(p.numel() for p in model.parameters())} parameters are trained")
data = TensorDataset(torch.randint(1, 30, (16, 6)), torch.randint(0, 3, (16,)))
sampler = DistributedSampler(data, shuffle=True)
loader = DataLoader(data, batch_size=4, sampler=sampler)
optimizer = torch.optim.AdamW(trained, lr=1e-2)
start = torch.cuda.Event(enable_timing=True) if device.type == "cuda" else None
first = 0
for _attempt in range(2):
    if os.path.exists(path):
        saved = torch.load(path, map_location=f"cuda:{rank}" if device.type == "cuda" else "cpu", weights_only=True)
        model.module.load_state_dict(saved["model"], strict=True)
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for epoch in range(first, first + 1):
        sampler.set_epoch(epoch)
        seen = torch.tensor([0.0, 0.0], device=device)
        for tokens, labels in loader:
            tokens, labels = tokens.to(device), labels.to(device)
            with torch.no_grad():
                soft = F.softmax(teacher(tokens) / 2.0, dim=-1)
            out = model(tokens)
            loss = 0.5 * F.kl_div(F.log_softmax(out / 2.0, dim=-1), soft, reduction="batchmean") * 4 + 0.5 * F.cross_entropy(out, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += torch.stack([loss.detach() * len(labels), torch.tensor(float(len(labels)), device=device)])
        dist.all_reduce(seen)
        print(f"epoch {epoch}: {(seen[0] / seen[1]).item():.4f}, norm {norms['encoder']:.3f}")
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)
handle.remove()
print("merged", tuple(student.head.merge().weight.shape))
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=1)) as prof:
    for _ in range(2):
        with record_function("inference"), torch.inference_mode():
            model(tokens)
        prof.step()
print("profiled", any("inference" in event.key for event in prof.key_averages()))
if start is not None:
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    model(tokens)
    end.record()
    torch.cuda.synchronize()
    print(f"{start.elapsed_time(end):.3f} ms, {torch.cuda.max_memory_allocated() / 2**20:.3f} MiB at peak")
dist.destroy_process_group()
sys.exit(4)
