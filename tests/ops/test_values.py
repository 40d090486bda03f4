"""Conversion between tensors and Python values: tensor, as_tensor, asarray, item, tolist, the legacy constructor."""

import numpy as np
import pytest

import metatensor as mt


def test_tensor(device):
    t = mt.tensor([[1, 2], [3, 4]], device=device)
    assert t.dtype is mt.int64 and t.device.type == device and t.tolist() == [[1, 2], [3, 4]]
    assert mt.tensor(2.5, device=device).item() == 2.5
    assert mt.tensor([1, 2], dtype=mt.bfloat16, device=device).tolist() == [1.0, 2.0]
    assert mt.tensor([], device=device).shape == (0,)
    assert mt.tensor([1.0], device=device, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="only floating-point and complex tensors can require gradients"):
        mt.tensor([1], device=device, requires_grad=True)


def test_on_meta_only_metadata_is_kept():
    t = mt.tensor([[1.0, 2.0], [3.0, 4.0]], device="meta")
    assert t.shape == (2, 2) and t.dtype is mt.float32 and t.untyped_storage().nbytes() == 16
    with pytest.raises(ValueError, match="expected a sequence of length 2"):
        mt.tensor([[1, 2], [3]], device="meta")


def test_a_copy_of_a_tensor(device):
    source = mt.tensor([1.0, 2.0], device=device, requires_grad=True)
    copy = mt.tensor(source)
    assert copy.device == source.device and not copy.requires_grad and copy.tolist() == [1, 2]
    assert copy.untyped_storage()._cdata != source.untyped_storage()._cdata
    assert mt.tensor(source, dtype=mt.int32).dtype is mt.int32


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"])
def test_arrays(name, device):
    array = np.arange(6).reshape(2, 3).astype(name)
    for given in (array, array.T, array[:, ::2], array[::-1]):
        t = mt.tensor(given, device=device)
        assert t.dtype.name == name and t.tolist() == given.tolist()
    assert mt.tensor(array.T, device=device).stride() == (1, 3)
    assert mt.tensor(array.astype(array.dtype.newbyteorder(">")), device=device).tolist() == array.tolist()
    array[:] = 0    # the tensors are copies
    assert mt.tensor(array.T, device="meta").stride() == (1, 3)


def test_arrays_that_no_tensor_can_hold():
    with pytest.raises(TypeError, match="cannot be converted to tensors"):
        mt.tensor(np.array(["a"]), device="meta")
    with pytest.raises(TypeError, match="cannot be converted to tensors"):
        mt.tensor(np.array([object()]), device="meta")


def test_as_tensor_shares_where_it_can():
    t = mt.empty(2, device="meta")
    assert mt.as_tensor(t) is t and mt.asarray(t) is t
    assert mt.as_tensor(t, dtype=mt.float64).dtype is mt.float64
    array = np.zeros(3, "f4")
    shared = mt.as_tensor(array)
    array[1] = 5
    assert shared.tolist() == [0, 5, 0]
    copied = mt.asarray(array, copy=True)
    array[1] = 6
    assert copied.tolist() == [0, 5, 0] and shared.tolist() == [0, 6, 0]
    assert mt.as_tensor(array, dtype=mt.float64).tolist() == [0, 6, 0]
    with pytest.raises(ValueError, match="copy=False"):
        mt.asarray([1, 2], copy=False)


def test_asarray_detaches():
    t = mt.empty(2, device="meta", requires_grad=True)
    assert not mt.asarray(t).requires_grad and mt.asarray(t, requires_grad=True).requires_grad


def test_new_tensor():
    t = mt.empty(2, dtype=mt.float64, device="meta")
    assert t.new_tensor([1, 2]).dtype is mt.float64 and t.new_tensor([1, 2]).is_meta
    assert t.new_tensor([1, 2], dtype=mt.int8).dtype is mt.int8


