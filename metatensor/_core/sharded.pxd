"""Distributed tensors, and calls of operators on them."""
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor


cdef class Placed:
    """A mesh, placements, and the shape, strides and dtype of a whole tensor. Interned: see `metatensor.distributed.tensor`."""
    cdef readonly object mesh
    cdef readonly tuple placements
    cdef Tensor whole               # on meta, with the layout of the whole tensor
    cdef object token               # an int that identifies the object
    cdef dict plans                 # the plans of calls on this mesh


cdef enum ViewKind:
    NO_VIEW
    PART_VIEW               # its part is a view of the other tensor's part
    COPY_VIEW               # the other tensor was redistributed for it, so that they share no memory


cdef class DistributedTensor(Tensor):
    cdef Tensor local               # the part that this process holds
    cdef Placed placed
    cdef unsigned long long seen    # of a view: the version of the tensor when it was made or last changed through the view
    cdef ViewKind view              # whether an operator made it as a view of another distributed tensor
    cdef DistributedTensor viewed   # of a view: the other tensor
    cdef tuple again                # of a view: the operator, its overload, its other arguments, and which of its results it is, or -1


cdef class Plan:
    """How to run a call on the parts."""
    cdef readonly tuple numbers     # pairs of a slot and the value that replaces its argument
    cdef readonly tuple outputs     # for each tensor that the call returns, its Placed
    cdef readonly object python     # runs the call if more is needed than the operator on the parts, else None


cdef object run_distributed(Call* c)
cdef object run_body(Call* c)
