"""Tensors out of and into metatensor: NumPy, DLPack, copies of whole objects, pickles."""

from metatensor._core.device import backend_for
from metatensor._core.errors import NoDataError
from metatensor._core.placing import tensor_from_storage
from metatensor._core.storage import copy_storage
from metatensor._core.tensor import Tensor
from metatensor.deferred import is_deferred, materialize


def _need_data(tensor, what):
    if is_deferred(tensor):
        materialize(tensor)  # in place: what is made of it shares its memory
    if tensor.untyped_storage().data is None:
        raise NoDataError(
            f"Cannot copy out of meta tensor; no data! {what}(): this tensor of shape {list(tensor.shape)} on "
            f"{tensor.device} holds none; give it some with empty_like(device=...) or from a checkpoint", tensor)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A vector over the memory of a buffer (bytes, bytearray, mmap, array): `count` elements from byte `offset` on.

    Without a positive `count`, all that is left; ValueError where that is not a whole number of elements, and for
    buffers that are too short or empty.
    """
    import numpy as np

    try:
        data = np.frombuffer(memoryview(buffer).cast("B"), np.uint8)
    except TypeError:
        raise ValueError(f"frombuffer(): {type(buffer).__name__} has no buffer") from None
    except ValueError:
        data = np.empty(0, np.uint8)
    if not data.size or count == 0:
        raise ValueError(f"frombuffer(): no elements are asked for: {data.size} bytes, count={count}")
    if not 0 <= offset < data.size:
        raise ValueError(f"frombuffer(): offset {offset} is not within the {data.size} bytes")
    left = data.size - offset
    if count < 0 and left % dtype.itemsize:
        raise ValueError(f"frombuffer(): {left} bytes after the offset are no whole number of {dtype.name}")
    n = left // dtype.itemsize if count < 0 else count
    if n * dtype.itemsize > left:
        raise ValueError(f"frombuffer(): {n} elements of {dtype.name} need more than the {left} bytes after the offset")
    return from_numpy(data[offset : offset + n * dtype.itemsize]).view(dtype).requires_grad_(requires_grad)


def to_numpy(tensor, force=False):
    """A NumPy array over the memory of a cpu tensor.

    With `force`, tensors on other devices, with gradients or lazily conjugated
    are copied. Raises TypeError for another device, RuntimeError for a tensor that
    requires grad or, with `force`, NotImplementedError for one without data.
    """
    if force:
        _need_data(tensor, "numpy")
        tensor = tensor.detach().resolve_conj().resolve_neg()
        if tensor.device.type != "cpu":
            tensor = tensor.cpu()
    elif is_deferred(tensor):
        materialize(tensor)
    if tensor.requires_grad:
        raise RuntimeError("numpy(): the tensor requires grad; use tensor.detach().numpy()")
    if tensor.device.type != "cpu" or tensor.untyped_storage().data is None:
        remedy = ("it holds no data; give it some with empty_like(device=...) or from a checkpoint"
                  if tensor.untyped_storage().data is None else "use tensor.cpu() to copy it first")
        raise TypeError(f"numpy(): cannot view a tensor of shape {list(tensor.shape)} on {tensor.device} as a NumPy "
                        f"array: {remedy}")
    if tensor.is_conj() or tensor.is_neg():
        raise RuntimeError("numpy(): the tensor is lazily conjugated or negated; use tensor.resolve_conj() "
                           "and tensor.resolve_neg() first")
    return backend_for(tensor.device).numpy(tensor)


def to_array(tensor, dtype=None, copy=None):
    """What ``numpy.asarray(tensor)`` calls."""
    array = to_numpy(tensor)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"__array__: a change from {array.dtype} to {dtype} needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def array_wrap(tensor, array):
    """What NumPy's functions of a tensor give: a tensor, over their result."""
    import numpy

    return from_numpy(numpy.asarray(array))


def operand(value, tensor):
    """What an array or a scalar of NumPy is beside `tensor`: a cpu tensor where that has values too, or a number; else None."""
    if not value.shape:
        return value.item()
    return None if tensor.untyped_storage().data is None and not is_deferred(tensor) else from_numpy(value)


