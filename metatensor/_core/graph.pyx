"""The autograd graph, which the backward pass walks.

A node represents a call whose results require grad. It holds edges to the nodes of the call's inputs, and the values
that the gradients need. Results own their node, and nodes own the nodes of their inputs. There are no references in the
other direction, so a graph is freed together with its results. Edges, saved values and the sizes of results are C
arrays, which are stored inside the node unless they are large.
"""
from collections import OrderedDict
from functools import partial
from types import CellType, FunctionType, MethodType

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_XDECREF
from metatensor._core.layout cimport copy_dims
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport INLINE_DIMS, dim_t
from metatensor._core.late import later

cdef unsigned long long last_sequence = 0


# Nodes --------------------------------------------------------------------------------------

@cython.trashcan(True)      # a graph may be a million nodes deep
cdef class Node:
    """A call in the autograd graph.

    ``Tensor.grad_fn`` is the node that computes the gradients of the call's inputs from those of its results.
    """

    def __init__(self, *args, **kwargs):
        raise TypeError(f"{type(self).__name__}: nodes are made by recorded calls, not by calling the class")

    def __dealloc__(self):
        _free_arrays(self)

    cdef int apply(self, PyObject** grads, const char* wanted, PyObject** to) except -1:
        """Compute the gradients of the inputs.

        `grads` holds a borrowed reference or NULL for each output. `wanted` states which edges need a gradient; NULL
        means all. For each of these edges, store a new reference in `to`, or leave NULL if the gradient is zero.
        """
        return graph_hooks.apply_rule(self, grads, wanted, to)

    cdef int release(self) except -1:
        """Free the saved values. A node that had saved values cannot be applied again."""
        if self.n_saved:
            _free_saved(self)
            self.released = True
        return 0

    cdef str node_name(self):
        return self.rule.name if self.rule is not None else type(self).__name__

    def name(self):
        """Return the name of the kind of node, such as ``MulBackward0``."""
        return self.node_name()

    @property
    def next_functions(self):
        """For each differentiable input, a pair of its node (or None) and the number of that node's output."""
        return tuple([(None if self.edges[i].node == NULL else exposed(<Node>self.edges[i].node), self.edges[i].output)
                      for i in range(self.n_edges)])

    @property
    def metadata(self):
        """A dictionary for user data."""
        cdef NodeExtra extra = node_extra(self)
        if extra.metadata is None:
            extra.metadata = _Metadata()
        return extra.metadata

    def _sequence_nr(self):
        return self.sequence

    @property
    def _input_metadata(self):
        from metatensor._core.spec import Spec
        return [Spec([self.outputs[i].sizes[k] for k in range(self.outputs[i].ndim)], <object>self.outputs[i].dtype,
                     device=<object>self.outputs[i].device) if self.outputs[i].dtype != NULL else None
                for i in range(self.n_outputs)]

    def register_hook(self, fn):
        """Call ``fn(grad_inputs, grad_outputs)`` after the node has computed gradients.

        `fn` returns None or a tuple that replaces `grad_inputs`. Return a handle whose `remove` removes the hook.
        """
        cdef NodeExtra extra = node_extra(self)
        if extra.post_hooks is None:
            extra.post_hooks = OrderedDict()
        return registered(extra.post_hooks, fn, "register_hook")

    def register_prehook(self, fn):
        """Call ``fn(grad_outputs)`` before the node computes gradients.

        `fn` returns None or a tuple that replaces `grad_outputs`. Return a handle whose `remove` removes the hook.
        """
        cdef NodeExtra extra = node_extra(self)
        if extra.pre_hooks is None:
            extra.pre_hooks = OrderedDict()
        return registered(extra.pre_hooks, fn, "register_prehook")

    def __call__(self, *grads):
        """Compute the gradients of the inputs from those of the outputs, without calling hooks."""
        cdef PyObject** given = <PyObject**>PyMem_Calloc(max(self.n_outputs, 1), sizeof(PyObject*))
        cdef PyObject** made = <PyObject**>PyMem_Calloc(max(self.n_edges, 1), sizeof(PyObject*))
        cdef int i
        try:
            if given == NULL or made == NULL:
                raise MemoryError()
            if len(grads) != self.n_outputs:
                raise TypeError(f"{self.node_name()}: takes {self.n_outputs} gradients but {len(grads)} were given")
            for i in range(self.n_outputs):
                if grads[i] is not None:
                    given[i] = <PyObject*>(<Tensor?>grads[i])
            self.apply(given, NULL, made)
            results = [None if made[i] == NULL else <object>made[i] for i in range(self.n_edges)]
        finally:
            for i in range(self.n_edges):
                if made != NULL:
                    Py_XDECREF(made[i])
            PyMem_Free(given)
            PyMem_Free(made)
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self):
        return f"<{self.node_name().rpartition('::')[2]} object at {<size_t><PyObject*>self:#x}>"

    # Saved values are attributes, ``_saved_self`` and so on.
    def __getattr__(self, name):
        if name.startswith("_saved_") and self.rule is not None:
            return self.rule.saved_value(self, name[7:])
        raise AttributeError(f"{self.node_name()} has no attribute {name!r}")


