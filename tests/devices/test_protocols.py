"""Memory shared with other libraries: DLPack, __array_interface__, __cuda_array_interface__ and buffers."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import metatensor as mt
from devices.fake_cupy import FakeCupy
from metatensor import plugins
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor.devices import DeviceBackend
from metatensor.devices.dlpack import DLDeviceType, tensor_in

pytest.importorskip("ml_dtypes")
pytest.importorskip("metatensor_cpu")
CudaBackend = pytest.importorskip("metatensor_cuda.backend").CudaBackend

FLAGS = {"read-only": 1, "copied": 2}


class Producer:
    """An object that supports only DLPack, and records the arguments."""

    def __init__(self, array, device=(1, 0), old=False):
        self.array, self.device, self.old, self.asked = array, device, old, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.asked.append(options)
        if self.old and set(options) - {"stream"}:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**options)


def flags_of(capsule):
    """Return the flags of a versioned capsule."""
    import ctypes

    tensor = tensor_in(capsule)
    return ctypes.c_uint64.from_address(ctypes.addressof(tensor) - 8).value


def name_of(capsule):
    return repr(capsule).split('"')[1]


@pytest.fixture
def cuda(monkeypatch):
    """The cuda device with the stand-in for CuPy, in place of the real one."""
    backend = CudaBackend(FakeCupy(count=2))
    before = plugins.backend("cuda")
    plugins.register_backend(backend, override=True)
    yield backend
    plugins.register_backend(before, override=True)


# DLPack export --------------------------------------------------------------------------------


@pytest.mark.parametrize("max_version, name", [
    (None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"), ((9, 9), "dltensor_versioned"),
])  # fmt: skip
def test_versions_of_capsules(max_version, name):
    for dtype in (mt.float32, mt.bfloat16):
        capsule = mt.ones(2, 3, dtype=dtype, device="cpu").__dlpack__(max_version=max_version)
        assert name_of(capsule) == name
        tensor = tensor_in(capsule)
        assert (tensor.ndim, tensor.shape[0], tensor.shape[1], tensor.device_type, tensor.device_id) == (2, 2, 3, 1, 0)
        assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == ((2, 32, 1) if dtype is mt.float32 else (4, 16, 1))


def test_a_consumer_that_copies():
    t = mt.arange(4.0, device="cpu")
    capsule = t.__dlpack__(copy=True, max_version=(1, 0))
    assert flags_of(capsule) & FLAGS["copied"] and tensor_in(capsule).data != t.data_ptr()
    for copy in (None, False):
        capsule = t.__dlpack__(copy=copy, max_version=(1, 0))
        assert not flags_of(capsule) and tensor_in(capsule).data == t.data_ptr()
    copied = np.from_dlpack(t, copy=True)
    copied[0] = 9
    assert t[0] == 0 and np.from_dlpack(t, copy=False).ctypes.data == t.data_ptr()
    assert tensor_in(t.__dlpack__(copy=True)).data != t.data_ptr()  # an old capsule has no flags


def test_read_only_memory_says_so():
    array = np.arange(3.0)
    array.flags.writeable = False
    t = mt.from_numpy(array)
    capsule = t.__dlpack__(max_version=(1, 0))
    assert flags_of(capsule) & FLAGS["read-only"]
    assert not np.from_dlpack(t).flags.writeable
    with pytest.raises(BufferError):
        t.__dlpack__()  # a tensor that an old capsule cannot express is not exported
    for again in (mt.from_dlpack(t), mt.from_dlpack(Producer(array)), mt.asarray(array)):
        with pytest.raises(ValueError, match="read-only"):
            again.fill_(1)
    assert mt.from_dlpack(t, copy=True).fill_(1).tolist() == [1, 1, 1]
    assert array.tolist() == [0, 1, 2]
    small = mt.from_numpy(array).view(mt.uint8)
    assert not memoryview(t).readonly == t.numpy().flags.writeable and memoryview(small).readonly


def test_streams_and_devices():
    t = mt.ones(2, device="cpu")
    for stream in (None, -1):
        assert tensor_in(t.__dlpack__(stream=stream)).ndim == 1
    with pytest.raises(BufferError, match="cpu has no streams"):
        t.__dlpack__(stream=3)
    assert tensor_in(t.__dlpack__(dl_device=(1, 0))).data == t.data_ptr()
    assert tensor_in(t.__dlpack__(dl_device=(DLDeviceType.kDLCPU, 0))).data == t.data_ptr()
    with pytest.raises(BufferError, match=r"cannot be exported to the DLPack device \(2, 0\)"):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        t.__dlpack__(None)


def test_what_is_not_exported():
    complex_one = mt.ones(2, dtype=mt.complex64, device="cpu")
    for tensor, message in [
        (mt.ones(2, device="cpu", requires_grad=True), "requires grad"), (complex_one.conj(), "conjugated"),
        (complex_one.conj().imag, "negated"), (mt.empty(2, device="meta"), "holds no data"),
    ]:  # fmt: skip
        with pytest.raises(BufferError, match=message):
            tensor.__dlpack__()
        with pytest.raises(BufferError):
            memoryview(tensor)
        assert not hasattr(tensor, "__array_interface__") and not hasattr(tensor, "__cuda_array_interface__")
    with pytest.raises(ValueError, match="cannot be exported"):
        mt.empty(2, device="meta").__dlpack_device__()
    assert np.from_dlpack(complex_one.conj().resolve_conj()).tolist() == [1, 1]


LAYOUTS = [
    lambda t: t, lambda t: t.t(), lambda t: t[1:, ::2], lambda t: t[:, 1], lambda t: t[1, 1], lambda t: t[:0], lambda t: t[:, :0],
    lambda t: t[:1].expand(3, 4), lambda t: t.unsqueeze(1), lambda t: t.reshape(2, 2, 3).permute(2, 0, 1),
]


@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex64", "complex128"])
def test_layouts_go_out_and_come_back(layout, dtype):
    base = mt.from_numpy(np.arange(12).reshape(3, 4).astype(dtype))
    t = LAYOUTS[layout](base)
    for array in (np.from_dlpack(t), np.asarray(t), np.asarray(memoryview(t)) if t.numel() else t.numpy()):
        assert array.dtype == t.numpy().dtype and array.shape == tuple(t.shape) and array.tolist() == t.tolist()
        if t.numel():
            assert array.ctypes.data == t.data_ptr()
            used = [i for i in range(t.ndim) if t.shape[i] > 1]
            assert [array.strides[i] for i in used] == [t.stride(i) * t.itemsize for i in used]
    for again in (mt.from_dlpack(t), mt.asarray(np.from_dlpack(t)), mt.from_dlpack(t.__dlpack__())):
        assert (again.dtype, again.shape) == (t.dtype, t.shape) and again.tolist() == t.tolist()
        assert not t.numel() or again.data_ptr() == t.data_ptr()


# DLPack import --------------------------------------------------------------------------------


def test_capsules_and_producers():
    a = np.arange(3.0)
    for source in (a, Producer(a), Producer(a, old=True), a.__dlpack__(), a.__dlpack__(max_version=(1, 0))):
        t = mt.from_dlpack(source)
        assert t.data_ptr() == a.ctypes.data and t.dtype is mt.float64
    used = a.__dlpack__()
    mt.from_dlpack(used)
    with pytest.raises(BufferError, match="not used yet"):
        mt.from_dlpack(used)
    for wrong in ([1, 2], 3, None):
        with pytest.raises(TypeError, match="__dlpack__, or a capsule"):
            mt.from_dlpack(wrong)


def test_copies_and_devices_on_the_way_in():
    a = np.arange(3.0)
    for how in ({}, {"copy": None}, {"copy": False}, {"device": "cpu"}, {"device": "cpu", "copy": False}):
        assert mt.from_dlpack(a, **how).data_ptr() == a.ctypes.data
    for how in ({"copy": True}, {"copy": True, "device": "cpu"}):
        t = mt.from_dlpack(a, **how)
        assert t.data_ptr() != a.ctypes.data and t.tolist() == [0, 1, 2]
        assert t.resize_(4).shape == (4,)  # in new memory
    for copy in (None, True):
        assert mt.from_dlpack(a, device="disk", copy=copy).device.type == "disk"
    with pytest.raises(ValueError, match="memory of cpu:0 cannot be used on disk without a copy"):
        mt.from_dlpack(a, device="disk", copy=False)
    producer = Producer(a)
    mt.from_dlpack(producer, copy=False)
    assert producer.asked[0]["copy"] is False
    mt.from_dlpack(Producer(a, old=True), copy=False)


@pytest.mark.parametrize("kind", [7, 12, 99])
def test_memory_that_no_device_takes(kind):
    with pytest.raises(RuntimeError, match=f"no device is known for the DLPack device type {kind}"):
        mt.from_dlpack(Producer(np.ones(2), device=(kind, 0)))


def test_memory_of_a_device_that_is_not_there():
    backend = plugins.backend("cuda")
    if backend.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="cuda is not available"):
        mt.from_dlpack(Producer(np.ones(2), device=(2, 0)))


def test_what_arrays_cannot_be_tensors():
    for array in (np.arange(3)[::-1], np.zeros(3, "M8[s]"), np.zeros(2, "g")):
        with pytest.raises((BufferError, TypeError, ValueError)):
            mt.from_dlpack(array)


def test_pinned_memory_is_the_hosts():
    a = np.ones(2)
    assert mt.from_dlpack(Producer(a, device=(DLDeviceType.kDLCUDAHost, 0))).device.type == "cpu"


def test_every_place_of_memory_is_taken_by_one_device():
    taken = [kind for type in plugins.device_types() for kind in plugins.backend(type).dlpack_types]
    assert len(taken) == len(set(taken)) and {1, 2, 3, 13} <= set(taken)
    assert DeviceBackend.dlpack_types == ()
    assert DLDeviceType is __import__("metatensor.utils.dlpack", fromlist=["x"]).DLDeviceType


@pytest.mark.slow
def test_taking_memory_of_the_host_loads_no_other_device():
    code = """
