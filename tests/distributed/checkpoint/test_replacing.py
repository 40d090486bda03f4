"""A folder always has a whole checkpoint: processes are killed while they save, and several save at the same time."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("metatensor_cpu")
fcntl = pytest.importorskip("fcntl")

import metatensor as mt
from metatensor.distributed import checkpoint
from metatensor.distributed.checkpoint._folder import PLAIN, Saving, file_name

# Two simulated ranks save one generation after the other.
SAVE = """
import itertools, json, os, sys
import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import checkpoint, sim
from metatensor.distributed.tensor import Shard, distribute_tensor, init_device_mesh

def save(folder, first, times):
    dist.init_process_group()
    mesh = init_device_mesh("cpu", (2,))
    for generation in itertools.islice(itertools.count(first), times):
        tensors = {f"w{i}": distribute_tensor(mt.full((64, 100), float(generation), device="cpu"), mesh, [Shard(i % 2)]) for i in range(8)}
        checkpoint.save(tensors, checkpoint_id=folder)
        if dist.get_rank() == 0:
            print(generation, flush=True)

print("ready", flush=True)
"""

PROGRAM = f"{SAVE}\nsim.run(save, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), world_size=2)\n"

# Runs each request in a forked process, whose output goes to a file, so that the imports are done once.
FORKING = f"""{SAVE}
for line in sys.stdin:
    output, *arguments = json.loads(line)
    child = os.fork()
    if not child:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
        sim.run(save, *arguments, world_size=2)
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def python(program, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "ready\n", "the process that saves does not start"
    return child


def start(folder, first, times):
    return python(PROGRAM, folder, first, times)


class Forking:
    """A process that forks one saving process after the other."""

    def __init__(self, output):
        self.output, self.process, self.child = output, python(FORKING), None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if error[0] is not None and self.child is not None:
            with suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)
        self.process.communicate()

    def begin(self, folder, first, times):
        """Begin to save generations from ``first`` on. Return the id of the process."""
        self.output.unlink(missing_ok=True)
        self.process.stdin.write(json.dumps([str(self.output), str(folder), first, times]) + "\n")
        self.process.stdin.flush()
        self.child = int(self.process.stdout.readline())
        return self.child

    def status(self):
        """Wait for the process and return its status."""
        return int(self.process.stdout.readline())

    def saved(self):
        """Return the generations that the process has saved."""
        return [int(line) for line in self.output.read_text().split()] if self.output.exists() else []


def generation_in(folder):
    """Return the number of the generation in a folder. Check that all tensors are of one generation."""
    found = mt.load(folder, "cpu")
    values = {value for tensor in found.values() for value in (tensor.min().item(), tensor.max().item())}
    assert len(found) == 8 and len(values) == 1, f"a mixture of generations: {values}"
    return int(values.pop())


def kill_again_and_again(folder, output, times, seed=0):
    """Kill a saving process ``times`` times, then save generation 10**6 without killing it.

    Return how often the last completed generation was there after a kill, and how often the next.
    """
    rng = random.Random(seed)
    generation, counts = 0, [0, 0]
    with Forking(output) as forking:
        forking.begin(folder, 0, 1)
        assert forking.status() == 0
        for _ in range(times):
            child = forking.begin(folder, generation + 1, 10**6)
            time.sleep(rng.uniform(0.05, 0.3))
            os.kill(child, signal.SIGKILL)
            assert forking.status() == signal.SIGKILL
            told = [generation, *forking.saved()][-1]
            generation = generation_in(folder)
            assert generation in (told, told + 1), f"generation {told} was saved, {generation} is there"
            counts[generation - told] += 1
        forking.begin(folder, 10**6, 1)
        assert forking.status() == 0
    return counts


@pytest.mark.slow
def test_killed_at_any_time(tmp_path):
    folder = tmp_path / "saved"
    assert sum(kill_again_and_again(folder, tmp_path / "output", 6)) == 6
    assert generation_in(folder) == 10**6  # the last one has removed what was left
    assert len(os.listdir(folder)) == 3, os.listdir(folder)


# For each step, a child process saves a generation and kills itself at the n-th change of the file system.
AT_EACH_STEP = """
import os, signal, sys
import metatensor as mt
from metatensor.distributed import checkpoint

folder, tensors = sys.argv[1], 3

def save(value):
    checkpoint.save({f"w{i}": mt.full((50, 20), float(value), device="cpu") for i in range(tensors)}, checkpoint_id=folder)

def dying(at):
    count = 0
    def watched(function):
        def call(*args, **options):
            nonlocal count
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)
        return call
    for name in ("link", "replace", "rename", "unlink", "fsync", "ftruncate", "write", "open", "mkdir", "close"):
        setattr(os, name, watched(getattr(os, name)))

save(0)
value = at = 0
while True:
    at += 1
    child = os.fork()
    if child == 0:
        dying(at)
        save(value + 1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    found = mt.load(folder, "cpu")
    values = {one for tensor in found.values() for one in tensor.reshape(-1).tolist()}
    print(at, int(os.WIFSIGNALED(status)), value, sorted(values), flush=True)
    assert len(found) == tensors and values in ({float(value)}, {float(value + 1)}), values
    value = int(values.pop())
    if not os.WIFSIGNALED(status):
        break
print(sorted(os.listdir(folder)))
"""


