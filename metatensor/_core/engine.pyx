"""The backward pass: a walk over the graph, starting at the latest call.

A node must be visited after all nodes that contribute to its gradient. The nodes are therefore visited in descending
order of their sequence numbers: every node has a larger number than the nodes of its inputs. Leaves are the exception: their gradients are
accumulated as soon as the last contribution has arrived.
"""
cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdlib cimport qsort
from libc.string cimport memset
from metatensor._core.accounting cimport sums_in_place
from metatensor._core.attribution cimport Attribution, raw_user_frame, sequences
from metatensor._core.device cimport META
from metatensor._core.dtype cimport DType
from metatensor._core.gradients cimport NamedRule, Rule
from metatensor._core.graph cimport Edge, Node, NodeExtra, Output, exposed, last_sequence, next_sequence, where_called
from metatensor._core.history cimport AccumulateGrad, input_outline, node_of
from metatensor._core.late import later
from metatensor._core.layout cimport is_dense
from metatensor._core.op cimport call
from metatensor._core.size cimport make_tuple
from metatensor._core.tensor cimport Tensor, TensorExtra, extra_of, shape_str
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport KIND_COMPLEX, T_DISTRIBUTED, T_REQUIRES_GRAD

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o) noexcept
    int Py_EnterRecursiveCall(const char* where) except -1
    void Py_LeaveRecursiveCall()
    int PyErr_CheckSignals() except -1


cdef struct Visit:
    PyObject* node          # borrowed; `Walk.nodes` owns it
    unsigned long long sequence
    int slot                # index of its first gradient in `Walk.grads`
    int pending             # number of contributions to a leaf that have not arrived yet
    bint needed             # whether a requested gradient depends on the node
    bint captured           # whether one of its own gradients is requested


cdef int _later(const void* a, const void* b) noexcept nogil:
    cdef unsigned long long x = (<Visit*>a).sequence, y = (<Visit*>b).sequence
    return -1 if x > y else 1 if x < y else 0


