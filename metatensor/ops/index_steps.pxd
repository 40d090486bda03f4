"""An index, read once into steps on the dimensions of the result and index tensors."""
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport MAX_DIMS


cdef enum StepKind:
    SELECT          # a: index, not negative
    SLICE           # a:b:c
    UNSQUEEZE
    PICK            # a 0-d index tensor without data, the next in `picks`

cdef struct Step:
    StepKind kind
    int dim             # of the result so far
    Py_ssize_t a, b, c

cdef enum:
    MAX_STEPS = 2 * MAX_DIMS


cdef struct Steps:
    int n
    int source          # dimensions of the tensor that have been used
    int dim             # next dimension of the result
    Step steps[MAX_STEPS]
    int n_advanced
    int dims[MAX_DIMS]  # where each index tensor stands


cdef class IndexTensors:
    """The index tensors of one index, and those that pick; where `by_op` is set, so do those of some classes."""
    cdef list advanced
    cdef list picks
    cdef bint by_op


cdef IndexTensors read_index(Tensor t, object index, Steps* s, bint by_op)
cdef object unknown_mask(Tensor mask)
