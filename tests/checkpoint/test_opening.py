"""Files that change while they are read, and paths that are not regular files."""

import os
import signal
import socket
import struct

import numpy as np
import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError, inspect, load, load_into, save
from metatensor.checkpoint.opening import Opened
from metatensor.checkpoint.source import Source

from . import samples

NUMEL = 1 << 18


@pytest.fixture(autouse=True)
def no_waiting():
    signal.signal(signal.SIGALRM, lambda *args: (_ for _ in ()).throw(TimeoutError("it waits")))
    signal.alarm(30)
    yield
    signal.alarm(0)


def big(folder, form):
    """Write a checkpoint of a megabyte in a format, and return its path."""
    path = folder / f"x.{form}"
    values = np.arange(NUMEL, dtype=np.float32)
    if form == "gguf":
        path.write_bytes(samples.gguf([("w", (NUMEL,), 0, 0)], data=values.tobytes()))
    elif form == "onnx":
        path.write_bytes(samples.onnx([samples.onnx_tensor("w", (NUMEL,), 1, values.tobytes())]))
    elif form == "legacy":
        torch = pytest.importorskip("torch")
        torch.save({"w": torch.zeros(NUMEL)}, path, _use_new_zipfile_serialization=False)
    else:
        save({"w": mt.from_numpy(values)} if form != "npy" else mt.from_numpy(values), path)
    return path


@pytest.mark.parametrize("form", ["safetensors", "pt", "npy", "npz", "gguf", "onnx", "legacy"])
def test_a_file_that_is_cut_while_it_is_read(tmp_path, form, monkeypatch):
    path = big(tmp_path, form)
    cut = []

    def cutting(method):
        def call(self, begin, *args):
            size = args[0] - begin if method.__name__ == "at" else len(args[0])
            if size >= 4 * NUMEL and not cut:
                cut.append(os.truncate(path, 5000))
            return method(self, begin, *args)

        return call

    for name in ("at", "read_into"):
        monkeypatch.setattr(Source, name, cutting(getattr(Source, name)))
    child = os.fork()
    if not child:  # a signal would end the process
        try:
            load(path, "cpu")
        except CheckpointError as error:
            os._exit(0 if "truncated" in str(error) and cut else 2)
        os._exit(3)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("form", ["safetensors", "npy", "gguf"])
def test_a_file_that_is_cut_between_listing_and_reading(tmp_path, form):
    path = big(tmp_path, form)
    with Opened(path) as opened:
        os.truncate(path, 5000)
        with pytest.raises(CheckpointError, match="truncated"):
            opened.fetch(next(iter(opened.checkpoint.tensors)))


def no_files(folder):
    """Return paths that are not regular files, by name."""
    os.mkfifo(folder / "pipe.safetensors")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "socket.safetensors"))
    os.symlink("/dev/zero", folder / "zero.safetensors")
    return server


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    def into(path):
        load_into(mt.nn.Linear(2, 2), path)

    def written(path):
        mt.checkpoint.convert(path, tmp_path / "y.pt")

    with no_files(tmp_path):
        for name in ("pipe", "socket", "zero"):
            path = tmp_path / f"{name}.safetensors"
            for act in (load, inspect, Opened, into, written):
                with pytest.raises(CheckpointError, match="ordinary file"):
                    act(path)
            folder = tmp_path / name
            folder.mkdir()
            os.rename(path, folder / "model.safetensors")
            with pytest.raises(CheckpointError, match="ordinary file"):
                load(folder)


def test_a_pipe_beside_a_file_that_names_it(tmp_path):
    path = samples.sharded(tmp_path, {"a.safetensors": {"w": 3}}, {"weight_map": {"w": "pipe.safetensors"}})
    with no_files(tmp_path):
        for act in (load, inspect):
            with pytest.raises(CheckpointError):
                act(path)
    location = samples.field(1, "location") + samples.field(2, "pipe.safetensors")
    (tmp_path / "m.onnx").write_bytes(samples.onnx([samples.onnx_tensor("w", (4,), 1, None, f13=location, f14=1)]))
    with pytest.raises(CheckpointError):
        load(tmp_path / "m.onnx", "cpu")


def test_a_folder_is_still_a_folder(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises((IsADirectoryError, CheckpointError)):
        load(tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt")


def test_reading_ahead(tmp_path):
    content = os.urandom(1 << 20)
    path = tmp_path / "f"
    path.write_bytes(content)
    with open(path, "rb", buffering=0) as file, Source(file, "f") as source:
        for begin, size in ((0, 10), (10, 5000), (5010, 0), (900_000, 3), (5, 3), (5008, 300_000), (1 << 20, 0), ((1 << 20) - 4, 4)):
            assert source.at(begin, begin + size) == content[begin : begin + size]
        with pytest.raises(CheckpointError, match="truncated"):
            source.at((1 << 20) - 4, (1 << 20) + 1)
        target = bytearray(70_000)
        source.read_into(123, memoryview(target))
        assert target == content[123:70_123]


def test_names_and_reasons_are_escaped(tmp_path):
    name = "x\x1b[31m\u202e.safetensors"
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / name)
    assert str(caught.value).isprintable() and "\\x1b[31m\\u202e" in str(caught.value)
    (tmp_path / "b\x1b]0;.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="name one") as caught:
        load(tmp_path)
    assert str(caught.value).isprintable()
    header = b'{"a\\u001b[2J":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    (tmp_path / "t.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    with pytest.raises(RuntimeError) as caught:
        load_into(mt.nn.Linear(2, 2), tmp_path / "t.safetensors")
    assert "\x1b" not in str(caught.value) and "a\\x1b[2J" in str(caught.value)
