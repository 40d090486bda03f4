"""Conversion between Python values and tensors: tensor, new_tensor, as_tensor, asarray, item, tolist."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.object cimport PyObject
from metatensor._core.constants cimport note_bytes
from metatensor._core.device cimport META, Device, backend_of, cpu_device, default_device, keeps_constants
from metatensor._core.dtype cimport DType, default_float
from metatensor._core.host cimport decode, encode, infer_dtype, measure, read_number
from metatensor._core.layout cimport preserve_strides, row_major
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, HOST, METHOD_ONLY, Call, Op, arg, as_declared, bool_arg, define, dims_arg, is_none,
    op_name, result_device, tensor_arg,
)
from metatensor._core.storage cimport Storage, is_known, recorded
from metatensor._core.modes cimport intercepts
from metatensor._core.tensor cimport Tensor, hooks, new_contiguous, new_strided
from metatensor._core.thread cimport hints
from metatensor._core.types cimport (
    KIND_COMPLEX, KIND_FLOAT, MAX_DIMS, T_REQUIRES_GRAD, dim_t,
)
from metatensor.ops.view cimport dims_tuple

from metatensor._core.dtype import dtype_by_name
from metatensor._core.modes import _disable_modes, _restore_modes
from metatensor._core.errors import data_dependent
from metatensor._core.late import later


# Tensor to Python ----------------------------------------------------------------------------

cdef object _host_bytes(Call* c, Tensor t):
    """Return the elements in C order as a bytes-like object. Raise DataDependentError if the tensor has no data."""
    if t.storage.data is None:
        if is_known(t.storage):
            return later("known_bytes")(t)
        if not recorded(t.storage):
            raise data_dependent(op_name(c), t.storage.device, t.shape, t)
        return later("bytes_of")(t)
    return backend_of(t.storage.device).to_host(t)


cdef object item_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Py_buffer view
    if t.total != 1:
        raise RuntimeError(f"{op_name(c)}(): a tensor with {t.total} elements cannot be converted to a number; "
                           "it must have exactly one element")
    data = _host_bytes(c, t)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return read_number(<const char*>view.buf, t.dtype)
    finally:
        PyBuffer_Release(&view)


cdef object tolist_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Py_buffer view
    data = _host_bytes(c, t)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return decode(<const char*>view.buf, t.dtype, t.ndim, t.sizes)
    finally:
        PyBuffer_Release(&view)


cdef Op ITEM = define("item(Tensor input) -> any", item_host, HOST | METHOD_ONLY,
                      "Return the only element as a Python number. Raise RuntimeError unless there is exactly one "
                      "element, and DataDependentError if the tensor has no data.")
cdef Op TOLIST = define("tolist(Tensor input) -> any", tolist_host, HOST | METHOD_ONLY,
                        "Return the elements as nested lists of Python numbers. Raise DataDependentError if the "
                        "tensor has no data.")


cdef object _unseen(Op op, Tensor t):
    """Call an op for metatensor's own use, with function modes disabled."""
    cdef PyObject* args[1]
    args[0] = <PyObject*>t
    if not (hints.modes and intercepts()):
        return hooks.invoke(<PyObject*>op, args, 1)
    level = _disable_modes(True)
    try:
        return hooks.invoke(<PyObject*>op, args, 1)
    finally:
        _restore_modes(level)


cdef object _item_hook(Tensor t):
    return _unseen(ITEM, t)


cdef object _tolist_hook(Tensor t):
    return _unseen(TOLIST, t)


hooks.item = _item_hook
hooks.tolist = _tolist_hook


# Python to tensor -------------------------------------------------------------------------------

cdef object from_host_meta(Call* c):
    """Arguments: data, size, stride, dtype, device.

    The device's kernel fills the result with the bytes in `data`, which are in C order.
    """
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int i, n = dims_arg(c, 1, sizes)
    if dims_arg(c, 2, strides) != n:
        raise RuntimeError(f"{op_name(c)}(): sizes and strides do not match")
    for i in range(n):
        if strides[i] < 0:
            raise RuntimeError(f"{op_name(c)}(): negative strides are not supported, got {dims_tuple(n, strides)}")
    return new_strided(n, sizes, strides, <DType>arg(c, 3), result_device(c))


cdef Op FROM_HOST = define("_from_host(any data, int[] size, int[] stride, dtype dtype, device? device=None) -> Tensor",
                           from_host_meta, FUNCTION_ONLY,
                           "Return a tensor of the given size and strides. Its values are the host bytes `data`, which are in C order.")


cdef Tensor _make(object data, int n, const dim_t* sizes, const dim_t* strides, DType dtype, Device device):
    cdef PyObject* args[5]
    cdef object size = dims_tuple(n, sizes), stride = dims_tuple(n, strides)
    args[0] = <PyObject*>data
    args[1] = <PyObject*>size
    args[2] = <PyObject*>stride
    args[3] = <PyObject*>dtype
    args[4] = <PyObject*>device
    return <Tensor>as_declared(FROM_HOST, hooks.invoke(<PyObject*>FROM_HOST, args, 5))


