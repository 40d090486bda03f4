"""Change files at random and read them: only `CheckpointError` or a result may come of it, soon and in little memory.

    python tests/checkpoint/fuzz_files.py [how many files] [seed]

Of each format there are a few sound files to begin with. A file is changed by some of: bits turned, bytes and numbers
replaced by ones at the edge, ranges cut out, doubled, moved, or taken from another file; the end cut off.
"""

import io
import os
import random
import resource
import struct
import sys
import tempfile
import time
import zipfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from checkpoint import samples

EDGES = [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
SECONDS = 1.0
MEMORY = 256 << 20


def seeds(folder):
    """Sound files by format: name -> list of contents."""
    import metatensor as mt

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
    (folder / "sound").mkdir()
    index = samples.sharded(folder / "sound", {"a.safetensors": {"w": 3, "b": 2}, "b.safetensors": {"x": 4}})
    found["index"] = [index.read_bytes()]
    metadata = folder / "dcp" / ".metadata"
    found["distributed"] = [metadata.read_bytes()] if metadata.exists() else []
    out = io.BytesIO()
    base = mt.arange(6.0, device="cpu")
    mt.save({"a": base, "b": base[1:], "m": mt.empty(3, device="meta"), "p": mt.nn.Parameter(base.reshape(2, 3).t())}, out)
    found["torch"] = [out.getvalue()]
    return {name: contents for name, contents in found.items() if contents}


def changed(content, others, rng):
    """A file like this one, but for a few things."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(9)
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
        else:
            end = rng.randrange(len(data))
            at, end = min(at, end), max(at, end)
            middle = (at + end) // 2
            data[at:end] = data[middle:end] + data[at:middle]
    return bytes(data)


def repacked(content, rng):
    """A zip file whose members are changed and packed soundly again, so that the changes are reached."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", rng.choice((0, zipfile.ZIP_DEFLATED))) as new:
        members = [old.read(name) for name in old.namelist()]
        which = rng.randrange(len(members))
        for i, (name, data) in enumerate(zip(old.namelist(), members)):
            new.writestr(name, changed(data, members, rng) if i == which and data else data)
    return out.getvalue()


def read(content, place, name):
    """Read a file in every way. The name of the first error's class that is no sound answer, or what is wrong with time."""
    from metatensor.checkpoint import CheckpointError, inspect, load
    from metatensor.checkpoint.opening import Opened

    path = place / name
    path.write_bytes(content)

    def fetch():
        with Opened(path) as source:
            for tensor in source.checkpoint.tensors:
                source.fetch(tensor)

    refused = 0
    begin = time.perf_counter()
    for call in (lambda: inspect(path), lambda: load(path, "meta"), lambda: load(path, "cpu"), fetch):
        try:
            call()
        except CheckpointError as error:
            refused += 1
            assert len(str(error)) < 3000, f"a message of {len(str(error)):,} characters"
    return refused == 4, time.perf_counter() - begin


NAMES = {"index": "model.safetensors.index.json", "distributed": ".metadata"}


def fuzz(count, seed=0, folder=None, only=None):
    """Read ``count`` changed files. Returns how many were refused, the longest time of one, and the growth in memory."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(folder or made)
        sound = seeds(folder)
        if only:
            sound = {name: sound[name] for name in only}
        kinds = list(sound)
        places = {"index": folder / "sound", "distributed": folder / "dcp"}
        for kind in kinds:
            for content in sound[kind]:
                assert not read(content, places.get(kind, folder), NAMES.get(kind, f"x.{kind}"))[0], f"a sound file of {kind} is refused"
        everything = [content for contents in sound.values() for content in contents]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        refused, slowest = 0, 0.0
        for number in range(count):
            kind = kinds[number % len(kinds)]
            content = rng.choice(sound[kind])
            if kind in ("npz", "torch") and rng.random() < 0.6:
                content = repacked(content, rng)
            else:
                content = changed(content, everything if rng.random() < 0.2 else sound[kind], rng)
            try:
                bad, seconds = read(content, places.get(kind, folder), NAMES.get(kind, f"x.{kind}"))
                assert seconds < 4 * SECONDS, f"{seconds:.2f} s"
            except Exception as error:
                kept = Path(tempfile.gettempdir()) / f"fuzz-{seed}-{number}.{kind}"
                kept.write_bytes(content)
                raise AssertionError(f"file {number} of seed {seed} ({kind}; kept as {kept}): {type(error).__name__}: {error}") from error
            refused += bad
            slowest = max(slowest, seconds)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown < MEMORY, f"{grown:,} bytes of memory"
    return refused, slowest, grown


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    refused, slowest, grown = fuzz(total, first, os.environ.get("FUZZ_FOLDER"), sys.argv[3:])
    print(f"{total:,} files: {refused:,} refused, the others read; slowest {slowest:.3f} s, memory grew by {grown / 1e6:.1f} MB")
