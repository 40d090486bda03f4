"""Values of small tensors on meta that are computed from constants.

Where meta is the default device of a thread, and inside `keep_constants`, a small tensor on meta that a factory creates from
constants has a `Known` in its storage: the call that created it. So do results of deterministic operators on such tensors. The
values are computed when something reads them (`item`, `tolist`, `nonzero`), and then kept. Other tensors on meta have no values.

A Known is immutable and describes one state of a storage. The storage holds it together with the storage's version at that
time. Every write increments the version, so values are unknown after a write that is not recorded here.
The flag T_CONSTANT of a tensor means that its storage may have a Known. Calls without flagged tensors cost nothing. If a tensor
lacks the flag although its storage has a Known, only the values of its results are lost.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from metatensor._core.compute cimport flat
from metatensor._core.device cimport META, Device, cpu_device
from metatensor._core.dtype cimport DType, default_float
from metatensor._core.formats cimport LayoutTag, MemoryFormatTag
from metatensor._core.op cimport (
    COMPOSITE, DATA, FUNCTIONAL, HOST, IN_PLACE, K_TENSORS, NO_GRAD, RANDOM, VIEW, WITH_OUT, Call, Op, Overload,
)
from metatensor._core.rule_node cimport record
from metatensor._core.storage cimport Storage, is_known
from metatensor._core.tensor cimport Tensor, new_contiguous, over_storage
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport MAX_DIMS, T_CONJ, T_CONSTANT, T_NEG, T_REQUIRES_GRAD, dim_t

from metatensor._core.late import later
from metatensor._core.storage import storage_bytes

cdef enum:
    MOST_BYTES = 8192       # larger storages have no values: 1,024 elements of 8 bytes
    MOST_STEPS = 200        # values that depend on more calls than this are computed immediately

cdef enum Reading:          # what a call reads of its arguments
    UNDECIDED, NOTHING_KNOWN, READS_ALL, READS_NONE, OVERWRITES, UNINITIALIZED

cdef frozenset _READS_NONE = frozenset(("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"))
cdef frozenset _OVERWRITES = frozenset(("fill", "zero", "copy_"))
cdef frozenset _UNINITIALIZED = frozenset(("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"))

cdef object (*_kernel)(Call* c)


cdef int set_kernel(object (*kernel)(Call* c)) except -1:
    """Set the function that runs a call without tracking constants."""
    global _kernel
    _kernel = kernel
    return 0


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Known:
    """How the bytes of a storage follow from constants: the call that wrote them, or the bytes.

    `args` has a `Place` for each tensor, and is None once `data` has the bytes. If a call has several results, each has
    the common `source` and its `index` there; the source's `data` is a tuple of bytes.
    """
    cdef readonly Op op
    cdef readonly Overload overload
    cdef readonly int variant
    cdef readonly tuple args
    cdef readonly object result         # the Place of the call's result or target, or a tuple of them; their Known is None
    cdef readonly bint writes           # whether it writes to a tensor: the first argument or `out`, stored in its state before the write
    cdef readonly object out            # the Place of ``out=``, or None
    cdef readonly Known source
    cdef readonly int index
    cdef readonly object data
    cdef readonly DType default         # the default dtype at the time of the call
    cdef int depth

    @property
    def name(self):
        """The qualified name of the operator."""
        return None if self.overload is None else self.overload.qualname


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Place:
    """A tensor at the time of a call: the `Known` of its storage, and its layout."""
    cdef readonly Known known           # None if the call does not read it
    cdef readonly DType dtype
    cdef readonly tuple size
    cdef readonly tuple stride
    cdef readonly dim_t offset
    cdef readonly int flags
    cdef readonly dim_t nbytes          # of the storage


# Recording -----------------------------------------------------------------------------------------

cdef Place _place(Tensor t, Known known):
    cdef Place p = Place.__new__(Place)
    cdef int i
    p.known = known
    p.dtype = t.dtype
    p.size = tuple([t.sizes[i] for i in range(t.ndim)])
    p.stride = tuple([t.strides[i] for i in range(t.ndim)])
    p.offset = t.offset
    p.flags = t.flags & (T_CONJ | T_NEG)
    p.nbytes = t.storage.size_bytes
    return p


cdef Place _stand_in(Tensor t):
    """Return the Place of a tensor of which only shape and dtype matter: all its strides are 0."""
    cdef Place p = _place(t, None)
    p.stride = (0,) * t.ndim
    p.offset = p.flags = 0
    p.nbytes = t.dtype.itemsize
    return p


cdef int _set_known(Tensor t, Known known) except -1:
    t.storage.recipe = known
    t.storage.known = t.storage.version + 1
    t.flags |= T_CONSTANT
    return 0


cdef int _forget(Tensor t) except -1:
    """Drop the Known of a tensor that has been written to since."""
    t.flags &= ~T_CONSTANT
    if t.storage.known:
        t.storage.recipe = None
        t.storage.known = 0
    return 0


cdef int note_bytes(Tensor t, object data) except -1:
    """Record the values of a new contiguous tensor. `data` are bytes that do not change."""
    cdef Known known
    if t.storage.size_bytes <= MOST_BYTES:
        known = Known.__new__(Known)
        known.index = -1
        known.data = data
        _set_known(t, known)
    return 0


cdef int _reading(Overload ov) except -1:
    """Return the `Reading` of an overload."""
    cdef str name = ov.qualname
    if ov.flags & RANDOM or "::" in name:           # a custom operator may depend on anything
        return NOTHING_KNOWN
    if name.partition(".")[0] in _UNINITIALIZED:
        return UNINITIALIZED
    if name.partition(".")[0] in _READS_NONE:
        return READS_NONE
    return OVERWRITES if name in _OVERWRITES else READS_ALL


cdef bint _covers(Tensor t) noexcept:
    """Whether a tensor covers all bytes of a small storage."""
    return t.storage.size_bytes <= MOST_BYTES and t.total * t.dtype.itemsize == t.storage.size_bytes \
        and not t.flags & (T_REQUIRES_GRAD | T_CONJ | T_NEG)


cdef bint _numbers(tuple values) noexcept:
    for value in values:
        if type(value) is not int and type(value) is not float:
            return False
    return True


cdef object _noted(object value, int reading, bint target):
    """Return an argument in the form stored in a `Known`, or NotImplemented if it has unknown values or may change."""
    cdef Tensor t
    cdef object kind = type(value)
    if value is None or kind is int or kind is bool or kind is float or kind is DType or kind is bytes or kind is str:
        return value
    if isinstance(value, Tensor):
        t = <Tensor>value
        if t.storage.device is META and is_known(t.storage):
            return _place(t, <Known>t.storage.recipe)
        if target and t.storage.device is META and _covers(t):
            return _place(t, None)
        _forget(t)
        if t.storage.data is not None and t.storage.device is cpu_device() and t.storage.size_bytes <= MOST_BYTES and reading != READS_NONE:
            known = Known.__new__(Known)
            (<Known>known).index = -1
            (<Known>known).data = storage_bytes(t.storage)      # its values now, which may change
            return _place(t, <Known>known)
        return _stand_in(t) if reading == READS_NONE else NotImplemented
    if kind is Device:
        return cpu_device()         # where values are computed
    if kind is tuple and _numbers(<tuple>value) or isinstance(value, (int, float, complex, LayoutTag, MemoryFormatTag)):
        return value
    if isinstance(value, (list, tuple)):
        made = []
        for v in value:
            v = _noted(v, reading, False)
            if v is NotImplemented:
                return v
            made.append(v)
        return made if type(value) is list else tuple(made)
    return NotImplemented


cdef tuple _arguments(Call* c, Overload ov, int reading):
    """Return the arguments in the form stored in a `Known`, or None if one of them cannot be stored."""
    cdef int i
    cdef bint overwrites = reading == OVERWRITES and (c.variant != FUNCTIONAL or ov.mutates)
    cdef list args = []
    for i in range(ov.nslots):
        value = _noted(<object>c.args[i], reading, overwrites and i == 0)
        if value is NotImplemented:
            return None
        args.append(value)
    return tuple(args)


cdef int _depth(object value) except -1:
    """Return the length of the longest chain of calls that leads to arguments."""
    cdef int depth = 0
    if isinstance(value, Place):
        return 0 if (<Place>value).known is None else (<Place>value).known.depth
    if isinstance(value, (list, tuple)):
        for v in value:
            depth = max(depth, _depth(v))
    return depth


cdef Known _of_call(Call* c, Overload ov, tuple args, object result):
    cdef Known known = Known.__new__(Known)
    known.op, known.overload, known.variant, known.args, known.result = <Op>c.op, ov, c.variant, args, result
    known.index = -1
    known.default = default_float()
    known.depth = _depth(args) + 1
    return known


cdef Known _bounded(Known known):
    """Return a Known, computed immediately if its chain of calls is long. Return None if it cannot be computed."""
    if known.depth > MOST_STEPS:
        try:
            later("compute_known")(known)
        except NotImplementedError:
            return None
    return known


cdef bint _fresh(Tensor t) noexcept:
    """Whether a result is a new small tensor that covers its storage."""
    return t.storage.device is META and t.storage.recipe is None and t.storage.version == 0 and t.base is None \
        and t.storage.size_bytes <= MOST_BYTES and t.total * t.dtype.itemsize == t.storage.size_bytes


cdef int _mark(object result) except -1:
    """Flag the results whose storages are known, such as views."""
    cdef Tensor t
    for t in flat(result):
        if t.storage.device is META and is_known(t.storage):
            t.flags |= T_CONSTANT
    return 0


cdef int _note_results(Call* c, Overload ov, tuple args, object result) except -1:
    """Record the results of a call that writes to none of its arguments."""
    cdef Tensor t
    cdef Known known, part
    cdef int i
    cdef list made = flat(result)
    _mark(result)
    if len(made) == 1:
        t = <Tensor>made[0]
        if not _fresh(t):
            return 0
        if ov.qualname == "_from_host" and type(args[0]) is bytes and t.is_contiguous():
            return note_bytes(t, args[0])
        known = _of_call(c, ov, args, _place(t, None))
        if isinstance(result, Tensor):
            known = _bounded(known)
            return 0 if known is None else _set_known(t, known)
    for t in made:
        if not _fresh(t):
            return 0
    known = _bounded(_of_call(c, ov, args, tuple([_place(<Tensor>t, None) for t in made])))
    if known is None:
        return 0
    for i in range(len(made)):
        part = Known.__new__(Known)
        part.source, part.index, part.depth = known, i, known.depth
        _set_known(<Tensor>made[i], part)
    return 0


cdef int _note_write(Call* c, Overload ov, tuple args, Tensor target, object result, object out) except -1:
    """Record that a call writes to `target`. The other values of its storage are known."""
    cdef Known known = _of_call(c, ov, args, result)
    known.writes = True
    known.out = out
    known = _bounded(known)
    if known is None:
        return _forget(target)
    return _set_known(target, known)


cdef bint _has_tensors(Call* c, Overload ov) noexcept:
    cdef int i
    for i in range(ov.nslots):
        if isinstance(<object>c.args[i], Tensor) or ov.slots[i].kind == K_TENSORS:
            return True
    return False


cdef object run_constants(Call* c):
    """Run a call on meta that may have constants among its arguments, or a call of a factory."""
    cdef Overload ov = <Overload>c.overload
    cdef Tensor target = None
    cdef tuple args
    cdef object result
    cdef int i, mutated = 0
    if ov.flags & DATA and not ov.flags & HOST and c.variant == FUNCTIONAL:
        return _data_dependent(c, ov)
    if ov.flags & (COMPOSITE | HOST | DATA):
        return _kernel(c)
    if ov.reading == UNDECIDED:
        ov.reading = _reading(ov)
    if ov.reading == NOTHING_KNOWN:
        return _kernel(c)
    if ov.reading == UNINITIALIZED:
        result = _kernel(c)
        if isinstance(result, Tensor) and _fresh(<Tensor>result):
            (<Tensor>result).flags |= T_CONSTANT            # later writes to it may have known values
        return result
    if ov.device_slot >= 0 and c.variant == FUNCTIONAL and not ov.mutates and not _has_tensors(c, ov):
        result = _kernel(c)                                 # check the size before the arguments are recorded
        if isinstance(result, Tensor) and _fresh(<Tensor>result):
            args = _arguments(c, ov, ov.reading)
            if args is not None:
                _note_results(c, ov, args, result)
        return result
    args = _arguments(c, ov, ov.reading)
    if args is None:
        return _kernel(c)
    if c.variant == FUNCTIONAL and not ov.mutates:
        result = _kernel(c)
        if ov.flags & VIEW:
            _mark(result)
        else:
            _note_results(c, ov, args, result)
        return result
    for i in range(ov.nslots):
        mutated += ov.slots[i].mutated
    if c.variant == WITH_OUT:
        if ov.mutates or not isinstance(<object>c.out, Tensor):
            return _kernel(c)
        target = <Tensor>c.out
    elif isinstance(<object>c.args[0], Tensor) and (c.variant == IN_PLACE and not mutated or mutated == 1 and ov.slots[0].mutated):
        target = <Tensor>c.args[0]
    else:
        return _kernel(c)
    if c.variant == IN_PLACE and ov.flags & VIEW:
        known = target.storage.recipe
        result = _kernel(c)                                 # changes only the layout of the tensor
        if target.storage.recipe is known:
            target.storage.known = target.storage.version + 1
        return result
    place = _place(target, <Known>target.storage.recipe if is_known(target.storage) else None)
    covered = is_known(target.storage) or _covers(target)
    storage, size = target.storage, target.storage.size_bytes
    result = _kernel(c)
    if covered and storage is target.storage and size == target.storage.size_bytes and target.storage.device is META \
            and (c.variant == WITH_OUT or result is target):
        _note_write(c, ov, args, target, place, place if c.variant == WITH_OUT else None)
    return result


# Operators whose results depend on values ------------------------------------------------------------

cdef object _data_dependent(Call* c, Overload ov):
    """Return the result of an operator such as `nonzero`, whose size depends on values that are known."""
    cdef tuple args
    if "::" in ov.qualname:
        return _kernel(c)
    args = _arguments(c, ov, READS_ALL)
    if args is None:
        return _kernel(c)
    result = later("known_result")(<Op>c.op, ov, args)
    if c.flags & T_REQUIRES_GRAD and not ov.flags & NO_GRAD and thread_state().grad_enabled:
        record(c, ov, result)
    return result


def made_of_bytes(data not None, size, DType dtype not None):
    """Return a contiguous tensor on meta whose values are these bytes, in C order."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int i = 0
    for n in size:
        sizes[i] = n
        i += 1
    cdef Tensor t = new_contiguous(i, sizes, dtype, META)
    note_bytes(t, bytes(data))
    return t


