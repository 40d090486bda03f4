"""Let three processes save shards to one path and kill them at random. A complete checkpoint must remain.

    python tests/checkpoint/savers.py [rounds] [seed]

Other checkpoints in the folder have names that begin in the same way; they must not change. After every tenth round,
one process that is not killed must remove what the others left.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import metatensor as mt
from metatensor.checkpoint import CheckpointError

SAVERS = 3
TENSORS = 6


def save(path, value, numel=2000):
    """Save shards in which every element is ``value``."""
    tensors = {f"l{i}": mt.full((numel,), float(value), device="cpu") for i in range(TENSORS)}
    mt.save(tensors, path, max_shard_size=4 * numel + 100 if value % 5 else 10**9)


def found(folder):
    """Return the value that all tensors of the checkpoint have."""
    tensors = mt.load(folder, map_location="cpu")
    values = {value for tensor in tensors.values() for value in (tensor.min().item(), tensor.max().item())}
    assert len(tensors) == TENSORS and len(values) == 1, f"a mixture: {sorted(tensors)}, values {values}"
    return values.pop()


def neighbours(folder):
    """Create files next to the checkpoint. Return their contents by name."""
    for name in ("model-20240131.safetensors", "model-0123abcd.safetensors"):
        mt.save({f"l{i}": mt.full((50,), 7.0, device="cpu") for i in range(4)}, folder / name, max_shard_size=250)
    for name in ("model-0123abcd-00001-of-00009.safetensors", "model-00007-of-00009.safetensors", ".model.safetensors.notes.tmp", "model"):
        (folder / name).write_bytes(name.encode())
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fork(work):
    """Start a process that runs ``work`` and exits. Return its id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print("a saver failed:", type(error).__name__, error, file=sys.stderr, flush=True)
        os._exit(1)


def race(folder, rounds, seed=0):
    """Run the rounds. Return how many processes were killed, and how many finished."""
    rng = random.Random(seed)
    folder = Path(folder)
    path = folder / "model.safetensors"
    before = neighbours(folder)
    save(path, 1)
    started = time.perf_counter()
    save(path, 2)
    usual = max(time.perf_counter() - started, 0.002)
    killed = ended = 0
    last = 2
    for number in range(1, rounds + 1):
        values = [SAVERS * number + i for i in range(SAVERS)]
        children = [fork(lambda value=value: save(path, value)) for value in values]
        for child in rng.sample(children, rng.randint(0, SAVERS)):
            time.sleep(rng.uniform(0, usual))
            os.kill(child, signal.SIGKILL)
        finished = False
        for child in children:
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
            ended += status == 0
            assert os.WIFSIGNALED(status) or status == 0, f"round {number}: a saver failed"
            finished |= status == 0
        value = found(path if path.exists() and not index_of(path).exists() else index_of(path))
        assert value in (values if finished else [*values, last]), f"round {number}: {value} is there, of {last} and then {values}"
        last = value
        if number % 10 == 0:
            last = -5 * number - 1
            save(path, last)
            index = index_of(path)
            ours = {index.name, *json.loads(index.read_text())["weight_map"].values()}
            left = set(os.listdir(folder)) - ours - before.keys()
            assert not left, f"round {number}: {left} were left"
        for name, content in before.items():
            assert (folder / name).read_bytes() == content, f"round {number}: {name} changed"
    return killed, ended


def index_of(path):
    return path.with_name(path.name + ".index.json")


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(dir=os.environ.get("CRASH_FOLDER")) as where:
        started = time.perf_counter()
        try:
            counts = race(where, rounds, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
        except (AssertionError, CheckpointError) as error:
            raise SystemExit(f"failed: {error}; the folder has {sorted(os.listdir(where))}") from error
        print(f"{rounds} rounds in {time.perf_counter() - started:.0f} s: {counts[0]} savers killed, {counts[1]} came to their end; "
              "a whole checkpoint after every round, nothing of the neighbours changed")