@cython.final
cdef class Walk:
    """One backward pass."""
    cdef list nodes
    cdef Visit* visits
    cdef int n_visits, room, n_grads
    cdef PyObject** grads               # owned references, or NULL
    cdef dict elsewhere                 # places of nodes that another walk is visiting too, or None
    cdef dict captures                  # (place of a node, output) -> numbers of the inputs that request this gradient
    cdef list results
    cdef bint keep, create, only_inputs, accumulate
    cdef list deferred                  # nodes whose other gradients are computed later, with the gradients of their outputs; or None
    cdef unsigned long long number      # unique among all walks
    cdef unsigned long long visiting    # the sequence number of the node that is visited
    cdef Attribution attribution        # it wants to know which node is visited; or None
    cdef list callbacks                 # functions to call at the end, or None

    def __dealloc__(self):
        cdef int i
        cdef Node node
        for i in range(self.n_visits):
            node = <Node>self.visits[i].node
            if node.walk == <PyObject*>self:
                node.walk = NULL
        if self.grads != NULL:
            for i in range(self.n_grads):
                Py_XDECREF(self.grads[i])
        PyMem_Free(self.grads)
        PyMem_Free(self.visits)

    cdef int place_of(self, Node node) except -2:
        """Return the place of a node in `visits`, or -1 if this walk does not visit it."""
        if node.walk == <PyObject*>self:
            return node.place
        if self.elsewhere is None:
            return -1
        return self.elsewhere.get(<size_t><PyObject*>node, -1)

    cdef int set_place(self, Node node, int place) except -1:
        if node.walk == NULL or node.walk == <PyObject*>self:
            node.walk = <PyObject*>self
            node.place = place
        else:
            if self.elsewhere is None:
                self.elsewhere = {}
            self.elsewhere[<size_t><PyObject*>node] = place
        return 0

    cdef int add(self, Node node) except -1:
        """Add a node to the visits, unless it is there already. Return its place."""
        cdef int place = self.place_of(node)
        cdef Visit* visit
        if place >= 0:
            return place
        if self.n_visits == self.room:
            room = max(64, 2 * self.room)
            visit = <Visit*>PyMem_Realloc(self.visits, room * sizeof(Visit))
            if visit == NULL:
                raise MemoryError()
            self.visits = visit
            self.room = room
        place = self.n_visits
        visit = &self.visits[place]
        memset(visit, 0, sizeof(Visit))
        visit.node = <PyObject*>node
        visit.sequence = node.sequence
        visit.slot = self.n_grads
        self.nodes.append(node)
        self.set_place(node, place)
        self.n_visits += 1
        self.n_grads += node.n_outputs
        return place

    cdef int discover(self) except -1:
        """Add all nodes that can be reached from those added so far, and sort the visits."""
        cdef int i = 0, k
        cdef Node node
        while i < self.n_visits:
            node = <Node>self.visits[i].node
            for k in range(node.n_edges):
                if node.edges[k].node != NULL:
                    self.visits[self.add(<Node>node.edges[k].node)].pending += 1
            i += 1
        if self.n_visits:
            qsort(self.visits, self.n_visits, sizeof(Visit), _later)
        for i in range(self.n_visits):
            self.set_place(<Node>self.visits[i].node, i)
        self.grads = <PyObject**>PyMem_Calloc(max(self.n_grads, 1), sizeof(PyObject*))
        if self.grads == NULL:
            raise MemoryError()
        return 0

    cdef int find_needed(self) except -1:
        """Mark the nodes on which requested gradients depend: first the leaves, then the calls, earliest first."""
        cdef int i = self.n_visits, k, place
        cdef Node node
        for place in range(self.n_visits):
            if self.visits[place].sequence == <unsigned long long>-1:
                self.visits[place].needed = self.visits[place].captured
        while i:
            i -= 1
            node = <Node>self.visits[i].node
            if node.sequence == <unsigned long long>-1:
                continue
            self.visits[i].needed = self.visits[i].captured
            for k in range(node.n_edges):
                if node.edges[k].node != NULL and self.visits[self.place_of(<Node>node.edges[k].node)].needed:
                    self.visits[i].needed = True
        return 0

    cdef int contribute(self, Node to, int output, object g) except -1:
        """Add `g` to the gradient of an output of node `to`."""
        cdef PyObject** slot = &self.grads[self.visits[self.place_of(to)].slot + output]
        if slot[0] == NULL:
            Py_INCREF(g)
            slot[0] = <PyObject*>g
            return 0
        total = self.total(slot, <Tensor>g)
        if <PyObject*>total != slot[0]:
            Py_INCREF(total)
            g = <object>slot[0]
            Py_XDECREF(slot[0])
            slot[0] = <PyObject*>total
        return 0

    cdef object total(self, PyObject** slot, Tensor g):
        cdef Tensor old = <Tensor>slot[0]
        # The slot and `old` are the only references, so the buffer may be changed in place.
        if not self.create and (old.storage.device is not META or hints.policies and sums_in_place()) and Py_REFCNT(slot[0]) <= 2 \
                and Py_REFCNT(<PyObject*>old.storage) == 1 and old.base is None and old.dtype is g.dtype \
                and is_dense(old.ndim, old.sizes, old.strides) and (not old.flags & T_DISTRIBUTED or later("owns_part")(old)):
            return call("add_", (old, g))
        return call("add", (old, g))

    cdef int run(self) except -1:
        cdef int i
        for i in range(self.n_visits):
            if self.visits[i].sequence != <unsigned long long>-1:
                self.visit(i)
                if i & 255 == 0:
                    PyErr_CheckSignals()
            elif self.visits[i].pending == 0:
                self.visit(i)       # no node contributes to this leaf: it is one of the roots
        return 0

    cdef int call_back(self) except -1:
        """Call the functions that were queued. They may queue others."""
        while self.callbacks:
            self.callbacks.pop(0)()
        return 0

    cdef int run_attributed(self) except -1:
        cdef Attribution attribution = self.attribution
        cdef unsigned long long visiting = attribution.visiting
        cdef PyObject* caller = attribution.caller
        cdef void* raw = attribution.caller_raw
        cdef PyObject* frame = attribution.user_frame()
        attribution.caller, attribution.caller_raw = frame, raw_user_frame()
        try:
            return self.run()
        finally:
            attribution.visiting, attribution.caller, attribution.caller_raw = visiting, caller, raw
            Py_XDECREF(frame)

    cdef int visit(self, int place) except -1:
        """Compute the gradients of a node's inputs, and add them to the nodes of the inputs."""
        cdef Visit* at = &self.visits[place]
        cdef Node node = <Node>at.node
        cdef PyObject** grads = self.grads + at.slot
        cdef PyObject* few[8]
        cdef char few_wanted[8]
        cdef PyObject** made = few
        cdef char* wanted = few_wanted
        cdef bint leaf, rest = False
        cdef int i
        if self.deferred is not None and not at.needed:
            self.defer(node, grads)
            return self.done(node, grads)
        if node.extra is not None or (node.n_outputs == 1 and isinstance(node, AccumulateGrad)):
            self.call_pre_hooks(node, grads)
        leaf = isinstance(node, AccumulateGrad)
        if not leaf:
            self.visiting = node.sequence
            if self.attribution is not None:
                self.attribution.visiting, self.attribution.module_before = node.sequence, self.attribution.module
        if at.captured and not (leaf and self.accumulate):
            self.capture(place, node, grads)
        if self.only_inputs and (not at.needed or (leaf and not self.accumulate)):
            return self.done(node, grads)
        if node.n_edges > 8:
            made = <PyObject**>PyMem_Calloc(node.n_edges, sizeof(PyObject*))
            wanted = <char*>PyMem_Calloc(node.n_edges, 1)
            if made == NULL or wanted == NULL:
                PyMem_Free(wanted)
                if made != few:
                    PyMem_Free(made)
                raise MemoryError()
        else:
            memset(few, 0, sizeof(few))
        try:
            for i in range(node.n_edges):
                wanted[i] = node.edges[i].node != NULL and (
                    not self.only_inputs or self.visits[self.place_of(<Node>node.edges[i].node)].needed)
            node.apply(grads, wanted, made)
            self.fit(node, made)        # before anything is freed, as in PyTorch
            if hints.anomaly == 2:
                check_nan(node, made)
            if node.extra is not None and node.extra.post_hooks:
                self.call_post_hooks(node, grads, made)
                self.fit(node, made)
            if self.deferred is not None:
                for i in range(node.n_edges):
                    rest = rest or (node.edges[i].node != NULL and not wanted[i])
                rest = rest and self.defer(node, grads)
            self.done(node, grads)
            if not self.keep and not rest:
                node.release()
            self.hand_on(node, made)
            if rest:
                node.extra = None       # its hooks have run
                for i in range(node.n_edges):
                    if wanted[i]:
                        cut_edge(node, i)
        finally:
            for i in range(node.n_edges):
                Py_XDECREF(made[i])
            if made != few:
                PyMem_Free(made)
                PyMem_Free(wanted)
        return 0

    cdef bint defer(self, Node node, PyObject** grads) except -1:
        """Add a node to `deferred`. Return False if it has no gradient."""
        cdef int i
        cdef tuple given = tuple([None if grads[i] == NULL else <object>grads[i] for i in range(node.n_outputs)])
        if all([g is None for g in given]):
            return False
        self.deferred.append((node, given))
        return True

    cdef int done(self, Node node, PyObject** grads) except -1:
        """Free the gradients of a node's outputs."""
        cdef int i
        cdef PyObject* g
        for i in range(node.n_outputs):
            g = grads[i]
            grads[i] = NULL
            Py_XDECREF(g)
        return 0

    cdef int fit(self, Node node, PyObject** made) except -1:
        """Give the gradients that are wanted the sizes, dtypes and devices of the tensors that they are for."""
        cdef int i
        cdef PyObject* g
        for i in range(node.n_edges):
            if made[i] != NULL and node.edges[i].node != NULL and (
                    not self.only_inputs or self.visits[self.place_of(<Node>node.edges[i].node)].needed):
                g = made[i]
                value = checked(node, i, <object>g)
                if <PyObject*>value != g:
                    Py_INCREF(value)
                    made[i] = <PyObject*>value
                    Py_XDECREF(g)
                value = None
        return 0

    cdef int hand_on(self, Node node, PyObject** made) except -1:
        cdef int i, k, place
        cdef int last = node.n_edges - 1 if node.n_edges > 2 and _last_first(node.rule) else -1
        cdef Edge* e
        cdef PyObject* g
        for k in range(node.n_edges):
            i = k if last < 0 else last if k == 0 else k - 1
            e = &node.edges[i]
            if e.node == NULL:
                continue
            place = self.place_of(<Node>e.node)
            if made[i] != NULL and (not self.only_inputs or self.visits[place].needed):
                g = made[i]
                value = <object>g
                made[i] = NULL
                Py_XDECREF(g)
                self.contribute(<Node>e.node, e.output, value)
                value = None
            self.visits[place].pending -= 1
            if self.visits[place].pending == 0 and self.visits[place].sequence == <unsigned long long>-1:
                self.visit(place)
        return 0

    cdef int capture(self, int place, Node node, PyObject** grads) except -1:
        cdef int output
        for output in range(node.n_outputs):
            for k in self.captures.get((<size_t><PyObject*>node, output), ()):
                self.results[k] = None if grads[output] == NULL else <object>grads[output]
        return 0

    cdef int call_pre_hooks(self, Node node, PyObject** grads) except -1:
        cdef NodeExtra extra = node.extra
        cdef int i
        cdef TensorExtra leaf, kept
        if isinstance(node, AccumulateGrad):
            leaf = <TensorExtra>(<AccumulateGrad>node).variable.extra
            if leaf.hooks is not None:
                self.call_tensor_hooks(leaf.hooks.get("gradient"), node, 0, grads)
        if extra is None:
            return 0
        if extra.tensor_hooks is not None:
            for i in range(node.n_outputs):
                self.call_tensor_hooks(extra.tensor_hooks.get(i), node, i, grads)
        if extra.pre_hooks:
            for hook in list(extra.pre_hooks.values()):
                given = tuple([None if grads[i] == NULL else <object>grads[i] for i in range(node.n_outputs)])
                self.replace(node, grads, node.n_outputs, given, hook(given), "a hook before it")
                given = None
        if extra.retained is not None:
            for i, ref in extra.retained.items():
                t = ref()
                if t is not None and grads[i] != NULL:
                    kept = extra_of(<Tensor>t)
                    kept.grad = call("clone", (<object>grads[i],)) if kept.grad is None else \
                        call("add", (kept.grad, <object>grads[i]))
        return 0

    cdef int call_tensor_hooks(self, object hooks, Node node, int output, PyObject** grads) except -1:
        cdef PyObject* old
        if not hooks or grads[output] == NULL:
            return 0
        for hook in list(hooks.values()):
            result = hook(<object>grads[output])
            if result is None:
                continue
            if not isinstance(result, Tensor):
                raise TypeError(f"{node.node_name()}: the hook of a tensor returned {type(result).__name__}, not a Tensor or None"
                                f"{where_called(node)}")
            result = conformed(node, output, <Tensor>result, "the hook of a tensor")
            Py_INCREF(result)
            old = grads[output]
            grads[output] = <PyObject*>result
            Py_XDECREF(old)
        return 0

    cdef int call_post_hooks(self, Node node, PyObject** grads, PyObject** made) except -1:
        cdef int i
        outputs = tuple([None if grads[i] == NULL else <object>grads[i] for i in range(node.n_outputs)])
        for hook in list(node.extra.post_hooks.values()):
            inputs = tuple([None if made[i] == NULL else <object>made[i] for i in range(node.n_edges)])
            self.replace(node, made, node.n_edges, inputs, hook(inputs, outputs), "a hook after it")
            inputs = None
        return 0

    cdef int replace(self, Node node, PyObject** values, int n, tuple given, object result, str what) except -1:
        """Replace gradients by the return value of a hook."""
        cdef int i
        cdef PyObject* old
        if result is None:
            return 0
        if isinstance(result, Tensor):
            result = (result,)
        if not isinstance(result, (tuple, list)):
            raise TypeError(f"{node.node_name()}: {what} returned {type(result).__name__}, not a tuple of gradients or None"
                            f"{where_called(node)}")
        if len(result) != n:
            raise RuntimeError(f"{node.node_name()}: {what} returned {len(result)} gradients, not {n}{where_called(node)}")
        for i in range(n):
            if result[i] is given[i]:
                continue
            if result[i] is not None and not isinstance(result[i], Tensor):
                raise TypeError(f"{node.node_name()}: {what} returned {type(result[i]).__name__} as gradient {i}, not a Tensor or None"
                                f"{where_called(node)}")
            old = values[i]
            values[i] = NULL
            if result[i] is not None:
                Py_INCREF(result[i])
                values[i] = <PyObject*>result[i]
            Py_XDECREF(old)
        return 0


