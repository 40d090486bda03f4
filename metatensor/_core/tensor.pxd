from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout
from metatensor._core.storage cimport Storage
from metatensor._core.types cimport INLINE_DIMS, dim_t


cdef class Tensor:
    cdef readonly int ndim
    cdef int flags                          # TensorFlag
    cdef int output                         # which output of `node` this is
    cdef dim_t* sizes                       # points into `inline_dims` or `heap`
    cdef dim_t* strides                     # in elements
    cdef dim_t inline_dims[2 * INLINE_DIMS]
    cdef dim_t offset                       # in elements
    cdef dim_t total                        # number of elements, checked for overflow at creation
    cdef Storage storage
    cdef readonly DType dtype
    cdef object base                        # the tensor that this is a view of, never itself a view; or None
    cdef object extra                       # TensorExtra, or None
    cdef object heap                        # bytes object with sizes and strides if ndim > INLINE_DIMS, else None
    cdef PyObject* node                     # owned: the Node of the call that returned the tensor, or NULL
    cdef PyObject* attrs                    # the instance dict, or NULL until an attribute is set
    cdef object __weakref__


cdef class TensorExtra:
    """Attributes that few tensors have."""
    cdef object grad
    cdef VersionCounter versions            # the counter of `_version`; None means the storage's counter
    cdef unsigned long long seen            # for a view: the version of its base for which `node` is valid
    cdef PyObject* accumulator              # for a leaf: borrowed; its AccumulateGrad node, which owns the tensor, or NULL
    cdef object hooks                       # for a leaf: its hooks by kind, or None
    cdef dict tangents                      # forward-mode tangents by level, or None


cdef class VersionCounter:
    """A count of in-place changes. A tensor shares it with its views and detached copies, but not with `.data`."""
    cdef unsigned long long count


cdef Tensor new_like(Tensor a, DType dtype, Device device)
cdef Tensor new_contiguous(int ndim, const dim_t* sizes, DType dtype, Device device)
cdef Tensor new_strided(int ndim, const dim_t* sizes, const dim_t* strides, DType dtype, Device device)
cdef Tensor new_from(Layout* layout, DType dtype, Device device)
cdef Tensor new_view(Tensor base, int ndim, const dim_t* sizes, const dim_t* strides, dim_t offset)
cdef Tensor alias(Tensor t)
cdef Tensor over_storage(Storage s, DType dtype, int ndim, const dim_t* sizes, const dim_t* strides,
                         dim_t offset)
cdef int set_layout(Tensor t, int ndim, const dim_t* sizes, const dim_t* strides, dim_t offset) except -1
cdef int wrap_dim(Tensor t, object dim, str op) except -1
cdef int set_requires_grad(Tensor t, object value) except -1
cdef Tensor instance_of(object cls)
cdef TensorExtra extra_of(Tensor t)
cdef str shape_str(Tensor t)
cdef int detach_from(Tensor t, Tensor source) except -1


cdef inline VersionCounter shared_versions(Tensor t):
    """Return the counter that `t` shares with its base, or None if they use the counter of the storage."""
    cdef Tensor owner = t if t.base is None else <Tensor>t.base
    return None if owner.extra is None else (<TensorExtra>owner.extra).versions


cdef inline unsigned long long version_of(Tensor t) noexcept:
    """Return the number of in-place changes of `t` and of the tensors that share its counter."""
    cdef VersionCounter versions = shared_versions(t)
    return t.storage.version - t.storage.uncounted if versions is None else versions.count


cdef inline int mark_changed(Tensor t) except -1:
    """Count an in-place change of `t`."""
    cdef VersionCounter versions
    t.storage.version += 1
    if t.extra is not None or t.base is not None:
        versions = shared_versions(t)
        if versions is not None:
            versions.count += 1
            t.storage.uncounted += 1
    return 0


# Function pointers and ops that higher layers set at import. The slots of Tensor call them without a lookup.
cdef enum Slot:
    S_ADD, S_SUB, S_RSUB, S_MUL, S_DIV, S_FLOORDIV, S_MOD, S_POW, S_MATMUL
    S_AND, S_OR, S_XOR, S_LSHIFT, S_RSHIFT
    S_NEG, S_POS, S_ABS, S_INVERT, S_RECIPROCAL
    S_EQ, S_NE, S_LT, S_LE, S_GT, S_GE
    S_IADD, S_ISUB, S_IMUL, S_IDIV, S_IFLOORDIV, S_IMOD, S_IPOW, S_IAND, S_IOR, S_IXOR
    S_ILSHIFT, S_IRSHIFT
    N_SLOTS

cdef struct Hooks:
    object (*invoke)(PyObject* op, PyObject** args, int n)
    object (*getitem)(Tensor t, object index)
    int (*setitem)(Tensor t, object index, object value) except -1
    object (*item)(Tensor t)
    object (*tolist)(Tensor t)
    bint (*has_history)(Tensor t) except -1     # whether a tensor requires grad, also if the base of a view changed
    bint late_views                             # whether a base without history has ever got one from an in-place change

cdef Hooks hooks
cdef PyObject* slot_ops[N_SLOTS]
