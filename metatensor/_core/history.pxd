"""The histories of tensors: which node belongs to which tensor."""
from cpython.object cimport PyObject
from metatensor._core.graph cimport Node, Output
from metatensor._core.tensor cimport Tensor


cdef class AccumulateGrad(Node):
    cdef readonly Tensor variable


cdef class CopySlices(Node):
    """The node of a tensor after an operator changed a view of it. It replaces that part of the gradient."""
    cdef Node function          # the node of the operator
    cdef Tensor base            # a tensor with the layout of the changed tensor and no values
    cdef Tensor view            # a tensor with the layout of the view and no values
    cdef int target             # the edge of `function` for the old value of the view, or -1
    cdef int place_of(self, int i) noexcept


cdef Tensor part_of(Tensor whole, Tensor base, Tensor view)
cdef Node node_of(Tensor t, int* output)
cdef Node accumulator_of(Tensor t)
cdef int set_node(Tensor t, Node node, int output) except -1
cdef int rebase(Tensor t, Node node, int target) except -1
cdef Output* input_outline(Node node, int i) except NULL
cdef int forget(Tensor t) except -1