def from_numpy(array):
    """A cpu tensor over the memory of a NumPy array, writable or not.

    Raises TypeError for what is no array or has a dtype that no tensor has.
    """
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"from_numpy(): expected a numpy.ndarray, got {type(array).__name__}")
    return backend_for("cpu").adopt(array)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of any object with ``__dlpack__`` (or of a capsule's producer).

    Raises TypeError where there is no such method, RuntimeError for a device without a plugin.
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(f"from_dlpack(): expected an object with __dlpack__, got {type(ext_tensor).__name__}")
    kind, _ = ext_tensor.__dlpack_device__()
    names = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}
    if int(kind) not in names:
        raise RuntimeError(f"from_dlpack(): no device is known for the DLPack device type {int(kind)}")
    tensor = backend_for(names[int(kind)]).from_dlpack(ext_tensor, copy=copy)
    return tensor if device is None else tensor.to(device)


def to_dlpack(tensor, options):
    """The capsule for ``__dlpack__``; BufferError where a tensor cannot be exported."""
    if tensor.requires_grad:
        raise BufferError("__dlpack__: the tensor requires grad; use tensor.detach()")
    if tensor.is_conj() or tensor.is_neg():
        raise BufferError("__dlpack__: the tensor is lazily conjugated or negated; use tensor.resolve_conj()")
    _need_data(tensor, "__dlpack__")
    return backend_for(tensor.device).dlpack(tensor, **options)


def dlpack_device(tensor):
    """The (type, index) pair of DLPack."""
    if is_deferred(tensor):
        materialize(tensor)
    if tensor.untyped_storage().data is None:
        raise ValueError(f"__dlpack_device__: a tensor on {tensor.device} without data has no place in DLPack")
    return backend_for(tensor.device).dlpack_device(tensor)


def deep_copy(tensor, memo):
    """`copy.deepcopy`: storages are copied once each, so what shared memory shares it afterwards."""
    import copy

    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError("deepcopy: only leaf tensors can be copied; use detach() or clone()")
    made = _over_copied_storage(tensor, memo)
    if type(tensor) is not Tensor:
        made = Tensor._make_subclass(type(tensor), made)
    made.requires_grad = tensor.requires_grad
    memo[id(tensor)] = made
    if tensor.grad is not None:
        made.grad = deep_copy(tensor.grad, memo)
    for name, value in tensor.__dict__.items():
        setattr(made, name, copy.deepcopy(value, memo))
    return made


def _over_copied_storage(tensor, memo):
    storage = tensor.untyped_storage()
    key = ("metatensor storage", storage._cdata)
    if key not in memo:
        memo[key] = copy_storage(storage)
        memo.setdefault("metatensor kept", []).append(storage)  # ids stay taken while the memo lives
    return _restore(memo[key], tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
                    tensor.is_conj(), tensor.is_neg())


def _restore(storage, dtype, sizes, strides, offset, conj=False, neg=False):
    made = tensor_from_storage(storage, dtype, sizes, strides, offset)
    if conj:
        made = made.conj()
    if neg:
        made = made._neg_view()
    return made


def rebuild_tensor(cls, storage, dtype, sizes, strides, offset, requires_grad, conj, neg, state):
    """A tensor from its pickle."""
    made = _restore(storage, dtype, sizes, strides, offset, conj, neg)
    if cls is not Tensor:
        made = Tensor._make_subclass(cls, made)
    made.requires_grad = requires_grad
    for name, value in state.items():
        setattr(made, name, value)
    return made


def reduce_tensor(tensor):
    """What pickle keeps: the storage (once for all that share it), the layout and the attributes."""
    return (rebuild_tensor, (type(tensor), tensor.untyped_storage(), tensor.dtype, tuple(tensor.shape),
                             tensor.stride(), tensor.storage_offset(), tensor.requires_grad,
                             tensor.is_conj(), tensor.is_neg(), dict(tensor.__dict__)))