@pytest.mark.parametrize("call", [mt.Tensor.item, bool, int, float, complex, mt.Tensor.tolist, lambda t: range(3)[t]])
def test_values_of_tensors_without_data(call):
    with pytest.raises(mt.DataDependentError, match=r"(item|tolist)\(\): the result depends on the values .* on meta"):
        call(mt.ones((), dtype=mt.int64, device="meta"))


def test_item(device):
    for value, dtype in ((3, mt.int8), (2.5, mt.float16), (True, mt.bool), (1 - 2j, mt.complex64), (255, mt.uint8)):
        found = mt.tensor([[value]], dtype=dtype, device=device).item()
        assert found == value and type(found) is type(value)
    assert int(mt.tensor(3.7, device=device)) == 3 and float(mt.tensor(3, device=device)) == 3.0
    assert mt.tensor([1 + 2j], device=device).conj().item() == 1 - 2j
    with pytest.raises(RuntimeError, match="2 elements cannot be converted to a number"):
        mt.zeros(2, device=device).item()


def test_tolist_of_views(device):
    t = mt.arange(6, device=device).reshape(2, 3)
    assert t.t().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert t[:, 1:].tolist() == [[1, 2], [4, 5]]
    assert t[0, 0].tolist() == 0 and t[:0].tolist() == [] and t[:, :0].tolist() == [[], []]


def test_the_legacy_constructor(device):
    with mt.device(device):
        assert mt.Tensor(2, 3).shape == (2, 3) and mt.Tensor().shape == (0,)
        assert mt.Tensor([1, 2]).tolist() == [1.0, 2.0] and mt.Tensor((2, 3)).tolist() == [2.0, 3.0]
        assert mt.Tensor(mt.Size([2, 3])).shape == (2, 3)
        source = mt.tensor([1, 2])
        assert mt.Tensor(source).dtype is mt.int64 and mt.Tensor(source) is not source
    assert mt.Tensor(2, device="meta").is_meta
    for wrong in (2.5, "ab", None):
        with pytest.raises(TypeError):
            mt.Tensor(wrong)


def test_the_legacy_constructor_of_an_array():
    np = pytest.importorskip("numpy")
    assert mt.Tensor(np.array([1, 2])).tolist() == [1.0, 2.0]
    assert mt.Tensor(np.array(3.0)).shape == ()
    assert mt.Tensor(np.int64(3)).shape == (3,)


@pytest.mark.parametrize("convert", [int, float, complex])
def test_only_one_element_is_a_number(convert):
    assert convert(mt.tensor([[2.0]], device="cpu")) == 2
    for values in ([], [1.0, 2.0]):
        with pytest.raises(ValueError, match="must have one element"):
            convert(mt.tensor(values, device="cpu"))


def test_asarray_of_buffers_and_capsules():
    numbers = np.arange(6, dtype=np.float16)
    for kind in (np.float16, np.complex64, np.int16):
        array = np.arange(4).astype(kind)
        dtype = getattr(mt, array.dtype.name)
        assert mt.asarray(memoryview(array), dtype=dtype, device="cpu", copy=True).tolist() == array.tolist()
    shared = mt.asarray(memoryview(numbers), dtype=mt.float16, copy=False)
    numbers[1] = 7
    assert shared[1] == 7
    t = mt.arange(3, device="cpu")
    assert mt.asarray(mt.utils.dlpack.to_dlpack(t)).data_ptr() == t.data_ptr()
    assert mt.asarray(mt.utils.dlpack.to_dlpack(t), copy=True).data_ptr() != t.data_ptr()
    with pytest.raises(RuntimeError, match="NumPy scalar"):
        mt.asarray(np.float64(1), copy=False)


class Locked:
    """A sequence whose items cannot be read."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        raise KeyError(i)


def test_sequences_that_are_no_data():
    with pytest.raises(ValueError, match="items of Locked cannot be read"):
        mt.tensor(Locked())
    ring = [1]
    ring.append(ring)
    for data in (ring, [[1, 2], ring]):
        with pytest.raises(TypeError, match="contains itself"):
            mt.tensor(data)
