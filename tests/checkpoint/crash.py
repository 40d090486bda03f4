"""Kill a process again and again while it saves, and check that the file always has the old content or the new one.

    python tests/checkpoint/crash.py [how often] [model.pt | model.safetensors | model.npz | shards]

The process saves successive generations: tensors whose elements all equal the number of the generation.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORMS = ("model.pt", "model.safetensors", "model.npz", "shards")
CHILD = """
import sys, itertools
import metatensor as mt
path, first, options = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
with __import__("tempfile").TemporaryDirectory() as folder:
    mt.save({f"{i}": mt.zeros(1, device="cpu") for i in range(9)}, folder + "/" + path.rpartition("/")[2], **options)
print("ready", flush=True)
for generation in itertools.count(first):
    tensors = {f"layer{i}.weight": mt.full((64, 1000), float(generation), device="cpu") for i in range(16)}
    mt.save(tensors, path, **options)
    print(generation, flush=True)
"""


def crash(folder, form, times, seed=0):
    """Kill the process ``times`` times. Return (number of times with the old content, with the new one, leftover files)."""
    import metatensor as mt

    rng = random.Random(seed)
    path = Path(folder) / ("model.safetensors" if form == "shards" else form)
    options = {"max_shard_size": "1MB"} if form == "shards" else {}
    old = new = 0
    generation = 0
    mt.save({f"layer{i}.weight": mt.zeros(64, 1000, device="cpu") for i in range(16)}, path, **options)
    for _ in range(times):
        args = [sys.executable, "-c", CHILD, str(path), str(generation + 1), repr(options)]
        child = subprocess.Popen(args, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert child.stdout.readline() == b"ready\n", "the process that saves does not start"
        time.sleep(rng.uniform(0, 0.2))
        child.send_signal(signal.SIGKILL)
        done = [int(line) for line in child.stdout.read().split(b"\n") if line.strip()]
        child.wait()
        child.stdout.close()
        told = done[-1] if done else generation
        found = mt.load(path.parent if form == "shards" else path)
        values = {value for tensor in found.values() for value in (tensor.min().item(), tensor.max().item())}
        assert len(found) == 16 and len(values) == 1, f"a mixture of generations: {values}"
        value = int(values.pop())
        assert value in (told, told + 1), f"generation {told} was saved, {value} is there"
        old, new = old + (value == told), new + (value == told + 1)
        generation = value
    listed = {path.name, *(p.name for p in path.parent.glob("*.index.json"))}
    if form == "shards":
        import json

        listed |= set(json.loads((path.parent / "model.safetensors.index.json").read_text())["weight_map"].values())
    left = [name for name in os.listdir(path.parent) if name not in listed]
    return old, new, left


if __name__ == "__main__":
    for form in sys.argv[2:] or FORMS:
        with tempfile.TemporaryDirectory(dir=os.environ.get("CRASH_FOLDER")) as folder:
            count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
            old, new, left = crash(folder, form, count)
            print(f"{form}: {count} kills, {old} times the last completed save, {new} times the next one; {len(left)} files left behind")
