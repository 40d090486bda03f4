"""Import and export of data: NumPy arrays, DLPack and copies between devices."""

import gc
import operator
import os
import warnings
import weakref

import numpy as np
import pytest

import metatensor as mt
from metatensor import plugins
from metatensor.devices import OutOfMemoryError

ml_dtypes = pytest.importorskip("ml_dtypes")
pytest.importorskip("metatensor_cpu")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "complex64", "complex128"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


# NumPy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES + SMALL)
def test_from_numpy_shares_memory(dtype):
    array = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, dtype, None) or dtype)
    tensor = mt.from_numpy(array)
    assert (str(tensor.device), tensor.dtype.name, tuple(tensor.shape), tensor.stride()) == ("cpu", dtype, (2, 3), (3, 1))
    assert tensor.data_ptr() == array.ctypes.data
    array[1, 2] = 0
    back = tensor.numpy()
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()
    back[0, 0] = 1
    assert array[0, 0] == 1


@pytest.mark.parametrize("array", [
    np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1), np.arange(24.0).reshape(4, 6)[1:, ::2], np.array(3.0),
    np.zeros((0, 3)), np.zeros((3, 0)).T, np.broadcast_to(np.arange(3.0), (4, 3)).copy()[:, :1], np.arange(10.0)[9:],
])
def test_from_numpy_keeps_strides(array):
    tensor = mt.from_numpy(array)
    assert tuple(tensor.shape) == array.shape
    assert tensor.numpy().tolist() == array.tolist()
    if array.size:
        used = [i for i, extent in enumerate(array.shape) if extent != 1]
        assert [tensor.stride()[i] for i in used] == [array.strides[i] // 8 for i in used]
        array[...] = -1
        assert (tensor.numpy() == -1).all()


@pytest.mark.parametrize("array, error, message", [
    ([1, 2], TypeError, "expected a numpy.ndarray, got list"),
    (np.array(["a"]), TypeError, "no dtype of metatensor corresponds to arrays of <U1"),
    (np.array([None]), TypeError, "arrays of object"),
    (np.array(["2020-01-01"], "M8[D]"), TypeError, "datetime64"),
    (np.zeros(3, ">f4"), TypeError, ">f4"),
    (np.arange(3)[::-1], ValueError, "negative strides"),
    (np.zeros(3, [("a", "i1"), ("b", "f4")])["b"], ValueError, "not multiples of the item size"),
])
def test_from_numpy_errors(array, error, message):
    with pytest.raises(error, match=message):
        mt.from_numpy(array)


def test_memory_of_arrays_is_not_resized():
    for n in (0, 3):
        array = np.zeros(n, np.float32)
        for make in (mt.from_numpy, mt.from_dlpack, mt.as_tensor):
            with pytest.raises(RuntimeError, match="cannot be resized"):
                make(array).resize_(5)
        with pytest.raises(RuntimeError, match="cannot be resized"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mt.add(mt.ones(5, device="cpu"), 1, out=mt.from_numpy(array))
    t = mt.from_numpy(np.arange(3.0))
    assert t[:2].resize_(3).tolist() == [0, 1, 2]  # the storage is large enough
    for own in (t.clone(), mt.tensor(np.ones(2), device="cpu"), mt.nonzero(t), mt.nonzero(t * 0), t[t > 1], mt.from_dlpack(t, copy=True)):
        assert own.resize_(9).shape == (9,)


def test_memory_that_forked_processes_share():
    t = mt.arange(3.0, device="cpu")
    part = t[1:]
    assert not t.is_shared() and t.share_memory_() is t and t.is_shared() and part.is_shared()
    if (child := os.fork()) == 0:
        part.fill_(7)
        os._exit(0)
    os.waitpid(child, 0)
    assert t.tolist() == [0, 7, 7]
    with pytest.raises(RuntimeError, match="cannot be resized"):
        t.resize_(9)
    layer = mt.nn.Linear(2, 2, device="cpu")
    assert layer.share_memory() is layer and layer.weight.is_shared()
    for refused in (lambda: mt.ones(2, device="meta").share_memory_(), lambda: t.pin_memory()):
        with pytest.raises(RuntimeError):
            refused()


def test_a_tensor_keeps_its_array_alive_and_the_other_way_round():
    array = np.arange(1000.0)
    gone = weakref.ref(array)
    tensor = mt.from_numpy(array)
    del array
    gc.collect()
    assert tensor.numpy()[999] == 999
    view = tensor.numpy()
    del tensor
    gc.collect()
    assert view.sum() == 499500
    del view
    gc.collect()
    assert gone() is None


def test_read_only_arrays_stay_so():
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="read-only"):
        tensor = mt.from_numpy(array)
    assert tensor.numpy().tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        tensor.copy_(mt.from_numpy(np.ones(3)))
    assert array.tolist() == [0, 1, 2]


def test_numpy_errors():
    with pytest.raises(TypeError, match=r"cannot view a tensor of shape \[3\] on meta .* it holds no data"):
        mt.empty(3, device="meta").numpy()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        mt.empty(3, device="meta").numpy(force=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        mt.from_numpy(np.ones(2)).requires_grad_().numpy()
    with pytest.raises(RuntimeError, match="conj"):
        mt.from_numpy(np.ones(2, complex)).conj().numpy()


def test_array_protocol():
    tensor = mt.from_numpy(np.arange(3.0))
    assert np.asarray(tensor).ctypes.data == tensor.data_ptr()
    assert np.asarray(tensor, np.int32).tolist() == [0, 1, 2]
    assert np.array(tensor, copy=True).ctypes.data != tensor.data_ptr()
    with pytest.raises(ValueError, match="needs a copy"):
        tensor.__array__(np.int32, copy=False)
    with pytest.raises(ValueError, match="avoid copy"):
        np.asarray(tensor, np.int32, copy=False)
    assert (np.ones(3) + np.asarray(tensor)).tolist() == [1, 2, 3]


# DLPack -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_to_and_from_numpy(dtype):
    tensor = mt.from_numpy(np.arange(6).reshape(2, 3).astype(dtype)).t()
    assert tensor.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(tensor)
    assert array.ctypes.data == tensor.data_ptr() and array.strides == tuple(step * tensor.itemsize for step in tensor.stride())
    again = mt.from_dlpack(array)
    assert (again.dtype, again.shape, again.stride(), again.data_ptr()) == (tensor.dtype, tensor.shape, tensor.stride(), tensor.data_ptr())
    copied = mt.from_dlpack(array, copy=True)
    assert copied.data_ptr() != tensor.data_ptr() and copied.numpy().tolist() == array.tolist()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [*DTYPES, *SMALL, "complex32"])
def test_dlpack_to_and_from_pytorch(dtype):
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    ours = mt.from_dlpack(theirs)
    assert (ours.dtype.name, tuple(ours.shape), ours.stride()) == (dtype, (2, 3), (3, 1))
    assert ours.data_ptr() == theirs.data_ptr()
    back = torch.from_dlpack(ours)
    assert back.dtype is theirs.dtype and back.data_ptr() == theirs.data_ptr() and back.stride() == theirs.stride()
    if dtype not in SMALL and dtype != "complex32":
        back[0, 0] = 1
        assert ours.numpy()[0, 0] == 1


def test_dlpack_errors():
    with pytest.raises(TypeError, match="__dlpack__"):
        mt.from_dlpack([1, 2])
    with pytest.raises(BufferError, match="requires grad"):
        mt.from_numpy(np.ones(2)).requires_grad_().__dlpack__()
    with pytest.raises(BufferError, match="conj"):
        mt.from_numpy(np.ones(2, complex)).conj().__dlpack__()
    with pytest.raises(BufferError, match="DLPack has no type for qint8"):
        mt.empty(2, dtype=mt.qint8, device="cpu").__dlpack__()
    with pytest.raises((BufferError, NotImplementedError, ValueError)):
        mt.empty(2, device="meta").__dlpack__()


def test_a_capsule_is_used_once():
    tensor = mt.from_numpy(np.arange(3, dtype=np.float32)).to(mt.bfloat16)
    capsule = tensor.__dlpack__()

    class Producer:
        __dlpack_device__ = staticmethod(lambda: (1, 0))
        __dlpack__ = staticmethod(lambda **options: capsule)

    assert mt.from_dlpack(Producer()).dtype is mt.bfloat16
    with pytest.raises(BufferError, match="not used yet"):
        mt.from_dlpack(Producer())


def test_memory_lives_as_long_as_the_consumer():
    stats = plugins.backend("cpu").memory_stats
    gc.collect()  # what earlier tests left
    before = stats()["allocated_bytes.all.current"]
    tensor = mt.empty(1 << 16, dtype=mt.uint8, device="cpu")
    array = np.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert stats()["allocated_bytes.all.current"] == before + (1 << 16)
    del array
    gc.collect()
    assert stats()["allocated_bytes.all.current"] == before


# Between devices --------------------------------------------------------------------------


def test_there_and_back(device):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tensor = mt.from_numpy(array).permute(2, 0, 1)
    there = tensor.to(device)
    assert there.device.type == device and there.shape == tensor.shape
    assert there.cpu().numpy().tolist() == array.transpose(2, 0, 1).tolist()
    assert there.to("cpu", dtype=mt.int64).numpy().tolist() == array.transpose(2, 0, 1).astype(int).tolist()


def test_views_across_a_copy(device):
    there = mt.from_numpy(np.arange(12.0).reshape(3, 4)).to(device)
    row = there[1]
    row.copy_(mt.from_numpy(np.zeros(4)))
    assert there.cpu().numpy().tolist() == [[0, 1, 2, 3], [0, 0, 0, 0], [8, 9, 10, 11]]
    assert there.t().cpu().numpy().shape == (4, 3)


def test_items_and_lists(device):
    there = mt.from_numpy(np.arange(4.0).reshape(2, 2)).to(device)
    assert there.tolist() == [[0, 1], [2, 3]]
    assert there[1, 1].item() == 3.0 and float(there[0, 1]) == 1.0
    assert there.to(mt.bfloat16)[1, 0].item() == 2.0


def test_a_number_from_the_cpu_mixes_in(device):
    there = mt.from_numpy(np.arange(3.0)).to(device)
    total = there + mt.from_numpy(np.array(10.0))
    assert total.device.type == device and total.tolist() == [10, 11, 12]
    if device != "cpu":
        with pytest.raises(RuntimeError, match="device"):
            there + mt.from_numpy(np.ones(3))


def test_meta_gives_no_data(device):
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        mt.ones(5, device="meta").to(device)
    made = mt.empty_like(mt.ones(5, device="meta"), device=device)
    assert made.device.type == device and made.shape == (5,)
    assert made.to("meta").is_meta


def test_too_much_memory(device):
    with pytest.raises(OutOfMemoryError, match=f"{device}: cannot allocate 1.00 PiB"):
        mt.empty(1 << 50, dtype=mt.uint8, device=device)


def test_unknown_devices():
    with pytest.raises(RuntimeError, match=r"unknown device type 'warp': the known types are .*meta"):
        mt.empty(3, device="warp")
    with pytest.raises(RuntimeError, match="cpu:1 does not exist"):
        mt.empty(3, device="cpu:1")
    with pytest.raises(RuntimeError, match=r"bfloat16 is a dtype: metatensor\.bfloat16"):
        mt.ones(2, device="meta").to("bfloat16")


OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul, operator.lt,
             operator.eq, operator.ne]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATORS)
