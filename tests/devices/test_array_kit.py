"""The array kit below the dispatcher: views, copies between dtypes, arguments and results of kernels."""

import gc
import itertools
import threading

import numpy as np
import pytest

from devices.fake_cupy import FakeCupy
from metatensor import library, plugins
from metatensor._core.dtype import dtype_by_name, names
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor.devices import OutOfMemoryError
from metatensor.devices.array_kit import ArrayBackend, KernelTable
from metatensor.devices.array_kit.formats import formats

ml_dtypes = pytest.importorskip("ml_dtypes")
TABLE = KernelTable("test")
DTYPES = sorted({dtype.name for dtype in names().values()})
PLAIN = sorted(name for name, fmt in formats().items() if not fmt.opaque)


def make_backend(kind):
    if kind == "numpy":
        return ArrayBackend("cpu", np, table=TABLE)
    if kind == "ml_dtypes":
        own = {name: getattr(ml_dtypes, name) for name in DTYPES if name.startswith(("bfloat16", "float8"))}
        return ArrayBackend("cpu", np, dtypes=own, table=TABLE)
    return ArrayBackend("cuda", FakeCupy(), table=TABLE)


@pytest.fixture(params=["numpy", "ml_dtypes", "cupy"])
def kit(request):
    return make_backend(request.param)


def empty(kit, shape, dtype="float32", strides=None, offset=0):
    """Return a tensor with its own memory on the kit's device. Strides are in elements."""
    dtype = dtype_by_name(dtype)
    if strides is None:
        strides = [int(np.prod(shape[i + 1:])) for i in range(len(shape))]
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    nbytes = (offset + last + 1) * dtype.itemsize if 0 not in shape else 0
    storage = make_storage(kit.type, nbytes, kit.allocate(nbytes, 0))
    return tensor_from_storage(storage, dtype, shape, strides, offset)


def filled(kit, values, dtype=None, **layout):
    """Return a tensor with the values of a NumPy array of a computing dtype."""
    values = np.asarray(values)
    tensor = empty(kit, values.shape, dtype or values.dtype.name, **layout)
    fmt = kit.format(tensor.dtype)
    with np.errstate(all="ignore"):
        raw = values.astype(fmt.compute)
        raw = fmt.encode(np, raw) if fmt.half else raw
    kit.from_host(tensor, np.ascontiguousarray(raw).tobytes())
    return tensor


def values(kit, tensor):
    """Return the values as a NumPy array of the computing dtype."""
    fmt = kit.format(tensor.dtype)
    raw = np.frombuffer(kit.to_host(tensor), fmt.raw).reshape(tuple(tensor.shape))
    return fmt.decode(np, raw) if fmt.half else raw


# Views -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, strides, offset", [
    ((2, 3), (3, 1), 0), ((2, 3), (1, 2), 0), ((2, 3), (7, 2), 5), ((4, 2), (0, 1), 1), ((3,), (0,), 0), ((), (), 2),
    ((2, 0, 3), (3, 3, 1), 0), ((2, 1, 3), (3, 99, 1), 0),
])
def test_arrays_are_strided_views(kit, shape, strides, offset):
    storage = make_storage(kit.type, 96, kit.asarray(filled(kit, np.arange(24, dtype=np.float32))).view(np.uint8))
    tensor = tensor_from_storage(storage, dtype_by_name("float32"), shape, strides, offset)
    array = kit.asarray(tensor)
    assert array.shape == shape
    index = offset + sum((np.indices(shape)[i] * strides[i] for i in range(len(shape))), np.zeros(shape, int))
    assert kit.download(array).tolist() == index.astype(float).tolist()
    if array.size:
        array[...] = -1
        assert kit.download(kit.asarray(tensor)).max() == -1
        flat = kit.download(storage.data).view(np.float32)
        assert (flat == -1).sum() == np.unique(index).size


def test_a_tensor_without_data(kit):
    tensor = tensor_from_storage(make_storage(kit.type, 8), dtype_by_name("float32"), (2,), (1,), 0)
    with pytest.raises(RuntimeError, match="no data"):
        kit.asarray(tensor)


# Copies ----------------------------------------------------------------------------------

NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 100.75, 200.5, 300.0, -300.0, 65535.0, np.inf, -np.inf, np.nan]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ComplexHalf support", "ignore:Casting complex values")
@pytest.mark.parametrize("source, target", list(itertools.product(PLAIN, PLAIN)))
def test_conversions_are_those_of_pytorch(source, target):
    torch = pytest.importorskip("torch")
    kit = make_backend("ml_dtypes")
    numbers = np.array(NUMBERS)
    kind, to_kind = (kit.format(dtype_by_name(name)).compute.kind for name in (source, target))
    if kind in "iub":
        numbers = numbers[np.isfinite(numbers)]
        numbers = numbers[(numbers >= 0) & (numbers < 256)] if kind == "u" else numbers[np.abs(numbers) < 127]
    elif to_kind in "iu":
        # Casts of floats out of range to integers are undefined in C, except to small unsigned types by way of int64.
        small = target in ("uint8", "uint16", "uint32")
        numbers = numbers[np.isfinite(numbers) & (np.abs(numbers) < (1e6 if small else 127))]
        numbers = numbers if small else np.abs(numbers)
    elif target == "float8_e8m0fnu":
        numbers = numbers[~np.signbit(numbers)]
    if kind == "c":
        finite = numbers[np.isfinite(numbers)]
        numbers = np.concatenate([finite + 1j * finite[::-1], [complex(np.inf, 1), complex(np.nan, -1)][: 2 * (to_kind not in "iu")]])
    ours = filled(kit, numbers, source)
    theirs = torch.from_numpy(np.frombuffer(kit.to_host(ours), np.uint8).copy()).view(getattr(torch, source))
    try:
        expected = theirs.to(getattr(torch, target))
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"PyTorch does not: {error}")
    got = empty(kit, tuple(ours.shape), target)
    kit.copy(got, ours)
    fmt = kit.format(got.dtype)
    expected = expected.view(torch.uint8).numpy().view(fmt.raw)
    expected = fmt.decode(np, expected) if fmt.half else expected
    np.testing.assert_array_equal(values(kit, got), expected)


@pytest.mark.parametrize("name", DTYPES)
def test_copies_of_one_dtype_keep_every_bit(kit, name):
    itemsize = dtype_by_name(name).itemsize
    data = np.random.default_rng(0).integers(0, 2 if name == "bool" else 256, 12 * itemsize, np.uint8).tobytes()
    source = empty(kit, (3, 4), name)
    kit.from_host(source, data)
    target = empty(kit, (3, 4), name, strides=(2, 7), offset=3)
    kit.copy(target, source)
    assert bytes(kit.to_host(target)) == data


def test_opaque_dtypes_do_not_convert(kit):
    with pytest.raises(RuntimeError, match="cannot convert qint8 to float32"):
        kit.copy(empty(kit, (2,)), empty(kit, (2,), "qint8"))


def test_host_data_of_the_wrong_size(kit):
    with pytest.raises(RuntimeError, match=r"\(2, 3\) of float32 takes 24 bytes, got 23"):
        kit.from_host(empty(kit, (2, 3)), bytes(23))


# Kernels ---------------------------------------------------------------------------------


@pytest.fixture
def kernel():
    """Register kernels for one test."""
    yield TABLE.kernel
    TABLE.entries.clear()


def test_no_kernel(kit):
    assert kit.kernel("nothing") is None


def test_tensors_come_as_arrays_and_the_rest_as_it_is(kit, kernel):
    seen = []

    @kernel("kit::take_all")
    def take_all(own, out, *args):
        seen.extend((own, out, *args))

    a, b, out = filled(kit, np.arange(3.0)), filled(kit, np.arange(2, dtype=np.int64)), empty(kit, (3,))
    marker = dtype_by_name("int8")
    assert kit.kernel("kit::take_all")(out, a, [a, b], (1, 2), None, 2.5, marker, [None, b], []) is None
    assert seen[0] is kit and seen[1].dtype == np.float32
    assert [array.dtype for array in (seen[2], *seen[3])] == [np.float64, np.float64, np.int64]
    assert all(isinstance(array, kit.xp.ndarray) for array in (seen[2], *seen[3]))
    assert seen[4:8] == [(1, 2), None, 2.5, marker]
    assert seen[8][0] is None and seen[8][1].tolist() == [0, 1]
    assert seen[9] == []