import sys, numpy as np, metatensor as mt
mt.from_dlpack(np.ones(3)); mt.asarray(np.ones(3))
print(*[m for m in ("metatensor_cuda", "metatensor_disk", "cupy", "torch", "jax") if m in sys.modules])"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


# Lifetimes ------------------------------------------------------------------------------------


def in_use():
    gc.collect()
    return plugins.backend("cpu").memory_stats()["allocated_bytes.all.current"]


@pytest.mark.slow
@pytest.mark.parametrize("view", [np.from_dlpack, np.asarray, memoryview, lambda t: np.frombuffer(t, np.uint8), lambda t: mt.from_dlpack(t),
                                  lambda t: t.__dlpack__(), lambda t: t.__dlpack__(max_version=(1, 0))])  # fmt: skip
def test_the_consumer_keeps_the_memory(view):
    before = in_use()
    t = mt.full((1 << 16,), 7, dtype=mt.uint8, device="cpu")
    seen = view(t)
    del t
    assert in_use() == before + (1 << 16)
    if not isinstance(seen, (mt.Tensor, np.ndarray, memoryview)):
        seen = np.from_dlpack(mt.from_dlpack(seen))  # capsules, through a tensor
    assert int(seen[1 << 15]) == 7
    del seen
    assert in_use() == before


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    mt.from_dlpack, mt.asarray, mt.as_tensor, lambda a: mt.from_dlpack(a.__dlpack__()), lambda a: mt.asarray(Producer(a)),
])  # fmt: skip
def test_the_tensor_keeps_the_producer(make):
    a = np.arange(1000.0)
    gone = weakref.ref(a)
    t = make(a)
    part = t[500:]
    del a, t
    gc.collect()
    assert part[499].item() == 999 and gone() is not None
    del part
    gc.collect()
    assert gone() is None


