"""The values that nodes save."""
from cpython.object cimport PyObject
from metatensor._core.graph cimport Node, Saved, SavedKind
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport INLINE_DIMS, T_SAVED, dim_t


cdef class SavedTensor:
    """A saved tensor: the tensor itself, an alias of a result, or the object that the pack hook returned."""
    cdef object value               # a Tensor, the object that the pack hook returned, or None
    cdef object unpack_hook         # or None
    cdef unsigned long long version
    cdef Node made_by               # the node of a packed argument, or None
    cdef int output                 # of `made_by`, or of the node that saves a result
    cdef bint is_result
    cdef object unpacked(self, Node node)


cdef class Layout:
    """The layout of an argument, as a rule receives it."""
    cdef PyObject* _dtype           # interned
    cdef PyObject* _device          # interned
    cdef int ndim
    cdef readonly dim_t offset
    cdef dim_t* sizes               # followed by the strides; points into `inline_sizes` or to allocated memory
    cdef dim_t inline_sizes[2 * INLINE_DIMS]


# A graph that ends in a tensor that it has saved is a reference cycle. Only a write to the tensor can close it.
cdef inline void mark_saved(Tensor t) noexcept:
    t.flags |= T_SAVED
    if t.base is not None:
        (<Tensor>t.base).flags |= T_SAVED


cdef Layout layout_of(Tensor t)
cdef SavedTensor saved_tensor(Tensor t, bint is_result, int output)
cdef Tensor alias_of_result(Tensor t)
cdef int keep(Node node, int k, object value, SavedKind kind) except -1
cdef int keep_tensor(Node node, int k, Tensor t) except -1
cdef int keep_tensors(Node node, int k, list tensors) except -1
cdef int keep_result(Node node, int k, Tensor t, int output) except -1
cdef object unpack(Node node, Saved* s)
