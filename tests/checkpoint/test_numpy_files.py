"""NumPy files: what is read, what is refused, and that headers are never evaluated."""

import io

import pytest

import metatensor as mt
from checkpoint import samples
from metatensor.checkpoint import CheckpointError, inspect, load

np = pytest.importorskip("numpy")

DTYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]


def saved(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return io.BytesIO(out.getvalue())


def refuse(content, *words):
    for read in (lambda: load(io.BytesIO(content), "meta"), lambda: load(io.BytesIO(content), "cpu")):
        with pytest.raises(CheckpointError) as caught:
            read()
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_both_byte_orders(dtype, order):
    array = np.arange(6).astype(order + dtype).reshape(2, 3)
    tensor = load(saved(array), "cpu")
    assert tensor.dtype.name == array.dtype.name
    assert np.array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(version):
    array = np.arange(6.0)
    assert np.array_equal(load(saved(array, version=version), "cpu").numpy(), array)


def test_fortran_order_becomes_strides():
    array = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    tensor = load(saved(array), "cpu")
    assert tensor.stride() == (1, 2, 6)
    assert np.array_equal(tensor.numpy(), array)
    assert load(saved(array), "meta").stride() == (1, 2, 6)
    assert inspect(saved(array)).tensors["array"].stride == (1, 2, 6)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1), (1, 5)])
@pytest.mark.parametrize("order", "CF")
def test_shapes_at_the_edge(shape, order):
    array = np.ones(shape, order=order)
    tensor = load(saved(array), "cpu")
    assert tuple(tensor.shape) == shape
    assert np.array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("compressed", [False, True])
def test_archives(tmp_path, compressed):
    arrays = {"a": np.arange(5), "b.c": np.asfortranarray(np.ones((2, 3), "f2")), "d/e": np.array(2.5, ">f8")}
    path = tmp_path / "x.npz"
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    found = load(path, "cpu")
    assert {name: tensor.numpy().tolist() for name, tensor in found.items()} == {name: a.tolist() for name, a in arrays.items()}
    assert {name: info.shape for name, info in inspect(path).tensors.items()} == {"a": (5,), "b.c": (2, 3), "d/e": ()}
    assert all(tensor.is_meta for tensor in load(path, "meta").values())


def test_an_archive_of_nothing(tmp_path):
    np.savez(tmp_path / "x.npz")
    assert load(tmp_path / "x.npz") == {}


def test_meta_does_not_read_the_data(tmp_path):
    path = tmp_path / "huge.npy"
    with open(path, "wb") as file:
        file.write(samples.npy("<f8", (1 << 34,), b""))
        file.truncate(file.tell() + (1 << 37))
    assert load(path, "meta").shape == (1 << 34,)


def test_objects_are_refused():
    refuse(saved(np.array([None]), allow_pickle=True).getvalue(), "Python objects", "refused")


@pytest.mark.parametrize("array", [np.array(["a", "bc"]), np.array([b"x"]), np.array(["2020-01-01"], "M8[D]"), np.zeros(2, "V3")])
def test_other_dtypes_are_listed_but_not_loaded(array):
    content = saved(array)
    assert inspect(content).tensors["array"].dtype == array.dtype.str
    refuse(content.getvalue(), "no counterpart")


def test_records_are_refused():
    refuse(saved(np.zeros(2, [("a", "f4"), ("b", "i4")])).getvalue(), "several fields")


@pytest.mark.parametrize(
    "header",
    [
        "__import__('os').system('true')",
        "{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os')}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,) * 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}; print()",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ('2', 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<x4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': 3, 'fortran_order': False, 'shape': (2, 3)}",
        "{1: 2}",
        "(" * 1000,
        "[" * 7 + "]" * 7,
        "{'descr': '<f4'",
        "",
        "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2, 3)}",
    ],
)
def test_headers_that_are_none(header):
    content = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + bytes(24)
    refuse(content, "header") if "<x4" not in header and "3, 'f" not in header else refuse(content, "dtype")


def test_claims_that_do_not_fit():
    refuse(samples.npy(data=bytes(23)), "truncated")
    refuse(samples.npy(data=bytes(25)), "longer")
    refuse(samples.npy(shape=(1 << 40, 1 << 40)), "2**63")
    refuse(samples.npy(shape=(0, 1 << 62, 1 << 62), data=b""), "2**63")
    refuse(samples.npy(shape=(1,) * 65, data=bytes(4)), "65 dimensions")
    refuse(samples.npy(version=(4, 0)), "version 4.0")
    refuse(b"\x93NUMPY\2\0\xff\xff\xff\xff", "limit")
    refuse(b"\x93NUMPY\1\0\xff\xff", "truncated")


def test_archives_with_something_else():
    refuse(samples.npz({"a": samples.npy(), "b": b"no array"}), "no array")
    with pytest.raises(CheckpointError):
        load(io.BytesIO(samples.npz({"a": samples.npy(), "a/../../b": samples.npy()})), "meta")


def test_a_compressed_array_that_lies():
    content = samples.npz({"a": samples.npy("|u1", (1 << 20,), bytes(1 << 20))}, compressed=True)
    assert load(io.BytesIO(content), "cpu")["a"].shape == (1 << 20,)
    refuse(samples.npz({"a": samples.npy("|u1", (1 << 30,), bytes(1 << 20))}, compressed=True), "truncated")


def test_the_whole_of_an_array_is_one_tensor():
    assert isinstance(load(saved(np.ones(3)), "meta"), mt.Tensor)
