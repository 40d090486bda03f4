"""Distributed tensors, and calls of operators on them.

A `DistributedTensor` has the shape and strides of the whole tensor. It refers to the part that this process holds, and to a
`Placed`, which says how the tensor is placed on a mesh. A call that has one among its arguments runs on the parts, below
autograd: the node that is recorded belongs to the distributed tensors.

What the call needs depends only on how its arguments are placed, and on its other arguments. `_key` collects this, and
`Placed.plans` maps it to a `Plan`, which `metatensor.distributed.tensor` makes for the first call. If no argument has to be
redistributed, a plan runs without any Python code.
"""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.dispatch cimport dispatch, run
from metatensor._core.dtype cimport default_float
from metatensor._core.graph cimport Node
from metatensor._core.history cimport set_node
from metatensor._core.late import later
from metatensor._core.layout cimport copy_dims
from metatensor._core.op cimport (
    FUNCTIONAL, HOST, IN_PLACE, K_FLOAT, K_GENERATOR, K_OPERAND, K_SCALAR, K_TENSORS, NO_GRAD, VIEW, WITH_OUT, Call, Op,
    Overload, make_returns,
)
from metatensor._core.overriding cimport ABSENT, CALLED_AS_METHOD, answers_itself, run_parts
from metatensor._core.rule_node cimport begin, record, record_write
from metatensor._core.storage cimport Storage, has_values, new_storage
from metatensor._core.tensor cimport Tensor, mark_changed, over_storage, set_layout, set_requires_grad, shape_str
from metatensor._core.thread cimport ThreadState, thread_state
from metatensor._core.types cimport MAX_DIMS, T_DISTRIBUTED, T_INFERENCE, T_NONLEAF, T_REQUIRES_GRAD, dim_t
from _thread import get_ident
from metatensor._core import errors

cdef extern from "Python.h":
    object PyTuple_New(Py_ssize_t n)
    void PyTuple_SET_ITEM(object t, Py_ssize_t i, PyObject* v) noexcept
    void Py_INCREF(PyObject* o) noexcept
    Py_ssize_t Py_REFCNT(PyObject* o) noexcept

cdef enum:
    MOST_PLANS = 20_000     # of a mesh; then they are forgotten

cdef object _class = None       # DTensor
cdef dict _bodies = {}          # thread: how many bodies of composite operators it is running
cdef dict _by_value = {}        # overload: the bit set of slots whose numbers' values matter to plans


cdef unsigned long long _last_token = 0
cdef frozenset _REPLACING = frozenset(("resize_", "resize_as_", "set_"))      # operators that give a tensor other memory


cdef inline bint _is_placed(object value):
    """Return whether a value is a distributed tensor. A tensor that was only given the class is not."""
    return isinstance(value, DistributedTensor) and (<DistributedTensor>value).placed is not None


cdef inline Storage _no_memory(Tensor like):
    """Return a storage of no bytes."""
    return new_storage(like.storage.device, 0)


cdef class Placed:
    def __cinit__(self, mesh, tuple placements, Tensor whole not None, dict plans not None):
        cdef dim_t sizes[MAX_DIMS]
        cdef dim_t strides[MAX_DIMS]
        self.mesh, self.placements, self.plans = mesh, placements, plans
        copy_dims(sizes, whole.sizes, whole.ndim)
        copy_dims(strides, whole.strides, whole.ndim)
        self.whole = over_storage(_no_memory(whole), whole.dtype, whole.ndim, sizes, strides, 0)
        global _last_token
        _last_token += 1
        self.token = _last_token      # not the address, which another object may get later

    @property
    def shape(self):
        """The shape of the whole tensor."""
        return self.whole.shape

    @property
    def stride(self):
        """The strides of the whole tensor."""
        return self.whole.stride()

    @property
    def dtype(self):
        """The dtype."""
        return self.whole.dtype


cdef class DistributedTensor(Tensor):
    """A tensor of which this process holds a part. Base of `metatensor.distributed.tensor.DTensor`."""
    _has_parts = True

    @property
    def _local_tensor(self):
        """The part that this process holds."""
        return self.local

    @_local_tensor.setter
    def _local_tensor(self, Tensor local not None):
        self.local = local

    @property
    def _spec(self):
        """How the tensor is placed."""
        return self.placed


