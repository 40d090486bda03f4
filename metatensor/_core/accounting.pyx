"""Memory accounting of calls: counts the temporary tensors of operators that PyTorch computes in several steps.

A kernel policy says which operators run as one kernel. For each other operator it gives a function that creates its
parts, the temporary tensors (see `metatensor.rules.parts`). While a memory tracker is active, this function runs before
the operator's result is counted. It receives plain tensors over the storages of the arguments, without autograd
history, subclass or tangents, so that no dispatch mode, tensor subclass or autograd graph observes its calls. The
tensors that it creates are freed at once. Memory trackers count them nevertheless.

A thread chooses a policy with `push_policy`. A thread that has chosen none uses the policy named `meta`, whose entries
are cached in the overloads.
"""
cimport cython
from cpython.object cimport PyObject
from libc.stdlib cimport free, realloc
from metatensor._core.attribution cimport Attribution
from metatensor._core.device cimport META
from metatensor._core.execute cimport python_meta
from metatensor._core.memory cimport Scope, pause_tracking, resume_tracking
from metatensor._core.op cimport COMPOSITE, FUNCTIONAL, VIEW, Call, Overload
from metatensor._core.storage cimport Storage, count_storage
from metatensor._core.tensor cimport Tensor, over_storage
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport T_CONJ, T_CONTIGUOUS, T_DISTRIBUTED, T_NEG, T_REQUIRES_GRAD, dim_t
from metatensor._core.late import later

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callee, PyObject** args, size_t nargsf, PyObject* kwnames)

cdef frozenset _UPDATE_STATISTICS = frozenset(("nn.functional._batch_norm_train", "nn.functional._instance_norm_train"))
cdef bint strict = False      # whether exceptions in functions that create parts are raised; tests set it
cdef dict _formulas = {}        # function -> what `_kind_of` returns


cdef object chosen_policy():
    """Return the kernel policy that this thread has chosen, or None. Call it only if `hints.policies` is not 0."""
    return thread_state().policy


cdef bint sums_in_place() except -1:
    """Return whether gradients on meta are accumulated in place if nothing else references them."""
    policy = thread_state().policy
    return policy is not None and policy.sums_in_place


def push_policy(policy not None):
    """Make a kernel policy of `metatensor.rules.policies` the active one in this thread."""
    cdef ThreadState state = thread_state()
    if state.outer_policies is None:
        state.outer_policies = []
    state.outer_policies.append(state.policy)
    state.policy = policy
    hints.policies += 1


def pop_policy():
    """Undo the last `push_policy` of this thread."""
    cdef ThreadState state = thread_state()
    state.policy = state.outer_policies.pop()
    hints.policies -= 1


def current_policy():
    """Return the kernel policy that this thread has chosen, or None."""
    return thread_state().policy


cdef inline object _meta(Call* c, Overload ov):
    return ov.meta(c) if ov.meta != NULL else python_meta(c)


cdef object _kind_of(object body, Overload ov, int slot):
    """Return how the memory of a gradient formula is counted.

    True stands for a single expression, and False for a series of statements. Otherwise return the function that
    creates the parts of the formula.
    """
    policy = chosen_policy() if hints.policies else None
    if policy is None:
        found = _formulas.get(body)
        if found is not None:
            return found
    argument = None if slot < 0 else <object>ov.slots[slot].name
    if policy is not None:
        found = (<dict?>policy.known_formulas).get((ov.qualname, argument, body))
        return policy.formula_of(ov.qualname, argument, body) if found is None else found
    found = _formulas[body] = later("formula_of")(ov.qualname, argument, body)
    return found


cdef object formula(object body, PyObject** args, int n, Overload ov, int slot):
    """Evaluate a gradient formula of an operator while memory is counted.

    It is the gradient of argument `slot`, or of several arguments if `slot` is -1. Most formulas are expressions. In
    C++, temporaries live until the whole expression has been evaluated. The tensors that the operators of the formula
    create on meta are kept alive just as long. Formulas that are functions with statements run unchanged, unless the
    kernel policy has a function that creates their parts, as for an operator.
    """
    cdef ThreadState state = thread_state()
    cdef list outer = state.held
    cdef object kind, result
    cdef Scope scope
    cdef int i
    if state.tracker is None or (<Scope>state.tracker).plain and not (hints.modes and later("is_traced")()):
        return PyObject_Vectorcall(body, args, n, NULL)
    kind = _kind_of(body, ov, slot)
    if (<Scope>state.tracker).plain and kind is not True:   # a trace sees in its plain log when temporaries are released
        return PyObject_Vectorcall(body, args, n, NULL)
    if kind is False or (kind is not True and (state.grad_enabled or not _on_meta(args, n))):
        return PyObject_Vectorcall(body, args, n, NULL)
    if kind is True:
        state.held = []
        try:
            return PyObject_Vectorcall(body, args, n, NULL)
        finally:
            state.held = outer
    scope = pause_tracking()
    try:
        result = PyObject_Vectorcall(body, args, n, NULL)
    finally:
        resume_tracking(scope)
    _run_parts(kind, [_plain(<object>args[i]) for i in range(n)], state)
    _count(result, args, n)
    return result


