"""Models of PyTorch that are traced, scripted and exported, for the tests that read archives. Only those tests import this file."""

import enum
import math
from typing import Dict, List, NamedTuple, Optional  # noqa: UP035

import torch
from torch import nn
from torch.nn import functional as F

# ruff: noqa: UP006, UP045

MODELS = {}


def model(*inputs, kinds="script trace export", train=False, dynamic=None):
    """Register a class with its arguments. `kinds` are the ways in which it is written."""

    def register(cls):
        MODELS[cls.__name__] = cls, inputs, kinds.split(), train, dynamic
        return cls

    return register


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ids(*shape, below=10):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(1))


@model(numbers(3, 8), dynamic={0: "batch"})
class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 4), nn.Softmax(-1))

    def forward(self, x):
        return self.layers(x)


@model(numbers(4, 3, 16, 16), dynamic={0: "batch"})
class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 8, 3, groups=8, padding="same")
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.a(x)))
        x = F.max_pool2d(F.relu6(self.b(x)), 2)
        x = F.adaptive_avg_pool2d(F.silu(self.up(x)), (1, 1))
        return self.head(torch.flatten(x, 1))


@model(numbers(4, 3, 8, 8), train=True, kinds="script trace")
class TrainedNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.group, self.instance = nn.BatchNorm2d(3), nn.GroupNorm(3, 3), nn.InstanceNorm2d(3, affine=True)

    def forward(self, x):
        return self.instance(self.group(self.norm(x)))


@model(numbers(2, 5, 6))
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y, h + c


@model(numbers(5, 2, 6))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.rnn = nn.GRU(6, 7), nn.RNN(7, 4, nonlinearity="relu")
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        y = self.rnn(self.gru(x)[0])[0]
        return self.cell(y[0], y[1])


@model(numbers(2, 5, 8))
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


@model(numbers(2, 5, 8))
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.layers(x)


@model(ids(2, 6))
class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(10, 8), nn.Embedding(6, 8)
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).bool())

    def forward(self, ids):
        batch, length = ids.size()
        x = self.tokens(ids) + self.places(torch.arange(length, device=ids.device))
        q, k, v = self.qkv(self.norm(x)).split(8, dim=2)
        q = q.view(batch, length, 2, 4).transpose(1, 2)
        k = k.view(batch, length, 2, 4).transpose(1, 2)
        v = v.view(batch, length, 2, 4).transpose(1, 2)
        weights = (q @ k.transpose(-2, -1)) * 0.5
        weights = weights.masked_fill(~self.mask[:length, :length], float("-inf"))
        y = (F.softmax(weights, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, 8)
        y = y + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, 8)
        return self.head(x + self.out(y))


@model(numbers(3, 4), kinds="script")
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, flag: bool = True, scale: Optional[float] = None):
        if x.sum() > 0:
            x = self.a(x)
        elif flag:
            x = self.b(x)
        else:
            return x
        if scale is not None:
            x = x * scale
        return x.abs()


@model(numbers(3, 4), kinds="script")
class Loops(nn.Module):
    def forward(self, x):
        steps = 0
        while bool(x.abs().max() > 0.1):
            x = x / 2
            steps += 1
            if steps > 20:
                break
        total = torch.zeros_like(x)
        for i in range(x.size(0)):
            if i == 1:
                continue
            total[i] = x[i] * i
        for row in x:
            total += row
        return total, steps


@model(numbers(3, 4), kinds="script")
class Lists(nn.Module):
    def forward(self, x):
        parts: List[torch.Tensor] = []
        names: Dict[str, int] = {}
        for i, part in enumerate(torch.unbind(x)):
            parts.append(part * i)
            names[f"part{i}"] = i
        parts.insert(0, x[0])
        last = parts.pop()
        keys = [key for key in names.keys()]  # noqa: C416
        total = sum([names[key] for key in keys])
        squares = [j ** 2 for j in range(4) ]
        return torch.stack(parts, dim=1), last, names, keys, total, squares[1:3], "%s-%d" % (keys[0], total), len(parts)  # noqa: UP031


@model(numbers(3, 4))
class DictOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        y = self.layer(x)
        return {"hidden": x.relu(), "logits": y, "best": y.argmax(-1)}


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@model(numbers(3, 4), kinds="script")
class Named(nn.Module):
    def forward(self, x) -> Pair:
        pair = Pair(x.sin(), x.cos())
        a, b = pair
        return Pair(left=pair.right + a, right=b)