@cython.final
cdef class Plan:
    def __init__(self, tuple numbers=(), tuple outputs=(), python=None):
        self.numbers, self.outputs, self.python = numbers, outputs, python


cdef DistributedTensor _wrap(Tensor local, Placed placed):
    cdef DistributedTensor t = DistributedTensor.__new__(_class)
    cdef Tensor whole = placed.whole
    t.flags = T_DISTRIBUTED
    set_layout(t, whole.ndim, whole.sizes, whole.strides, 0)
    t.storage = _no_memory(local)
    t.dtype = whole.dtype
    t.local, t.placed = local, placed
    return t


def wrap(Tensor local not None, Placed placed not None, requires_grad=False):
    """Return a distributed tensor over this process's part."""
    cdef DistributedTensor t = _wrap(local, placed)
    if requires_grad:
        set_requires_grad(t, True)
    return t


def adopt(DistributedTensor target not None, DistributedTensor source not None):
    """Give `target` the part, the layout and the placements of `source`."""
    cdef Tensor whole = source.placed.whole
    set_layout(target, whole.ndim, whole.sizes, whole.strides, 0)
    target.local, target.placed = source.local, source.placed


def become(DistributedTensor target not None, DistributedTensor source not None):
    """Make `target` the tensor that `source` is: its part, placements, storage, history, and what it is a view of."""
    adopt(target, source)
    target.storage, target.dtype = source.storage, source.dtype
    target.view, target.viewed, target.again, target.seen = source.view, source.viewed, source.again, source.seen
    if source.node != NULL:
        set_node(target, <Node>source.node, source.output)


def same_as(DistributedTensor t not None):
    """Return another object for the same tensor, with its history."""
    cdef DistributedTensor made = _wrap(t.local, t.placed)
    made.flags = t.flags
    become(made, t)
    return made


def view_of(DistributedTensor t not None):
    """Return the distributed tensor of which `t` is a view, and how it was made: the operator, its overload, its other arguments,
    and which of its results it is, or -1. None for the tensor if `t` is no view."""
    return t.viewed, t.again


def data_of(DistributedTensor t not None):
    """Return a tensor over the same part, with a version counter of its own."""
    return _wrap(<Tensor>t.local.detach(), t.placed)


def owns_part(DistributedTensor t not None, bint leaf=False):
    """Return whether nothing else refers to the part of `t` or to its memory, so that it may be changed in place.

    As gradient of a `leaf`, the part may also be the only view of a tensor, and a part without values may share its storage.
    """
    cdef Tensor local = t.local
    cdef Py_ssize_t owners = 1
    if leaf and not has_values(local.storage):
        return True
    if local.base is not None:
        if not leaf or Py_REFCNT(<PyObject*>local.base) > 1:
            return False
        owners = 2
    # `t` and `local` are the two references to the part.
    return Py_REFCNT(<PyObject*>local) <= 2 and Py_REFCNT(<PyObject*>local.storage) <= owners


def alias_of(DistributedTensor t not None):
    """Return a tensor over the same part, with the same version counter and without history."""
    cdef DistributedTensor made = data_of(t)
    made.storage = t.storage
    return made


def set_data(DistributedTensor t not None, value):
    """Make a distributed tensor refer to the part of another one."""
    if not _is_placed(value):
        raise TypeError(f"data: a distributed tensor of shape {shape_str(t)} can become a distributed tensor only, not "
                        f"{type(value).__name__}")
    adopt(t, <DistributedTensor>value)
    t.dtype = (<Tensor>value).dtype
    t.storage = _no_memory(t.local)


def set_class(cls):
    """Set the class of distributed tensors."""
    global _class
    _class = cls


def values_matter(Overload ov not None, names):
    """Declare the arguments of an overload whose numbers, not only their types, matter to plans."""
    cdef unsigned long long bits = 0
    cdef int i
    for i in range(ov.nslots):
        if <object>ov.slots[i].name in names:
            bits |= 1ULL << i
    _by_value[ov] = bits


