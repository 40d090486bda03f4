"""Recipes: how the bytes of storages without data come about, and what decides whether a call is recorded."""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call, Overload
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t


cdef enum:
    NEAR_DIMS = 5                   # dimensions that a Ref holds inline


cdef class Ghost:
    """What stands for a storage in recipes. It refers to no storage, so that recipes keep none alive."""
    cdef readonly list writers      # of Step, in order: those that write to it
    cdef readonly dim_t nbytes
    cdef readonly Device device
    cdef readonly bint constant     # a small value of a fake tensor, not to be materialised
    cdef int depth                  # of a constant: the most steps in a row behind it
    cdef object code                # of what made it, or None
    cdef int lasti                  # and the instruction there
    cdef object __weakref__


cdef class Ref:
    """A tensor of a recipe, as it was then: a ghost, a layout, a dtype, flags."""
    cdef PyObject* raw              # the ghost
    cdef Ghost strong               # the same, or None in a step that is that ghost's alone: it would be a cycle
    cdef readonly DType dtype
    cdef dim_t near[2 * NEAR_DIMS]  # sizes, then strides, of the first dimensions
    cdef tuple far                  # (sizes, strides) where there are more, else None
    cdef int ndim
    cdef readonly dim_t offset
    cdef readonly int flags

    cdef int layout(self, dim_t* sizes, dim_t* strides) except -1


cdef class Step:
    """One call of a kernel."""
    cdef readonly unsigned long long number     # steps happen in this order
    cdef readonly Overload overload             # None for a plain copy of the second argument into the first
    cdef readonly list args                     # with a Ref for each tensor
    cdef readonly object result                 # a Ref or a tuple of them: what the kernel fills in
    cdef readonly Device device


cdef Ref ref_of(Tensor t, Ghost ghost)
cdef bint plainly_absent(Call* c, Overload ov, object result) except -1
cdef bint under_recorder(Call* c, Overload ov, list tensors, list outputs, object result) except -1
cdef bint without_data(Call* c, Overload ov, list tensors, list outputs, object result) except -1
cdef int copy_without_data(Tensor target, Tensor source) except -1
cdef int settle_results(object result, int resolved, Device device) except -1