def test_a_capsule_that_nobody_takes():
    before = in_use()
    capsules = [mt.zeros(1 << 12, dtype=mt.uint8, device="cpu").__dlpack__(max_version=v) for v in (None, (1, 0))]
    assert in_use() == before + (1 << 13)
    capsules.clear()
    assert in_use() == before


# Arrays of other libraries that are not imported ---------------------------------------------------


@pytest.mark.torch
def test_arrays_of_pytorch():
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6.0).reshape(2, 3)
    for make in (mt.asarray, mt.as_tensor, mt.from_dlpack):
        for source in (theirs, theirs.t(), theirs[1, 1], theirs[:0]):
            t = make(source)
            assert tuple(t.shape) == tuple(source.shape) and t.tolist() == source.tolist()
            assert not source.numel() or t.data_ptr() == source.data_ptr()
    assert mt.tensor(theirs).data_ptr() != theirs.data_ptr() and mt.asarray(theirs, copy=True).data_ptr() != theirs.data_ptr()
    assert mt.asarray(theirs.bfloat16()).dtype is mt.bfloat16 and mt.tensor(theirs.to(torch.float8_e5m2)).dtype is mt.float8_e5m2
    assert mt.asarray(theirs, dtype=mt.int32).dtype is mt.int32 and mt.asarray(theirs, device="meta").is_meta
    for refused in (theirs.clone().requires_grad_(), theirs.to(torch.complex64).conj()):
        with pytest.raises((BufferError, RuntimeError)):
            mt.asarray(refused)
    back = torch.from_dlpack(mt.asarray(theirs))
    assert back.data_ptr() == theirs.data_ptr() and torch.as_tensor(np.asarray(mt.asarray(theirs))).data_ptr() == theirs.data_ptr()
    assert torch.from_dlpack(mt.ones(2, dtype=mt.bool)).dtype is torch.bool


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    theirs = jax.numpy.arange(6.0).reshape(2, 3)
    t = mt.asarray(theirs)
    assert t.tolist() == theirs.tolist() and t.dtype is mt.float32
    with pytest.raises(ValueError, match="read-only"):
        t.zero_()  # arrays of JAX are immutable
    assert mt.asarray(theirs, copy=True).zero_().sum() == 0 and mt.tensor(theirs).fill_(1).sum() == 6
    assert mt.asarray(theirs.astype("bfloat16")).dtype is mt.bfloat16
    assert jax.numpy.from_dlpack(mt.ones(2, 3)).sum() == 6 and jax.numpy.asarray(mt.ones(2, 3)).shape == (2, 3)


