"""The Tensor class: sizes, strides, an offset and a dtype over a storage. Operators are in `metatensor.ops`."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, PyObject
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport F32, DType, by_code
from metatensor._core.instances cimport make_instance, setup_tensor
from metatensor._core.layout cimport Layout, copy_dims, count, extent, is_row_major, mul_dims, row_major
from metatensor._core.size cimport make_size, make_tuple, observed, observers
from metatensor._core.storage cimport Storage, has_values, new_storage
from metatensor._core.types cimport (
    INLINE_DIMS, MAX_DIMS, KIND_COMPLEX, KIND_FLOAT, T_CONJ, T_CONSTANT, T_CONTIGUOUS, T_FRESH, T_INFERENCE, T_NEG,
    T_FIXED_VIEW, T_MULTI_VIEW, T_NONLEAF, T_OVERRIDES, T_REQUIRES_GRAD, T_VIEW, dim_t,
)
import warnings
from math import prod

from metatensor._core.late import later

# Creating tensors -----------------------------------------------------------------

cdef inline Tensor _blank(int ndim):
    """Return an uninitialized instance with room for `ndim` dimensions."""
    cdef Tensor t = Tensor.__new__(Tensor)
    if ndim <= INLINE_DIMS:
        t.sizes = t.inline_dims
        t.strides = t.inline_dims + INLINE_DIMS
    else:
        _heap_dims(t, ndim)
    t.ndim = ndim
    return t


cdef int _heap_dims(Tensor t, int ndim) except -1:
    if ndim > MAX_DIMS:
        raise RuntimeError(f"at most {MAX_DIMS} dimensions are supported, got {ndim}")
    cdef object block = PyBytes_FromStringAndSize(NULL, 2 * ndim * sizeof(dim_t))
    t.heap = block
    t.sizes = <dim_t*>PyBytes_AS_STRING(block)
    t.strides = t.sizes + ndim
    return 0


cdef Tensor new_like(Tensor a, DType dtype, Device device):
    """Return a new tensor with the sizes and strides of `a`, which must be dense."""
    # Create the storage first: a memory tracker may run Python code.
    cdef Storage s = new_storage(device, mul_dims(a.total, dtype.itemsize))
    cdef Tensor t = _blank(a.ndim)
    cdef int i
    for i in range(a.ndim):
        t.sizes[i] = a.sizes[i]
        t.strides[i] = a.strides[i]
    t.total = a.total
    t.flags = a.flags & T_CONTIGUOUS
    t.dtype = dtype
    t.storage = s
    return t


cdef Tensor new_contiguous(int ndim, const dim_t* sizes, DType dtype, Device device):
    cdef dim_t total = count(ndim, sizes)
    cdef Storage s = new_storage(device, mul_dims(total, dtype.itemsize))
    cdef Tensor t = _blank(ndim)
    cdef dim_t* own_sizes = t.sizes
    cdef dim_t* own_strides = t.strides
    cdef dim_t step = 1
    cdef int i
    if total:
        for i in range(ndim - 1, -1, -1):
            own_sizes[i] = sizes[i]
            own_strides[i] = step
            step *= sizes[i]            # at most the total, which does not overflow
    else:
        copy_dims(own_sizes, sizes, ndim)
        row_major(ndim, sizes, own_strides)
    t.total = total
    t.flags = T_CONTIGUOUS
    t.dtype = dtype
    t.storage = s
    return t


cdef Tensor new_strided(int ndim, const dim_t* sizes, const dim_t* strides, DType dtype, Device device):
    cdef dim_t total = count(ndim, sizes)
    cdef Storage s = new_storage(device, mul_dims(extent(ndim, sizes, strides), dtype.itemsize))
    cdef Tensor t = _blank(ndim)
    copy_dims(t.sizes, sizes, ndim)
    copy_dims(t.strides, strides, ndim)
    t.total = total
    if is_row_major(ndim, sizes, strides):
        t.flags = T_CONTIGUOUS
    t.dtype = dtype
    t.storage = s
    return t


cdef Tensor new_from(Layout* layout, DType dtype, Device device):
    return new_strided(layout.ndim, layout.sizes, layout.strides, dtype, device)


cdef Tensor over_storage(Storage s, DType dtype, int ndim, const dim_t* sizes, const dim_t* strides,
                         dim_t offset):
    """Return a tensor over an existing storage. The caller must check that it fits."""
    cdef Tensor t = _blank(ndim)
    copy_dims(t.sizes, sizes, ndim)
    copy_dims(t.strides, strides, ndim)
    t.offset = offset
    t.total = count(ndim, sizes)
    if is_row_major(ndim, sizes, strides):
        t.flags = T_CONTIGUOUS
    if s.known:
        t.flags |= T_CONSTANT
    t.dtype = dtype
    t.storage = s
    return t


cdef Tensor new_view(Tensor base, int ndim, const dim_t* sizes, const dim_t* strides, dim_t offset):
    """Return a view of `base` with the given layout and the same storage and dtype."""
    cdef Tensor t = over_storage(base.storage, base.dtype, ndim, sizes, strides, offset)
    t.base = base if base.base is None else base.base
    t.flags |= T_VIEW | (base.flags & (T_CONJ | T_NEG | T_INFERENCE | T_MULTI_VIEW | T_FIXED_VIEW))
    return t


cdef Tensor alias(Tensor t):
    """Return a view of all of `t`, a new object."""
    return new_view(t, t.ndim, t.sizes, t.strides, t.offset)


cdef int set_layout(Tensor t, int ndim, const dim_t* sizes, const dim_t* strides, dim_t offset) except -1:
    """Set sizes, strides and offset of `t`."""
    cdef dim_t n = count(ndim, sizes)
    cdef Layout copy
    copy_dims(copy.sizes, sizes, ndim)      # the arguments may point into t
    copy_dims(copy.strides, strides, ndim)
    if ndim > INLINE_DIMS:
        if ndim != t.ndim:
            _heap_dims(t, ndim)
    else:
        t.sizes = t.inline_dims
        t.strides = t.inline_dims + INLINE_DIMS
        t.heap = None
    t.ndim = ndim
    copy_dims(t.sizes, copy.sizes, ndim)
    copy_dims(t.strides, copy.strides, ndim)
    t.offset = offset
    t.total = n
    t.flags &= ~T_CONTIGUOUS
    if is_row_major(ndim, t.sizes, t.strides):
        t.flags |= T_CONTIGUOUS
    return 0


cdef int detach_from(Tensor t, Tensor source) except -1:
    """Give `t` the storage, layout and dtype of `source`."""
    set_layout(t, source.ndim, source.sizes, source.strides, source.offset)
    t.storage = source.storage
    t.dtype = source.dtype
    t.flags = (t.flags & ~(T_CONJ | T_NEG)) | (source.flags & (T_CONJ | T_NEG))
    return 0


cdef TensorExtra extra_of(Tensor t):
    if t.extra is None:
        t.extra = TensorExtra.__new__(TensorExtra)
    return <TensorExtra>t.extra


cdef int _init_fresh(PyObject* p) except -1:
    """Initialize the result of `Tensor.__new__` called from Python: an empty tensor."""
    cdef Tensor t = <Tensor>p
    t.sizes = t.inline_dims
    t.strides = t.inline_dims + INLINE_DIMS
    t.ndim = 1
    t.sizes[0] = 0
    t.strides[0] = 1
    t.flags = T_CONTIGUOUS | T_FRESH
    t.dtype = by_code(F32)
    t.storage = new_storage(META, 0)
    if type(t) is not Tensor and getattr(type(t), "_overrides_dispatch", False):
        t.flags |= T_OVERRIDES
    return 0


# The class ------------------------------------------------------------------------

@cython.freelist(256)
@cython.trashcan(True)      # chains of gradients may be long; avoid deep recursion
@cython.final
cdef class TensorExtra:
    pass


@cython.final
@cython.no_gc
cdef class VersionCounter:
    pass


def _disabled_torch_function_impl(cls, func, types, args=(), kwargs=None):
    """Return NotImplemented. A subclass sets this as ``__torch_function__`` to leave dispatch unchanged."""
    return NotImplemented


cdef str shape_str(Tensor t):
    return str([t.sizes[i] for i in range(t.ndim)])


cdef int wrap_dim(Tensor t, object dim, str op) except -1:
    """Return `dim` counted from the front, 0 <= d < ndim. Raise IndexError if it is out of range, as any is for a 0-d tensor."""
    cdef int n = t.ndim
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"{op}(): argument 'dim' must be int, not {type(dim).__name__}")
    dim = dim.__index__()
    d = dim + n if dim < 0 else dim
    if not 0 <= d < n:
        expected = f"expected {-n} to {n - 1}" if n else "a 0-d tensor has none"
        raise IndexError(f"{op}(): dimension {dim} is out of range for {n} dimensions; {expected}")
    return d


cdef int set_requires_grad(Tensor t, object value) except -1:
    if not isinstance(value, (bool, int)):
        raise TypeError(f"requires_grad: expected a bool, got {type(value).__name__}")
    if value:
        if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX:
            raise RuntimeError("requires_grad: only floating-point and complex tensors can require "
                               f"gradients, not {t.dtype.name}")
        if t.flags & T_INFERENCE:
            raise RuntimeError("requires_grad: an inference tensor cannot require gradients")
        t.flags |= T_REQUIRES_GRAD
    else:
        if t.flags & T_NONLEAF:
            raise RuntimeError("requires_grad: only leaf tensors can set it to False; use detach()")
        t.flags &= ~T_REQUIRES_GRAD
    return 0


cdef inline bint _operand(object x):
    return isinstance(x, (Tensor, int, float, complex))


cdef inline object _binary(int slot, object a, object b):
    cdef PyObject* args[2]
    args[0] = <PyObject*>a
    args[1] = <PyObject*>b
    return hooks.invoke(slot_ops[slot], args, 2)


cdef object _foreign(int slot, object a, object b):
    """Run a binary operator if one operand is neither a tensor nor a Python number.

    Objects with ``__torch_function__`` and NumPy arrays and scalars are supported. Return NotImplemented for others.
    """
    cdef bint reflected = not isinstance(a, Tensor)
    cdef object other = a if reflected else b
    if hasattr(type(other), "__torch_function__"):
        op = <object>slot_ops[slot]     # the op calls __torch_function__
        return getattr(Tensor, op.__name__, op)(a, b)
    if not hasattr(other, "__array_interface__"):
        return NotImplemented
    operand = later("operand")
    other = operand(other, b if reflected else a)
    if not _operand(other) or (slot == S_MATMUL and not isinstance(other, Tensor)):
        return NotImplemented
    return _binary(slot, other, b) if reflected else _binary(slot, a, other)


cdef inline object _unary(int slot, object a):
    cdef PyObject* args[1]
    args[0] = <PyObject*>a
    return hooks.invoke(slot_ops[slot], args, 1)


@cython.binding(False)
@cython.freelist(256)
@cython.no_gc_clear
cdef class Tensor:
    """An n-dimensional array of one dtype: sizes, strides and an offset over a storage.

    A tensor on the meta device holds no data. Create tensors with factories such as
    `metatensor.empty` and `metatensor.tensor`. The constructor is PyTorch's legacy one.

    Parameters
    ----------
    *args
        Sizes, as in ``Tensor(2, 3)``, or one sequence of values.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.empty(2, 3, device="meta")
    >>> x.stride()
    (3, 1)
    """

    def __init__(self, *args, **kwargs):
        if not self.flags & T_FRESH:
            return      # already initialized by a factory or a subclass's __new__
        self.flags &= ~T_FRESH
        if args or kwargs:
            legacy_tensor = later("legacy_tensor")
            detach_from(self, legacy_tensor(*args, **kwargs))

    # Metadata
    @property
    def shape(self):
        """The sizes as a Size."""
        if observers:
            return observed(self, make_size(self.ndim, self.sizes), False)
        return make_size(self.ndim, self.sizes)

    def size(self, dim=None):
        """Return the sizes as a Size, or the size of dimension `dim` as an int."""
        if observers:
            shape = self.shape
            return shape if dim is None else shape[wrap_dim(self, dim, "size")]
        if dim is None:
            return make_size(self.ndim, self.sizes)
        return self.sizes[wrap_dim(self, dim, "size")]

    def stride(self, dim=None):
        """Return the strides, in elements, as a tuple, or the stride of dimension `dim` as an int."""
        if observers:
            strides = observed(self, make_tuple(self.ndim, self.strides), True)
            return strides if dim is None else strides[wrap_dim(self, dim, "stride")]
        if dim is None:
            return make_tuple(self.ndim, self.strides)
        return self.strides[wrap_dim(self, dim, "stride")]

    def storage_offset(self):
        """Return the position of the first element in the storage, in elements."""
        return self.offset

    def untyped_storage(self):
        """Return the storage."""
        return self.storage

    def dim(self):
        """Return the number of dimensions."""
        return self.ndim

    def ndimension(self):
        """Return the number of dimensions."""
        return self.ndim

    def numel(self):
        """Return the number of elements."""
        return prod(self.shape) if observers else self.total

    def nelement(self):
        """Return the number of elements."""
        return prod(self.shape) if observers else self.total

    @property
    def device(self):
        return self.storage.device

    @property
    def itemsize(self):
        return self.dtype.itemsize

    @property
    def nbytes(self):
        """The size of the elements in bytes, ``numel() * itemsize``. The storage may be larger or smaller."""
        return mul_dims(self.total, self.dtype.itemsize)

    @property
    def is_meta(self):
        return self.storage.device is META

    @property
    def is_cpu(self):
        return self.storage.device.type == "cpu"

    @property
    def is_cuda(self):
        return self.storage.device.type == "cuda"

    @property
    def _base(self):
        return self.base

    @property
    def _version(self):
        """The number of in-place changes of this tensor, its views and its detached copies."""
        if self.flags & T_INFERENCE:
            raise RuntimeError("_version: an inference tensor does not count its changes")
        return version_of(self)

    # Gradients
    @property
    def requires_grad(self):
        return hooks.has_history(self) if hooks.late_views else self.flags & T_REQUIRES_GRAD != 0

    @requires_grad.setter
    def requires_grad(self, value):
        set_requires_grad(self, value)

    @property
    def is_leaf(self):
        """Whether the tensor is a leaf: not the result of an op that records gradients."""
        if hooks.late_views:
            hooks.has_history(self)
        return self.flags & T_NONLEAF == 0

    # Values
    def item(self):
        """Return the only element as a Python number.

        Raises
        ------
        DataDependentError
            If the tensor has no data.
        """
        return hooks.item(self)

    def tolist(self):
        """Return the elements as nested lists of Python numbers.

        Raises
        ------
        DataDependentError
            If the tensor has no data.
        """
        return hooks.tolist(self)

    def __bool__(self):
        if self.total != 1:
            raise RuntimeError("the truth value of a tensor is defined for one element only; "
                               f"this one has shape {shape_str(self)}")
        return bool(hooks.item(self))

    def __int__(self):
        return int(_one_real_number(self, "int"))

    def __float__(self):
        if self.flags & T_REQUIRES_GRAD:
            warnings.warn("a tensor that requires grad is converted to a number, which has no gradient; use "
                          "tensor.detach() first", UserWarning, stacklevel=1)
        return float(_one_real_number(self, "float"))

    def __complex__(self):
        return complex(_one_number(self))

    def __index__(self):
        value = hooks.item(self) if self.total == 1 else None
        if not isinstance(value, int):
            raise TypeError("only integer tensors of one element can be used as an index")
        return int(value)

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.sizes[0]

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __getitem__(self, index):
        return hooks.getitem(self, index)

    def __setitem__(self, index, value):
        hooks.setitem(self, index, value)

    def __delitem__(self, index):
        raise TypeError("a tensor does not support deletion of elements")

    def __contains__(self, element):
        if not _operand(element):
            raise RuntimeError(f"in: expected a number or a tensor on the left, got {type(element).__name__}")
        return bool((self == element).any())

    def __hash__(self):
        return <Py_hash_t>(<Py_ssize_t><PyObject*>self >> 4)

    def __repr__(self):
        from metatensor._core.tensor_str import tensor_str
        return tensor_str(self)

    def __format__(self, spec):
        if self.ndim == 0 and (spec or type(self) is Tensor) and has_values(self.storage):
            return format(self.item(), spec)
        return object.__format__(self, spec)

    # Operators: these methods call the dispatcher directly, without parsing arguments.
    def __add__(self, other):
        return _binary(S_ADD, self, other) if _operand(other) else _foreign(S_ADD, self, other)

    def __radd__(self, other):
        return _binary(S_ADD, self, other) if _operand(other) else _foreign(S_ADD, self, other)

    def __sub__(self, other):
        return _binary(S_SUB, self, other) if _operand(other) else _foreign(S_SUB, self, other)

    def __rsub__(self, other):
        return _binary(S_RSUB, self, other) if _operand(other) else _foreign(S_RSUB, self, other)

    def __mul__(self, other):
        return _binary(S_MUL, self, other) if _operand(other) else _foreign(S_MUL, self, other)

    def __rmul__(self, other):
        return _binary(S_MUL, self, other) if _operand(other) else _foreign(S_MUL, self, other)

    def __truediv__(self, other):
        return _binary(S_DIV, self, other) if _operand(other) else _foreign(S_DIV, self, other)

    def __rtruediv__(self, other):
        return _binary(S_MUL, _unary(S_RECIPROCAL, self), other) if _operand(other) else _foreign(S_DIV, other, self)

    def __floordiv__(self, other):
        return _binary(S_FLOORDIV, self, other) if _operand(other) else _foreign(S_FLOORDIV, self, other)

    def __rfloordiv__(self, other):
        return _binary(S_FLOORDIV, other, self) if _operand(other) else _foreign(S_FLOORDIV, other, self)

    def __mod__(self, other):
        return _binary(S_MOD, self, other) if _operand(other) else _foreign(S_MOD, self, other)

    def __rmod__(self, other):
        return _binary(S_MOD, other, self) if _operand(other) else _foreign(S_MOD, other, self)

    def __pow__(self, other, modulo):
        if modulo is None:
            return _binary(S_POW, self, other) if _operand(other) else _foreign(S_POW, self, other)
        return NotImplemented

    def __rpow__(self, other, modulo):
        if modulo is None:
            return _binary(S_POW, other, self) if _operand(other) else _foreign(S_POW, other, self)
        return NotImplemented

    def __matmul__(self, other):
        return _binary(S_MATMUL, self, other) if isinstance(other, Tensor) else _foreign(S_MATMUL, self, other)

    def __rmatmul__(self, other):
        return _binary(S_MATMUL, other, self) if isinstance(other, Tensor) else _foreign(S_MATMUL, other, self)

    def __and__(self, other):
        return _binary(S_AND, self, other) if _operand(other) else _foreign(S_AND, self, other)

    def __rand__(self, other):
        return _binary(S_AND, self, other) if _operand(other) else _foreign(S_AND, self, other)

    def __or__(self, other):
        return _binary(S_OR, self, other) if _operand(other) else _foreign(S_OR, self, other)

    def __ror__(self, other):
        return _binary(S_OR, self, other) if _operand(other) else _foreign(S_OR, self, other)

    def __xor__(self, other):
        return _binary(S_XOR, self, other) if _operand(other) else _foreign(S_XOR, self, other)

    def __rxor__(self, other):
        return _binary(S_XOR, self, other) if _operand(other) else _foreign(S_XOR, self, other)

    def __lshift__(self, other):
        return _binary(S_LSHIFT, self, other) if _operand(other) else _foreign(S_LSHIFT, self, other)

    def __rlshift__(self, other):
        return _binary(S_LSHIFT, other, self) if _operand(other) else _foreign(S_LSHIFT, other, self)

    def __rshift__(self, other):
        return _binary(S_RSHIFT, self, other) if _operand(other) else _foreign(S_RSHIFT, self, other)

    def __rrshift__(self, other):
        return _binary(S_RSHIFT, other, self) if _operand(other) else _foreign(S_RSHIFT, other, self)

    def __neg__(self):
        return _unary(S_NEG, self)

    def __pos__(self):
        return _unary(S_POS, self)

    def __abs__(self):
        return _unary(S_ABS, self)

    def __invert__(self):
        if self.dtype.kind >= KIND_FLOAT:
            raise TypeError(f"~: only integers and bools have bits to invert, got a tensor of {self.dtype.name}")
        return _unary(S_INVERT, self)

    def __iadd__(self, other):
        return _binary(S_IADD, self, other) if _operand(other) else _foreign(S_IADD, self, other)

    def __isub__(self, other):
        return _binary(S_ISUB, self, other) if _operand(other) else _foreign(S_ISUB, self, other)

    def __imul__(self, other):
        return _binary(S_IMUL, self, other) if _operand(other) else _foreign(S_IMUL, self, other)

    def __itruediv__(self, other):
        return _binary(S_IDIV, self, other) if _operand(other) else _foreign(S_IDIV, self, other)

    def __ifloordiv__(self, other):
        return _binary(S_IFLOORDIV, self, other) if _operand(other) else _foreign(S_IFLOORDIV, self, other)

    def __imod__(self, other):
        return _binary(S_IMOD, self, other) if _operand(other) else _foreign(S_IMOD, self, other)

    def __ipow__(self, other):
        return _binary(S_IPOW, self, other) if _operand(other) else _foreign(S_IPOW, self, other)

    def __iand__(self, other):
        return _binary(S_IAND, self, other) if _operand(other) else _foreign(S_IAND, self, other)

    def __ior__(self, other):
        return _binary(S_IOR, self, other) if _operand(other) else _foreign(S_IOR, self, other)

    def __ixor__(self, other):
        return _binary(S_IXOR, self, other) if _operand(other) else _foreign(S_IXOR, self, other)

    def __ilshift__(self, other):
        return _binary(S_ILSHIFT, self, other) if _operand(other) else _foreign(S_ILSHIFT, self, other)

    def __irshift__(self, other):
        return _binary(S_IRSHIFT, self, other) if _operand(other) else _foreign(S_IRSHIFT, self, other)

    def __richcmp__(self, other, int op):
        cdef int slot = (S_EQ if op == Py_EQ else S_LT if op == Py_LT else S_LE if op == Py_LE
                         else S_GT if op == Py_GT else S_GE if op == Py_GE else S_NE)
        return _binary(slot, self, other) if _operand(other) else _foreign(slot, self, other)

    # Because of this priority, NumPy arrays leave mixed operations to the tensor.
    __array_priority__ = 1000


cdef object _no_getitem(Tensor t, object index):
    raise NotImplementedError("indexing is not loaded; import metatensor, not its parts")

cdef int _no_setitem(Tensor t, object index, object value) except -1:
    raise NotImplementedError("indexing is not loaded; import metatensor, not its parts")

cdef object _no_values(Tensor t):
    raise NotImplementedError("reading values is not loaded; import metatensor, not its parts")

hooks.getitem = _no_getitem
hooks.setitem = _no_setitem
hooks.item = hooks.tolist = _no_values

cdef object _one_number(Tensor t):
    """Return the value that int(), float() and complex() convert."""
    if t.total != 1:
        raise ValueError(f"a tensor of shape {shape_str(t)} cannot be converted to a Python number; it must have one element")
    return hooks.item(t)

cdef object _one_real_number(Tensor t, str kind):
    value = _one_number(t)
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError(f"{value} has an imaginary part, so it cannot be converted to {kind}")
        return value.real
    return value

cdef Tensor instance_of(object cls):
    """Return an empty tensor of a subclass without calling its `__new__`."""
    if getattr(cls, "_has_parts", False):
        raise TypeError(f"{cls.__name__}: a plain tensor cannot be given this class; use distribute_tensor or from_local")
    cdef Tensor t = <Tensor>make_instance(cls)
    _init_fresh(<PyObject*>t)
    t.flags &= ~T_FRESH
    return t


cdef Tensor _probe = Tensor.__new__(Tensor)
setup_tensor(Tensor, <char*>&_probe.attrs - <char*><PyObject*>_probe, <char*>&_probe.node - <char*><PyObject*>_probe, _init_fresh, ())
_init_fresh(<PyObject*>_probe)