@cython.final
cdef class NodeExtra:
    pass


cdef NodeExtra node_extra(Node node):
    if node.extra is None:
        node.extra = NodeExtra.__new__(NodeExtra)
        track(node)
    return node.extra


cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* o)
    void PyObject_GC_Track(void* o)


cdef int track(Node node) except -1:
    if node.untracked:
        node.untracked = False
        PyObject_GC_Track(<void*>node)
    return 0


cdef int untrack(Node node) except -1:
    node.untracked = True
    PyObject_GC_UnTrack(<void*>node)
    return 0


cdef int track_all(Node start) except -1:
    """Let the garbage collector track a node and all nodes that it leads to."""
    cdef list pending = [start]
    cdef Node node
    cdef int i
    while pending:
        node = <Node>pending.pop()
        if node.all_tracked:
            continue
        node.all_tracked = True
        track(node)
        for i in range(node.n_edges):
            if node.edges[i].node != NULL and not (<Node>node.edges[i].node).all_tracked:
                pending.append(<Node>node.edges[i].node)
    return 0


cdef int _track_graphs(object fn) except -1:
    """Let the garbage collector track the graphs that a hook refers to, which may refer back to the tensor or node that has the hook."""
    cdef list pending = [fn]
    cdef int left = 256
    cdef PyObject* node
    while pending and left:
        value = pending.pop()
        left -= 1
        if isinstance(value, Node):
            track_all(<Node>value)
        elif isinstance(value, Tensor):
            node = (<Tensor>value).node
            if node != NULL:
                track_all(<Node>node)
        elif isinstance(value, (list, tuple, set, frozenset)):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value)
            pending.extend(value.values())
        elif isinstance(value, CellType):
            try:
                pending.append(value.cell_contents)
            except ValueError:      # an empty cell
                pass
        elif isinstance(value, FunctionType):
            pending.extend((value.__closure__ or ()) + (value.__defaults__ or ()))
        elif isinstance(value, MethodType):
            pending.extend((value.__self__, value.__func__))
        elif isinstance(value, partial):
            pending.extend((value.func, value.args, value.keywords))
    return 0


class _Metadata(dict):
    """User data of a node, which may refer to tensors that were computed from those of the node."""

    def __setitem__(self, key, value):
        _track_graphs((key, value))
        dict.__setitem__(self, key, value)

    def setdefault(self, key, default=None):
        _track_graphs((key, default))
        return dict.setdefault(self, key, default)

    def update(self, *args, **kwargs):
        more = dict(*args, **kwargs)
        _track_graphs(more)
        dict.update(self, more)

    def __ior__(self, other):
        self.update(other)
        return self


cdef object registered(object hooks, object fn, str name):
    if not callable(fn):
        raise TypeError(f"{name}: expected a callable, got {type(fn).__name__}")
    _track_graphs(fn)
    handle = later("RemovableHandle")(hooks)
    hooks[handle.id] = fn
    return handle


# Arrays -------------------------------------------------------------------------------------------

cdef void* _room(int n, int inline_room, void* inline_memory, size_t size) except NULL:
    if n <= inline_room:
        return inline_memory
    cdef void* p = PyMem_Calloc(n, size)
    if p == NULL:
        raise MemoryError()
    return p


cdef int set_room(Node node, int edges, int saved, int outputs) except -1:
    """Allocate the arrays of edges, saved values and outputs, all unset. Call this once for each node."""
    node.edges = <Edge*>_room(edges, INLINE_EDGES, node.inline_edges, sizeof(Edge))
    node.n_edges = edges
    node.saved = <Saved*>_room(saved, INLINE_SAVED, node.inline_saved, sizeof(Saved))
    node.n_saved = saved
    return set_outputs_room(node, outputs)


