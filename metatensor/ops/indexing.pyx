"""Indexing, x[index], and indexed assignment, x[index] = value.

An index is parsed into steps on the dimensions of the result (select, slice, new dimension) and index tensors. Normally
the steps modify a layout, from which one view is created at the end. But if a mode is active or a tensor's class
overrides operators, each step calls the op of its name, so that it can be intercepted.
"""
from cpython.object cimport PyObject
from cpython.slice cimport PySlice_Unpack
from metatensor._core.dtype cimport BOOL, U8, DType
from metatensor._core.layout cimport Layout, add_dims, mul_dims
from metatensor._core.op cimport Op, call, find
from metatensor._core.storage cimport has_values
from metatensor._core.modes cimport intercept, intercepts
from metatensor._core.overriding cimport ABSENT
from metatensor._core.tensor cimport Tensor, hooks, mark_changed
from metatensor._core.thread cimport hints, thread_state
from metatensor._core.types cimport (
    KIND_COMPLEX, KIND_FLOAT, T_DISTRIBUTED, T_FIXED_VIEW, T_NONLEAF, T_OVERRIDES, T_REQUIRES_GRAD,
)
from metatensor.ops.factory cimport has_infinity, holds
from metatensor.ops.index_steps cimport (
    SELECT, SLICE, UNSQUEEZE, IndexTensors, Step, Steps, read_index, unknown_mask,
)
from metatensor.ops.view cimport drop_dim, insert_dim, read_layout, slice_dim, view_of

from metatensor._core.errors import DataDependentError
import metatensor.ops.copying  # no-cython-lint: defines copy_ and fill_


cdef Tensor _by_layout(Tensor t, Steps* s):
    """Apply all steps at once, as one view."""
    cdef Layout lay
    cdef Step* p
    cdef int i
    read_layout(t, &lay)
    for i in range(s.n):
        p = &s.steps[i]
        if p.kind == SELECT:
            if p.a:
                lay.offset = add_dims(lay.offset, mul_dims(p.a, lay.strides[p.dim]))
            drop_dim(&lay, p.dim)
        elif p.kind == SLICE:
            slice_dim(&lay, p.dim, p.a, p.b, p.c)
        else:
            insert_dim(&lay, p.dim)
    return view_of(t, &lay)


cdef Tensor _by_ops(Tensor t, Steps* s, IndexTensors found, object index):
    """Apply the steps one by one, as ops that modes and subclasses can intercept."""
    cdef Step* p
    cdef object x = t
    cdef int i, picked = 0
    cdef Py_ssize_t start, stop, step
    if s.n == 0 and type(index) is slice:       # of everything, at this size; PyTorch also calls `slice` then, but not for a tuple
        PySlice_Unpack(index, &start, &stop, &step)
        return <Tensor>call("slice", (t, 0, start, stop, step))
    if s.n == 0:
        return <Tensor>call("alias", (t,))
    for i in range(s.n):
        p = &s.steps[i]
        if p.kind == SELECT:
            x = call("select", (x, p.dim, p.a))
        elif p.kind == SLICE:
            x = call("slice", (x, p.dim, p.a, p.b, p.c))
        elif p.kind == UNSQUEEZE:
            x = call("unsqueeze", (x, p.dim))
        else:
            x = call("_index", (x, [found.picks[<object>picked]], (p.dim,)))
            picked += 1
    return <Tensor>x


cdef inline Tensor _view(Tensor t, Steps* s, IndexTensors found, object index=None):
    if hints.modes or hints.duals or t.flags & (T_OVERRIDES | T_DISTRIBUTED) or (found is not None and found.picks) \
            or (t.flags & T_REQUIRES_GRAD and thread_state().grad_enabled):
        return _by_ops(t, s, found, index)
    cdef Tensor view = _by_layout(t, s)
    if t.flags & T_REQUIRES_GRAD:
        view.flags |= T_FIXED_VIEW
    return view


cdef object _expand_masks(Steps* s, list tensors):
    """Return the index tensors and their dimensions, with each mask replaced by the positions of its true elements."""
    cdef Tensor index
    cdef Py_ssize_t k
    cdef int i
    indices = []
    dims = []
    for k in range(len(tensors)):
        index = <Tensor>tensors[k]
        if index.dtype.code != BOOL and index.dtype.code != U8:
            indices.append(index)
            dims.append(s.dims[k])
            continue
        if not has_values(index.storage) and not hints.modes and not index.flags & T_DISTRIBUTED:
            raise unknown_mask(index)
        try:
            positions = call("nonzero", (index,))
        except DataDependentError:
            raise unknown_mask(index) from None
        for i in range(index.ndim):
            indices.append(call("select", (positions, 1, i)))
            dims.append(s.dims[k] + i)
    return indices, tuple(dims)


cdef list _parts(object index):
    """Return the parts of an index, with those of slices."""
    parts = []
    for one in index if isinstance(index, tuple) else (index,):
        if isinstance(one, slice):
            parts += [one.start, one.stop, one.step]
        else:
            parts.append(one)
    return parts