def quietly(function, *args):
    """Call a function below all modes, without gradients, and without counting or recording what it does."""
    cdef ThreadState state = thread_state()
    cdef int level = state.level
    cdef bint grad = state.grad_enabled
    tracker, recorder, attribution = state.tracker, state.recorder, state.attribution
    state.level, state.grad_enabled = 0, False
    state.tracker = state.recorder = state.attribution = None
    try:
        return function(*args)
    finally:
        state.level, state.grad_enabled = min(level, <int>len(state.modes)), grad
        state.tracker, state.recorder, state.attribution = tracker, recorder, attribution


cdef object run_body(Call* c):
    """Run the body of a composite operator, which may call operators with plain tensors that it makes itself."""
    cdef object thread = get_ident()
    cdef object depth = _bodies.get(thread, 0)
    _bodies[thread] = depth + 1
    try:
        return run(c)
    finally:
        if depth:
            _bodies[thread] = depth
        else:
            del _bodies[thread]


def in_body():
    """Return True if this thread runs the body of a composite operator on distributed tensors, or a backward pass."""
    return get_ident() in _bodies or thread_state().walk is not None


# The plan of a call -------------------------------------------------------------------------------------------

cdef object _token(DistributedTensor t, bint any_mesh):
    """Return what stands for a distributed tensor in a key."""
    cdef Placed placed = t.placed
    if not any_mesh:
        return placed.token
    return placed.mesh.shape, placed.placements, placed.whole.shape, placed.whole.stride(), placed.whole.dtype


cdef object _key(Call* c, Overload ov, unsigned long long by_value, bint* mixed, bint any_mesh):
    """Return what a plan depends on: the overload, its variant, how the tensors are placed, and the other arguments.

    With `any_mesh`, the key is the same for meshes of the same shape.
    """
    cdef object key = PyTuple_New(ov.nslots + 4)
    cdef object value
    cdef int i, kind
    Py_INCREF(<PyObject*>ov)
    PyTuple_SET_ITEM(key, 0, <PyObject*>ov)
    value = c.variant
    Py_INCREF(<PyObject*>value)
    PyTuple_SET_ITEM(key, 1, <PyObject*>value)
    value = None if c.out == NULL else _tokens(<object>c.out, any_mesh)
    Py_INCREF(<PyObject*>value)
    PyTuple_SET_ITEM(key, 2, <PyObject*>value)
    value = default_float()
    Py_INCREF(<PyObject*>value)
    PyTuple_SET_ITEM(key, ov.nslots + 3, <PyObject*>value)
    for i in range(ov.nslots):
        kind = ov.slots[i].kind
        value = <object>c.args[i]
        if _is_placed(value):
            value = _token(<DistributedTensor>value, any_mesh)
        elif isinstance(value, DistributedTensor):
            raise TypeError(f"{(<Op>c.op).name}(): argument '{<object>ov.slots[i].name}' is a DTensor without placements; make it with "
                            "distribute_tensor or DTensor.from_local")
        elif isinstance(value, (Tensor, list)):
            value = _tokens(value, any_mesh)
            if type(<object>c.args[i]) is not list and (<Tensor>c.args[i]).ndim:
                mixed[0] = True
        elif kind == K_GENERATOR:
            value = None
        elif value is not None and (kind == K_OPERAND or kind == K_SCALAR or kind == K_FLOAT):
            value = (value, type(value)) if by_value >> i & 1 else type(value)
        Py_INCREF(<PyObject*>value)
        PyTuple_SET_ITEM(key, 3 + i, <PyObject*>value)
    return key


cdef object _tokens(object value, bint any_mesh):
    if _is_placed(value):
        return _token(<DistributedTensor>value, any_mesh)
    if isinstance(value, Tensor):
        return ((<Tensor>value).shape, (<Tensor>value).stride(), (<Tensor>value).dtype)
    if isinstance(value, (list, tuple)):
        return tuple([_tokens(one, any_mesh) for one in value])
    return value


cdef dict _plans(Call* c, Overload ov):
    """Return the plans of the mesh of the first distributed tensor."""
    cdef int i
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if _is_placed(value):
            return (<DistributedTensor>value).placed.plans
        if isinstance(value, list):
            for one in <list>value:
                if _is_placed(one):
                    return (<DistributedTensor>one).placed.plans
    for one in <object>c.out if isinstance(<object>c.out, (list, tuple)) else (<object>c.out,):
        if _is_placed(one):
            return (<DistributedTensor>one).placed.plans
    raise RuntimeError("no argument is a distributed tensor")