cdef int set_outputs_room(Node node, int n) except -1:
    """Allocate the array of outputs of a node that has none yet."""
    node.outputs = <Output*>_room(n, 1, &node.inline_output, sizeof(Output))
    node.n_outputs = n
    return 0


cdef int set_output(Node node, int i, Tensor t) except -1:
    """Store the sizes, dtype and device of output `i`."""
    cdef Output* o = &node.outputs[i]
    cdef dim_t* sizes = o.inline_sizes
    if t.ndim > INLINE_DIMS:
        sizes = <dim_t*>_room(t.ndim, 0, NULL, sizeof(dim_t))
    if o.sizes != NULL and o.sizes != o.inline_sizes:
        PyMem_Free(o.sizes)
    o.sizes = sizes
    o.ndim = t.ndim
    copy_dims(sizes, t.sizes, t.ndim)
    o.dtype = <PyObject*>t.dtype
    o.device = <PyObject*>t.storage.device
    return 0


cdef int set_edge(Node node, int i, Node to, int output) except -1:
    new_edge(node, i, <PyObject*>to, output)
    return 0


cdef int _free_saved(Node node) noexcept:
    cdef int i
    cdef PyObject* value
    for i in range(node.n_saved):
        value = node.saved[i].value
        node.saved[i].value = NULL
        Py_XDECREF(value)
    return 0


cdef int _free_edges(Node node) noexcept:
    cdef int i
    cdef PyObject* to
    for i in range(node.n_edges):
        to = node.edges[i].node
        node.edges[i].node = NULL
        Py_XDECREF(to)
    return 0


cdef int _free_arrays(Node node) noexcept:
    cdef int i
    _free_saved(node)
    _free_edges(node)
    for i in range(node.n_outputs):
        if node.outputs[i].sizes != node.outputs[i].inline_sizes:
            PyMem_Free(node.outputs[i].sizes)
    if node.saved != node.inline_saved:
        PyMem_Free(node.saved)
    if node.edges != node.inline_edges:
        PyMem_Free(node.edges)
    if node.outputs != &node.inline_output:
        PyMem_Free(node.outputs)
    node.n_saved = node.n_edges = node.n_outputs = 0
    node.saved, node.edges, node.outputs = NULL, NULL, NULL
    return 0


# Nodes as Python objects -------------------------------------------------------------------------------

cdef extern from *:
    """
    /* Let the garbage collector traverse and clear the arrays of a node. */
    static traverseproc mt_node_traverse;
    static inquiry mt_node_clear;
    static int (*mt_visit_arrays)(PyObject *, visitproc, void *);
    static int (*mt_clear_arrays)(PyObject *);
    static int mt_traverse_node(PyObject *o, visitproc visit, void *arg) {
        int r = mt_visit_arrays(o, visit, arg);
        return r ? r : mt_node_traverse(o, visit, arg);
    }
    static int mt_clear_node(PyObject *o) {
        mt_clear_arrays(o);
        return mt_node_clear(o);
    }
    static void mt_setup_node(PyObject *type, int (*visit)(PyObject *, visitproc, void *), int (*clear)(PyObject *)) {
        PyTypeObject *t = (PyTypeObject *)type;
        mt_node_traverse = t->tp_traverse; mt_node_clear = t->tp_clear;
        mt_visit_arrays = visit; mt_clear_arrays = clear;
        t->tp_traverse = mt_traverse_node; t->tp_clear = mt_clear_node;
        PyType_Modified(t);
    }
    static void mt_become(PyObject *o, PyObject *type) {
        Py_INCREF(type);        /* instances own their heap type */
        Py_SET_TYPE(o, (PyTypeObject *)type);
    }
    /* Sanitizers must see each use of a freed node, so their builds keep no free objects. */
    #if CYTHON_USE_FREELISTS
    #define MT_MAX_FREE 256
    #else
    #define MT_MAX_FREE 0
    #endif
    static PyTypeObject *mt_node_type;
    static destructor mt_node_dealloc;
    static destructor mt_recycle_node;
    static int mt_has_weak_references(PyObject *o) { return *(PyObject **)((char *)o + Py_TYPE(o)->tp_weaklistoffset) != NULL; }
    static void mt_dealloc_node(PyObject *o) {
        if (Py_TYPE(o) != mt_node_type) { mt_node_dealloc(o); return; }
        PyObject_GC_UnTrack(o);
        Py_TRASHCAN_BEGIN(o, mt_dealloc_node)
        mt_recycle_node(o);
        Py_TRASHCAN_END
    }
    static void mt_setup_recycling(PyObject *type, void (*recycle)(PyObject *)) {
        PyTypeObject *t = mt_node_type = (PyTypeObject *)type;
        mt_node_dealloc = t->tp_dealloc;
        mt_recycle_node = recycle;
        t->tp_dealloc = mt_dealloc_node;
        PyType_Modified(t);
    }
    """
    ctypedef int (*visitproc)(PyObject* o, void* arg)
    void setup_node "mt_setup_node" (object type, int (*visit)(PyObject*, visitproc, void*) noexcept,
                                     int (*clear)(PyObject*) noexcept)
    void become "mt_become" (object o, object type)
    bint has_weak_references "mt_has_weak_references" (PyObject* o) noexcept
    int MAX_FREE "MT_MAX_FREE"
    void dealloc_node "mt_node_dealloc" (PyObject* o) noexcept
    void setup_recycling "mt_setup_recycling" (object type, void (*recycle)(PyObject*) noexcept)

