"""Parsing an index such as x[i, 1:3, ..., None, mask] into steps on dimensions and index tensors."""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.device cimport META
from metatensor._core.dtype cimport BOOL, I32, I64, U8, DType, by_code
from metatensor._core.host cimport infer_dtype
from metatensor._core.storage cimport has_values
from metatensor._core.memory cimport Scope, pause_tracking, resume_tracking
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.thread cimport hints
from metatensor._core.types cimport KIND_INT, MAX_DIMS, T_DISTRIBUTED, T_OVERRIDES, dim_t
from metatensor.ops.values cimport tensor_of

import warnings

from metatensor._core.errors import DataDependentError

cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject* o) noexcept
    bint PySlice_Check(PyObject* o) noexcept
    int PySlice_Unpack(object s, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PyTuple_GET_SIZE(PyObject* o) noexcept
    PyObject* PyTuple_GET_ITEM(PyObject* o, Py_ssize_t i) noexcept
    PyObject* ELLIPSIS "Py_Ellipsis"
    PyObject* NONE "Py_None"
    long long PyLong_AsLongLongAndOverflow(PyObject* o, int* overflow) except? -1


cdef int warn_of_bytes(Tensor index) except -1:
    """Warn if an index is a mask of bytes, which may be mistaken for positions."""
    if index.dtype.code == U8:
        warnings.warn("a uint8 tensor is used as a mask; use a bool tensor instead, or int64 for positions", UserWarning,
                      stacklevel=1)
    return 0


@cython.final
cdef class IndexTensors:
    pass


cdef int _too_many(Tensor t) except -1:
    raise IndexError(f"too many indices for a tensor of shape {shape_str(t)}, which has {t.ndim} dimensions")


cdef int _add(Steps* s, StepKind kind, int dim, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c) except -1:
    cdef Step* p
    if s.n == MAX_STEPS:
        raise IndexError(f"at most {MAX_STEPS} indices are supported")
    p = &s.steps[s.n]
    p.kind = kind
    p.dim = dim
    p.a = a
    p.b = b
    p.c = c
    s.n += 1
    return 0


cdef int _read_int(Tensor t, Steps* s, PyObject* item) except -1:
    cdef int overflow = 0
    cdef long long i = PyLong_AsLongLongAndOverflow(item, &overflow)
    if overflow:
        raise ValueError(f"the index {<object>item} does not fit in 64 bits")
    return _select(t, s, i)


cdef int _select(Tensor t, Steps* s, dim_t i) except -1:
    cdef dim_t size
    if s.source >= t.ndim:
        if t.ndim == 0:
            raise IndexError("a 0-d tensor cannot be indexed with an int; use tensor.item() for its value")
        _too_many(t)
    size = t.sizes[s.source]
    if i < -size or i >= size:
        raise IndexError(f"index {i} is out of bounds for dimension {s.source} of a tensor of shape {shape_str(t)}")
    s.source += 1
    return _add(s, SELECT, s.dim, i + size if i < 0 else i, 0, 0)


cdef int _read_slice(Tensor t, Steps* s, object item) except -1:
    cdef Py_ssize_t start, stop, step
    if s.source >= t.ndim:
        _too_many(t)
    PySlice_Unpack(item, &start, &stop, &step)
    if step < 0:
        raise ValueError(f"the step of a slice must be positive, got {step}; use flip() for the reverse order")
    if start != 0 or step != 1 or stop < t.sizes[s.source]:
        _add(s, SLICE, s.dim, start, stop, step)
    s.source += 1
    s.dim += 1
    return 0


cdef int _add_tensor(Tensor t, Steps* s, IndexTensors found, Tensor index, int uses) except -1:
    """Add an index tensor that indexes `uses` dimensions."""
    if s.source + uses > t.ndim:
        _too_many(t)
    if s.n_advanced == MAX_DIMS:
        raise IndexError(f"at most {MAX_DIMS} index tensors are supported")
    s.dims[s.n_advanced] = s.dim
    s.n_advanced += 1
    found.advanced.append(index)
    s.source += uses
    s.dim += uses
    return 0


cdef int _read_bool(Tensor t, Steps* s, IndexTensors found, bint value) except -1:
    """Add a bool index. True adds a dimension of size 1, and False adds a dimension of size 0."""
    cdef DType long_type = by_code(I64)
    _add(s, UNSQUEEZE, s.dim, 0, 0, 0)
    s.dims[s.n_advanced] = s.dim
    s.n_advanced += 1
    found.advanced.append(tensor_of([0] if value else [], long_type, t.storage.device))
    s.dim += 1
    return 0


cdef inline bint _picks(Tensor index) except -1:
    """Return whether the class of a 0-d index overrides the operator `_index`."""
    return index.flags & T_OVERRIDES and getattr(type(index), "_picks_by_operator", False)


cdef int _read_tensor(Tensor t, Steps* s, IndexTensors found, Tensor index) except -1:
    cdef int i, code = index.dtype.code
    if code == BOOL or code == U8:
        warn_of_bytes(index)
        if index.ndim == 0:
            if not has_values(index.storage) and not hints.modes and not index.flags & T_DISTRIBUTED:
                raise unknown_mask(index)
            try:
                chosen = bool(index.item())
            except DataDependentError:
                raise unknown_mask(index) from None
            return _read_bool(t, s, found, chosen)
        if s.source + index.ndim > t.ndim:
            _too_many(t)
        for i in range(index.ndim):
            if index.sizes[i] != t.sizes[s.source + i]:
                raise IndexError(f"the mask of shape {shape_str(index)} does not match the tensor of shape "
                                 f"{shape_str(t)} from dimension {s.source} on")
        return _add_tensor(t, s, found, index, index.ndim)
    if code != I64 and code != I32 and (index.ndim or index.dtype.kind != KIND_INT):    # 0-d: any integer dtype
        raise IndexError(f"tensors used as indices must be int64, int32, uint8 or bool, not {index.dtype.name}")
    if index.ndim:
        return _add_tensor(t, s, found, index, 1)
    if has_values(index.storage) and not (found.by_op and _picks(index)):
        return _select(t, s, index.item())
    if s.source >= t.ndim:
        _too_many(t)
    s.source += 1
    found.picks.append(index)
    return _add(s, PICK, s.dim, 0, 0, 0)


cdef object unknown_mask(Tensor mask):
    return DataDependentError(
        f"index: the shape of the result depends on the values of a mask of shape {shape_str(mask)} on "
        f"{mask.storage.device}, which holds no data; use metatensor.where(mask, tensor, 0) or masked_fill() "
        "instead, or index with integers")


cdef object _flat_true(object data, list at, list found):
    """Append the positions of the true items of nested lists to `found`, as tuples."""
    cdef Py_ssize_t i = 0
    for item in data:
        if isinstance(item, (list, tuple)):
            _flat_true(item, at + [i], found)
        elif item:
            found.append(tuple(at + [i]))
        i += 1


cdef int _read_object(Tensor t, Steps* s, IndexTensors found, object item) except -1:
    """Read an index that is not a plain int, slice, None or Ellipsis."""
    cdef Tensor index
    if item is True or item is False:
        return _read_bool(t, s, found, item is True)
    if isinstance(item, Tensor):
        return _read_tensor(t, s, found, <Tensor>item)
    if isinstance(item, (list, tuple, range)) or (hasattr(item, "__len__") and hasattr(item, "__getitem__")
                                                  and not isinstance(item, dict) and not hasattr(type(item), "__torch_function__")):
        index = _index_of(t, item)
        if hasattr(item, "dtype"):
            return _read_tensor(t, s, found, index)
        if index.dtype.code == BOOL and t.storage.device is META:
            return _read_mask_list(t, s, found, item, index)
        if index.dtype.code != BOOL and index.dtype.code != U8:
            if index.dtype.code != I64:
                index = <Tensor>index.to(by_code(I64))
            if index.ndim:
                return _add_tensor(t, s, found, index, 1)
        return _read_tensor(t, s, found, index)
    if hasattr(item, "__index__") and not isinstance(item, float):
        return _select(t, s, item.__index__())
    raise IndexError("only ints, slices, ..., None, bools, and tensors, arrays and sequences of ints or bools are valid "
                     f"indices, not {type(item).__name__}")


cdef Tensor _index_of(Tensor t, object item):
    """Return a sequence as a tensor. Raise TypeError if an item is not a number, ValueError if the sequence is ragged."""
    cdef Scope scope = pause_tracking() if t.storage.device is META else None
    try:
        return tensor_of(item, None, t.storage.device)
    except ValueError:
        infer_dtype(item)
        raise
    finally:
        if scope is not None:       # an index of numbers is on the cpu in PyTorch
            resume_tracking(scope)


cdef int _read_mask_list(Tensor t, Steps* s, IndexTensors found, object item, Tensor mask) except -1:
    """Read a list of bools that indexes a meta tensor. Its values are known, so the shape of the result is known
    too."""
    cdef int i
    positions = []
    if s.source + mask.ndim > t.ndim:
        _too_many(t)
    for i in range(mask.ndim):
        if mask.sizes[i] != t.sizes[s.source + i]:
            raise IndexError(f"the mask of shape {shape_str(mask)} does not match the tensor of shape {shape_str(t)} "
                             f"from dimension {s.source} on")
    _flat_true(item, [], positions)
    for i in range(mask.ndim):
        _add_tensor(t, s, found, tensor_of([p[<object>i] for p in positions], by_code(I64), t.storage.device), 1)
    return 0


cdef int _uses(object item) except -1:
    """Return the number of dimensions that an index consumes, to find the length of an Ellipsis."""
    cdef Tensor index
    if item is None or item is True or item is False or item is Ellipsis:
        return 0
    if isinstance(item, Tensor):
        index = <Tensor>item
        return index.ndim if index.dtype.code == BOOL or index.dtype.code == U8 else 1
    if hasattr(item, "dtype") and getattr(item.dtype, "name", "") == "bool":
        return item.ndim
    return 1


cdef int _read_plain(Tensor t, Steps* s, PyObject* item, PyObject* rest, Py_ssize_t at) except -1:
    """Read an int, a slice, None or Ellipsis. Return 1 for any other index.

    `rest` is the tuple that holds `item` at position `at`, or NULL if the index is not a tuple.
    """
    cdef Py_ssize_t k
    cdef int skip
    if PyLong_CheckExact(item):
        return _read_int(t, s, item)
    if PySlice_Check(item):
        return _read_slice(t, s, <object>item)
    if item == NONE:
        _add(s, UNSQUEEZE, s.dim, 0, 0, 0)
        s.dim += 1
        return 0
    if item == ELLIPSIS:
        skip = t.ndim - s.source
        if rest != NULL:
            for k in range(at + 1, PyTuple_GET_SIZE(rest)):
                skip -= _uses(<object>PyTuple_GET_ITEM(rest, k))
        if skip < 0:
            _too_many(t)
        s.source += skip
        s.dim += skip
        return 0
    return 1


cdef bint _is_tuple_like(object index) except -1:
    """Return whether a list counts as a tuple, because it is short and holds tensors, sequences, slices, None or
    Ellipsis. NumPy had this rule in the past."""
    if not isinstance(index, list) or len(index) >= 32:
        return False
    for item in index:
        if item is None or item is Ellipsis or isinstance(item, (Tensor, list, tuple, slice, range)) \
                or hasattr(item, "__len__"):
            return True
    return False


cdef IndexTensors read_index(Tensor t, object index, Steps* s, bint by_op):
    """Fill in `s` and return the index tensors, or None if there are none."""
    cdef IndexTensors found = None
    cdef PyObject* items = <PyObject*>index
    cdef PyObject* item
    cdef Py_ssize_t k, n
    s.n = s.source = s.dim = s.n_advanced = 0
    if not isinstance(index, tuple):
        if not _is_tuple_like(index):
            if _read_plain(t, s, items, NULL, 0):
                found = _no_tensors(by_op)
                _read_object(t, s, found, index)
            return found
        index = tuple(index)
        items = <PyObject*>index
    n = PyTuple_GET_SIZE(items)
    for k in range(n):
        item = PyTuple_GET_ITEM(items, k)
        if _read_plain(t, s, item, items, k):
            if found is None:
                found = _no_tensors(by_op)
            _read_object(t, s, found, <object>item)
    return found


cdef IndexTensors _no_tensors(bint by_op):
    cdef IndexTensors found = IndexTensors.__new__(IndexTensors)
    found.advanced = []
    found.picks = []
    found.by_op = by_op
    return found
