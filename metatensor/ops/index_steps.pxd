"""A parsed index: steps on the dimensions of a tensor, and index tensors."""
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport MAX_DIMS


cdef enum StepKind:
    SELECT          # a: the index, not negative
    SLICE           # a:b:c
    UNSQUEEZE
    PICK            # select by the next 0-d index tensor in `picks`

cdef struct Step:
    StepKind kind
    int dim             # dimension of the result of the previous steps, to which this step applies
    Py_ssize_t a, b, c

cdef enum:
    MAX_STEPS = 2 * MAX_DIMS


cdef struct Steps:
    int n
    int source          # number of dimensions of the tensor that have been indexed
    int dim             # next dimension of the result
    Step steps[MAX_STEPS]
    int n_advanced
    int dims[MAX_DIMS]  # dimension of the result that each index tensor indexes


cdef class IndexTensors:
    """The index tensors of one index.

    `advanced` holds masks and index tensors with dimensions. `picks` holds 0-d index tensors that are passed to the
    operator `_index`. Each has no data or, if `by_op`, belongs to a class that overrides this operator.
    """
    cdef list advanced
    cdef list picks
    cdef bint by_op


cdef IndexTensors read_index(Tensor t, object index, Steps* s, bint by_op)
cdef int warn_of_bytes(Tensor index) except -1
cdef object unknown_mask(Tensor mask)