cdef object getitem(Tensor t, object index):
    cdef Steps s
    if hints.modes and intercepts():
        return intercept(Tensor.__getitem__, (t,), (t, index), {})
    cdef IndexTensors found
    cdef Tensor view
    try:
        found = read_index(t, index, &s, True)
    except (IndexError, TypeError, RuntimeError):
        result = intercept(Tensor.__getitem__, _parts(index), (t, index), {})   # objects with __torch_function__
        if result is ABSENT:
            raise
        return result
    if found is None or s.n_advanced == 0:
        return _view(t, &s, found, index)
    # Without steps, index the tensor itself, so that a mode sees one op.
    view = t if s.n == 0 else _view(t, &s, found)
    indices, dims = _expand_masks(&s, found.advanced)
    return call("_index", (view, indices, dims))


# Indexed assignment -----------------------------------------------------------------------------

cdef Tensor _without_leading_ones(Tensor value):
    """Return the assigned tensor without its leading dimensions of size 1."""
    cdef int i = 0
    while i < value.ndim and value.sizes[i] == 1:
        i += 1
    if i == 0:
        return value
    return <Tensor>call("view", (value, tuple([value.sizes[k] for k in range(i, value.ndim)])))


cdef object LEAST = -(2 ** <object>63), MOST = 2 ** <object>63 - 1


cdef object _fitting(DType d, object value):
    """Return the number to assign. If a float dtype of at most 2 bytes cannot represent it, return infinity, or NaN if
    the dtype has no infinity."""
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise ValueError(f"cannot assign {value}, which does not fit in 64 bits")
    if d.kind == KIND_FLOAT and d.itemsize < 4 and not isinstance(value, complex) and not holds(d, value):
        return float(value) * float("inf") if has_infinity(d) else float("nan")
    return value


cdef object _number(Tensor t, object value):
    if isinstance(value, (bool, int, float, complex)):
        return _fitting(t.dtype, value)
    ndim = getattr(value, "ndim", None)
    if type(ndim) is int and ndim == 0 and hasattr(value, "item"):
        number = value.item()
        if isinstance(number, (bool, int, float, complex)):
            return number
    raise TypeError(f"cannot assign a {type(value).__name__} to elements of a {t.dtype.name} tensor, only numbers and "
                    "tensors")


cdef int _note_grad(Tensor t, object value) except -1:
    """Make `t` require gradients if the assigned value does."""
    if isinstance(value, Tensor) and (<Tensor>value).flags & T_REQUIRES_GRAD and thread_state().grad_enabled:
        if t.dtype.kind == KIND_FLOAT or t.dtype.kind == KIND_COMPLEX:
            t.flags |= T_REQUIRES_GRAD | T_NONLEAF
    return 0


cdef int setitem(Tensor t, object index, object value) except -1:
    cdef Steps s
    if hints.modes and intercepts():
        intercept(Tensor.__setitem__, (t, value), (t, index, value), {})
        return 0
    cdef IndexTensors found
    cdef Tensor view
    cdef PyObject* args[2]
    try:
        if not isinstance(value, Tensor):
            value = _number(t, value)
        found = read_index(t, index, &s, False)
    except (IndexError, TypeError, RuntimeError):
        if intercept(Tensor.__setitem__, [*_parts(index), value], (t, index, value), {}) is ABSENT:
            raise
        return 0
    if found is not None and found.picks:
        return _set_picked(t, &s, found, value)
    view = t if s.n == 0 else _view(t, &s, found)
    if s.n_advanced == 0:
        if isinstance(value, Tensor):
            args[1] = <PyObject*>value
            if (<Tensor>value).ndim > view.ndim:
                value = _without_leading_ones(<Tensor>value)
                args[1] = <PyObject*>value
            args[0] = <PyObject*>view
            hooks.invoke(<PyObject*>COPY, args, 2)
        else:
            args[0] = <PyObject*>view
            args[1] = <PyObject*>value
            hooks.invoke(<PyObject*>FILL, args, 2)
        return _note_grad(t, value)
    if isinstance(value, Tensor):
        value = _without_leading_ones(<Tensor>value)
    else:
        value = call("full", ((), value), {"dtype": t.dtype, "device": t.storage.device})
    call("_index_put_", (view, found.advanced, tuple([s.dims[k] for k in range(s.n_advanced)]), value))
    return _note_grad(t, value)


cdef int _set_picked(Tensor t, Steps* s, IndexTensors found, object value) except -1:
    """Assign through 0-d index tensors without data: check the value and mark the tensor as changed."""
    if s.n_advanced:
        raise DataDependentError("index_put_: an index tensor of shape [] holds no data; use an int or a vector of "
                                 "one index instead")
    cdef Tensor part = _by_ops(t, s, found, None)
    if isinstance(value, Tensor):
        call("copy_", (part, _without_leading_ones(<Tensor>value) if (<Tensor>value).ndim > part.ndim else value))
    mark_changed(t)
    return _note_grad(t, value)


cdef Op COPY = find("copy_"), FILL = find("fill_")
hooks.getitem = getitem
hooks.setitem = setitem