# Computing ----------------------------------------------------------------------------------------------

def known_of(Storage s not None):
    """Return the `Known` of a storage, or None if its values do not follow from constants."""
    return s.recipe if is_known(s) else None


def place_of(Tensor t not None):
    """Return the `Place` of a tensor whose storage is known."""
    return _place(t, <Known?>t.storage.recipe)


def arguments_of(Known known not None):
    """Return the `Known` of the storages that a call reads, as a list."""
    cdef list found = []
    _collect(known.args, found)
    _collect(known.out, found)
    if known.source is not None:
        found.append(known.source)
    return found


cdef int _collect(object value, list found) except -1:
    if isinstance(value, Place):
        if (<Place>value).known is not None:
            found.append((<Place>value).known)
    elif isinstance(value, (list, tuple)):
        for v in value:
            _collect(v, found)
    return 0


def settle(Known known not None, data not None):
    """Set the bytes of a Known and release the calls that led to it."""
    known.data = data
    known.args = known.result = known.out = known.source = None
    known.op = known.overload = None
    known.depth = 0


cdef object _restored(object value, dict storages, object storage_of):
    cdef Place p
    cdef Tensor t
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int i, n
    if isinstance(value, Place):
        p = <Place>value
        key = value if p.known is None else p.known
        if key not in storages:
            storages[key] = storage_of(p.known, p.nbytes)
        n = <int>len(p.size)
        for i in range(n):
            sizes[i], strides[i] = p.size[i], p.stride[i]
        t = over_storage(<Storage>storages[key], p.dtype, n, sizes, strides, p.offset)
        t.flags |= p.flags
        return t
    if type(value) is list:
        return [_restored(v, storages, storage_of) for v in value]
    if isinstance(value, tuple):
        return tuple([_restored(v, storages, storage_of) for v in value])
    return value


