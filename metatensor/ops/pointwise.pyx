"""Meta kernels of element-wise ops, which differ only in their dtype rules.

Results have the broadcast shape of the operands. This module computes shapes
and strides. `operands` computes type promotion. Families declare their ops with
the kernels `unary`, `binary` and `pointwise`, or build their own kernels from
the functions in the .pxd.
"""
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device, cpu_device
from metatensor._core.dtype cimport DType, number_kind
from metatensor._core.layout cimport (
    Layout, broadcast_into, copy_dims, dims_equal, elementwise_strides, is_channels_last, is_dense,
    is_row_major, mul_dims, preserve_strides, row_major, set_format,
)
from metatensor._core.op cimport (
    INT_TO_FLOAT, K_OPERAND, K_TENSOR, KEEP, PROMOTE, RULE_MASK, Call, Overload, op_flags, op_name,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_from, new_like, new_strided
from metatensor._core.types cimport FORMAT_CHANNELS_LAST, KIND_FLOAT, KIND_INT, MAX_DIMS, T_CONTIGUOUS, dim_t

cdef extern from *:
    """
    #define MT_IS_A(o, type) PyObject_TypeCheck((PyObject *)(o), (PyTypeObject *)(type))
    """
    bint is_a "MT_IS_A" (PyObject* o, PyObject* t) noexcept
    bint PyLong_CheckExact(PyObject* o) noexcept
    bint PyFloat_CheckExact(PyObject* o) noexcept

# The signature of `new_like` with borrowed pointers. With it, hot kernels change only their result's reference count.
ctypedef object (*NewLike)(PyObject* like, PyObject* dtype, PyObject* device)


# Layouts --------------------------------------------------------------------------

cdef inline bint _same_shape(Operands* o) noexcept:
    cdef int k
    for k in range(1, o.n):
        if o.ndims[k] != o.ndims[0] or not dims_equal(o.sizes[k], o.sizes[0], o.ndims[0]):
            return False
    # A Python number counts as a 0-d operand.
    return not o.wrapped or o.n == 0 or o.ndims[0] == 0


cdef bint _same_strides(Operands* o) noexcept:
    """Return 1 if all operands are channels-last, 2 if all are dense with the same strides, else 0."""
    cdef int k, n = o.ndims[0]
    cdef bint channels_last = n == 4, dense = True
    for k in range(o.n):
        if channels_last and not is_channels_last(n, o.sizes[k], o.strides[k]):
            channels_last = False
        if dense and not (dims_equal(o.strides[k], o.strides[0], n) and is_dense(n, o.sizes[k], o.strides[k])):
            dense = False
    return 1 if channels_last else 2 if dense else 0


cdef int _shapes_differ(Call* c, Operands* o) except -1:
    cdef int i, k
    shapes = " and ".join([str([o.sizes[k][i] for i in range(o.ndims[k])]) for k in range(o.n)])
    raise RuntimeError(f"{op_name(c)}(): the shapes {shapes} do not broadcast")


cdef int _broadcast_sizes(Call* c, Operands* o, Layout* out) except -1:
    cdef int k
    out.offset = 0
    out.ndim = 0
    for k in range(o.n):
        if broadcast_into(out, o.ndims[k], o.sizes[k]):
            _shapes_differ(c, o)
    return 0


cdef int _expanded(int ndim, const dim_t* sizes, const dim_t* strides, Layout* out, dim_t* to) except -1:
    """Compute the strides `to` of an operand expanded to the sizes of `out`: 0 where it repeats."""
    cdef int i, shift = out.ndim - ndim
    for i in range(out.ndim - 1, -1, -1):
        if i < shift:
            to[i] = 0 if out.sizes[i] != 1 else mul_dims(out.sizes[i + 1], to[i + 1]) if i + 1 < out.ndim else 1
        else:
            to[i] = 0 if sizes[i - shift] != out.sizes[i] else strides[i - shift]
    return 0


cdef int _meta_strides(Operands* o, Layout* out) except -1:
    """Compute the strides of a meta result with the sizes in `out`, by the rules of PyTorch's meta kernels.

    These kernels expand the operands first. If all expanded operands are contiguous, or all are channels-last, so is
    the result. Otherwise, or if both hold, as for images of one channel and for empty tensors, the result is dense in
    the order of the operands' strides.
    """
    cdef dim_t room[MAX_OPERANDS * MAX_DIMS]
    cdef const dim_t* strides[MAX_OPERANDS]
    cdef const dim_t* sizes[MAX_OPERANDS]
    cdef int ndims[MAX_OPERANDS]
    cdef bint empty[MAX_DIMS]
    cdef bint contiguous = True, channels_last = out.ndim == 4
    cdef int i, k
    for k in range(o.n):
        _expanded(o.ndims[k], o.sizes[k], o.strides[k], out, room + k * MAX_DIMS)
        ndims[k], sizes[k], strides[k] = out.ndim, out.sizes, room + k * MAX_DIMS
        contiguous = contiguous and is_row_major(out.ndim, out.sizes, strides[k])
        channels_last = channels_last and is_channels_last(4, out.sizes, strides[k])
    if o.n == 0 or (contiguous and not channels_last):
        return row_major(out.ndim, out.sizes, out.strides)
    if channels_last and not contiguous:
        return set_format(4, out.sizes, out.strides, FORMAT_CHANNELS_LAST)
    for i in range(out.ndim):
        empty[i] = out.sizes[i] == 0
        if empty[i]:
            out.sizes[i] = 1        # an empty dimension counts as size 1, so that no stride is 0
    elementwise_strides(o.n, ndims, sizes, strides, out)
    for i in range(out.ndim):
        if empty[i]:
            out.sizes[i] = 0
    return 0


cdef int broadcast_result(Call* c, Operands* o, Layout* out) except -1:
    """Compute the sizes and strides of the result, by the rules of PyTorch's TensorIterator or of its meta kernels.

    If the operands have the same shape and are all contiguous, all channels-last
    or all dense with the same strides, the result has that layout too. Otherwise
    it is dense, with its dimensions in the order of the operands' strides.
    """
    cdef int same
    _broadcast_sizes(c, o, out)
    if c.device == <PyObject*>META:
        return _meta_strides(o, out)
    if o.n and _same_shape(o):
        if o.contiguous:
            return row_major(out.ndim, out.sizes, out.strides)
        same = _same_strides(o)
        if same == 1:
            return set_format(4, out.sizes, out.strides, FORMAT_CHANNELS_LAST)
        if same == 2:
            copy_dims(out.strides, o.strides[0], out.ndim)
            return 0
    return elementwise_strides(o.n, o.ndims, o.sizes, o.strides, out)


cdef bint _all_canonical(Operands* o) noexcept:
    """Return whether all operands have row-major strides, also in dimensions of size 1.

    If so, the result has them too, unless it is empty.
    """
    cdef dim_t step
    cdef int i, k
    for k in range(o.n):
        step = 1
        for i in range(o.ndims[k] - 1, -1, -1):
            if o.strides[k][i] != step:
                return False
            if o.sizes[k][i] > 1:
                step *= o.sizes[k][i]
    return True


cdef int _alone(Operands* o, int k, bint on_meta, dim_t* strides) except -1:
    """Compute the strides of the result of a unary op on operand number `k` of `o`."""
    cdef Operands one
    cdef Layout out
    out.ndim = o.ndims[k]
    copy_dims(out.sizes, o.sizes[k], out.ndim)
    if not on_meta:
        return preserve_strides(out.ndim, out.sizes, o.strides[k], strides)
    one.n = 1
    one.ndims[0], one.sizes[0], one.strides[0] = o.ndims[k], o.sizes[k], o.strides[k]
    _meta_strides(&one, &out)
    copy_dims(strides, out.strides, out.ndim)
    return 0


cdef int _convert(Operands* o, bint on_meta, dim_t* room) except -1:
    """Update `o.strides`: an operand that is converted to the common dtype gets the strides of its converted copy.

    PyTorch converts operands before it orders dimensions. The copy of an operand with gaps or repeated elements is
    dense. `room` provides MAX_DIMS strides for each operand.
    """
    cdef int k
    o.contiguous = True
    for k in range(o.n):
        if o.codes[k] >= 0 and o.codes[k] != o.common and not is_dense(o.ndims[k], o.sizes[k], o.strides[k]):
            _alone(o, k, on_meta, room + k * MAX_DIMS)
            o.strides[k] = room + k * MAX_DIMS
        if not is_row_major(o.ndims[k], o.sizes[k], o.strides[k]):
            o.contiguous = False
    return 0


cdef Tensor elementwise_result(Call* c, Operands* o, DType d):
    cdef Layout out
    cdef Tensor t
    cdef dim_t room[MAX_OPERANDS * MAX_DIMS]
    if o.contiguous and o.first != NULL:
        if _same_shape(o) and canonical_at(o.first):
            return new_like(<Tensor>o.first, d, <Device>c.device)
        if _all_canonical(o):
            _broadcast_sizes(c, o, &out)
            t = new_contiguous(out.ndim, out.sizes, d, <Device>c.device)
            if t.total:
                return t
    if o.common >= 0 and (not o.contiguous or c.device == <PyObject*>META):
        _convert(o, c.device == <PyObject*>META, room)
    broadcast_result(c, o, &out)
    return new_from(&out, d, <Device>c.device)


cdef Tensor elementwise_like(Tensor t, DType d, Device device):
    """Return a new tensor with the sizes of `t` and the strides of a unary op's result."""
    cdef dim_t strides[MAX_DIMS]
    cdef Operands o
    cdef Layout out
    if canonical_at(<PyObject*>t):
        return new_like(t, d, device)
    no_operands(&o)
    shape_operand(&o, t)
    out.ndim = t.ndim
    out.offset = 0
    copy_dims(out.sizes, t.sizes, t.ndim)
    if device is META:
        _meta_strides(&o, &out)
        return new_from(&out, d, device)
    if t.flags & T_CONTIGUOUS:
        return new_contiguous(t.ndim, t.sizes, d, device)
    if t.ndim == 4 and is_channels_last(4, t.sizes, t.strides):
        set_format(4, t.sizes, strides, FORMAT_CHANNELS_LAST)
        return new_strided(4, t.sizes, strides, d, device)
    if is_dense(t.ndim, t.sizes, t.strides):
        return new_like(t, d, device)
    elementwise_strides(1, o.ndims, o.sizes, o.strides, &out)
    return new_strided(out.ndim, out.sizes, out.strides, d, device)


# Kernels --------------------------------------------------------------------------

cdef inline bint _plain(long flags, int kind) noexcept:
    """Return whether the op supports operands of this kind and returns results of the operands' dtype."""
    return ((flags & RULE_MASK) == PROMOTE or (flags & RULE_MASK) == KEEP) and not is_refused(flags, kind)


cdef inline object _like(Call* c, PyObject* t):
    """Return a new result with the layout of `t` and the dtype by the op's rule. `canonical_at(t)` must be true."""
    cdef DType d
    if _plain(op_flags(c), (<Tensor>t).dtype.kind):
        return (<NewLike>new_like)(t, <PyObject*>(<Tensor>t).dtype, c.device)
    d = ruled(c, (<Tensor>t).dtype)
    return (<NewLike>new_like)(t, <PyObject*>d, c.device)


cdef object unary(Call* c):
    """Meta kernel for one operand. Numbers in other arguments do not change the dtype."""
    cdef Operands o
    cdef Tensor t
    if canonical_at(c.args[0]):
        return _like(c, c.args[0])
    t = <Tensor>c.args[0]
    if t.dtype.kind <= KIND_INT and op_flags(c) & RULE_MASK == INT_TO_FLOAT:    # converted to the default dtype first
        no_operands(&o)
        operand(&o, t)
        return elementwise_result(c, &o, ruled(c, promoted(c, &o)))
    return elementwise_like(t, ruled(c, t.dtype), <Device>c.device)


cdef inline bint _alike(PyObject* a, PyObject* b) noexcept:
    """Return whether tensors `a` and `b` have the same dtype and sizes and are row-major, as in most calls."""
    return <PyObject*>(<Tensor>a).dtype == <PyObject*>(<Tensor>b).dtype and (<Tensor>a).ndim == (<Tensor>b).ndim \
        and (<Tensor>b).flags & T_CONTIGUOUS \
        and dims_equal((<Tensor>a).sizes, (<Tensor>b).sizes, (<Tensor>a).ndim) and canonical_at(a)


cdef inline int _kind(PyObject* p) noexcept:
    """Return the category of a number. The usual types are tested first."""
    if PyLong_CheckExact(p):
        return KIND_INT
    return KIND_FLOAT if PyFloat_CheckExact(p) else number_kind(<object>p)


cdef int of_numbers(Call* c) except -1:
    """Put the result of basic arithmetic on two numbers on the cpu, as in PyTorch. Raise TypeError for other ops."""
    cdef Device cpu = cpu_device()
    if op_name(c) not in ("add", "sub", "mul", "div", "floor_divide"):
        raise TypeError(f"{op_name(c)}(): one of the first two arguments must be a Tensor, got two numbers")
    c.device = <PyObject*>cpu       # kept alive by the table of devices
    return 0


cdef object binary(Call* c):
    """Meta kernel for two operands, each a tensor or a Python number."""
    cdef PyObject* a = c.args[0]
    cdef PyObject* b = c.args[1]
    if is_a(a, <PyObject*>Tensor):
        if is_a(b, <PyObject*>Tensor):
            if _alike(a, b):
                return _like(c, a)
            if (<Tensor>a).dtype is (<Tensor>b).dtype and canonical_at(a) and canonical_at(b):
                return _broadcast(c, <Tensor>a, <Tensor>b)
        elif _kind(b) <= (<Tensor>a).dtype.kind and (<Tensor>a).total and canonical_at(a):
            return _like(c, a)
    return _binary(c)


cdef object _broadcast(Call* c, Tensor a, Tensor b):
    """Return the result for two row-major tensors of the same dtype. It is row-major too, unless it is empty."""
    cdef Layout out
    cdef Tensor t
    out.ndim = a.ndim
    copy_dims(out.sizes, a.sizes, a.ndim)
    if broadcast_into(&out, b.ndim, b.sizes) == 0:
        t = new_contiguous(out.ndim, out.sizes, ruled(c, a.dtype), <Device>c.device)
        if t.total:
            return t
    return _binary(c)


cdef object _binary(Call* c):
    cdef Operands o
    no_operands(&o)
    operand_arg(&o, c, 0)
    operand_arg(&o, c, 1)
    if o.n == 0:
        of_numbers(c)
    return elementwise_result(c, &o, ruled(c, promoted(c, &o)))


cdef object pointwise(Call* c):
    """Meta kernel for the op's leading arguments that are tensors, or numbers in their place."""
    cdef Operands o
    cdef Overload ov = <Overload>c.overload
    cdef int i
    no_operands(&o)
    for i in range(min(ov.npos, <int>MAX_OPERANDS)):
        if ov.slots[i].kind != K_TENSOR and ov.slots[i].kind != K_OPERAND:
            break
        operand_arg(&o, c, i)
    return elementwise_result(c, &o, ruled(c, promoted(c, &o)))
