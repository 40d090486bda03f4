"""Conversion between tensors and arrays of NumPy and other libraries, and deep copies and pickles of tensors."""

import warnings

from metatensor import plugins
from metatensor._core.capture import note_read
from metatensor._core.device import backend_for
from metatensor._core.errors import NoDataError
from metatensor._core.late import later
from metatensor._core.storage import copy_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor._core.tensor import Tensor
from metatensor.deferred import is_deferred, materialize
from metatensor.devices.dlpack import DLDeviceType
from metatensor.interchange.dlpack import from_dlpack, taker


def _need_data(tensor, what):
    if is_deferred(tensor):
        materialize(tensor)  # in place, because the result shares the tensor's memory
    if tensor.untyped_storage().data is None:
        raise NoDataError(
            f"Cannot copy out of meta tensor; no data! {what}(): this tensor of shape {list(tensor.shape)} on "
            f"{tensor.device} holds none; give it some with empty_like(device=...) or from a checkpoint", tensor)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """Return a 1-D cpu tensor over the memory of a buffer, such as bytes, bytearray, mmap or array.

    Parameters
    ----------
    buffer : buffer
        An object with the buffer protocol. If it is read-only, a warning is issued.
    dtype : dtype
        Dtype of the elements.
    count : int, default -1
        Number of elements. A negative number means all elements up to the end of the buffer.
    offset : int, default 0
        Offset of the first element in bytes.
    requires_grad : bool, default False
        Whether the tensor requires grad.

    Returns
    -------
    Tensor
        Shape (count,).

    Raises
    ------
    ValueError
        If the buffer is empty or too short, or if ``count`` is 0, or if ``count`` is negative and the rest of the
        buffer is not a whole number of elements.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.frombuffer(bytearray([5, 6, 7, 8]), dtype=mt.uint8, offset=1).tolist()
    [6, 7, 8]
    """
    import numpy as np

    try:
        data = np.frombuffer(memoryview(buffer).cast("B"), np.uint8)
    except TypeError:
        raise ValueError(f"frombuffer(): {type(buffer).__name__} has no buffer") from None
    except ValueError:
        data = np.empty(0, np.uint8)
    if not data.size or count == 0:
        raise ValueError(f"frombuffer(): the result would be empty: {data.size} bytes, count={count}")
    if not 0 <= offset < data.size:
        raise ValueError(f"frombuffer(): offset {offset} is not within the {data.size} bytes")
    left = data.size - offset
    if count < 0 and left % dtype.itemsize:
        raise ValueError(f"frombuffer(): {left} bytes after the offset are not a whole number of {dtype.name} elements")
    n = left // dtype.itemsize if count < 0 else count
    if n * dtype.itemsize > left:
        raise ValueError(f"frombuffer(): {n} elements of {dtype.name} need more than the {left} bytes after the offset")
    made = _adopt(data[offset : offset + n * dtype.itemsize], "frombuffer")
    return made.view(dtype).requires_grad_(requires_grad)