@pytest.mark.slow
def test_killed_at_each_step(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", AT_EACH_STEP, str(tmp_path)], capture_output=True, text=True, env=environment, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    *steps, left = done.stdout.splitlines()
    killed = [line.split() for line in steps if line.split()[1] == "1"]
    replaced = [line for line in killed if float(line[3].strip("[]")) == int(line[2]) + 1]
    assert len(killed) > 15 and 0 < len(replaced) < len(killed), done.stdout
    assert left.count(".distcp") == 1 and left.count("'") == 4, left  # nothing else is left


@pytest.mark.slow
def test_killed_many_times(tmp_path):
    counts = kill_again_and_again(tmp_path / "saved", tmp_path / "output", 60, seed=1)
    assert sum(counts) == 60


@pytest.mark.slow
def test_several_programs_save_to_one_folder(tmp_path):
    children = [start(tmp_path, 100 * k, 8) for k in range(3)]
    seen = set()
    while any(child.poll() is None for child in children):
        try:
            seen.add(generation_in(tmp_path))
        except (mt.checkpoint.CheckpointError, OSError):  # not there yet, or replaced meanwhile
            continue
    for child in children:
        child.communicate()
        assert child.returncode == 0
    assert generation_in(tmp_path) % 100 == 7
    assert len(os.listdir(tmp_path)) == 3, os.listdir(tmp_path)


@pytest.mark.slow
def test_a_reader_of_the_old_checkpoint_keeps_what_it_has_opened(tmp_path):
    folder = tmp_path / "saved"
    with Forking(tmp_path / "output") as forking:
        forking.begin(folder, 1, 1)
        assert forking.status() == 0
        names = os.listdir(folder)
        assert sorted(names) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
        forking.begin(folder, 2, 1)
        assert forking.status() == 0
    assert not {name for name in names if name != ".metadata"} & set(os.listdir(folder))


def test_what_a_dead_saver_leaves(tmp_path):
    checkpoint.save({"w": mt.ones(3, device="cpu")}, checkpoint_id=tmp_path)
    kept = set(os.listdir(tmp_path))
    # One that died before it replaced the metadata, and one that lives.
    dead, lives = "0badc0de", "00c0ffee"
    for tag in (dead, lives):
        (tmp_path / file_name(0, 0, tag)).write_bytes(b"x")
        (tmp_path / f"..metadata.{tag}.saving").write_text(json.dumps([*kept, "__9_0.distcp", "../x.distcp", 3]))
    (tmp_path / f"..metadata.{dead}.1.done").write_text("[]")
    (tmp_path / "__9_0.distcp").write_bytes(b"an old file that the dead saver did not come to remove")
    (tmp_path.parent / "x.distcp").write_bytes(b"outside")
    (tmp_path / "notes.distcp").write_bytes(b"not ours")
    with open(tmp_path / f"..metadata.{lives}.saving", "r+b") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        saving = Saving(str(tmp_path))
        assert saving.tag not in (PLAIN, dead, lives)
        saving.abandon()
    assert set(os.listdir(tmp_path)) == kept | {file_name(0, 0, lives), f"..metadata.{lives}.saving", "notes.distcp"}
    assert (tmp_path.parent / "x.distcp").exists()
    assert mt.load(tmp_path, "cpu")["w"].tolist() == [1, 1, 1]


def test_nothing_is_removed_beside_unreadable_metadata(tmp_path):
    checkpoint.save({"w": mt.ones(3, device="cpu")}, checkpoint_id=tmp_path)
    whole = (tmp_path / ".metadata").read_bytes()
    (tmp_path / ".metadata").write_bytes(b"\x80garbage")
    (tmp_path / "..metadata.plain.saving").write_text("[]")
    Saving(str(tmp_path)).abandon()
    (tmp_path / ".metadata").write_bytes(whole)
    assert mt.load(tmp_path, "cpu")["w"].tolist() == [1, 1, 1]


def test_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("metatensor.checkpoint.atomic.fcntl", None)
    for value in (1.0, 2.0):
        checkpoint.save({"w": mt.full((3,), value, device="cpu")}, checkpoint_id=tmp_path)
        assert mt.load(tmp_path, "cpu")["w"].tolist() == [value] * 3
    assert sum(name.endswith(".distcp") for name in os.listdir(tmp_path)) == 1


def test_the_disk_is_full(tmp_path, monkeypatch):
    checkpoint.save({"w": mt.ones(3, device="cpu")}, checkpoint_id=tmp_path)
    before = sorted(os.listdir(tmp_path))

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    for place in ("filesystem.write_torch", "_folder.write_all"):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(f"metatensor.distributed.checkpoint.{place}", full)
            checkpoint.save({"w": mt.zeros(3, device="cpu")}, checkpoint_id=tmp_path)
        assert sorted(os.listdir(tmp_path)) == before
        assert mt.load(tmp_path, "cpu")["w"].tolist() == [1, 1, 1]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(dir=os.environ.get("CRASH_FOLDER")) as folder:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
        old, new = kill_again_and_again(Path(folder), count)
        print(f"{count} kills, {old} times the last completed checkpoint, {new} times the next one")