cdef object _plan(Call* c, Overload ov):
    cdef dict plans = _plans(c, ov)
    cdef int i
    cdef bint mixed = False
    found_bits = _by_value.get(ov)
    if found_bits is None:
        later("prepare_distributed")(ov)
        found_bits = _by_value[ov]
    key = _key(c, ov, found_bits, &mixed, False)
    if mixed:
        later("check_mixed")(<object>c.op, [<object>c.args[i] for i in range(ov.nslots)])
    found = plans.get(key)
    if found is None:
        found = later("plan_distributed")(<object>c.op, ov, [<object>ov.slots[i].name for i in range(ov.nslots)],
                                          [<object>c.args[i] for i in range(ov.nslots)], c.variant,
                                          <object>c.out if c.out != NULL else None, _key(c, ov, found_bits, &mixed, True))
        if len(plans) >= MOST_PLANS:
            plans.clear()
        plans[key] = found
    return found


# The call -----------------------------------------------------------------------------------------------------

cdef object run_distributed(Call* c):
    """Run a call that has distributed tensors among its arguments."""
    cdef Overload ov = <Overload>c.overload
    cdef ThreadState state = thread_state()
    cdef bint recording = state.grad_enabled, grad
    cdef Node node = None
    cdef Tensor target
    cdef DistributedTensor viewing
    cdef int i
    if answers_itself(c):
        if (<Op>c.op).name in _REPLACING:
            return later("replace_memory")((<Op>c.op).name, [<object>c.args[i] for i in range(ov.nslots)])
        return run(c)
    if recording and c.flags & T_REQUIRES_GRAD:
        result = run_parts(c, True)
        if result is not ABSENT:
            return result
    grad = recording and c.flags & T_REQUIRES_GRAD and not ov.flags & (NO_GRAD | HOST)
    _refresh_views(c, ov, state)
    if (c.variant == IN_PLACE or ov.slots[0].mutated) and _is_placed(<object>c.args[0]):
        viewing = <DistributedTensor><object>c.args[0]
        if viewing.view == COPY_VIEW or (viewing.view == PART_VIEW and (ov.flags & VIEW or (recording and c.flags & T_REQUIRES_GRAD))):
            return later("write_to_view")(<object>c.op, ov, [<object>ov.slots[i].name for i in range(ov.nslots)],
                                          [<object>c.args[i] for i in range(ov.nslots)])
    if recording and (c.variant == IN_PLACE or ov.slots[0].mutated) and _is_placed(<object>c.args[0]):
        target = <Tensor>c.args[0]
        if target.flags & T_REQUIRES_GRAD and not target.flags & T_NONLEAF:
            raise errors.leaf_inplace((<Op>c.op).name)
    if c.variant == IN_PLACE and (<Tensor><object>c.args[0]).flags & T_INFERENCE and not state.inference:
        raise errors.inference_inplace((<Op>c.op).name)
    state.grad_enabled = False
    try:
        plan = <Plan?>_plan(c, ov)
        if grad and c.variant == IN_PLACE:
            node = begin(c, ov)
        result = _run_local(c, ov, <Plan>plan) if (<Plan>plan).python is None else _run_python(c, ov, <Plan>plan)
    finally:
        state.grad_enabled = recording
    if c.variant == IN_PLACE:
        result = <object>c.args[0]
        mark_changed(<Tensor>result)
        (<DistributedTensor>result).seen = (<Tensor>result).storage.version
        if node is not None:
            record_write(c, ov, node, result)
    elif c.variant == WITH_OUT:
        for one in <object>c.out if isinstance(<object>c.out, (tuple, list)) else (<object>c.out,):
            mark_changed(<Tensor>one)
            if (<DistributedTensor>one).view == COPY_VIEW:
                later("write_through")(one)
        return <object>c.out
    elif ov.mutates and result is <object>c.args[0]:
        mark_changed(<Tensor>result)
        if grad:
            record(c, ov, result)
    elif grad and result is not <object>c.args[0]:
        record(c, ov, result)
    if ov.flags & VIEW and c.variant == FUNCTIONAL and _is_placed(<object>c.args[0]):
        i = 0
        for one in result if isinstance(result, (list, tuple)) else (result,):
            if one is not <object>c.args[0] and _is_placed(one):
                _link_view(<DistributedTensor>one, <DistributedTensor>c.args[0], c, ov, <Plan>plan, i if one is not result else -1)
            i += 1
    return result