cdef bint _on_meta(PyObject** args, int n) except -1:
    """Return True if the first tensor among some values is on meta."""
    cdef int i
    for i in range(n):
        value = <object>args[i]
        if type(value) is tuple:
            value = next((item for item in value if isinstance(item, Tensor)), None)
        if isinstance(value, Tensor):
            return (<Tensor>value).storage.device is META
    return False


cdef object counted(Call* c, Overload ov, bint by_others):
    """Run the meta kernel of a call while memory is counted.

    `by_others` is True if other operators compute the actual result, and the meta kernel's result only describes it.
    """
    cdef ThreadState state = thread_state()
    cdef object result
    if state.tracker is None:
        return _meta(c, ov)
    if ov.parts is False and not by_others and c.variant == FUNCTIONAL and not hints.policies and state.held is None:
        state.operators += 1
        if state.attribution is not None:
            (<Attribution>state.attribution).note(c.op)
        return _meta(c, ov)         # fast path for most calls, equivalent to the code below
    if state.held is None or ov.flags & (COMPOSITE | VIEW) or c.device != <PyObject*>META:
        return _counted(c, ov, by_others, state)
    result = _counted(c, ov, by_others, state)
    state.held.append(result)
    return result


cdef object _parts_of(Overload ov):
    """Return the function that creates an overload's parts under this thread's policy, or False if it is one kernel."""
    policy = chosen_policy() if hints.policies else None
    if policy is not None:
        found = (<dict?>policy.known_parts).get(ov.qualname)
        return policy.parts_of(ov.qualname) if found is None else found
    if ov.parts is None:
        ov.parts = later("parts_of")(ov.qualname)
    return ov.parts


cdef object _counted(Call* c, Overload ov, bint by_others, ThreadState state):
    cdef object parts
    state.operators += 1
    if state.attribution is not None:
        (<Attribution>state.attribution).note(c.op)
    if (by_others or c.variant != FUNCTIONAL) and not ov.flags & COMPOSITE:
        return _unseen(c, ov)
    if (<Scope>state.tracker).plain:
        return _meta(c, ov)
    parts = ov.parts if ov.parts is not None and not hints.policies else _parts_of(ov)
    if parts is False or c.device != <PyObject*>META or c.variant != FUNCTIONAL:
        return _meta(c, ov)
    if type(parts) is tuple and (<Tensor>c.args[0]).flags & T_CONTIGUOUS:
        return _meta(c, ov)
    if ov.flags & COMPOSITE and c.flags & T_REQUIRES_GRAD and state.grad_enabled:
        return _meta(c, ov)         # its calls are recorded, and their results may live on
    return _with_parts(c, ov, parts, state)


cdef object _unseen(Call* c, Overload ov):
    """Run a meta kernel without counting the storage of its result, which only describes the actual result."""
    cdef Scope scope = pause_tracking()
    try:
        return _meta(c, ov)
    finally:
        resume_tracking(scope)


cdef object _plain(object value):
    """Return a plain tensor over the storage of `value`, without autograd history, subclass or tangents.

    Convert lists and tuples item by item, and return other values unchanged.
    """
    cdef Tensor t, made
    if isinstance(value, Tensor):
        t = <Tensor>value
        made = over_storage(t.storage, t.dtype, t.ndim, t.sizes, t.strides, t.offset)
        made.flags |= t.flags & (T_CONJ | T_NEG | T_REQUIRES_GRAD)     # `matmul` reads T_REQUIRES_GRAD
        return made
    if type(value) is list:
        return [_plain(item) for item in <list>value]
    if type(value) is tuple:
        return tuple([_plain(item) for item in <tuple>value])
    return value