def test_arrays_are_operands(operation):
    array, tensor = np.array([1.0, 2.0, 3.0]), mt.tensor([3.0, 2.0, 1.0])
    if operation is operator.matmul:
        tensor = tensor.double()
    for result, want in (
        (operation(array, tensor), operation(array, tensor.numpy())),
        (operation(tensor, array), operation(tensor.numpy(), array)),
    ):
        assert isinstance(result, mt.Tensor) and result.tolist() == want.tolist()
        assert result.dtype is (mt.bool if want.dtype == bool else mt.float64)
    for place in (lambda: operation(array, tensor.to("meta")), lambda: operation(tensor.to("meta"), array)):
        if operation not in (operator.eq, operator.ne):
            with pytest.raises(TypeError):
                place()


def test_scalars_of_arrays_are_numbers():
    tensor = mt.tensor([3, 2])
    for scalar in (np.float32(2), np.float64(2)):
        assert (scalar * tensor).dtype is mt.float32 and (tensor - scalar).tolist() == [1.0, 0.0]
    assert (np.int8(2) ** tensor).tolist() == [8, 4] and (np.int8(2) + tensor).dtype is mt.int64
    assert (np.complex64(1j) * tensor).dtype is mt.complex64
    assert (np.float32(2) * tensor.to("meta")).dtype is mt.float32
    assert (tensor == np.int64(3)).tolist() == [True, False]
    with pytest.raises(TypeError, match="@"):
        tensor @ np.float32(2)
    tensor *= np.int32(2)
    assert tensor.tolist() == [6, 4]


def test_functions_of_numpy_give_tensors():
    tensor = mt.tensor([1.0, 4.0])
    assert isinstance(np.sqrt(tensor), mt.Tensor) and np.sqrt(tensor).tolist() == [1.0, 2.0]
    assert np.add(np.ones(2), tensor).dtype is mt.float64
    with pytest.raises(TypeError, match=r"numpy\(\): cannot view a tensor of shape \[2\] on meta as a NumPy array"):
        tensor.to("meta").numpy()
