"""Recipes: recorded steps that compute the bytes of storages without data."""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call, Overload
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport INLINE_DIMS, dim_t


cdef class Recipe:
    """The recipe of a storage without data.

    It holds no reference to the storage, so that recipes keep no storage alive.
    """
    cdef readonly list writers      # the Steps that write to the storage, in order
    cdef readonly dim_t nbytes
    cdef readonly Device device
    cdef readonly bint constant     # whether the storage is a small constant of a fake tensor and never materialized
    cdef int depth                  # for a constant: the length of the longest chain of steps that leads to it
    cdef object code                # code object of the user code that created it, or None
    cdef int lasti                  # the instruction in that code
    cdef object __weakref__


cdef class Ref:
    """A tensor at the time of a step: the recipe of its storage, layout, dtype and flags."""
    cdef PyObject* raw              # the Recipe, borrowed
    cdef Recipe strong              # the Recipe, or None in a step of that same Recipe, to avoid a reference cycle
    cdef readonly DType dtype
    cdef dim_t inline_dims[2 * INLINE_DIMS]     # sizes, then strides, if there are at most INLINE_DIMS dimensions
    cdef tuple heap_dims            # (sizes, strides) if there are more, else None
    cdef int ndim
    cdef readonly dim_t offset
    cdef readonly int flags

    cdef int layout(self, dim_t* sizes, dim_t* strides) except -1


cdef class Step:
    """One recorded kernel call."""
    cdef readonly unsigned long long number     # position in the order of all steps
    cdef readonly Overload overload             # None if the step copies the second argument into the first
    cdef readonly list args                     # the arguments, with a Ref or Constant in place of each tensor
    cdef readonly object result                 # the tensors that the kernel fills in: a Ref, a tuple of them or None
    cdef readonly Device device


cdef Ref ref_of(Tensor t, Recipe recipe)
cdef bint plainly_absent(Call* c, Overload ov, object result) except -1
cdef bint under_recorder(Call* c, Overload ov, list tensors, list outputs, object result) except -1
cdef bint without_data(Call* c, Overload ov, list tensors, list outputs, object result) except -1
cdef int copy_without_data(Tensor target, Tensor source) except -1
cdef int discard_result_data(object result, int resolved, Device device) except -1
