"""Damaged checkpoint files: whatever is done to one, loading it gives a value or a CheckpointError, soon and in little memory.

    python tests/checkpoint/fuzz.py [--count N] [--seed S] [--only NAME] [--keep DIR]

Files of each format are cut, spliced, and changed in bits, bytes and numbers; for those in archives also inside, with
the checksums made right again, so that damage gets past them. Each is loaded onto meta, every fourth also onto the
cpu and listed. Anything but a value or a CheckpointError, more than 1 s, or more than 256 MB is a failure: it is printed
and, with ``--keep``, the file is kept. Exits 1 if there was one.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import struct
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator

SECONDS = 1.0
MEGABYTES = 256


def samples() -> dict[str, bytes]:
    """Small files of each format, as other programs write them where those are installed."""
    import torch

    torch.manual_seed(0)
    base = torch.arange(24.0).reshape(4, 6)
    state = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).state_dict()
    tree = {"model": state, "views": [base, base.t(), base[1:, 2], torch.nn.Parameter(base[0])], "step": 3, "lr": 0.1, "name": "ä", "b": b"xy",
            "t": (1, None, True, 2**70, {3, 4}), "half": torch.ones(3, dtype=torch.bfloat16), "size": torch.Size([2]), "c": torch.ones(2, dtype=torch.complex64).conj()}  # fmt: skip
    found = {}
    for name, value in (("state", state), ("tree", tree), ("tensor", base), ("v3", {"x": torch.ones(4, dtype=torch.uint16)})):
        for old in (False, True):
            if old and name == "v3":
                continue
            file = io.BytesIO()
            torch.save(value, file, _use_new_zipfile_serialization=not old)
            found[f"{'legacy' if old else 'zip'} {name}"] = file.getvalue()
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), file)
    found["torchscript"] = file.getvalue()
    header = json.dumps({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "b": {"dtype": "I8", "shape": [5], "data_offsets": [24, 29]},
                         "__metadata__": {"k": "v"}}).encode()  # fmt: skip
    found["safetensors"] = struct.pack("<Q", len(header)) + header + bytes(29)
    found.update(extra_samples())
    return found


def extra_samples() -> dict[str, bytes]:
    """Samples of the other formats, which `samples.py` beside this makes where it is."""
    try:
        from samples import fuzz_samples  # type: ignore[import-not-found]
    except ImportError:
        return {}
    return fuzz_samples()


INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
OPCODES = b"(.012FGIJKLMNPQRSTUVXabcdeghijlopqrstu}])\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98BC"


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """``data`` with one to a few kinds of damage."""
    work = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        n = len(work)
        if not n:
            break
        kind = rng.randrange(10)
        at = rng.randrange(n)
        if kind == 0:
            work[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            work[at] = rng.randrange(256)
        elif kind == 2:
            work[at] = rng.choice(OPCODES)
        elif kind == 3:
            width = rng.choice((1, 2, 4, 8))
            work[at : at + width] = (rng.choice(INTERESTING) & ((1 << 8 * width) - 1)).to_bytes(width, rng.choice(("little", "big")))
        elif kind == 4:
            del work[at:]
        elif kind == 5:
            del work[at : at + rng.choice((1, 2, 4, 16, 100))]
        elif kind == 6:
            piece = work[at : at + rng.choice((1, 4, 16, 100))]
            where = rng.randrange(n)
            work[where:where] = piece * rng.choice((1, 1, 2, 30))
        elif kind == 7:
            other = rng.choice(others)
            cut = rng.randrange(max(len(other), 1))
            length = rng.choice((4, 16, 64, 1000))
            work[at : at + rng.choice((0, length))] = other[cut : cut + length]
        elif kind == 8:
            work[at:at] = bytes([rng.choice(OPCODES)]) * rng.choice((1, 1, 2, 50))
        else:
            width = rng.choice((1, 2, 4))
            here = int.from_bytes(work[at : at + width], "little")
            work[at : at + width] = ((here + rng.choice((-1, 1, -16, 16))) % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(work)


def inside(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """An archive with a damaged member, whose checksums are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        members = source.infolist()
        pickles = [info.filename for info in members if info.filename.endswith(".pkl")]
        chosen = rng.choice(pickles) if pickles and rng.random() < 0.9 else rng.choice(members).filename
        for info in members:
            content = source.read(info)
            if info.filename == chosen:
                content = mutate(content, rng, others)
            target.writestr(info.filename, content)
    return out.getvalue()


def cases(seed: int, only: str) -> Iterator[tuple[str, bytes]]:
    """Damaged files without end, and what each was made from."""
    rng = random.Random(seed)
    originals = {name: data for name, data in samples().items() if only in name}
    names = list(originals)
    others = list(originals.values())
    while True:
        name = rng.choice(names)
        data = originals[name]
        archive = data[:2] == b"PK" and rng.random() < 0.75
        yield name, inside(data, rng, others) if archive else mutate(data, rng, others)


def attempt(load: Callable[[], object], error: type[Exception]) -> tuple[str, float]:
    """How it went, and how long it took."""
    began = time.perf_counter()
    try:
        load()
        outcome = "value"
    except error:
        outcome = "refused"
    except Exception:
        outcome = traceback.format_exc()
    return outcome, time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only samples whose name has this in it")
    parser.add_argument("--keep", help="folder for the files that failed")
    options = parser.parse_args()
    import metatensor as mt
    from metatensor.checkpoint import CheckpointError, inspect

    stream = cases(options.seed, options.only)
    tally: Counter[str] = Counter()
    failed = 0
    slowest = 0.0
    mt.load(io.BytesIO(next(iter(samples().values()))))  # all that is imported once
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(options.count):
        name, data = next(stream)
        loads: list[tuple[str, Callable[[], object]]] = [("meta", lambda: mt.load(io.BytesIO(data), "meta"))]
        if number % 4 == 0:
            loads += [("cpu", lambda: mt.load(io.BytesIO(data), "cpu")), ("inspect", lambda: inspect(io.BytesIO(data)))]
        for how, load in loads:
            outcome, took = attempt(load, CheckpointError)
            slowest = max(slowest, took)
            tally[f"{name.split()[0]}: {outcome if len(outcome) < 10 else 'error'}"] += how == "meta"
            if len(outcome) > 10 or took > SECONDS:
                failed += 1
                print(f"#{number} from {name}, {how}: {took:.2f} s\n{outcome}", flush=True)
                if options.keep:
                    with open(os.path.join(options.keep, f"{options.seed}-{number}-{how}"), "wb") as file:
                        file.write(data)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024
    print(f"{options.count:,} files, {failed} failures, slowest {slowest:.3f} s, {peak:.0f} MB more memory at the most")
    print(", ".join(f"{key} {count:,}" for key, count in sorted(tally.items())))
    return int(failed > 0 or peak > MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
