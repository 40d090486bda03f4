"""Change files at random and read them. The result must be a value or `CheckpointError`, with little time and memory.

    python tests/checkpoint/fuzz_files.py [how many files] [seed]

There are a few valid files of each format. Changes are: bits flipped; bytes and numbers replaced by extreme values; ranges
removed, duplicated, moved, or taken from another file; the end cut off.
"""

import io
import os
import random
import resource
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from checkpoint import samples

OPCODES = b"(.012FGIJKLMNPQRSTUVXabcdeghijlopqrstu}])BC" + bytes(range(0x80, 0x99))
EDGES = [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
SECONDS = 1.0
MEMORY = 256 << 20


def seeds(folder):
    """Return the contents of valid files as {format: list of bytes}. Write whole sharded checkpoints to subfolders."""
    import numpy as np

    import metatensor as mt
    from checkpoint import chunks

    texts, numbers = struct.pack("<IQ", 8, 3) + 3 * samples.text("x"), struct.pack("<IQ", 4, 2) + bytes(8)
    branch = samples.field(1, "then") + samples.field(6, samples.field(5, samples.onnx_tensor()))
    found = {
        "npy": [samples.npy(), samples.npy(">c8", (3,), fortran=True, version=(3, 0)), samples.npy("|u1", (4, 6), version=(2, 0))],
        "npz": [samples.npz({"a": samples.npy(), "b.c": samples.npy("<i8", (3,))}, compressed=c) for c in (False, True)],
        "gguf": [
            samples.gguf(
                [("w", (3, 2), 0, 0), ("q", (32, 2), 8, 32)],
                [("a", 8, samples.text("b")), ("t", 9, texts), ("n", 9, numbers)],
                bytes(128),
            ),
            samples.gguf(version=2),
        ],
        "onnx": [
            samples.onnx([samples.onnx_tensor(), samples.onnx_tensor("i", (3,), 6, None, f5=b"\1\2\3")],
                         [samples.onnx_constant("k", samples.onnx_tensor("")),
                          samples.field(3, "If") + samples.field(5, branch)]),
            samples.onnx([samples.onnx_tensor("f", (6,), 1, None, f4=bytes(24))], f14=samples.field(1, "k") + samples.field(2, "v")),
        ],
    }  # fmt: skip
    for name in ("sound", "dcp"):
        (folder / name).mkdir(exist_ok=True)
    index = samples.sharded(folder / "sound", {"a.safetensors": {"w": 3, "b": 2}, "b.safetensors": {"x": 4}})
    found["index"] = [index.read_bytes()]
    found["shard"] = [(folder / "sound" / "a.safetensors").read_bytes()]
    whole = np.arange(24, dtype="f4").reshape(4, 6)
    grid = {(0, 0): whole[:2, :3], (0, 3): whole[:2, 3:], (2, 0): whole[2:, :4], (2, 4): whole[2:, 4:]}
    chunks.write(folder / "dcp", chunks.maker(), {"grid": ((4, 6), grid), "one": ((), {(): np.array(3, "f4")})})
    found["distributed"] = [(folder / "dcp" / ".metadata").read_bytes()]
    found["distcp"] = [(folder / "dcp" / "__0_0.distcp").read_bytes()]
    found["safetensors"] = [samples.safetensors({"a": 3, "b": 0, "c": 5})]
    base = mt.arange(6.0, device="cpu")
    tree = {"a": base, "b": base[1:], "m": mt.empty(3, device="meta"), "p": mt.nn.Parameter(base.reshape(2, 3).t()),
            "more": [1, 2.5, "text", b"bytes", (None, True, 2**70), {3, 4}, mt.Size([2]), mt.float16]}  # fmt: skip
    for form, value in (("torch", tree), ("safetensors", {"a": base, "c": base.half()})):
        out = io.BytesIO()
        mt.save(value, out, format=form)
        found.setdefault(form, []).append(out.getvalue())
    for name, contents in by_pytorch().items():
        found.setdefault(name, []).extend(contents)
    return found


def by_pytorch():
    """Return valid files written by PyTorch, if it is installed: its zip format, the older format, and TorchScript."""
    try:
        import torch
    except ImportError:
        return {}
    torch.manual_seed(0)
    base = torch.arange(24.0).reshape(4, 6)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    tree = {"model": model.state_dict(), "views": [base, base.t(), base[1:, 2], torch.nn.Parameter(base[0])], "step": 3, "name": "\u00e4",
            "t": (1, None, True, 2**70, {3, 4}), "half": torch.ones(3, dtype=torch.bfloat16), "size": torch.Size([2]), "b": b"xy",
            "c": torch.ones(2, dtype=torch.complex64).conj()}  # fmt: skip
    found = {"torch": [], "legacy": [], "torchscript": []}
    for value in (model.state_dict(), tree, base, {"x": torch.ones(4, dtype=torch.uint16)}):
        for name, new in (("torch", True), ("legacy", False)):
            if new or not isinstance(value, dict) or "x" not in value:
                out = io.BytesIO()
                torch.save(value, out, _use_new_zipfile_serialization=new)
                found[name].append(out.getvalue())
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(model), out)
    found["torchscript"].append(out.getvalue())
    return found