cdef int _run_parts(object body, list args, ThreadState state) except -1:
    """Run the function that creates the parts of a call, and free them."""
    cdef bint grad = state.grad_enabled
    cdef list held = state.held
    cdef int level = state.level
    state.grad_enabled = False
    state.held = None
    state.level = 0             # modes do not see the parts
    try:
        body(*args)
    except Exception:
        if strict:
            raise
    finally:
        state.grad_enabled, state.held = grad, held
        state.level = level
    return 0


cdef object _with_parts(Call* c, Overload ov, object parts, ThreadState state):
    cdef int i
    cdef object result = _unseen(c, ov)         # first, because it checks the arguments
    _run_parts((<tuple>parts)[0] if type(parts) is tuple else parts, [_plain(<object>c.args[i]) for i in range(ov.nslots)], state)
    # Running statistics, which PyTorch's kernel updates in place, take no memory.
    _count((<tuple>result)[0] if ov.qualname in _UPDATE_STATISTICS else result, c.args, ov.nslots)
    return result


cdef int _count(object result, PyObject** args, int n) except -1:
    """Start counting the storages of a result that it does not share with an argument."""
    cdef Tensor t
    if isinstance(result, Tensor):
        t = <Tensor>result
        if t.storage.scope is None and not _given(t, args, n):
            count_storage(t.storage)
    elif isinstance(result, (tuple, list)):
        for item in result:
            _count(item, args, n)
    return 0


cdef bint _given(Tensor t, PyObject** args, int n) except -1:
    """Return True if an argument shares the storage of `t`."""
    cdef int i
    for i in range(n):
        value = <object>args[i]
        for item in value if type(value) is list or type(value) is tuple else (value,):
            if isinstance(item, Tensor) and (<Tensor>item).storage is t.storage:
                return True
    return False


def set_strict(bint value):
    """Set whether exceptions in functions that create parts are raised or ignored. Return the previous setting."""
    global strict
    was = strict
    strict = value
    return was


cdef struct Held:
    size_t storage              # its address
    long long number            # in memory logs; 0 if no tracker counts it
    dim_t nbytes
    int category


@cython.final
@cython.binding(False)
cdef class HeldStorages:
    """The storages that tensors refer to at one moment, each with the first category that is given to it.

    It refers to no storage. `add` only notes addresses and sizes, and `sorted` does the rest.
    """
    cdef Held* held
    cdef Py_ssize_t n, room

    def __dealloc__(self):
        free(self.held)

    cdef int note(self, Storage s, int category) except -1:
        cdef Held* h
        if self.n == self.room:
            h = <Held*>realloc(self.held, (self.room * 2 + 256) * sizeof(Held))
            if h == NULL:
                raise MemoryError()
            self.held = h
            self.room = self.room * 2 + 256
        h = &self.held[self.n]
        self.n += 1
        h.storage, h.nbytes, h.category = <size_t><PyObject*>s, s.size_bytes, category
        h.number = s.number if s.scope is not None else 0
        return 0

    cdef int walk(self, object value, int category, bint gradients) except -1:
        if isinstance(value, Tensor):
            if gradients:
                value = (<Tensor>value).grad
                if value is None:
                    return 0
            if (<Tensor>value).flags & T_DISTRIBUTED:
                value = value._local_tensor     # the whole tensor has no memory
            return self.note((<Tensor>value).storage, category)
        if isinstance(value, dict):
            for item in (<dict>value).values():
                self.walk(item, category, gradients)
        elif isinstance(value, list):
            for item in <list>value:
                self.walk(item, category, gradients)
        return 0

    def add(self, int category, values, bint gradients=False):
        """Add the storages of the tensors in lists and dicts, or of their gradients."""
        self.walk(values, category, gradients)

    def sorted(self, long long first, tuple categories not None):
        """Return the categories of the storages that are counted with numbers from `first` on, by number, and the others.

        Of the others, there is a list of sizes in bytes for each category that has some.
        """
        cdef Held* h
        cdef Py_ssize_t i
        cdef dict made = {}, others = {}
        cdef set seen = set()
        for i in range(self.n):
            h = &self.held[i]
            if h.storage in seen:
                continue
            seen.add(h.storage)
            if h.number >= first:
                made[h.number] = categories[h.category]
            else:
                others.setdefault(categories[h.category], []).append(h.nbytes)
        return made, others


def storage_numbers(list tensors not None):
    """Return, for each tensor, the number of its storage in memory logs, or 0 if no tracker counts the storage."""
    cdef Tensor t
    cdef list made = []
    for t in tensors:
        made.append(t.storage.number if t.storage.scope is not None else 0)
    return made