cdef int cut_edge(Node node, int i) except -1:
    cdef PyObject* to = node.edges[i].node
    node.edges[i].node = NULL
    Py_XDECREF(to)
    return 0


cdef inline bint _last_first(object rule) noexcept:
    if type(rule) is NamedRule:
        return (<NamedRule>rule).rule.last_first
    return type(rule) is Rule and (<Rule>rule).last_first


cdef int check_nan(Node node, PyObject** made) except -1:
    """Raise if a gradient has a NaN. Gradients without data are not checked."""
    cdef int i
    for i in range(node.n_edges):
        if made[i] == NULL or (<Tensor><object>made[i]).storage.data is None:
            continue
        if call("any", (call("isnan", (<object>made[i],)),)).item():
            raise RuntimeError(f"{node.node_name()}: gradient {i} has a NaN{where_called(node)}")
    return 0


# Fitting gradients -----------------------------------------------------------------------------------

cdef object checked(Node node, int i, object g):
    """Return `g`, converted to the sizes, dtype and device of the tensor that edge `i` of a node stands for."""
    cdef Output* o
    cdef Tensor t
    if not isinstance(g, Tensor):
        raise TypeError(f"{node.node_name()}: gradient {i} is {type(g).__name__}, not a Tensor{where_called(node)}")
    t = <Tensor>g
    o = input_outline(node, i)
    if o.dtype == <PyObject*>t.dtype and o.ndim == t.ndim and _same(o, t) and o.device == <PyObject*>t.storage.device:
        return t
    return fitted(t, o, node, i)