def test_an_object_with_dlpack_alone():
    a = np.arange(6.0).reshape(2, 3)
    for make in (mt.asarray, mt.as_tensor):
        assert make(Producer(a)).data_ptr() == a.ctypes.data
    assert mt.tensor(Producer(a)).data_ptr() != a.ctypes.data and mt.tensor(Producer(a)).tolist() == a.tolist()
    with mt.device("meta"):
        assert mt.asarray(Producer(a)).is_meta and mt.tensor(Producer(a)).shape == (2, 3)


def test_an_object_with_an_interface_alone():
    a = np.arange(6, dtype=np.int16).reshape(2, 3)
    described = type("Described", (), {"__array_interface__": a.__array_interface__, "keep": a})()
    for make in (mt.asarray, mt.as_tensor):
        t = make(described)
        assert t.data_ptr() == a.ctypes.data and t.dtype is mt.int16
    assert mt.tensor(described).tolist() == a.tolist()
    given = type("Given", (), {"__array__": lambda self, dtype=None, copy=None: a})()
    assert mt.tensor(given).tolist() == a.tolist()


def test_no_copy_is_made_where_none_is_wanted():
    a = np.arange(3.0)
    t = mt.ones(2)
    for source in (a, np.array(3.0), t, Producer(a), memoryview(a).cast("B")):
        assert mt.asarray(source, copy=False, dtype=mt.uint8 if isinstance(source, memoryview) else None).untyped_storage().data is not None
    for source, how in ((a, {"dtype": mt.float32}), (a[::-1], {}), (a.astype(">f8"), {}), (3.0, {}), ([1.0], {}),
                        (t, {"dtype": mt.int8}), (a, {"device": "meta"})):
        with pytest.raises(ValueError, match="copy=False"):
            mt.asarray(source, copy=False, **how)
    with pytest.raises(RuntimeError, match="copy=False"):
        mt.asarray(np.float64(3), copy=False)


def test_buffers_become_tensors_of_the_dtype_that_is_named():
    buffer = bytearray(np.arange(3, dtype=np.float32).tobytes())
    t = mt.asarray(buffer)
    assert t.dtype is mt.float32 and t.tolist() == [0, 1, 2]
    assert mt.asarray(buffer, dtype=mt.int16).shape == (6,)
    t[0] = 5
    assert np.frombuffer(buffer, np.float32)[0] == 5
    assert mt.asarray(b"ab", dtype=mt.uint8).tolist() == [97, 98]


# Interfaces and buffers -----------------------------------------------------------------------------


def test_array_interface():
    t = mt.arange(6.0, device="cpu").reshape(2, 3).t()
    known = t.__array_interface__
    assert known["shape"] == (3, 2) and known["strides"] == (4, 12) and known["data"] == (t.data_ptr(), False) and known["typestr"] == "<f4"
    for without in (t.to("meta"), t.to(mt.bfloat16), t.to(mt.float8_e5m2), mt.empty(2, dtype=mt.qint8, device="cpu")):
        assert not hasattr(without, "__array_interface__")
        with pytest.raises(BufferError):
            memoryview(without)
    assert np.asarray(t.to(mt.bfloat16)).dtype.name == "bfloat16"  # through __array__
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(t.clone().requires_grad_())
    with pytest.raises(TypeError, match="it holds no data"):
        np.asarray(t.to("meta"))
    on_disk = t.to("disk")
    assert np.asarray(on_disk).ctypes.data == on_disk.data_ptr()