def test_writing_in_place_and_returning_are_the_same(kit, kernel):
    @kernel("kit::fill")
    def fill(kit, out, input):
        out[...] = input + 1

    @kernel("kit::give")
    def give(kit, out, input):
        return input + 1

    @kernel("kit::both")
    def both(kit, out, input):
        out[...] = input + 1
        return out

    source = filled(kit, np.arange(6.0).reshape(2, 3))
    for name in ("kit::fill", "kit::give", "kit::both"):
        out = empty(kit, (2, 3), "float64", strides=(1, 2))
        assert kit.kernel(name)(out, source) is None
        assert values(kit, out).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float16", "bfloat16", "complex64", "complex32", "float8_e5m2"])
def test_results_are_converted_to_the_output_dtype(kit, kernel, dtype):
    @kernel("kit::values")
    def give(kit, out):
        return kit.xp.asarray([0.0, 1.5, 2.75])

    out = empty(kit, (3,), dtype)
    kit.kernel("kit::values")(out)
    expected = {"int32": [0, 1, 2], "uint8": [0, 1, 2], "bool": [False, True, True], "float8_e5m2": [0, 1.5, 3.0]}
    assert values(kit, out).tolist() == expected.get(dtype, [0, 1.5, 2.75])


def test_complex_results_in_a_real_output(kit, kernel):
    @kernel("kit::values")
    def give(kit, out):
        return kit.xp.asarray([1 + 2j, 3 - 4j])

    out = empty(kit, (2,), "int64")
    kit.kernel("kit::values")(out)
    assert values(kit, out).tolist() == [1, 3]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_half_precision_is_computed_in_single_and_rounded_once(kit, kernel, dtype):
    seen = []

    @kernel("sum")
    def total(kit, out, input):
        seen.extend((input.dtype, out.dtype, kit.dtype(dtype_by_name(dtype))))
        out[...] = input.sum()

    ones = filled(kit, np.full(64, 0.0625), dtype)
    out = empty(kit, (), dtype)
    kit.kernel("sum")(out, ones)
    assert seen == [np.float32, np.float32, np.float32]
    assert values(kit, out).tolist() == 4.0
    single = empty(kit, (), "float32")
    kit.kernel("sum")(single, ones)
    assert values(kit, single).tolist() == 4.0


def test_native_kernels_see_what_is_stored(kit, kernel):
    @kernel("kit::swap", half="native")
    def swap(own, out, input):
        assert input.dtype == own.raw_dtype(dtype_by_name("bfloat16")) == out.dtype
        return input[::-1]

    out = empty(kit, (3,), "bfloat16")
    kit.kernel("kit::swap")(out, filled(kit, np.arange(3.0), "bfloat16"))
    assert values(kit, out).tolist() == [2, 1, 0]


def test_several_outputs(kit, kernel):
    @kernel("kit::minmax", "kit::minmax.partly")
    def minmax(kit, out, input):
        out[1][...] = input.argmax()
        return input.max(), None

    for name in ("kit::minmax", "kit::minmax.partly"):
        out = empty(kit, (), "bfloat16"), empty(kit, (), "int64")
        kit.kernel(name)(out, filled(kit, [1.0, 3.0, 2.0], "bfloat16"))
        assert [values(kit, item).tolist() for item in out] == [3.0, 1]


@pytest.mark.parametrize("shape", [(3,), (2, 1), (1, 2, 3), ()])
def test_a_result_of_the_wrong_shape_names_the_kernel(kit, kernel, shape):
    @kernel("kit::wrong")
    def wrong(kit, out):
        return kit.xp.zeros(shape)

    with pytest.raises(RuntimeError, match=r"kernel c\w+:kit::wrong of .*test_array_kit> returned shape .* is \(2, 3\)"):
        kit.kernel("kit::wrong")(empty(kit, (2, 3)))