cdef inline bint _same(Output* o, Tensor t) noexcept:
    cdef int i
    for i in range(t.ndim):
        if o.sizes[i] != t.sizes[i]:
            return False
    return True


cdef Tensor fitted(Tensor g, Output* o, Node node, int i):
    """Return `g` summed to the sizes of `o` and converted to its dtype. Raise if the sizes do not broadcast.

    If `o` is real, the real part of `g` is taken.
    """
    cdef int d, lead
    cdef DType dtype = <DType>o.dtype
    if g.ndim != o.ndim or not _same(o, g):
        lead = g.ndim - o.ndim
        if lead < 0:
            _unfit(g, o, node, i)
        dims = list(range(lead))
        for d in range(o.ndim):
            if o.sizes[d] != g.sizes[d + lead]:
                if o.sizes[d] != 1:
                    _unfit(g, o, node, i)
                dims.append(d + lead)
        g = <Tensor>call("sum", (g, tuple(dims), True))
        if lead:
            g = <Tensor>call("reshape", (g, make_tuple(o.ndim, o.sizes)))
    if g.dtype is not dtype:
        if dtype.kind != KIND_COMPLEX and g.dtype.kind == KIND_COMPLEX:
            g = <Tensor>call("real", (g,))
        if g.dtype is not dtype:
            g = <Tensor>call("to", (g,), {"dtype": dtype})
    if <PyObject*>g.storage.device != o.device:
        if g.ndim == 0:
            return <Tensor>call("to", (g,), {"device": <object>o.device})
        raise RuntimeError(f"{node.node_name()}: gradient {i} is on {g.storage.device}, but its tensor is on {<object>o.device}"
                           f"{where_called(node)}")
    return g