cdef extern from "Python.h":
    void new_reference "_Py_NewReference" (PyObject* o) noexcept


cdef int _visit_arrays(PyObject* o, visitproc visit, void* arg) noexcept:
    cdef int i, r
    for i in range((<Node>o).n_edges):
        if (<Node>o).edges[i].node != NULL:
            r = visit((<Node>o).edges[i].node, arg)
            if r:
                return r
    for i in range((<Node>o).n_saved):
        if (<Node>o).saved[i].value != NULL:
            r = visit((<Node>o).saved[i].value, arg)
            if r:
                return r
    return 0


cdef int _clear_arrays(PyObject* o) noexcept:
    _free_saved(<Node>o)
    _free_edges(<Node>o)
    return 0


cdef dict _classes = {}     # name -> class


cdef object exposed(Node node):
    """Return the node as an instance of a class that has the node's name, for use in Python.

    Nodes are created without that class, because instances of classes made at run time are slower to create.
    """
    if type(node) is Node:
        name = node.node_name()
        cls = _classes.get(name)
        if cls is None:
            cls = _classes[name] = type(name, (Node,), {"__slots__": (), "__module__": "metatensor.autograd.graph"})
        become(node, cls)
    return node


# Reuse of nodes ------------------------------------------------------------------------------------------

# Nodes without hooks and weak references are reused as they are: untracked, with their arrays empty. Cython's own list of
# free objects would clear all of their memory, and track them.
cdef PyObject* _free[256]
cdef int _n_free = 0


cdef Node new_node():
    global _n_free
    cdef PyObject* o
    cdef Node node
    if _n_free:
        _n_free -= 1
        o = _free[_n_free]
        new_reference(o)
        node = <Node>o
        Py_DECREF(node)     # `node` owns the new reference
        return node
    node = Node.__new__(Node)
    untrack(node)
    return node


cdef void _recycle(PyObject* o) noexcept:
    """Free what a node refers to, and keep the node for reuse if possible."""
    global _n_free
    if _n_free >= MAX_FREE or <PyObject*>(<Node>o).extra != <PyObject*>None or has_weak_references(o):
        dealloc_node(o)
        return
    _free_arrays(<Node>o)
    (<Node>o).rule = None
    (<Node>o).released = (<Node>o).all_tracked = False
    (<Node>o).untracked = True
    (<Node>o).functions = 0
    (<Node>o).walk = NULL
    (<Node>o).inline_output.sizes = NULL
    (<Node>o).inline_output.dtype = NULL
    if _n_free < MAX_FREE:      # freeing may have freed other nodes
        _free[_n_free] = o
        _n_free += 1
    else:
        dealloc_node(o)


# Messages ------------------------------------------------------------------------------------------------

cdef str where_called(Node node):
    """Return a text for messages that shows where the node's operator was called. It is empty unless anomaly mode is on."""
    if node.extra is None or node.extra.forward_stack is None:
        return ""
    return f"\nThe operator was called here:\n{node.extra.forward_stack}"


cdef int _no_rules(Node node, PyObject** grads, const char* wanted, PyObject** to) except -1:
    raise NotImplementedError("gradients are not loaded; import metatensor, not its parts")

graph_hooks.apply_rule = _no_rules
setup_node(Node, _visit_arrays, _clear_arrays)
setup_recycling(Node, _recycle)