def test_the_wrong_number_of_results(kit, kernel):
    @kernel("kit::wrong")
    def wrong(kit, out):
        return (1,)

    with pytest.raises(RuntimeError, match="returned 1 values for 2 outputs"):
        kit.kernel("kit::wrong")((empty(kit, ()), empty(kit, ())))


def test_results_whose_shape_depends_on_the_data(kit, kernel):
    @kernel("where")
    def where(kit, out, input):
        assert out is None
        return kit.xp.stack(kit.xp.nonzero(input), 1), input[input > 1].copy()

    @kernel("kit::compress", half="native")
    def compress(kit, out, input):
        return input[1:]

    source = filled(kit, [[0.0, 2.0], [3.0, 0.0]], "bfloat16")
    index, kept = kit.kernel("where")(None, source)
    assert (index.dtype.name, values(kit, index).tolist()) == ("int64", [[0, 1], [1, 0]])
    assert (kept.dtype.name, values(kit, kept).tolist()) == ("bfloat16", [2.0, 3.0])
    assert kept.device == source.device
    rest = kit.kernel("kit::compress")(None, filled(kit, np.arange(6), "complex32"))
    assert (rest.dtype.name, values(kit, rest).tolist()) == ("complex32", [1, 2, 3, 4, 5])


def test_errors_of_kernels_come_through(kit, kernel):
    @kernel("kit::index")
    def index(kit, out):
        raise IndexError("index 5 is out of range")

    with pytest.raises(IndexError, match="index 5"):
        kit.kernel("kit::index")(empty(kit, ()))


def test_kernels_do_not_warn(kit, kernel, recwarn):
    @kernel("kit::divide")
    def divide(kit, out, input):
        return 1 / input

    @kernel("kit::nested")
    def nested(own, out, input):
        own.kernel("kit::divide")(inner, source)
        return 0 / input

    source, inner, out = filled(kit, np.zeros(3)), empty(kit, (3,)), empty(kit, (3,))
    kit.kernel("kit::divide")(out, source)
    kit.kernel("kit::nested")(out, source)
    if kit.on_host:
        assert not recwarn.list
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        np.ones(1) / np.zeros(1)


def test_a_foreign_tensor_is_brought_over(kernel):
    cuda, cpu = make_backend("cupy"), plugins.backend("cpu")

    @kernel("add")
    def add(kit, out, input, other):
        return input + other

    out = empty(cuda, (3,))
    cuda.kernel("add")(out, filled(cuda, np.arange(3.0)), filled(cpu, np.float64(10)))
    assert values(cuda, out).tolist() == [10, 11, 12]


def test_registering_twice_raises():
    table = KernelTable("mine", parent=TABLE)
    table.kernel("mul", "max.dim")(test_no_kernel)
    with pytest.raises(RuntimeError, match="mine already has a kernel for 'max.dim', from .*test_array_kit"):
        table.kernel("max.dim")(test_no_kernel)
    with pytest.raises(ValueError, match="half must be one of"):
        table.kernel("add", half="nope")
    with pytest.raises(TypeError, match="at least one"):
        table.kernel()
    assert table.names() == {"mul", "max.dim"}
    table.kernel("mul", override=True)(test_registering_twice_raises)
    assert table.find("mul").function is test_registering_twice_raises


@pytest.mark.parametrize("name, message", [
    ("nn.functional.con2d", "no op of that name; did you mean 'nn.functional.conv2d' or"),
    ("max.dimension", "no op of that name"),
    ("absolute", "which is computed by 'abs'"),
    ("add_", "which is computed by 'add'"),
])
def test_names_of_no_op_are_refused(name, message):
    table = KernelTable("mine")
    with pytest.raises(ValueError, match=f"test_array_kit has a kernel for '{name}', .*{message}"):
        table.kernel(name)(test_no_kernel)
    with pytest.raises(ValueError):
        table.kernel("mul", name)(test_no_kernel)
    assert table.names() == set()