cdef object _array_of(object data):
    """Return `data` as a tensor, or as an array with NumPy's attributes shape, strides, dtype and tobytes. Return None
    for data of other kinds."""
    cdef bint described = hasattr(data, "__array_interface__")
    if isinstance(data, type):
        return None
    if described and hasattr(data, "tobytes") and hasattr(data, "strides"):
        return data
    if described or hasattr(data, "__dlpack__") or hasattr(data, "__cuda_array_interface__"):
        return later("from_array")(data)
    return data.__array__() if hasattr(data, "__array__") else None


cdef bint _in_order(object array):
    """Return whether the memory of a NumPy-like array can be shared.

    It cannot for NumPy scalars, foreign byte orders and negative strides.
    """
    return hasattr(array, "__setitem__") and array.dtype.isnative and all([s >= 0 for s in array.strides])


cdef inline bint _plain(object data):
    """Return whether `data` is a Python number, list or tuple, so that it need not be tested for array protocols."""
    return type(data) is list or type(data) is float or type(data) is int or type(data) is tuple


cdef Device _place(Tensor t, Device device):
    """Return the device for another library's data: `device` if given, else the default device for data on the CPU,
    else the data's own device."""
    return device if device is not None else default_device() if t.storage.device is cpu_device() else t.storage.device


cdef DType _array_dtype(object array):
    cdef object found = None
    try:
        found = dtype_by_name(array.dtype.name)
    except ValueError:
        raise TypeError(f"arrays of dtype {array.dtype} cannot be converted to tensors") from None
    return <DType>found


cdef Tensor _from_array(object array, DType dtype, Device device):
    """Copy an array. Keep its stride order if its strides are multiples of the item size and not negative."""
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t dense[MAX_DIMS]
    cdef DType own = _array_dtype(array)
    cdef int i, n = array.ndim
    cdef bint ordinary = True
    cdef object shape = array.shape, steps = array.strides
    cdef Tensor t
    if n > MAX_DIMS:
        raise RuntimeError(f"at most {MAX_DIMS} dimensions are supported")
    if array.dtype.byteorder not in ("=", "|") and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    for i in range(n):
        sizes[i] = shape[i]
        strides[i] = steps[i] // own.itemsize
        if strides[i] < 0 or steps[i] % own.itemsize:
            ordinary = False
    if ordinary:
        preserve_strides(n, sizes, strides, dense)
    else:
        row_major(n, sizes, dense)
    t = _make(array.tobytes(), n, sizes, dense, own, device)
    return t if dtype is None or dtype is own else <Tensor>t.to(dtype)


cdef bint _is_storage(object data) except -1:
    return isinstance(data, Storage) or isinstance(getattr(data, "_untyped_storage", None), Storage)


cdef Tensor _over_storage(object storage, DType dtype, Device device):
    """Return the bytes of a storage as a vector of `dtype`. It shares the memory unless `device` is another device."""
    elements = later("elements")
    cdef Tensor t = <Tensor>elements(storage, dtype)
    return t if device is None else <Tensor>t.to(device)


cdef Tensor tensor_of(object data, DType dtype, Device device):
    """Return a new tensor with the values of `data`: a number, nested sequences, an array, or a tensor."""
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n
    cdef Tensor t
    if isinstance(data, Tensor):
        return <Tensor>data.detach().to(device or (<Tensor>data).storage.device, dtype or (<Tensor>data).dtype, copy=True)
    if not _plain(data):
        if _is_storage(data):
            return _over_storage(data, dtype, device)
        array = _array_of(data)
        if isinstance(array, Tensor):
            return <Tensor>array.to(_place(<Tensor>array, device), dtype or (<Tensor>array).dtype, copy=True)
        if array is not None:
            return _from_array(array, dtype, default_device() if device is None else device)
    if device is None:
        device = default_device()
    n = measure(data, sizes)
    if dtype is None:
        dtype = infer_dtype(data)
    block = encode(data, n, sizes, dtype)
    if device is META and not hints.modes:
        t = new_contiguous(n, sizes, dtype, device)     # the same result as _make, at half the cost
        if hints.constants and keeps_constants():
            note_bytes(t, block)
        return t
    row_major(n, sizes, strides)
    return _make(block, n, sizes, strides, dtype, device)


cdef Tensor _with_grad(Call* c, int slot, Tensor t):
    if bool_arg(c, slot):
        if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX:
            raise RuntimeError(f"{op_name(c)}(): only floating-point and complex tensors can require gradients, not "
                               f"{t.dtype.name}")
        t.flags |= T_REQUIRES_GRAD
    return t


cdef inline DType _dtype_or_none(Call* c, int slot):
    return None if is_none(c, slot) else <DType>arg(c, slot)


cdef inline Device _device_or_none(Call* c, int slot):
    return None if is_none(c, slot) else <Device>arg(c, slot)