@model(numbers(3, 4), kinds="script")
class Methods(nn.Module):
    scale: int

    def __init__(self):
        super().__init__()
        self.scale = 3
        self.layer = nn.Linear(4, 4)
        self.shapes = [1, 2]
        self.table = {"a": 1.5}

    def forward(self, x):
        return self.scaled(self.layer(x), self.table["a"])

    def scaled(self, x, by: float):
        return x * self.scale * by + self.shapes[1]

    @torch.jit.export
    def doubled(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x, 2.0)


@model(numbers(3, 4))
class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        y = x.clone()
        y[:, 1] = 5.0
        y[0].mul_(2).add_(1)
        y[:2, 2:] += 1
        self.seen.add_(y.sum(0))
        return y.clamp_(min=0.1), self.seen * 2


@model(numbers(3, 4), kinds="script trace")
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


@model(ids(7), torch.tensor([0, 3, 5]))
class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.sum = nn.EmbeddingBag(10, 4, mode="mean"), nn.EmbeddingBag(10, 4, mode="sum")

    def forward(self, ids, offsets):
        return self.mean(ids, offsets) + self.sum(ids, offsets)


@model(numbers(1, 3, 6, 5))
class Resize(nn.Module):
    def forward(self, x):
        a = F.interpolate(x, size=(9, 8), mode="bilinear", align_corners=False)
        b = F.interpolate(x, scale_factor=2.0, mode="nearest")
        c = F.interpolate(x, size=[4, 4], mode="bicubic", align_corners=True)
        return a, b, c, F.pad(x, (1, 2, 0, 1), mode="reflect"), F.pad(x, (1, 1), value=2.0), F.unfold(x, 2)


@model(numbers(4, 5), torch.tensor([0, 2]), numbers(2, 5, seed=3))
class IndexPut(nn.Module):
    def forward(self, x, places, values):
        y = x.clone()
        y[places] = values
        y = y.index_put((places,), values, accumulate=True)
        z = x[:, places]
        return y, z, x[x > 0], torch.where(x > 0, x, values[0]), y.gather(1, places.view(1, 2)), y.scatter(0, places.view(2, 1), 7.0)