def test_names_of_ops_of_ones_own():
    """Custom ops may be defined later. If the namespace has ops already, the name must be one of them."""
    table = KernelTable("mine")
    table.kernel("kit_later::twice")(test_no_kernel)
    library.define("kit_later::thrice(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="'kit_later::twce'"):
        table.kernel("kit_later::twce")(test_no_kernel)
    table.kernel("kit_later::thrice")(test_no_kernel)


def test_own_kernels_come_before_the_parents(kernel):
    kernel("mul", "max.dim")(test_no_kernel)
    table = KernelTable("mine", parent=TABLE)
    with pytest.raises(RuntimeError, match="mine already has a kernel for 'mul', from .*override=True"):
        table.kernel("mul")(test_registering_twice_raises)
    table.kernel("mul", override=True)(test_registering_twice_raises)
    assert table.find("mul").function is test_registering_twice_raises
    assert table.find("max.dim").function is test_no_kernel
    assert table.find("add") is None


# Memory ----------------------------------------------------------------------------------


def figures(kit):
    stats = kit.memory_stats()
    return tuple(stats[f"{what}.all.{how}"] for what in ("allocated_bytes", "allocation") for how in ("current", "peak"))


def test_memory_statistics(kit):
    assert figures(kit) == (0, 0, 0, 0)
    first, second = kit.allocate(1000, 0), kit.allocate(24, 0)
    assert figures(kit) == (1024, 1024, 2, 2)
    view = kit.flat(first)[10:]
    del first
    assert figures(kit)[0] == 1024, "a view keeps memory alive"
    del view
    assert figures(kit) == (24, 1024, 1, 2)
    kit.reset_peak_memory_stats()
    assert figures(kit) == (24, 24, 1, 1)
    del second
    third = kit.allocate(0, 0)
    assert kit.memory_stats()["allocation.all.allocated"] == 3
    assert figures(kit)[0] == 0 and len(third) == 0


def test_statistics_of_many_threads(kit):
    def work():
        for n in range(200):
            kit.allocate(n, 0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    stats = kit.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 1600
    assert stats["allocated_bytes.all.freed"] == 8 * sum(range(200))
    assert figures(kit)[0] == 0


@pytest.mark.parametrize("nbytes", [1 << 50, 1 << 62, (1 << 63) - 1])
def test_out_of_memory(kit, nbytes):
    held = kit.allocate(2048, 0)
    with pytest.raises(OutOfMemoryError, match=rf"{kit.type}: cannot allocate .*iB \({nbytes} bytes\); 2.00 KiB are in use"):
        kit.allocate(nbytes, 0)
    del held


def test_out_of_memory_in_a_kernel(kit, kernel):
    @kernel("kit::huge")
    def huge(kit, out):
        return kit.xp.empty(1 << 60, np.uint8)

    with pytest.raises(OutOfMemoryError, match="to compute kit::huge"):
        kit.kernel("kit::huge")(empty(kit, (2,)))


def test_devices_that_do_not_exist():
    kit = make_backend("numpy")
    with pytest.raises(RuntimeError, match="cpu:1 does not exist: there is 1 device"):
        kit.allocate(4, 1)


def test_resizing(kit):
    handle = kit.asarray(filled(kit, np.arange(4, dtype=np.uint8)))
    assert kit.download(kit.flat(kit.resize(handle, 4, 6, 0)))[:4].tolist() == [0, 1, 2, 3]
    assert kit.download(kit.flat(kit.resize(handle, 4, 2, 0))).tolist() == [0, 1]
    assert kit.data_ptr(handle) == np.asarray(handle).ctypes.data if kit.on_host else handle.data.ptr
    assert kit.data_ptr(kit.allocate(8, 0)) != 0


def test_linear_of_a_permuted_batch():
    """A batch of few rows that is not contiguous is multiplied as one matrix; the result is that of the contiguous one."""
    import metatensor as mt

    x = mt.arange(2 * 5 * 3, dtype=mt.float32, device="cpu").view(2, 5, 3)
    w = mt.arange(12, dtype=mt.float32, device="cpu").view(4, 3)
    for t in (x.transpose(0, 1), x[:, 1:], x[:, :, :2].transpose(0, 1)):
        weight = w[:, : t.shape[-1]]
        assert (mt.nn.functional.linear(t, weight) == mt.nn.functional.linear(t.contiguous(), weight.contiguous())).all().item()
