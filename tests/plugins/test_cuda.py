"""The cuda plugin without a GPU: what it reports as missing, and its logic with a stand-in for CuPy."""

import builtins
import re
import sys
import threading

import numpy as np
import pytest

import metatensor as mt
from devices.fake_cupy import PROPERTIES, FakeCupy
from metatensor import plugins
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor.devices import OutOfMemoryError
from metatensor.devices.array_kit import KernelTable

backend_module = pytest.importorskip("metatensor_cuda.backend")
driver_module = pytest.importorskip("metatensor_cuda.driver")
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


# Missing hardware and software --------------------------------------------------------------


@pytest.mark.parametrize("failure, driver, message", [
    ((35, "cudaErrorInsufficientDriver: too old"), 0, "no NVIDIA driver was found"),
    ((35, "cudaErrorInsufficientDriver: too old"), 11080, "driver supports CUDA 11.8, but CuPy was built for CUDA 12.9"),
    ((100, "cudaErrorNoDevice"), 12040, "finds no GPU"),
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
    (ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock"), "CuPy is installed, but its dependency fastrlock is missing"),
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
    """On any machine, querying the device raises no error."""
    backend = CudaBackend()
    assert backend.is_available() or backend.unavailable_reason()
    if not backend.is_available():
        with pytest.raises(RuntimeError, match="cuda: no device is available"):
            backend.allocate(16, 0)


# With the stand-in ------------------------------------------------------------------------


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
    text = r"cuda:0: cannot allocate 2.00 MiB \(2097152 bytes\); 0 bytes .* 8.00 GiB of the GPU's 16.00 GiB are free"
    with pytest.raises(OutOfMemoryError, match=text):
        backend.allocate(1 << 21, 0)


def test_synchronize(backend):
    backend.synchronize()
    backend.synchronize(1)
    assert backend.xp.synchronized == [0, 1]


def test_no_numpy_view_of_device_memory(backend):
    with pytest.raises(TypeError, match=r"on cuda:0; copy it with tensor.cpu\(\) first"):
        backend.numpy(tensor(backend, [1]))


# Missing drivers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version, command", [
    (12040, r'pip install "metatensor-cuda\[cuda12\]"$'), (13000, r"\[cuda13\]\"$"), (14010, r"\[cuda13\]\"$"),
    (11080, r"\[cuda12\]\" \(or \[cuda13\]"), (0, r"\[cuda12\]\" \(or \[cuda13\], depending on the CUDA version that nvidia-smi shows\)"),
])  # fmt: skip
def test_the_command_is_for_the_driver_that_is_there(monkeypatch, version, command):
    monkeypatch.setattr(driver_module, "driver_version", lambda: version)
    assert re.search(command, driver_module.install())


class Driver:
    """A stand-in for libcuda as loaded by ctypes."""

    def __init__(self, version, status=0):
        self.version, self.status = version, status

    def cuDriverGetVersion(self, place):
        place._obj.value = self.version
        return self.status


@pytest.mark.parametrize("libraries, version", [
    ({"libcuda.so.1": Driver(12080)}, 12080), ({"nvcuda.dll": Driver(13000)}, 13000), ({"libcuda.so.1": Driver(12080, 999)}, 0), ({}, 0),
])  # fmt: skip
def test_the_version_of_the_driver(monkeypatch, libraries, version):
    def load(name):
        if name not in libraries:
            raise OSError(name)
        return libraries[name]

    monkeypatch.setattr(driver_module.ctypes, "CDLL", load)
    assert driver_module.driver_version() == version


@pytest.mark.parametrize("version, message", [("12.3.0", "CuPy 12.3.0 is too old, 13.3 or later is needed: pip"), ("13.3.0rc1", "")])
def test_versions_of_cupy(monkeypatch, version, message):
    there = FakeCupy()
    there.__version__ = version
    monkeypatch.setitem(sys.modules, "cupy", there)
    backend = CudaBackend()
    assert backend.is_available() == (not message) and backend.unavailable_reason().startswith(message)
    if not message:
        assert (backend.xp, backend.device_count()) == (there, 2)


@pytest.mark.parametrize("cuda, capability, available", [
    (12090, (5, 0), True), (12090, (3, 5), False), (13000, (7, 0), False), (15000, (7, 0), True),
])  # fmt: skip
def test_a_gpu_without_code(cuda, capability, available):
    major, minor = capability
    backend = CudaBackend(FakeCupy(needed=cuda, properties={"major": major, "minor": minor}))
    assert backend.is_available() == available
    if not available:
        text = rf"cuda:0, Fake 0, has compute capability {major}.{minor}, but CuPy for CUDA {cuda // 1000} needs"
        with pytest.raises(RuntimeError, match=text):
            backend.allocate(4, 0)


def test_a_driver_that_says_nothing():
    xp = FakeCupy(failure=(35, "cudaErrorInsufficientDriver: too old"))

    def silent():
        raise xp.cuda.runtime.CUDARuntimeError(35, "nothing")

    xp.cuda.runtime.driverGetVersion = silent
    assert CudaBackend(xp).unavailable_reason() == "CUDA cannot be used: cudaErrorInsufficientDriver: too old"


# Through tensors -----------------------------------------------------------------------------------------


@pytest.fixture
def cuda():
    """The device with the stand-in, in place of the real one, with 64 MiB on each of two GPUs."""
    xp = FakeCupy(count=2, limit=64 << 20)
    made, before = CudaBackend(xp, xp.special), plugins.backend("cuda")
    plugins.register_backend(made, override=True)
    yield made
    plugins.register_backend(before, override=True)


def test_two_devices(cuda):
    x, y = mt.arange(6.0, device="cuda:0").view(2, 3).t(), mt.ones(3, 2, device="cuda:1")
    assert str((y * 2).device) == "cuda:1" and (y * 2).untyped_storage().data.device.id == 1
    for wrong in (lambda: x + y, lambda: mt.cat([x, y]), lambda: y.add_(x)):
        with pytest.raises(RuntimeError, match="cuda:[01].* and cuda:[01]|cuda:0"):
            wrong()
    for there in (x.to("cuda:1"), x.to("cuda:1", mt.bfloat16), y.clone().copy_(x)):
        assert str(there.device) == "cuda:1" and there.tolist() == x.tolist()
    z = mt.tensor([1 + 2j, 3j], device="cuda:0").conj().to("cuda:1")
    assert z.tolist() == [1 - 2j, -3j]
    assert mt.nn.Linear(2, 2, device="cuda:1").to("cuda:0").weight.device == mt.device("cuda:0")
    assert cuda.xp.current == 0


def test_the_current_device(cuda):
    assert str(mt.ones(2, device="cuda").device) == "cuda:0"
    cuda.set_current_index(1)
    x = mt.ones(2, device="cuda")
    assert str(x.device) == "cuda:1" and cuda.current_index() == 1
    seen = []
    thread = threading.Thread(target=lambda: seen.append(cuda.current_index()))
    thread.start(), thread.join()
    assert seen == [0]
    cuda.set_current_index(0)
    assert (x + 1).tolist() == [2, 2] and str(x.device) == "cuda:1"
    assert x.resize_(4).untyped_storage().data.device.id == 1
    assert x.data_ptr() == x.untyped_storage().data.data.ptr
    for wrong in (2, -1):
        with pytest.raises(RuntimeError, match=f"cuda:{wrong} does not exist: there are 2 devices"):
            cuda.set_current_index(wrong)


def test_out_of_memory_in_operations(cuda):
    x = mt.ones(5 << 20, device="cuda:1")  # 20 of 64 MiB
    text = r"cuda:1: cannot allocate 80.00 MiB \(83886080 bytes\); 20.00 MiB are in use by tensors, \d\d.\d\d MiB are held by CuPy's pool"
    with pytest.raises(OutOfMemoryError, match=text):
        mt.cat([x] * 4)
    y = mt.empty(5 << 20, dtype=mt.bfloat16, device="cuda:1")
    with pytest.raises(OutOfMemoryError, match="cuda:1: not enough memory to compute softmax; "):
        mt.softmax(y.view(2, -1), 1)
    del x, y
    assert cuda.memory_stats(1)["allocated_bytes.all.current"] == 0
    assert mt.ones(3, device="cuda:1").sum().item() == 3


def test_the_pool(cuda):
    x = mt.ones(1 << 20, device="cuda:1")
    del x
    stats = cuda.memory_stats(1)
    assert (stats["active_bytes.all.current"], stats["reserved_bytes.all.current"] >= 4 << 20) == (0, True)
    cuda.empty_cache()
    stats = cuda.memory_stats(1)
    assert stats["reserved_bytes.all.current"] == 0 and stats["reserved_bytes.all.peak"] >= 4 << 20
    assert cuda.memory_stats(0)["reserved_bytes.all.peak"] == 0 and "pinned freed" in cuda.xp.asked
    cuda.reset_peak_memory_stats(1)
    assert cuda.memory_stats(1)["reserved_bytes.all.peak"] == 0
    CudaBackend(FakeCupy(count=0)).empty_cache()


def test_page_locked_memory(cuda):
    x = mt.arange(5.0)
    with mt.no_grad():
        locked = x.requires_grad_().pin_memory("cuda")
    assert locked.is_pinned() and locked.tolist() == [0, 1, 2, 3, 4] and not locked.requires_grad
    assert (locked + 1).is_pinned() is False and locked[1:].is_pinned()
    assert mt.empty(0).pin_memory().is_pinned()
    with pytest.raises(RuntimeError, match="only memory of the cpu can be page-locked, but the tensor is on cuda:0"):
        mt.ones(2, device="cuda").pin_memory()
    with pytest.raises(RuntimeError, match="page-locks memory is available: cpu has no page-locked memory"):
        mt.ones(2).pin_memory("cpu")
    big = mt.arange(float(1 << 15), device="cuda")
    asked = []
    alloc = cuda.xp.cuda.alloc_pinned_memory
    cuda.xp.cuda.alloc_pinned_memory = lambda size: asked.append(size) or alloc(size)
    assert big.cpu().tolist() == big.tolist() and asked == [big.nbytes, big.nbytes]

    def full(size):
        raise cuda.xp.cuda.runtime.CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")

    cuda.xp.cuda.alloc_pinned_memory = full
    assert big.cpu().sum().item() == big.sum().item()
    with pytest.raises(RuntimeError, match=r"pin_memory.*cuda: the host cannot page-lock 20 bytes"):
        x.detach().pin_memory()


def test_queues(cuda):
    for index in (0, 1):
        stream, default = cuda.stream(index, -1), cuda.default_stream(index)
        assert (stream.index, stream.native.priority, stream.native.is_non_blocking, default.handle) == (index, -1, True, 0)
        assert cuda.current_stream(index).handle == 0
        stream.make_current()
        assert cuda.current_stream(index).handle == stream.handle and cuda.current_stream(1 - index).handle == 0
        cuda.default_stream(index).make_current()
        event = cuda.event(index)
        event.record(stream), default.wait_event(event), stream.synchronize(), event.synchronize()
        assert stream.query() and event.query()
        assert cuda.xp.asked[-4:] == [
            ("record", stream.handle), ("wait", 0), ("synchronize", stream.handle), ("event", event.native.ptr),
        ]  # fmt: skip
        cuda.xp.asked.clear()
    cpu = plugins.backend("cpu")
    host_event = cpu.event(0, True)
    host_event.record(cpu.current_stream(0))
    cuda.stream(0).wait_event(host_event)  # implemented by waiting
    with pytest.raises(TypeError, match="cannot measure the time from an event of cuda to an event of cpu"):
        cuda.event(0, True).elapsed_time(host_event)
    assert cpu.default_stream(0).query() and host_event.query() and host_event.elapsed_time(host_event) == 0
    assert cpu.stream(0).make_current() is None and cpu.stream(0).wait_event(host_event) is None
    with pytest.raises(RuntimeError, match="cuda:5 does not exist"):
        cuda.stream(5)


def test_streams_made_elsewhere(cuda):
    assert cuda.external_stream(4096, 1).handle == 4096
    older = cuda.xp.cuda.Stream.from_external
    del type(cuda.xp.cuda.Stream).from_external
    try:
        made = cuda.external_stream(8192, 1)
        assert (made.handle, made.index, made.native.device_id) == (8192, 1, 1)
    finally:
        type(cuda.xp.cuda.Stream).from_external = older.__func__


def test_interchange(cuda):
    theirs = cuda.xp.arange(4.0)
    ours = cuda.from_cuda_array(theirs)
    assert str(ours.device) == "cuda:0" and ours.data_ptr() == theirs.data.ptr
    assert cuda.kernel("_to_copy.move").__name__ == "cuda:_to_copy.move"
    x = mt.arange(3.0, device="cuda:1")
    back = mt.from_dlpack(x)
    assert back.data_ptr() == x.data_ptr() and str(back.device) == "cuda:1"
    x.__dlpack__(stream=7)
    assert ("dlpack", 7) in cuda.xp.asked
    cuda.table = KernelTable("test")

    @cuda.table.kernel("where")
    def here(kit, out):
        return kit.xp.current

    cuda.set_current_index(1)
    assert cuda.kernel("where")(None) == 1
    cuda.set_current_index(0)
    assert cuda.properties(1)["name"] == "Fake 1"
    cuda.xp.cuda.runtime.getDeviceProperties = lambda index: PROPERTIES | {"name": "text"}
    assert cuda.properties()["name"] == "text"