def test_buffers():
    t = mt.arange(6, dtype=mt.int32, device="cpu").reshape(2, 3)
    view = memoryview(t)
    assert (view.format, view.shape, view.strides, view.readonly) == ("i", (2, 3), (12, 4), False)
    view[1, 2] = 50
    assert t[1, 2] == 50 and view.tobytes() == t.numpy().tobytes()
    assert memoryview(t.t()).strides == (4, 12) and memoryview(t[0, 0]).ndim == 0 and memoryview(t > 3).format == "?"
    assert memoryview(mt.nn.Parameter(t.float(), requires_grad=False)).format == "f"
    assert np.frombuffer(t, np.int32).tolist() == [0, 1, 2, 3, 4, 50]
    with pytest.raises(BufferError, match="on meta has no buffer"):
        memoryview(t.to("meta"))


def test_bytes_are_those_of_pytorch():
    assert bytes(mt.tensor([1, 2, 255])) == b"\x01\x02\xff" and bytes(mt.tensor([3])) == bytes(3)
    for wrong in ([256, 1], [[1, 2]], [1.5, 2], [1.5]):
        with pytest.raises(ValueError if wrong == [256, 1] else TypeError):
            bytes(mt.tensor(wrong))
    with pytest.raises(TypeError, match="one element"):
        mt.tensor([1, 2]).__index__()


def test_a_class_with_an_array_of_its_own_has_it_called():
    class Doubled(mt.Tensor):
        def __array__(self, dtype=None, copy=None):
            return 2 * self.as_subclass(mt.Tensor).numpy()

    t = mt.ones(2).as_subclass(Doubled)
    assert np.asarray(t).tolist() == [2, 2] and not hasattr(t, "__array_interface__")


# The cuda device with the stand-in ------------------------------------------------------------------


def on_cuda(backend, array, index=0):
    array = np.ascontiguousarray(array)
    storage = make_storage(f"cuda:{index}", array.nbytes, backend.allocate(array.nbytes, index))
    made = tensor_from_storage(storage, getattr(mt, array.dtype.name), array.shape, [s // array.itemsize for s in array.strides], 0)
    backend.from_host(made, array.tobytes())
    return made


def test_cuda_array_interface(cuda):
    t = on_cuda(cuda, np.arange(6, dtype=np.float32).reshape(2, 3), 1)
    known = t.__cuda_array_interface__
    assert known["typestr"] == "<f4" and known["shape"] == (2, 3) and known["data"] == (t.data_ptr(), False) and known["strides"] is None
    assert known["version"] == 3 and known["stream"] == 1
    assert t.t().__cuda_array_interface__["strides"] == (4, 12)
    assert t.to(mt.bfloat16).__cuda_array_interface__["typestr"] == "<V2"
    assert not hasattr(t, "__array_interface__")
    with pytest.raises(BufferError):
        memoryview(t)
    with pytest.raises(RuntimeError, match="requires grad"):
        t.clone().requires_grad_().__cuda_array_interface__
    for without in (mt.ones(2, device="cpu"), mt.ones(2, device="meta"), mt.ones(2, device="cpu", requires_grad=True)):
        with pytest.raises(AttributeError):
            without.__cuda_array_interface__


def test_arrays_of_cupy(cuda):
    theirs = cuda.xp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    t = mt.from_dlpack(theirs)
    assert str(t.device) == "cuda:0" and t.data_ptr() == theirs.data.ptr and t.tolist() == theirs.get().tolist()
    described = type("Described", (), {"__cuda_array_interface__": theirs.__cuda_array_interface__})()
    cuda.xp.asarray = lambda value, dtype=None: theirs if value is described else np.asarray(value)
    for make in (mt.asarray, mt.as_tensor, mt.tensor):
        t = make(described)
        assert t.device.type == "cuda" and (t.data_ptr() == theirs.data.ptr) == (make is not mt.tensor)


def test_dlpack_of_cuda(cuda):
    t = on_cuda(cuda, np.arange(3, dtype=np.float32), 1)
    assert t.__dlpack_device__() == (2, 1)
    host = t.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    assert tensor_in(host).device_type == 1 and flags_of(host) & FLAGS["copied"] and tensor_in(host).data != t.data_ptr()
    assert np.from_dlpack(mt.from_dlpack(host)).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="without a copy"):
        t.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="cannot be exported"):
        t.__dlpack__(dl_device=(2, 0))
