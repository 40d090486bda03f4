"""The cuda plugin where there is no GPU: what it says is missing, and its logic over a stand-in for CuPy."""

import builtins
import sys

import numpy as np
import pytest

import metatensor as mt
from devices.fake_cupy import FakeCupy
from metatensor import plugins
from metatensor._core.placing import tensor_from_storage
from metatensor._core.storage import make_storage
from metatensor.devices import OutOfMemoryError
from metatensor.devices.array_kit import KernelTable

backend_module = pytest.importorskip("metatensor_cuda.backend")
CudaBackend = backend_module.CudaBackend


def tensor(backend, values, index=0):
    values = np.asarray(values, np.float32)
    storage = make_storage(f"cuda:{index}", values.nbytes, backend.allocate(values.nbytes, index))
    steps = [stride // 4 for stride in values.strides]
    made = tensor_from_storage(storage, mt.float32, values.shape, steps, 0)
    backend.from_host(made, values.tobytes())
    return made


def values(backend, made):
    return np.frombuffer(backend.to_host(made), np.float32).reshape(tuple(made.shape)).tolist()


# What is missing --------------------------------------------------------------------------


@pytest.mark.parametrize("failure, driver, message", [
    ((35, "cudaErrorInsufficientDriver: too old"), 0, "no NVIDIA driver was found"),
    ((35, "cudaErrorInsufficientDriver: too old"), 11080, "driver supports CUDA 11.8, but CuPy was built for CUDA 12.9"),
    ((100, "cudaErrorNoDevice"), 12040, "shows no GPU"),
    ((999, "cudaErrorUnknown: unknown error"), 12040, "CUDA cannot be used: cudaErrorUnknown"),
])
def test_what_the_driver_says(failure, driver, message):
    backend = CudaBackend(FakeCupy(failure=failure, driver=driver))
    assert (backend.device_count(), backend.is_available()) == (0, False)
    assert message in backend.unavailable_reason()
    for use in (lambda: backend.allocate(4, 0), backend.current_index, backend.synchronize, backend.memory_stats):
        with pytest.raises(RuntimeError, match="cuda: no device is available: .*"):
            use()


def test_no_gpu_is_visible():
    backend = CudaBackend(FakeCupy(count=0))
    assert "CUDA_VISIBLE_DEVICES" in backend.unavailable_reason()


def without_cupy(monkeypatch, error):
    def guarded(name, *args, **kwargs):
        if name == "cupy":
            raise error
        return real(name, *args, **kwargs)

    real = builtins.__import__
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(builtins, "__import__", guarded)
    return CudaBackend()


@pytest.mark.parametrize("error, message", [
    (ModuleNotFoundError("No module named 'cupy'", name="cupy"), r"CuPy is not installed: pip install \"metatensor-cuda\[cuda12\]\""),
    (ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock"), "CuPy is installed but lacks fastrlock"),
    (ImportError("libcublas.so.12: cannot open\nshared object file"), "CuPy could not be imported: libcublas.so.12: cannot open shared"),
])
def test_no_cupy(monkeypatch, error, message):
    backend = without_cupy(monkeypatch, error)
    assert not backend.is_available()
    with pytest.raises(RuntimeError, match=message):
        backend.allocate(4, 0)


def test_the_report_says_why(monkeypatch):
    backend = without_cupy(monkeypatch, ModuleNotFoundError("No module named 'cupy'", name="cupy"))
    manager = plugins.PluginManager(lambda group: (), ())
    manager.register_backend(backend)
    row = next(row for row in manager.report() if row.name == "cuda")
    assert (row.state, row.devices) == ("no device", ())
    assert "CuPy is not installed" in row.reason


def test_the_installed_plugin_never_breaks():
    """Whatever this machine has, asking is no error."""
    backend = CudaBackend()
    assert backend.is_available() or backend.unavailable_reason()
    if not backend.is_available():
        with pytest.raises(RuntimeError, match="cuda: no device is available"):
            backend.allocate(16, 0)


# Over the stand-in ------------------------------------------------------------------------


@pytest.fixture
def backend():
    return CudaBackend(FakeCupy(count=2))


def test_indices(backend):
    assert (backend.device_count(), backend.current_index()) == (2, 0)
    assert [backend.allocate(8, index).device.id for index in (0, 1, -1)] == [0, 1, 0]
    with pytest.raises(RuntimeError, match="cuda:2 does not exist: there are 2 devices"):
        backend.allocate(8, 2)
    with backend.xp.cuda.Device(1):
        assert backend.current_index() == 1
        assert backend.allocate(8, -1).device.id == 1
        assert backend.allocate(8, 0).device.id == 0


def test_work_happens_where_the_tensors_are(backend):
    seen = []

    backend.table = KernelTable("test")

    @backend.table.kernel("where")
    def where(kit, out, input):
        seen.append(kit.xp.current)
        return input + 1

    assert backend.kernel("nothing") is None
    kernel = backend.kernel("where")
    for index in (0, 1):
        out = tensor(backend, [0, 0], index)
        kernel(out, tensor(backend, [1, 2], index))
        assert values(backend, out) == [2, 3]
    assert seen == [0, 1]
    assert backend.xp.current == 0


def test_copies_between_devices(backend):
    source, target = tensor(backend, [1, 2, 3], 0), tensor(backend, [0, 0, 0], 1)
    backend.copy(target, source)
    assert values(backend, target) == [1, 2, 3]


def test_memory_statistics_by_device(backend):
    held = backend.allocate(1000, 1)
    stats = [backend.memory_stats(index) for index in (0, 1)]
    assert [figures["allocated_bytes.all.current"] for figures in stats] == [0, 1000]
    assert stats[0]["device_bytes.total"] == 1 << 34
    assert [figures["reserved_bytes.all.current"] for figures in stats] == [0, 1000]
    del held
    assert backend.memory_stats(1)["allocated_bytes.all.current"] == 0
    backend.reset_peak_memory_stats(1)
    assert backend.memory_stats(1)["allocated_bytes.all.peak"] == 0


def test_out_of_memory():
    backend = CudaBackend(FakeCupy(limit=1 << 20))
    with pytest.raises(OutOfMemoryError, match=r"cuda:0: cannot allocate 2.00 MiB \(2097152 bytes\); 0 bytes .* 8.00 GiB of the GPU's 16.00 GiB are free"):
        backend.allocate(1 << 21, 0)


def test_synchronize(backend):
    backend.synchronize()
    backend.synchronize(1)
    assert backend.xp.synchronized == [0, 1]


def test_no_numpy_view_of_device_memory(backend):
    with pytest.raises(TypeError, match=r"on cuda:0; copy it with tensor.cpu\(\) first"):
        backend.numpy(tensor(backend, [1]))


# On a GPU -----------------------------------------------------------------------------------


@pytest.mark.skipif(not CudaBackend().is_available(), reason="no CUDA device")
def test_conformance():
    from metatensor.testing import check_device

    assert check_device("cuda").ok