@model(numbers(3, 4), kinds="script")
class Strings(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "Mean of"

    def forward(self, x):
        text = f"{self.mode.lower()} {x.size(0)}: {1.5}"
        words = text.split(" ")
        if "mean" in words and text.startswith("mean"):
            x = x.mean(dim=0)
        return x, "_".join(words), text.upper(), text[1:4], text.replace("mean", "sum").find("of")


@model(numbers(3, 4), kinds="script")
class Mathematics(nn.Module):
    def forward(self, x):
        n = x.size(1)
        a = math.sqrt(n) + math.pi + math.floor(2.7) + n // 3 + n % 3 + 2 ** n + max(n, 2) + abs(-n) + round(2.6) + min([3, 1, 2])
        b = -7 // 2 + (-7 % 3) + int(3.9) + (n << 2) + (n & 3) + (n ^ 1)
        return x * a, a, b, float(n) / 3, bool(n), divmod(n, 3)


@model(numbers(3, 4), kinds="script")
class Checks(nn.Module):
    def forward(self, x):
        assert x.dim() == 2, "two dimensions"
        if x.dim() == 3:
            raise ValueError("three dimensions")
        y: Optional[torch.Tensor] = None
        if x.size(0) > 2:
            y = x
        assert y is not None
        return y + 1, isinstance(y, torch.Tensor), x.shape, x.dtype == torch.float32, x.device.type


@model(numbers(3, 4), kinds="script")
class WithoutGradients(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            y = self.layer(x)
        return y + self.layer(x)


@torch.jit.interface
class Step(nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        pass


@model(numbers(3, 4), kinds="script")
class Interfaces(nn.Module):
    step: Step

    def __init__(self):
        super().__init__()
        self.step = nn.Linear(4, 4)
        self.steps = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.by_name = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})

    def forward(self, x):
        x = self.step.forward(x)
        for i, layer in enumerate(self.steps):
            x = layer(x) + i
        for name, layer in self.by_name.items():
            if name != "a":
                x = layer(x)
        return x


class Color(enum.Enum):
    RED = 1
    GREEN = 2


@model(numbers(3, 4), kinds="script")
class Enumerations(nn.Module):
    def __init__(self):
        super().__init__()
        self.color = Color.RED

    def forward(self, x):
        if self.color == Color.GREEN:
            x = x + 1
        return x * self.color.value


@torch.jit.script
class Accumulator:
    def __init__(self, start: float):
        self.total = start
        self.parts: List[torch.Tensor] = []

    def add(self, x: torch.Tensor) -> None:
        self.total += float(x.sum())
        self.parts.append(x)


@model(numbers(3, 4), kinds="script")
class Objects(nn.Module):
    def forward(self, x):
        found = Accumulator(1.0)
        for i in range(3):
            found.add(x * i)
        return found.total, found.parts[2]


@torch.jit.script
def clipped(x: torch.Tensor, low: float = -0.5, high: float = 0.5) -> torch.Tensor:
    return torch.clamp(x, low, high)


@model(numbers(3, 4), kinds="script trace")
class Functions(nn.Module):
    def forward(self, x):
        return clipped(x) + clipped(x, high=0.1) + torch.jit.wait(torch.jit.fork(clipped, x))


@model(numbers(2, 3, 4))
class Shapes(nn.Module):
    def forward(self, x):
        a = x.permute(2, 0, 1).reshape(4, -1)
        b = x.expand(2, 3, 4).unsqueeze(1).squeeze(1).flatten(1).view(2, -1, 2)
        c = torch.cat([x, x.flip(0)], dim=1).chunk(2, dim=1)[0]
        d = x[..., 1::2].roll(1, 0).repeat(1, 2, 1).narrow(1, 1, 3)
        return a, b, c, d.contiguous(), x.transpose(0, 1).unfold(2, 2, 1), x.movedim(0, 2)


@model(numbers(4, 5))
class Reductions(nn.Module):
    def forward(self, x):
        values, places = x.topk(2, dim=1)
        ordered, order = x.sort(dim=0, descending=True)
        return (x.mean(1), x.std(0), x.var(1, unbiased=False), x.norm(p=2, dim=[1]), x.logsumexp(1), x.cumsum(1), x.prod(0), values, places,
                ordered, order, x.max(1)[0], x.min(), x.argmin(1), x.any(), x.median(0)[0],
                torch.linalg.vector_norm(x), x.amax((0, 1)))  # fmt: skip


@model(numbers(4, 5), ids(4, below=5))
class Losses(nn.Module):
    def forward(self, x, target):
        y = x.sigmoid()
        return (F.cross_entropy(x, target), F.nll_loss(x.log_softmax(1), target, reduction="sum"), F.mse_loss(x, y), F.l1_loss(x, y),
                F.binary_cross_entropy(y, (x > 0).float()), F.smooth_l1_loss(x, y), F.kl_div(x.log_softmax(1), y, reduction="batchmean"),
                F.binary_cross_entropy_with_logits(x, y, reduction="none"))  # fmt: skip


@model(numbers(4, 5))
class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.prelu = nn.PReLU()
        self.glu = nn.GLU(0)
        self.more = nn.ModuleList([nn.ELU(), nn.SELU(), nn.CELU(), nn.Hardswish(), nn.Hardtanh(), nn.LeakyReLU(0.1), nn.Softplus(),
                                   nn.Mish(), nn.Tanhshrink(), nn.Hardsigmoid(), nn.LogSigmoid(),
                                   nn.Softsign(), nn.Threshold(0.1, 2.0)])  # fmt: skip

    def forward(self, x):
        y = self.glu(self.prelu(x))
        for one in self.more:
            y = y + one(y)
        return y


@model(numbers(2, 3, 8, 8), kinds="script export")
class Pools(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(2, return_indices=True)

    def forward(self, x):
        y, places = self.pool(x)
        grid = x[:, :2, :4, :4].permute(0, 2, 3, 1)
        return (F.max_unpool2d(y, places, [2, 2]), F.avg_pool2d(x, 3, 2, 1), F.grid_sample(x, grid, align_corners=False),
                F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2), F.local_response_norm(x, 2), F.normalize(x, dim=1))  # fmt: skip


@model(numbers(3, 4))
class Conversions(nn.Module):
    def forward(self, x):
        y = x.to(torch.float64).long().int().to(torch.bool).to(x.dtype) + x.half().float()
        z = torch.full((3, 4), 2.0) + torch.arange(4).type_as(x) + torch.ones_like(x, dtype=torch.float64).to(x)
        return y, z, x.new_zeros(2), torch.linspace(0, 1, 4), torch.tensor([1, 2, 3]), x.numel() * z


@model(numbers(3, 4), numbers(4, 5, seed=2), kinds="script trace export")
class Algebra(nn.Module):
    def forward(self, a, b):
        c = torch.einsum("ij,jk->ik", a, b)
        d = torch.baddbmm(c[None], a[None], b[None], beta=0.5)
        return c, d, torch.addmm(c, a, b, alpha=2), a @ b, torch.linalg.inv(a @ a.t() + torch.eye(3)), torch.outer(a[0], b[0]), a.tril().t()


@model(numbers(2, 6), kinds="script")
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)

    def forward(self, x):
        y = x.view(2, 2, 3)
        packed = nn.utils.rnn.pack_padded_sequence(y, torch.tensor([2, 1]), batch_first=True)
        out, h = self.rnn(packed)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return padded, lengths, h