cdef int _unfit(Tensor g, Output* o, Node node, int i) except -1:
    raise RuntimeError(f"{node.node_name()}: gradient {i} has shape {shape_str(g)}, but its tensor has shape "
                       f"{list(make_tuple(o.ndim, o.sizes))}{where_called(node)}")


cdef Tensor conformed(Node node, int output, Tensor g, str what):
    cdef Output* o = &node.outputs[output]
    if g.ndim != o.ndim or not _same(o, g):
        raise RuntimeError(f"{node.node_name()}: {what} returned a gradient of shape {shape_str(g)}, expected "
                           f"{list(make_tuple(o.ndim, o.sizes))}{where_called(node)}")
    if g.dtype is not <DType>o.dtype:
        raise RuntimeError(f"{node.node_name()}: {what} returned a gradient of {g.dtype.name}, expected {(<DType>o.dtype).name}"
                           f"{where_called(node)}")
    if <PyObject*>g.storage.device != o.device:
        raise RuntimeError(f"{node.node_name()}: {what} returned a gradient on {g.storage.device}, expected {<object>o.device}"
                           f"{where_called(node)}")
    return g


cdef int _check_edge(Node node, object output) except -1:
    """Raise if a node has no output of this number, or if the output has no gradient."""
    if node is None:
        raise RuntimeError("backward: the edge has no node")
    if not 0 <= output < node.n_outputs or node.outputs[<int>output].dtype == NULL:
        raise RuntimeError(f"{node.node_name()}: output {output} does not exist or has no gradient; the node has {node.n_outputs} outputs")
    return 0


def walk_number(tensors):
    """Return the number of the running backward pass, and how many of `tensors` it reaches."""
    cdef int output, reached = 0
    cdef Tensor t
    cdef Node node
    cdef Walk walk = thread_state().walk
    if walk is None:
        raise RuntimeError("no backward pass is running")
    for t in tensors:
        node = node_of(t, &output)
        place = walk.place_of(node)
        if place >= 0 and (not walk.only_inputs or walk.visits[<int>place].needed):
            reached += 1
    return walk.number, reached


