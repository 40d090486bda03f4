"""The disk plugin: the place and lifetime of its files, and errors of a full disk."""

import gc
import os
import resource

import numpy as np
import pytest

import metatensor as mt
from metatensor import plugins
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor.devices import OutOfMemoryError

pytest.importorskip("metatensor_disk")


@pytest.fixture
def backend(tmp_path, monkeypatch):
    monkeypatch.setenv("METATENSOR_DISK_DIR", str(tmp_path))
    return plugins.backend("disk")


def open_files(folder):
    """Return the files in ``folder`` that this process has mapped, with or without a name."""
    with open("/proc/self/maps") as maps:
        return [line.split(maxsplit=5)[5].strip() for line in maps if str(folder) in line]


def test_memory_is_an_unlinked_file(backend, tmp_path):
    handle = backend.allocate(1 << 20, 0)
    handle[:] = 7
    assert len(open_files(tmp_path)) == 1 and "(deleted)" in open_files(tmp_path)[0]
    assert os.listdir(tmp_path) == []
    del handle
    gc.collect()
    assert open_files(tmp_path) == []


def test_no_file_descriptors_stay_open(backend):
    before = len(os.listdir("/proc/self/fd"))
    handles = [backend.allocate(100, 0) for _ in range(50)]
    assert len(handles) == 50 and len(os.listdir("/proc/self/fd")) <= before + 1


def test_tensors(backend, tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    storage = make_storage("disk", 48, backend.allocate(48, 0))
    tensor = tensor_from_storage(storage, mt.float32, (3, 4), (4, 1), 0)
    backend.from_host(tensor, array.tobytes())
    view = tensor.t()
    assert view.untyped_storage() is tensor.untyped_storage()
    assert backend.asarray(view).tolist() == array.T.tolist()
    assert len(open_files(tmp_path)) == 1


@pytest.mark.parametrize("nbytes", [1 << 50, 1 << 62])
def test_a_full_disk(backend, tmp_path, nbytes):
    with pytest.raises(OutOfMemoryError, match=rf"disk: cannot allocate .*\({nbytes} bytes\) in {tmp_path}; .* in use") as raised:
        backend.allocate(nbytes, 0)
    assert isinstance(raised.value.__cause__, (OSError, OverflowError))
    assert os.listdir(tmp_path) == [] and open_files(tmp_path) == []


def test_a_full_disk_is_no_bus_error(backend, tmp_path):
    """A limit on file sizes simulates a small disk. The error is raised when the tensor is created."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OutOfMemoryError, match="cannot allocate 2.00 MiB"):
            backend.allocate(2 << 20, 0)
        assert backend.allocate(1 << 19, 0).size == 1 << 19
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_directory_that_is_not_there(monkeypatch):
    monkeypatch.setenv("METATENSOR_DISK_DIR", "/nonexistent/folder")
    backend = plugins.backend("disk")
    assert not backend.is_available()
    assert backend.unavailable_reason() == "cannot write to /nonexistent/folder; set METATENSOR_DISK_DIR"
    with pytest.raises(RuntimeError, match="disk: no device is available: cannot write to /nonexistent/folder"):
        backend.allocate(8, 0)


def test_a_second_disk_does_not_exist(backend):
    with pytest.raises(RuntimeError, match="disk:1 does not exist: there is 1 device"):
        backend.allocate(8, 1)


def test_what_files_cannot_be_made_of(backend, monkeypatch, tmp_path):
    import metatensor_disk

    assert backend.allocate(0).nbytes == 0
    with pytest.raises(OSError, match=r"\[Errno 9\]"):
        metatensor_disk.map_file(-1, 4096)

    def broken(*args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(metatensor_disk.os, "posix_fallocate", broken)
    with pytest.raises(RuntimeError, match=f"disk: cannot make a file in {tmp_path}: .*not permitted"):
        backend.allocate(8)
