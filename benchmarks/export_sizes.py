"""Export plain models with dynamic shapes on metatensor and on PyTorch, and count on how many unseen sizes each result works.

    python -m benchmarks.export_sizes [--torch] [--json FILE]

With ``--torch``, the exporter is that of the PyTorch which is installed; otherwise metatensor stands in for PyTorch. Both run
the same source of models, with the same descriptions of sizes: ``Dim.DYNAMIC`` for each dimension that shall vary.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

SIZES = [(2, 3), (3, 2), (5, 7), (8, 16), (1, 5), (4, 33), (16, 8), (7, 64), (9, 100), (31, 21)]


def models(torch: Any) -> dict[str, Any]:
    """Return for each model: the module, its arguments for a batch and a length, and which of their dimensions vary."""
    nn, F = torch.nn, torch.nn.functional

    def module(forward: Any, **parts: Any) -> Any:
        class Made(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for name, part in parts.items():
                    setattr(self, name, part)

        Made.forward = forward
        return Made().eval()

    def rows(b: int, n: int) -> tuple[Any, ...]:
        return (torch.randn(b, n, 16),)

    def images(b: int, n: int) -> tuple[Any, ...]:
        return (torch.randn(b, 3, 8 * n + 16, 8 * n + 16),)

    def squares(b: int, n: int) -> tuple[Any, ...]:
        return (torch.randn(b, 3, 16 * n + 16, 16 * n + 16),)

    def tokens(b: int, n: int) -> tuple[Any, ...]:
        return (torch.randint(0, 50, (b, n)),)

    def signal(b: int, n: int) -> tuple[Any, ...]:
        return (torch.randn(b, 4, n + 9),)

    def branch(self: Any, x: Any) -> Any:
        return x.relu() if x.shape[1] > 50 else x.sigmoid()

    def pad(self: Any, x: Any) -> Any:
        missing = -x.shape[1] % 4
        if missing:
            x = F.pad(x, (0, 0, 0, missing))
        return x.view(x.shape[0], x.shape[1] // 4, 4, 16).sum(2)

    def positions(self: Any, x: Any) -> Any:
        return self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))

    def causal(self: Any, x: Any) -> Any:
        n = x.shape[1]
        mask = torch.full((n, n), float("-inf"), device=x.device).triu(1)
        return torch.softmax(x @ x.transpose(1, 2) / 4 + mask, -1) @ x

    def heads(self: Any, x: Any) -> Any:
        b, n, _ = x.shape
        q, k, v = self.line(x).view(b, n, 3, 4, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, 16)

    def patches(self: Any, x: Any) -> Any:
        x = self.conv(x).flatten(2).transpose(1, 2)
        return self.line(torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1))[:, 0]

    def windows(self: Any, x: Any) -> Any:
        b, c, h, w = x.shape
        x = x.view(b, c, h // 8, 8, w // 8, 8).permute(0, 2, 4, 3, 5, 1).reshape(-1, 64, c)
        return self.line(x).mean(1).view(b, -1, 8)

    def up(self: Any, x: Any) -> Any:
        y = self.down(x)
        return F.interpolate(y, size=x.shape[2:], mode="nearest") + x.mean(1, keepdim=True)

    def average(self: Any, x: Any) -> Any:
        return x.sum(1) / x.shape[1] ** 0.5

    def halves(self: Any, x: Any) -> Any:
        half = x.shape[1] // 2
        return torch.cat([x[:, half:], x[:, :half]], 1)

    def pairs(self: Any, x: Any) -> Any:
        return (x[:, :, None] - x[:, None]).abs().sum(-1)

    def flat(self: Any, x: Any) -> Any:
        return x.transpose(0, 1).reshape(-1, 16) * 2

    def shorter(self: Any, x: Any) -> Any:
        return x[:, : min(x.shape[1], 20)].cumsum(1)

    convs = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1))
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    both, sides = {0: "b", 1: "n"}, {0: "b", 2: "n", 3: "n"}
    plain = lambda part: (part.eval(), rows, both)
    multihead = nn.MultiheadAttention(16, 4, batch_first=True)
    pooled = nn.Sequential(convs, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    cls = nn.Parameter(torch.zeros(1, 1, 16))
    return {
        "linear": plain(nn.Linear(16, 4)),
        "mlp": plain(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16))),
        "encoder": plain(layer), "attention": (module(heads, line=nn.Linear(16, 48)), rows, both),
        "lstm": plain(nn.LSTM(16, 8, batch_first=True)), "gru": plain(nn.GRU(16, 8, batch_first=True)),
        "multihead": (module(lambda s, x: s.a(x, x, x)[0], a=multihead), rows, both),
        "convolutions": (pooled.eval(), images, sides), "features": (convs.eval(), images, sides),
        "signal": (nn.Conv1d(4, 8, 5, stride=2, padding=1), signal, {0: "b", 2: "n"}),
        "transposed": (nn.ConvTranspose1d(4, 8, 4, 2), signal, {0: "b", 2: "n"}),
        "embedding": (module(positions, words=nn.Embedding(50, 16), places=nn.Embedding(200, 16)), tokens, both),
        "branch": (module(branch), rows, both), "padding": (module(pad), rows, both), "causal": (module(causal), rows, both),
        "patches": (module(patches, conv=nn.Conv2d(3, 16, 16, 16), line=nn.Linear(16, 4), cls=cls), squares, sides),
        "windows": (module(windows, line=nn.Linear(3, 8)), images, sides),
        "upsampling": (module(up, down=nn.Conv2d(3, 1, 3, 2, 1)), images, sides),
        "average": (module(average), rows, both), "halves": (module(halves), rows, both), "pairs": (module(pairs), rows, both),
        "flat": (module(flat), rows, both), "shorter": (module(shorter), rows, both),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if not options.torch:
        from metatensor import torch_api

        torch_api.install()
    import torch
    from torch.export import Dim, export

    torch.manual_seed(0)
    results = {}
    for name, (model, arguments, dims) in models(torch).items():
        start = time.perf_counter()
        try:
            with torch.no_grad():
                exported = export(model, arguments(4, 6), dynamic_shapes=(dict.fromkeys(dims, Dim.DYNAMIC),))
            seconds, right, why = time.perf_counter() - start, 0, ""
            run = exported.module()
            for b, n in SIZES:
                x = arguments(b, n)
                try:
                    with torch.no_grad():
                        got, wanted = run(*x), model(*x)
                    got, wanted = (y[0] if isinstance(y, tuple) else y for y in (got, wanted))
                    right += got.shape == wanted.shape and bool(torch.allclose(got, wanted, atol=1e-5))
                except Exception as error:
                    why = why or f"b={b}, n={n}: {type(error).__name__}: {error}".split("\n")[0][:160]
            results[name] = {"seconds": seconds, "right": right, "why": why}
        except Exception as error:
            results[name] = {"seconds": time.perf_counter() - start, "right": 0, "why": f"{type(error).__name__}: {error}"[:300]}
        one = results[name]
        print(f"{name:14} {one['right']:2} of {len(SIZES)} sizes, {one['seconds']:.2f} s  {one['why']}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    whole = sum(r["right"] == len(SIZES) for r in results.values())
    right, seconds = (sum(r[key] for r in results.values()) for key in ("right", "seconds"))
    print(f"{whole} of {len(results)} models right at all sizes; {right} of {len(results) * len(SIZES)} runs; {seconds:.1f} s")


if __name__ == "__main__":
    main()