def queue_callback(function):
    """Call a function without arguments at the end of the running backward pass, after those that were queued before.

    Raise RuntimeError if this thread runs no backward pass.
    """
    cdef Walk walk = thread_state().walk
    if walk is None:
        raise RuntimeError("queue_callback: no backward pass is running; callbacks are queued by hooks and gradient functions")
    if walk.callbacks is None:
        walk.callbacks = []
    walk.callbacks.append(function)


def current_walk():
    """Return None if no backward pass is running, else its number and whether it computes only requested gradients."""
    cdef Walk walk = thread_state().walk
    return None if walk is None else (walk.number, bool(walk.only_inputs))


def latest_node():
    """Return the sequence number of the node of the autograd graph that was made last."""
    return last_sequence


def visited_node():
    """Return the sequence number of the node that the backward pass of this thread is visiting; 0 if none is running."""
    cdef Walk walk = thread_state().walk
    return 0 if walk is None else walk.visiting


sequences.last = &last_sequence


# Entry points --------------------------------------------------------------------------------------------

def run_backward(list roots, list grads, bint keep_graph, bint create_graph, list inputs=None, bint accumulate=False,
                 list deferred=None, bint release=False):
    """Run a backward pass from `roots`, pairs (node, number of the output), whose gradients are `grads`.

    Without `inputs`, gradients are accumulated into the leaves. With `inputs`, which are also such pairs, a list of
    their gradients is returned. It has None for an input without a gradient. With `accumulate`, it also has None for a
    leaf, into which the gradient is accumulated.

    With `inputs` and `deferred`, an empty list, the rest of the backward pass can run later: `run_deferred` takes this list. The
    nodes on the way to the inputs free what only the inputs needed, and the graph cannot be used otherwise any more.

    With `release`, `grads` is emptied, so that a gradient that nothing else refers to is freed once it has been used.
    """
    cdef Walk walk = Walk.__new__(Walk)
    cdef Node node
    cdef int place
    walk.nodes = []
    walk.number = next_sequence()
    walk.keep, walk.create, walk.accumulate, walk.deferred = keep_graph, create_graph, accumulate, deferred
    for node, output in roots:
        _check_edge(node, output)
        walk.add(node)
    if inputs is not None:
        for node, output in inputs:
            _check_edge(node, output)
        walk.only_inputs = True
        walk.captures, walk.results = {}, [None] * len(inputs)
        for k, (node, output) in enumerate(inputs):
            walk.captures.setdefault((<size_t><PyObject*>node, output), []).append(k)
    walk.discover()
    if inputs is not None:
        for node, _output in inputs:
            place = walk.place_of(node)
            if place >= 0:
                walk.visits[place].captured = True
        walk.find_needed()
    for (node, output), g in zip(roots, grads):
        walk.contribute(node, output, fitted(<Tensor?>g, &node.outputs[<int>output], node, output))
    if release:
        grads.clear()
        g = None
    _begin(walk)
    return walk.results


def run_deferred(list deferred not None):
    """Accumulate the gradients that a call of `run_backward` deferred. Empties the list."""
    cdef Walk walk = Walk.__new__(Walk)
    cdef int i
    cdef Node node
    walk.nodes = []
    walk.number = next_sequence()
    for node, _given in deferred:
        walk.add(node)
    walk.discover()
    while deferred:
        node, given = deferred.pop()
        for i in range(node.n_outputs):
            if given[i] is not None:
                walk.contribute(node, i, given[i])
        given = None
    _begin(walk)


cdef int _begin(Walk walk) except -1:
    """Visit the nodes of a walk whose first gradients are there."""
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    Py_EnterRecursiveCall(b" in backward")
    state.grad_enabled = walk.create
    outer = state.walk
    state.walk = walk
    walk.attribution = <Attribution?>state.attribution if state.attribution is not None else None
    try:
        if walk.attribution is None:
            walk.run()
        else:
            walk.run_attributed()
        walk.call_back()
    finally:
        state.walk = outer
        state.grad_enabled = was
        Py_LeaveRecursiveCall()
    return 0


def gradient_edge(Tensor t not None):
    """Return the node of a tensor that requires grad, and the tensor's number among the node's outputs."""
    cdef int output
    cdef Node node
    if not t.flags & T_REQUIRES_GRAD:
        raise RuntimeError("the tensor does not require grad and has no grad_fn")
    node = node_of(t, &output)
    return exposed(node), output