def run_call(Op op not None, Overload ov not None, int variant, tuple args not None, out, storage_of):
    """Run a call on the cpu device, below all modes, gradients and trackers.

    Parameters
    ----------
    op : Op
        The operator that was called.
    ov : Overload
        Its overload.
    variant : int
        Whether the call works in place or has ``out=``.
    args : tuple
        The arguments, with a `Place` for each tensor.
    out : Place or None
        The argument ``out=``.
    storage_of : callable
        Called with a `Known` or None and a number of bytes. Returns a new storage on the cpu.

    Returns
    -------
    tuple
        What the call returned, and the tensor that it wrote to or None.
    """
    cdef Call c
    cdef Tensor t
    cdef int i
    cdef dict storages = {}
    cdef ThreadState state = thread_state()
    # Settings of this thread must not affect the values, and modes and trackers must not see the calls.
    saved = (state.grad_enabled, state.inference, state.level, state.device, state.tracker, state.operators, state.held, state.attribution,
             state.recorder, state.policy, state.saved_hooks, state.constants, state.dispatch_disabled)
    state.grad_enabled, state.inference, state.level, state.device = False, False, 0, cpu_device()
    state.tracker = state.held = state.attribution = state.recorder = state.policy = state.saved_hooks = None
    state.constants = 0
    try:
        given = [_restored(a, storages, storage_of) for a in args]
        target = None if out is None else _restored(out, storages, storage_of)
        c.op = <PyObject*>op
        c.overload = <PyObject*>ov
        cpu = cpu_device()
        c.device = <PyObject*>cpu
        c.out = NULL if target is None else <PyObject*>target
        c.keep = NULL
        c.flags = 0
        c.mixed = False
        c.variant = variant
        for i in range(ov.nslots):
            c.args[i] = <PyObject*>given[i]
            for t in flat(given[i]):
                c.flags |= t.flags
        c.flags &= ~(T_CONSTANT | T_REQUIRES_GRAD)
        try:
            result = _kernel(&c)
        finally:
            Py_XDECREF(c.keep)
        if target is None and (variant == IN_PLACE or ov.mutates):
            target = given[0]
        return result, target
    finally:
        (state.grad_enabled, state.inference, state.level, state.device, state.tracker, state.operators, state.held, state.attribution,
         state.recorder, state.policy, state.saved_hooks, state.constants, state.dispatch_disabled) = saved


cdef int _keep(int change) except -1:
    cdef ThreadState state = thread_state()
    state.constants += change
    hints.constants += change
    return 0


class keep_constants:
    """Context manager and decorator inside which small tensors on meta that are computed from constants keep their values.

    The values of tensors of at most 8,192 bytes are then available to ``item()``, ``tolist()``, ``bool()``, `nonzero` and the like.
    They are computed when something reads them. ``with metatensor.device("meta")`` and the functions of `metatensor.analysis` and
    `metatensor.program` do the same; this class is for tensors that are created with ``device="meta"`` elsewhere.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.deferred.keep_constants():
    ...     rates = mt.linspace(0, 1, 5, device="meta")
    ...     print(rates[1].item(), int((rates > 0.3).sum()))
    0.25 3
    """

    def __enter__(self):
        _keep(1)
        return self

    def __exit__(self, *exc):
        _keep(-1)

    def __call__(self, function):
        from metatensor._core.decorate import run_inside
        return run_inside(self, function)