cdef object tensor_body(Call* c):
    return _with_grad(c, 3, tensor_of(arg(c, 0), _dtype_or_none(c, 1), _device_or_none(c, 2)))


cdef object new_tensor_body(Call* c):
    cdef Tensor like = tensor_arg(c, 0)
    return _with_grad(c, 4, tensor_of(arg(c, 1), like.dtype if is_none(c, 2) else <DType>arg(c, 2),
                                      like.storage.device if is_none(c, 3) else <Device>arg(c, 3)))


cdef Tensor _converted(object data, DType dtype, Device device):
    """Return `data` as a tensor.

    It shares memory with `data` if that is a tensor, storage or array that has the requested dtype and device and whose
    memory can be shared. Other data is copied.
    """
    cdef Tensor t
    if isinstance(data, Tensor):
        t = <Tensor>data
        return <Tensor>t.to(device or t.storage.device, dtype or t.dtype)
    if not _plain(data):
        if _is_storage(data):
            return _over_storage(data, dtype, device)
        array = _array_of(data)
        if isinstance(array, Tensor):
            t = <Tensor>array
            return <Tensor>t.to(_place(t, device), dtype or t.dtype)
        if array is not None and (default_device() if device is None else device) is cpu_device() and _in_order(array):
            _array_dtype(array)
            t = <Tensor>backend_of(cpu_device()).adopt(array)
            return t if dtype is None else <Tensor>t.to(dtype)
    return tensor_of(data, dtype, device)


cdef object as_tensor_body(Call* c):
    return _converted(arg(c, 0), _dtype_or_none(c, 1), _device_or_none(c, 2))


cdef object _shareable(object data, DType dtype):
    """Return `data`, or a tensor over the memory of a storage or of a buffer that is not an array."""
    if _is_storage(data):
        return _over_storage(data, dtype, None)
    if type(data).__name__ == "PyCapsule":
        return later("from_dlpack")(data)
    if _plain(data) or isinstance(data, Tensor) or not PyObject_CheckBuffer(data):
        return data
    if hasattr(data, "__array_interface__") or hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        return data     # an array, which has a shape and dtype of its own
    return later("frombuffer")(data, dtype=dtype or default_float())


cdef bint _shares(Tensor t, object data) except -1:
    """Return whether `t` shares memory with `data`, from which it was created."""
    if isinstance(data, Tensor):
        return t.storage is (<Tensor>data).storage
    if _plain(data) or t.storage.data is None:
        return False
    array = _array_of(data)
    if isinstance(array, Tensor):
        return t.data_ptr() == array.data_ptr()
    return array is not None and t.data_ptr() == array.__array_interface__["data"][0]


cdef bint _is_number(object data) except -1:
    import numbers                  # its classes would be a hundredth of the time of the package's import

    return isinstance(data, numbers.Number)


cdef object asarray_body(Call* c):
    cdef object data = arg(c, 0), copy = arg(c, 3)
    cdef Tensor t
    if copy is False and hasattr(data, "dtype") and _is_number(data):
        raise RuntimeError(f"{op_name(c)}(): copy=False was given, but the memory of a NumPy scalar cannot be shared")
    data = _shareable(data, _dtype_or_none(c, 1))
    if copy is True:
        t = tensor_of(data, _dtype_or_none(c, 1), _device_or_none(c, 2))
    else:
        t = _converted(data, _dtype_or_none(c, 1), _device_or_none(c, 2))
        if copy is False and not _shares(t, data):
            raise ValueError(f"{op_name(c)}(): copy=False was given, but the data cannot be shared without a copy")
        if t.flags & T_REQUIRES_GRAD and not bool_arg(c, 4):
            t = <Tensor>t.detach()
    return _with_grad(c, 4, t)


define("tensor(any? data, *, dtype? dtype=None, device? device=None, bool requires_grad=False, bool pin_memory=False)"
       " -> Tensor", tensor_body, COMPOSITE | FUNCTION_ONLY,
       "Return a new tensor with a copy of `data`: a number, nested sequences, an array or a tensor. `dtype` is "
       "inferred from the data by default. The copy has no gradient history.")
define("new_tensor(Tensor input, any? data, *, dtype? dtype=None, device? device=None, bool requires_grad=False, "
       "bool pin_memory=False) -> Tensor", new_tensor_body, COMPOSITE | METHOD_ONLY,
       "Like `tensor`, but dtype and device default to those of this tensor.")
define("as_tensor(any? data, dtype? dtype=None, device? device=None) -> Tensor", as_tensor_body, COMPOSITE | FUNCTION_ONLY,

       "Return `data` as a tensor, without a copy if it is a tensor or array of the requested dtype and device.")
define("asarray(any? obj, *, dtype? dtype=None, device? device=None, bool? copy=None, bool requires_grad=False) -> Tensor",
       asarray_body, COMPOSITE | FUNCTION_ONLY,
       "Like `as_tensor`, but `copy=True` always copies, and `copy=False` raises ValueError if the memory cannot be "
       "shared.")