def changed(content, others, rng):
    """Return a file with a few random changes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(11)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            width = rng.choice((2, 4, 8))
            value = rng.choice(EDGES) + rng.choice((0, 0, 1, -1)) & (1 << 8 * width) - 1
            data[at : at + width] = value.to_bytes(width, rng.choice(("little", "little", "big")))
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            del data[at : at + rng.randrange(1, 40)]
        elif kind == 5:
            data[at:at] = data[at : at + rng.randrange(1, 40)]
        elif kind == 6:
            other = rng.choice(others)
            begin = rng.randrange(len(other))
            data[at : at + rng.choice((0, 16))] = other[begin : begin + rng.randrange(1, 60)]
        elif kind == 7:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        elif kind == 8:
            data[at] = rng.choice(OPCODES)
        elif kind == 9:
            data[at:at] = bytes((rng.choice(OPCODES),)) * rng.choice((1, 1, 2, 50))
        else:
            end = rng.randrange(len(data))
            at, end = min(at, end), max(at, end)
            middle = (at + end) // 2
            data[at:end] = data[middle:end] + data[at:middle]
    return bytes(data)


def repacked(content, rng):
    """Return a valid zip file with one changed member, so that readers get as far as the change."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", rng.choice((0, zipfile.ZIP_DEFLATED))) as new:
        members = [old.read(name) for name in old.namelist()]
        pickles = [i for i, name in enumerate(old.namelist()) if name.endswith(".pkl")]
        which = rng.choice(pickles) if pickles and rng.random() < 0.9 else rng.randrange(len(members))
        for i, (name, data) in enumerate(zip(old.namelist(), members)):
            new.writestr(name, changed(data, members, rng) if i == which and data else data)
    return out.getvalue()


def read(content, place, name, look):
    """Write a file and read the file ``look`` in every way.

    Return whether every read was refused, and the longest time.
    """
    from metatensor.checkpoint import CheckpointError, inspect, load
    from metatensor.checkpoint.opening import Opened

    (place / name).write_bytes(content)
    path = place / look

    def fetch():
        with Opened(path) as source:
            for tensor in source.checkpoint.tensors:
                source.fetch(tensor)

    refused, slowest = 0, 0.0
    for call in (lambda: inspect(path), lambda: load(path, "meta"), lambda: load(path, "cpu"), lambda: load(path, "cpu", mmap=True), fetch):
        begin = time.perf_counter()
        try:
            call()
        except CheckpointError as error:
            refused += 1
            assert len(str(error)) < 3000, f"a message of {len(str(error)):,} characters"
        slowest = max(slowest, time.perf_counter() - begin)
    return refused == 5, slowest


PARTS = {
    "index": ("sound", "model.safetensors.index.json"), "shard": ("sound", "a.safetensors", "model.safetensors.index.json"),
    "distributed": ("dcp", ".metadata"), "distcp": ("dcp", "__0_0.distcp", ".metadata"),
}  # fmt: skip
"""For each format of several files: the folder, the file to change and, if it is a different one, the file to read."""
ZIPPED = ("npz", "torch", "torchscript")


def fuzz(count, seed=0, folder=None, only=None, limit=SECONDS):
    """Read ``count`` changed files.

    Return the numbers of accepted and refused files by format, the longest time, and the memory growth.
    """
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(folder or made)
        sound = seeds(folder)
        if only:
            sound = {name: sound[name] for name in only}
        kinds = list(sound)

        def attempt(kind, content):
            place, name, *look = PARTS.get(kind, (".", f"x.{kind}"))
            return read(content, folder / place, name, look[0] if look else name)

        for kind in kinds:
            for content in sound[kind]:
                assert not attempt(kind, content)[0], f"a sound file of {kind} is refused"
        everything = [content for contents in sound.values() for content in contents]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tally = {kind: [0, 0] for kind in kinds}
        slowest = 0.0
        for number in range(count):
            kind = kinds[number % len(kinds)]
            content = rng.choice(sound[kind])
            if kind in ZIPPED and rng.random() < 0.7:
                content = repacked(content, rng)
            else:
                content = changed(content, everything if rng.random() < 0.2 else sound[kind], rng)
            try:
                bad, seconds = attempt(kind, content)
                if seconds > limit:  # repeated, because the machine may have been busy
                    seconds = min(seconds, attempt(kind, content)[1])
                assert seconds < limit, f"{seconds:.2f} s"
            except Exception as error:
                kept = Path(tempfile.gettempdir()) / f"fuzz-{seed}-{number}.{kind}"
                kept.write_bytes(content)
                raise AssertionError(f"file {number} of seed {seed} ({kind}; kept as {kept}): {type(error).__name__}: {error}") from error
            tally[kind][bad] += 1
            slowest = max(slowest, seconds)
            if kind in PARTS:  # the other files are later read with the valid one
                (folder / PARTS[kind][0] / PARTS[kind][1]).write_bytes(sound[kind][0])
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown < MEMORY, f"{grown:,} bytes of memory"
    return tally, slowest, grown


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    slow = SECONDS * (20 if "asan" in os.environ.get("LD_PRELOAD", "") else 1)
    tally, slowest, grown = fuzz(total, first, os.environ.get("FUZZ_FOLDER"), sys.argv[3:], slow)
    for kind, (sound, refused) in tally.items():
        print(f"{kind}: {sound + refused:,} files, {refused:,} refused")
    print(f"{total:,} files; slowest {slowest:.3f} s, memory grew by {grown / 1e6:.1f} MB")
