"""Nodes of custom functions, whose gradients are computed by a Python method."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from metatensor._core.graph cimport Node, next_sequence, node_extra, set_edge, set_output, set_outputs_room, set_room, wants, where_called
from metatensor._core.history cimport node_of, set_node
from metatensor._core.op cimport call
from metatensor._core.size cimport make_tuple
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, T_FIXED_VIEW, T_OVERRIDES, T_REQUIRES_GRAD
from metatensor._core.late import later


def overrides_operators(tuple arguments not None):
    """Return whether the class of a tensor among the arguments overrides operators."""
    for a in arguments:
        if isinstance(a, Tensor) and (<Tensor>a).flags & T_OVERRIDES:
            return True
    return False


@cython.trashcan(True)
cdef class FunctionNode(Node):
    """Base class of contexts. A subclass names the function whose `backward` computes the gradients, in ``_forward_cls``."""
    cdef readonly tuple _positions      # the positions of the tensor arguments, one edge each
    cdef public bint materialize_grads
    cdef int n_arguments
    cdef public object needs_input_grad
    cdef public object _saved           # what `_keep` saved, or None

    def __cinit__(self, *args, **kwargs):
        self.materialize_grads = True

    def __init__(self):
        pass

    def _link(self, arguments):
        """Set the edges. Return True if an argument requires grad."""
        cdef int i, output
        cdef Tensor t
        cdef Node to
        cdef bint any_grad = False
        self.n_arguments = <int>len(arguments)
        self._positions = tuple([i for i, a in enumerate(arguments) if isinstance(a, Tensor)])
        self.needs_input_grad = tuple([isinstance(a, Tensor) and (<Tensor>a).flags & T_REQUIRES_GRAD != 0 for a in arguments])
        set_room(self, <int>len(self._positions), 0, 0)
        for i in range(self.n_edges):
            t = <Tensor>arguments[self._positions[i]]
            if t.flags & T_REQUIRES_GRAD:
                to = node_of(t, &output)
                set_edge(self, i, to, output)
                any_grad = True
        self.sequence = next_sequence()
        if hints.anomaly and any_grad:
            call_stack = later("call_stack")
            node_extra(self).forward_stack = call_stack()
        return any_grad

    def _set_outputs(self, list outputs, list written):
        """Make this the node of the differentiable outputs. `written` is True for arguments that were changed in place."""
        cdef int i
        cdef Tensor t
        set_outputs_room(self, <int>len(outputs))
        for i, t in enumerate(outputs):
            if t is None:
                continue
            set_output(self, i, t)
            if written[i] and t.base is not None:
                raise RuntimeError(f"{self.node_name()}: an argument that is a view cannot be marked dirty; return a new tensor")
            set_node(t, self, i)
            if t.base is not None:
                t.flags |= T_FIXED_VIEW     # the history of its base does not include this node

    cdef str node_name(self):
        return type(self).__name__

    def _one_output(self, Tensor t not None, tuple arguments not None):
        """Make this the node of the only output, which was not changed in place. Return it, or a view if it is an argument."""
        cdef ThreadState state
        cdef bint grad
        for a in arguments:
            if a is t:
                state = thread_state()
                grad, state.grad_enabled = state.grad_enabled, False
                try:
                    t = t.view_as(t)
                finally:
                    state.grad_enabled = grad
                break
        if t.dtype.kind == KIND_FLOAT or t.dtype.kind == KIND_COMPLEX:
            self._set_outputs([t], [False])
        return t

    cdef int release(self) except -1:
        if self._saved:
            self._release()
        self.released = True
        return 0

    cdef int apply(self, PyObject** grads, const char* wanted, PyObject** to) except -1:
        cdef int i
        cdef list given = []
        if self.released:
            raise RuntimeError(f"{self.node_name()}: the saved values have been freed, because backward was run already; pass "
                               f"retain_graph=True the first time{where_called(self)}")
        for i in range(self.n_outputs):
            if grads[i] != NULL:
                given.append(<object>grads[i])
            elif self.materialize_grads and self.outputs[i].dtype != NULL:
                given.append(call("zeros", (make_tuple(self.outputs[i].ndim, self.outputs[i].sizes),),
                                  {"dtype": <object>self.outputs[i].dtype, "device": <object>self.outputs[i].device}))
            else:
                given.append(None)
        result = self._forward_cls.backward(self, *given)
        if not isinstance(result, tuple):
            result = (result,)
        if len(result) > self.n_arguments and all([r is None for r in result[self.n_arguments:]]):
            result = result[:self.n_arguments]
        if len(result) != self.n_arguments:
            raise RuntimeError(f"{self.node_name()}: backward returned {len(result)} gradients for {self.n_arguments} "
                               f"arguments; return one for each argument of forward, or None for arguments without a gradient"
                               f"{where_called(self)}")
        for i in range(self.n_edges):
            g = result[self._positions[i]]
            if g is None or not wants(self, wanted, i):
                continue
            if not isinstance(g, Tensor):
                raise RuntimeError(f"{self.node_name()}: backward returned {type(g).__name__} as gradient {self._positions[i]}, not a "
                                   f"Tensor or None{where_called(self)}")
            Py_INCREF(g)
            to[i] = <PyObject*>g
        for i in range(self.n_arguments):
            if result[i] is not None and i not in self._positions:
                raise RuntimeError(f"{self.node_name()}: backward returned a gradient for argument {i}, which is not a tensor; "
                                   f"return None for it{where_called(self)}")
        return 0
