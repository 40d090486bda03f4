"""Time opening a checkpoint on meta, and compare with torch.load and the safetensors library.

    python -m benchmarks.checkpoints [--tensors 1000] [--rounds 30]

The libraries take turns in one process. Figures are medians, with the best in brackets. The program then opens sparse
files of 1 MB and 1 TB with the same number of tensors. Time and memory must be the same for both.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from statistics import median


def interleaved(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round, by call. The calls take turns."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            kept = call()
            spent[name].append(time.perf_counter() - began)
            del kept
    return spent


def sparse(path: str, tensors: int, nbytes: int) -> None:
    """Write a checkpoint in PyTorch's format with ``nbytes`` of tensor data as a sparse file."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.serialization import skip_data

    with warnings.catch_warnings(), FakeTensorMode(), skip_data(materialize_fake_tensors=True):
        warnings.simplefilter("ignore")
        torch.save({f"layers.{i}.weight": torch.empty(nbytes // tensors // 4) for i in range(tensors)}, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    import safetensors
    import safetensors.torch
    import torch

    import metatensor as mt

    torch.set_num_threads(1)
    met = True
    with tempfile.TemporaryDirectory() as folder:
        state = {f"model.layers.{i // 10}.block{i % 10}.weight": torch.randn(16, 16) for i in range(options.tensors)}
        zipped, old, plain = (os.path.join(folder, name) for name in ("m.pt", "m.old.pt", "m.safetensors"))
        torch.save(state, zipped)
        torch.save(state, old, _use_new_zipfile_serialization=False)
        safetensors.torch.save_file(state, plain)

        def opened() -> object:
            with safetensors.safe_open(plain, "pt") as file:
                return [(name, part.get_shape(), part.get_dtype()) for name in file.keys() for part in (file.get_slice(name),)]

        ours, theirs, safe = "metatensor, zip", "torch.load, zip", "safetensors: open, shapes and dtypes"
        spent = interleaved(
            {
                ours: lambda: mt.load(zipped, "meta"),
                "metatensor, legacy": lambda: mt.load(old, "meta"),
                "metatensor, safetensors": lambda: mt.load(plain, "meta"),
                theirs: lambda: torch.load(zipped, map_location="meta"),
                "torch.load, legacy": lambda: torch.load(old, map_location="meta"),
                safe: opened,
                "safetensors: load_file": lambda: safetensors.torch.load_file(plain),
            },
            options.rounds,
        )
        print(f"{options.tensors:,} tensors onto meta, milliseconds: median (best)")
        for name, seconds in spent.items():
            print(f"  {name:40}{median(seconds) * 1e3:9.2f} ({min(seconds) * 1e3:.2f})")
        ratio = median(spent[theirs]) / median(spent[ours])
        against = median(spent[safe]) / median(spent[ours])
        met = ratio >= 20 and against >= 1
        print(f"  {ratio:.0f} times as fast as torch.load (limit 20), {against:.2f} times as the safetensors library (limit 1)")

        small, large = os.path.join(folder, "1MB.pt"), os.path.join(folder, "1TB.pt")
        sparse(small, 256, 1 << 20)
        sparse(large, 256, 1 << 40)
        spent = interleaved({path: lambda path=path: mt.load(path, "meta") for path in (small, large)}, options.rounds)  # type: ignore[misc]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = mt.load(large, "meta")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        total = sum(tensor.numel() * 4 for tensor in found.values())
        same = median(spent[large]) / median(spent[small])
        print(f"256 tensors: 1 MB in {median(spent[small]) * 1e3:.2f} ms; {total / 2**40:.0f} TB in {median(spent[large]) * 1e3:.2f} ms "
              f"({same:.2f} times), {grown} kB more memory")  # fmt: skip
        met = met and same < 1.5 and grown < 4096
    print("limits met" if met else "limits missed")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