@model(numbers(3, 4), kinds="export")
class Conditions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: x - 1, (x,))


@model(numbers(3, 4), numbers(5, 4, seed=1), kinds="export", dynamic=({0: "rows"}, {0: "others"}))
class Sizes(nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        z = torch.cat([x, y]).reshape(n + m, 2, 2)
        return z * (n * m), x.new_ones(n // 2 + 1), torch.arange(m), y[: m - 1]


class Halving(nn.Module):
    def forward(self, x):
        while bool(x.abs().max() > 0.1):
            x = x / 2
        return x


@model(numbers(3, 4), kinds="trace")
class TracedScript(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Halving())

    def forward(self, x):
        return self.inner(x) * x.shape[0]


@model(numbers(2, 3, 12, 12), kinds="script trace export")
class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)])
        self.up = nn.ModuleList([nn.Conv2d(12, 4, 3, padding=1), nn.Conv2d(7, 3, 1)])
        self.drop = nn.Dropout2d(0.2)

    def forward(self, x):
        skips = [x]
        for layer in self.down:
            x = F.max_pool2d(F.leaky_relu(layer(x), 0.2), 2)
            skips.append(x)
        x = skips.pop()
        for layer in self.up:
            skip = skips.pop()
            x = F.interpolate(x, size=skip.shape[-2:], mode="nearest")
            x = layer(torch.cat([x, skip], dim=1))
        return self.drop(x)


@model(numbers(2, 16), kinds="script trace export")
class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 3)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True)) for _ in range(3)])

    def forward(self, x):
        gates = torch.softmax(self.gate(x), -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out = out + gates[:, i : i + 1] * expert(x)
        return out


def written(name, kind):
    """Return the bytes of an archive of a model, the model as PyTorch runs it, and its arguments."""
    import io
    import warnings

    cls, inputs, _, train, dynamic = MODELS[name]
    torch.manual_seed(0)
    made = cls().train(train)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "script":
            made = torch.jit.script(made)
            torch.jit.save(made, file)
        elif kind == "trace":
            made = torch.jit.trace(made, inputs, strict=False, check_trace=False)
            torch.jit.save(made, file)
        else:
            made = torch.export.export(made, inputs, dynamic_shapes=_dynamic(dynamic))
            if kind == "core":
                made = made.run_decompositions()
            torch.export.save(made, file)
            made = made.module()
    return file.getvalue(), made, inputs


def _dynamic(spec):
    if spec is None:
        return None
    dims = lambda one: {i: torch.export.Dim(n, min=3, max=64) for i, n in one.items()}
    return tuple(dims(one) for one in spec) if isinstance(spec, tuple) else (dims(spec),)


def store(folder):
    """Write the archives that the tests read without PyTorch, compressed and without what PyTorch needs for debugging.

    They were written by ``store("tests/program/archives")`` in the folder of the repository, with PyTorch 2.13.
    """
    import io
    import zipfile
    from pathlib import Path

    for name, kind in (("Loops", "script"), ("Lists", "script"), ("Methods", "script"), ("Enumerations", "script"), ("DictOutput", "trace"),
                       ("DictOutput", "export"), ("Sizes", "export"), ("Conditions", "export")):  # fmt: skip
        data = zipfile.ZipFile(io.BytesIO(written(name, kind)[0]))
        path = Path(folder) / f"{name.lower()}_{kind}.{'pt2' if kind == 'export' else 'pt'}"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for entry in data.infolist():
                if not entry.filename.endswith(".debug_pkl"):
                    file.writestr(zipfile.ZipInfo(entry.filename, (1980, 1, 1, 0, 0, 0)), data.read(entry), zipfile.ZIP_DEFLATED)