def to_numpy(tensor, force=False):
    """Return a NumPy array over the memory of a cpu tensor.

    Parameters
    ----------
    tensor : Tensor
        A cpu tensor. A deferred one is materialized in place.
    force : bool, default False
        Copy a tensor that is on another device, requires grad, or is lazily conjugated or negated.

    Raises
    ------
    TypeError
        If the tensor is on another device or holds no data, or has a dtype that NumPy lacks.
    RuntimeError
        If the tensor requires grad, or is lazily conjugated or negated.
    NotImplementedError
        If ``force`` is true and the tensor holds no data.
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
    note_read(tensor, "numpy")
    return backend_for(tensor.device).numpy(tensor)


def to_array(tensor, dtype=None, copy=None):
    """Return the array for ``numpy.asarray(tensor)``."""
    array = to_numpy(tensor)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"__array__: a change from {array.dtype} to {dtype} needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def array_wrap(tensor, array):
    """Return the result of a NumPy function that was called with a tensor, converted to a tensor."""
    import numpy

    return from_numpy(numpy.asarray(array))


def operand(value, tensor):
    """Convert a NumPy array or scalar to an operand for ``tensor``: a number for a scalar, else a cpu tensor.

    Return None for an array if ``tensor`` has no values.
    """
    if not value.shape:
        return value.item()
    return None if tensor.untyped_storage().data is None and not is_deferred(tensor) else from_numpy(value)


def from_numpy(array):
    """Return a cpu tensor over the memory of a NumPy array. If the array is read-only, a warning is issued.

    Parameters
    ----------
    array : numpy.ndarray
        An array with a dtype that metatensor has.

    Raises
    ------
    TypeError
        If ``array`` is not a NumPy array or has an unsupported dtype.

    Examples
    --------
    >>> import metatensor as mt
    >>> import numpy as np
    >>> array = np.zeros(3, dtype=np.float32)
    >>> tensor = mt.from_numpy(array)
    >>> array[1] = 5
    >>> tensor.tolist()
    [0.0, 5.0, 0.0]
    """
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"from_numpy(): expected a numpy.ndarray, got {type(array).__name__}")
    return _adopt(array, "from_numpy")


def _adopt(array, what):
    """Return a cpu tensor over the memory of an array. Warn if the memory is read-only."""
    if not array.flags.writeable:
        warnings.warn(f"{what}(): the memory is read-only, so the tensor cannot be written to. "
                      "Copy it first if you need to write", stacklevel=3)
    return backend_for("cpu").adopt(array)


def array_interface(tensor):
    """Return ``__array_interface__``. Raise AttributeError if NumPy cannot read the values directly from the memory."""
    array = None
    if _plain(tensor) and type(tensor).__array__ is Tensor.__array__:  # otherwise the class's own __array__ is used
        try:
            array = backend_for(tensor.device).numpy(tensor)
        except TypeError:
            pass
    if array is None or array.dtype.isbuiltin != 1:
        raise AttributeError(f"__array_interface__: a tensor of {tensor.dtype.name} on {tensor.device} does not have it; "
                             "numpy() raises an error that states the reason")
    note_read(tensor, "__array_interface__")
    return array.__array_interface__


def buffer_of(tensor):
    """Return the array that implements the buffer protocol for the tensor. Raise BufferError if there is none."""
    try:
        if not _plain(tensor) or type(tensor).__array__ is not Tensor.__array__:
            raise TypeError("it has no data of its own, requires grad, or is lazily conjugated or negated")
        array = backend_for(tensor.device).numpy(tensor)
        if array.dtype.isbuiltin != 1:
            raise TypeError(f"buffers have no format for {tensor.dtype.name}")
    except TypeError as error:
        raise BufferError(f"a tensor of {tensor.dtype.name} on {tensor.device} has no buffer: {error}") from None
    note_read(tensor, "__buffer__")
    return array


def _plain(tensor):
    """Return True if the memory holds the values themselves, and other libraries may write to it."""
    storage = tensor.untyped_storage()
    return not (storage.data is None or tensor.requires_grad or tensor.is_conj() or tensor.is_neg())


def cuda_array_interface(tensor):
    """Return ``__cuda_array_interface__``.

    Raise AttributeError if the memory is not CUDA's, RuntimeError if the tensor requires grad.
    """
    if is_deferred(tensor):
        materialize(tensor)
    if tensor.untyped_storage().data is None:
        raise AttributeError(f"__cuda_array_interface__: a tensor on {tensor.device} without data has no memory")
    backend = backend_for(tensor.device)
    if tensor.requires_grad and DLDeviceType.kDLCUDA in backend.dlpack_types:
        raise RuntimeError("__cuda_array_interface__: the tensor requires grad; use tensor.detach()")
    if tensor.is_conj() or tensor.is_neg():
        raise AttributeError("__cuda_array_interface__: the tensor is lazily conjugated or negated; use tensor.resolve_conj()")
    note_read(tensor, "__cuda_array_interface__")
    return backend.cuda_array_interface(tensor)


def from_array(data):
    """Import another library's array through the first protocol that it supports. Return None if there is none."""
    if hasattr(data, "__array_interface__"):
        import numpy

        return from_numpy(numpy.asarray(data))
    if hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__"):
        if "cpu" not in plugins.device_types() and hasattr(data, "__array__"):
            return data.__array__()
        return from_dlpack(data)
    if hasattr(data, "__cuda_array_interface__"):
        return taker(DLDeviceType.kDLCUDA).from_cuda_array(data)
    return None


def array_namespace(version=None):
    """Return `metatensor.array_api`. Raise ValueError for an unsupported version of the standard."""
    array_api = later("array_api")

    known = ("2021.12", "2022.12", "2023.12", array_api.__array_api_version__)
    if version is not None and version not in known:
        raise ValueError(f"unknown version {version!r} of the array API standard; choose from {', '.join(known)}")
    return array_api


def deep_copy(tensor, memo):
    """Implement `copy.deepcopy`. Each storage is copied once, so tensors that share memory still share it."""
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
    return _restore(deep_copy_storage(storage, memo), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
                    tensor.is_conj(), tensor.is_neg())


def deep_copy_storage(storage, memo):
    """Implement `copy.deepcopy` of a storage. All tensors and typed storages over it get the same copy."""
    if id(storage) not in memo:
        memo[id(storage)] = copy_storage(storage)
        memo.setdefault(id(memo), []).append(storage)  # kept alive, as by `copy`, so that its id is not reused
    return memo[id(storage)]


def _restore(storage, dtype, sizes, strides, offset, conj=False, neg=False):
    made = tensor_from_storage(storage, dtype, sizes, strides, offset)
    if conj:
        made = made.conj()
    if neg:
        made = made._neg_view()
    return made


def rebuild_tensor(cls, storage, dtype, sizes, strides, offset, requires_grad, conj, neg, state):
    """Rebuild a tensor from its pickle."""
    made = _restore(storage, dtype, sizes, strides, offset, conj, neg)
    if cls is not Tensor:
        made = Tensor._make_subclass(cls, made)
    made.requires_grad = requires_grad
    for name, value in state.items():
        setattr(made, name, value)
    return made


def reduce_tensor(tensor):
    """Return the pickle reduction of a tensor: its storage (pickled once if shared), layout and attributes."""
    return (rebuild_tensor, (type(tensor), tensor.untyped_storage(), tensor.dtype, tuple(tensor.shape),
                             tensor.stride(), tensor.storage_offset(), tensor.requires_grad,
                             tensor.is_conj(), tensor.is_neg(), dict(tensor.__dict__)))