cdef int _link_view(DistributedTensor t, DistributedTensor base, Call* c, Overload ov, Plan plan, int position) except -1:
    """Note that an operator returned `t` as a view of `base`."""
    cdef int i
    if not ov.flags & NO_GRAD:
        t.view = PART_VIEW if plan.python is None else COPY_VIEW
        t.viewed = base
        t.again = (<object>c.op, ov, [<object>c.args[i] for i in range(1, ov.nslots)], position)
    if t.view != COPY_VIEW:
        t.storage = base.storage    # of no bytes; its version counts the writes to all tensors that share the part
    t.seen = base.storage.version
    return 0


cdef int _refresh_views(Call* c, Overload ov, ThreadState state) except -1:
    """Make the views among the arguments again whose tensors were changed since."""
    cdef int i
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if _is_placed(value):
            _refresh(<DistributedTensor>value, state)
        elif isinstance(value, list):
            for one in <list>value:
                if _is_placed(one):
                    _refresh(<DistributedTensor>one, state)
    return 0


cdef int _refresh(DistributedTensor t, ThreadState state) except -1:
    cdef bint recording = state.grad_enabled
    if t.view == NO_VIEW or (t.view == PART_VIEW and not recording):
        return 0
    _refresh(t.viewed, state)
    if t.seen != t.viewed.storage.version:
        state.grad_enabled = True       # the history that it gets is needed when gradients are recorded again
        try:
            become(t, later("view_again")(t.viewed, *t.again))
        finally:
            state.grad_enabled = recording
    return 0


cdef object _run_python(Call* c, Overload ov, Plan plan):
    cdef int i
    return plan.python([<object>c.args[i] for i in range(ov.nslots)], <object>c.out if c.out != NULL else None)


cdef object _run_local(Call* c, Overload ov, Plan plan):
    """Run the operator on the parts, and wrap its results."""
    cdef Call f = c[0]
    cdef Tensor local
    cdef int i
    cdef list held = [], parts      # what the arguments of the call refer to; another thread may replace the parts
    f.keep = NULL
    f.flags = c.flags & CALLED_AS_METHOD
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if _is_placed(value):
            local = (<DistributedTensor>value).local
            held.append(local)
            f.args[i] = <PyObject*>local
            f.flags |= local.flags
        elif isinstance(value, Tensor):
            f.flags |= (<Tensor>value).flags
        elif isinstance(value, list) and ov.slots[i].kind == K_TENSORS:
            parts = []
            for one in <list>value:
                local = (<DistributedTensor>one).local if _is_placed(one) else <Tensor>one
                f.flags |= local.flags
                parts.append(local)
            held.append(parts)
            f.args[i] = <PyObject*>parts
    for slot, number in plan.numbers:
        f.args[<int>slot] = <PyObject*>number
    return _wrapped(c, ov, dispatch(&f), plan)


cdef object _wrapped(Call* c, Overload ov, object result, Plan plan):
    cdef int i
    if isinstance(result, Tensor):
        return _one_wrapped(c, ov, <Tensor>result, <Placed>plan.outputs[0])
    if isinstance(result, (list, tuple)):
        made = []
        i = 0
        for one in result:
            if isinstance(one, Tensor):
                one = _one_wrapped(c, ov, <Tensor>one, <Placed>plan.outputs[i])
                i += 1
            made.append(one)
        return made if isinstance(result, list) else make_returns(c, tuple(made)) if ov.returns is not None else tuple(made)
    return result


cdef object _one_wrapped(Call* c, Overload ov, Tensor result, Placed placed):
    """Return a result as a distributed tensor: the argument whose part it is, or a new one."""
    cdef int i
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if _is_placed(value) and (<DistributedTensor>value).local is result:
            return value
    return _wrap(result, placed)
