"""The autograd graph: nodes, edges and saved values."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport INLINE_DIMS, dim_t


cdef enum:
    INLINE_EDGES = 3
    INLINE_SAVED = 8


cdef struct Edge:
    PyObject* node          # owned; NULL if no gradient is wanted
    int output              # the output of `node` that the gradient is for


# The metadata of a tensor that the node's operator returned. Its gradient has the same sizes, dtype and device.
cdef struct Output:
    PyObject* dtype         # interned; NULL for a result that has no gradient
    PyObject* device        # interned
    int ndim
    dim_t* sizes            # points into `inline_sizes` or memory of its own
    dim_t inline_sizes[INLINE_DIMS]


cdef enum SavedKind:
    SAVED_OBJECT            # an argument that is not a tensor, a SavedTensor, or several of them
    SAVED_INPUT             # a tensor argument itself
    SAVED_RESULT            # a detached alias of a result; a reference to the result would be a cycle
    SAVED_LAYOUT            # a tensor that is saved anyway; the function receives its Layout
    SAVED_STORAGE           # the storage of a contiguous result; unpacking makes an alias over it


cdef struct Saved:
    PyObject* value         # owned; NULL if the value is not needed or was freed
    unsigned long long version
    SavedKind kind
    int output              # for a result, its number


cdef class Node:
    cdef object rule                        # the Rule of an operator; None in subclasses
    cdef unsigned long long sequence        # later nodes have larger numbers
    cdef int n_edges, n_saved, n_outputs
    cdef bint released                      # whether the saved values have been freed
    cdef unsigned long long functions       # bit set of the rule's functions whose gradients are wanted
    cdef Edge* edges
    cdef Saved* saved
    cdef Output* outputs
    cdef Edge inline_edges[INLINE_EDGES]
    cdef Saved inline_saved[INLINE_SAVED]
    cdef Output inline_output
    cdef PyObject* walk                     # the Walk that is visiting this node, or NULL
    cdef int place                          # the number of the node in that walk
    cdef bint all_tracked                   # whether `track_all` has visited the node
    cdef bint untracked                     # whether the garbage collector does not track the node; set by `untrack`
    cdef NodeExtra extra                    # or None
    cdef object __weakref__
    cdef int apply(self, PyObject** grads, const char* wanted, PyObject** to) except -1
    cdef int release(self) except -1
    cdef str node_name(self)


cdef class NodeExtra:
    """Rarely used attributes of a node."""
    cdef dict tensor_hooks      # output -> hooks of that tensor, called with its gradient
    cdef dict retained          # output -> weak reference to a tensor that called `retain_grad`
    cdef object pre_hooks       # called with the gradients of the outputs
    cdef object post_hooks      # called with the gradients of the inputs and outputs
    cdef object metadata        # a dict, or None
    cdef object forward_stack   # call stack of the operator's call, in anomaly mode


# A node refers to older nodes and to tensors, so it can be part of a cycle only if Python code was attached to it or
# to a node that it leads to. Only such nodes are tracked by the garbage collector, because traversing all nodes would
# cost more than creating them. A leaf's gradient that has a graph itself closes a cycle: `track_all` is called for it.
cdef int track(Node node) except -1
cdef int untrack(Node node) except -1
cdef int track_all(Node start) except -1
cdef Node new_node()                # an untracked node without edges, saved values and outputs
cdef int set_room(Node node, int edges, int saved, int outputs) except -1
cdef int set_outputs_room(Node node, int n) except -1
cdef int set_output(Node node, int i, Tensor t) except -1
cdef int set_edge(Node node, int i, Node to, int output) except -1
cdef NodeExtra node_extra(Node node)
cdef object exposed(Node node)
cdef object registered(object hooks, object fn, str name)
cdef str where_called(Node node)

cdef struct GraphHooks:
    int (*apply_rule)(Node node, PyObject** grads, const char* wanted, PyObject** to) except -1

cdef GraphHooks graph_hooks         # set by `gradients`
cdef unsigned long long last_sequence


cdef inline unsigned long long next_sequence() noexcept:
    global last_sequence
    last_sequence += 1
    return last_sequence


cdef inline void new_edge(Node node, int i, PyObject* to, int output) noexcept:
    """Set edge `i`, which must have been allocated and not been set before."""
    Py_INCREF(<object>to)
    node.edges[i].node = to
    node.edges[i].output = output


cdef inline bint wants(Node node, const char* wanted, int i) noexcept:
    return node.edges[i].node != NULL and (wanted == NULL or wanted[i])
