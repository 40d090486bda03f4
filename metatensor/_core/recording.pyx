"""Recipes: how the bytes of storages without data come about.

A storage without data on a device other than meta may have a *recipe*: a `Ghost`, the list of the steps that wrote to
it. A step is one call of a kernel, with its arguments as they were then: numbers, tickets of random ops, host bytes,
and for each tensor a `Ref`. Steps are recorded while a `Recorder` is entered, and afterwards whenever a tensor with a
recipe takes part in a call. `replay` carries one out with storages that hold data.

Views need no steps, for a Ref has a layout. What becomes of tensor objects (``p.data = ...``, ``requires_grad``, hooks)
is no matter either: the bytes belong to storages.
"""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport DType
from metatensor._core.execute cimport compute_values
from metatensor._core.op cimport (
    FUNCTIONAL, K_TENSORS, RANDOM, Call, Op, Overload, hold, op_name,
)
from metatensor._core.storage cimport Storage, new_storage
from metatensor._core.tensor cimport Tensor, over_storage, shape_str
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport MAX_ARGS, MAX_DIMS, T_CONJ, T_NEG, dim_t

from metatensor._core import errors

cdef unsigned long long _count = 0


@cython.final
cdef class Ghost:
    def __init__(self, device, nbytes):
        self.device = device
        self.nbytes = nbytes
        self.writers = []

    @property
    def made_at(self):
        """File and line of the user's code that made it, as (str, int), or None."""
        return None if self.line is None else (self.line[0].co_filename, self.line[1])

    def grow(self, nbytes):
        """The storage was resized; a replay makes it as large as it ever was."""
        if nbytes > self.nbytes:
            self.nbytes = nbytes


@cython.final
cdef class Ref:
    def __init__(self, ghost, dtype, size, stride, offset, flags):
        self.ghost = ghost
        self.dtype = dtype
        self.size = size
        self.stride = stride
        self.offset = offset
        self.flags = flags

    def covers(self):
        """Whether it is the whole of its ghost."""
        n = 1
        for s in self.size:
            n *= s
        return n * self.dtype.itemsize >= self.ghost.nbytes and self.offset == 0 and self._dense()

    def _dense(self):
        expected = 1
        for stride, size in sorted([(st, s) for s, st in zip(self.size, self.stride) if s != 1]):
            if stride != expected:
                return False
            expected *= size
        return True


@cython.final
cdef class Step:
    def __init__(self, number, overload, args, result, device):
        self.number = number
        self.overload = overload
        self.args = args
        self.result = result
        self.device = device

    @property
    def name(self):
        """The op's qualified name."""
        return "copy" if self.overload is None else self.overload.qualname

    @property
    def op(self):
        """The op, or None for a plain copy."""
        return None if self.overload is None else self.overload.op


cdef class Recorder:
    """A context manager. Inside, what a thread makes on devices other than meta holds no data.

    With ``everything``, all of it has a recipe; else only what is small and made of constants, up to ``limit`` bytes.
    """

    def __init__(self, bint everything=True, dim_t limit=0):
        self.everything = everything
        self.limit = limit
        self._outer = []

    def __enter__(self):
        cdef ThreadState state = thread_state()
        self._outer.append(state.recorder)
        state.recorder = self
        hints.recorders += 1
        return self

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        state.recorder = self._outer.pop()
        hints.recorders -= 1


class suspended:
    """A context manager: inside, nothing is recorded and factories make data."""

    def __enter__(self):
        cdef ThreadState state = thread_state()
        self.kept = state.recorder
        state.recorder = None

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        state.recorder = self.kept


def current_recorder():
    """The innermost recorder of this thread, or None."""
    return thread_state().recorder


# Recording -----------------------------------------------------------------------------------

cdef Ref ref_of(Tensor t, Ghost ghost):
    cdef Ref r = Ref.__new__(Ref)
    cdef int i
    r.ghost = ghost
    r.dtype = t.dtype
    r.size = tuple([t.sizes[i] for i in range(t.ndim)])
    r.stride = tuple([t.strides[i] for i in range(t.ndim)])
    r.offset = t.offset
    r.flags = t.flags & (T_CONJ | T_NEG)
    return r


cdef extern from "Python.h":
    PyObject* PyEval_GetFrame()
    PyObject* PyFrame_GetBack(PyObject* frame)
    PyObject* PyFrame_GetCode(PyObject* frame)
    int PyFrame_GetLineNumber(PyObject* frame)
    void Py_XDECREF(PyObject* o)
    void Py_INCREF(object o)

cdef dict _ours = {}            # code object: whether it is metatensor's own
cdef int _FRAMES = 12           # how far out the user's code is looked for


cdef bint _is_ours(object frame, object code) except -1:
    from metatensor._core.where import is_ours
    cdef bint found = code.co_filename.startswith("<") or is_ours(frame)
    _ours[code] = found
    return found


cdef object _line():
    """File and line of the user's code that is running; that of metatensor's own where there is none near."""
    cdef PyObject* frame = PyEval_GetFrame()
    cdef PyObject* back
    cdef PyObject* raw
    cdef int i
    cdef object code, found = None
    cdef object held = None
    for i in range(_FRAMES):
        if frame == NULL:
            break
        raw = PyFrame_GetCode(frame)
        code = <object>raw
        Py_XDECREF(raw)
        known = _ours.get(code)
        if known is None:
            known = _is_ours(<object>frame, code)
        if not known:
            return (code, PyFrame_GetLineNumber(frame))
        back = PyFrame_GetBack(frame)
        frame = back
        held = None if back == NULL else <object>back       # keeps it alive while it is looked at
        Py_XDECREF(back)
    return found


cdef Ghost ghost_of(Storage s):
    """The recipe of a storage that is being written to."""
    cdef Ghost g
    if s.recipe is None:
        g = Ghost.__new__(Ghost)
        g.device = s.device
        g.nbytes = s.size_bytes
        g.writers = []
        g.line = _line()
        s.recipe = g
    return <Ghost>s.recipe


cdef object _argument(object value):
    """An argument as a step keeps it."""
    cdef Tensor t
    if isinstance(value, Tensor):
        t = <Tensor>value
        if t.storage.recipe is not None and t.storage.data is None:
            return ref_of(t, <Ghost>t.storage.recipe)
        return Constant(t)
    if type(value) is list or (isinstance(value, tuple) and value and isinstance(value[0], Tensor)):
        return [_argument(v) for v in value]
    return value


cdef object _number():
    global _count
    _count += 1
    return _count


cdef int record(Call* c, Overload ov, list outputs, object result) except -1:
    """Write down one call of a kernel, and give what it fills in its recipe."""
    cdef Step step = Step.__new__(Step)
    cdef Tensor t
    cdef Ghost g
    cdef int i
    cdef object first = None, value
    cdef list args
    step.overload = ov
    step.device = <Device>c.device
    step.args = args = []
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if value is result and i == 0:      # in place: one Ref for both
            t = <Tensor>result
            if t.storage.recipe is not None:
                value = first = ref_of(t, <Ghost>t.storage.recipe)
            else:
                value = _argument(value)
        elif value is None or isinstance(value, (float, int)):
            pass
        else:
            value = _argument(value)
        args.append(value)
    step.number = _number()
    if first is not None:
        step.result = first
        (<Ref>first).ghost.writers.append(step)
        return 0
    refs = []
    for t in outputs:
        g = ghost_of(t.storage)
        refs.append(ref_of(t, g))
        if not g.writers or g.writers[len(g.writers) - 1] is not step:
            g.writers.append(step)
    step.result = refs[0] if isinstance(result, Tensor) else tuple(refs)
    return 0


cdef bint _constant(list tensors, list outputs, Recorder recorder) except -1:
    """Whether results are small and made of nothing but recorded values."""
    cdef Tensor t
    for t in tensors:
        if t.storage.recipe is None or t.storage.data is not None:
            return False
    for t in outputs:
        if t.storage.size_bytes > recorder.limit:
            return False
    return True


cdef bint plainly_absent(Call* c, Overload ov, object result) except -1:
    """The common case of fake tensors: one fresh result that has no data and no recipe, settled at once."""
    cdef Tensor made
    cdef Storage s
    cdef Recorder recorder
    cdef bint absent = False
    cdef int i
    if not isinstance(result, Tensor):
        return False
    made = <Tensor>result
    if made.storage.data is not None or made.storage.recipe is not None:
        return False
    for i in range(ov.nslots):
        if isinstance(<object>c.args[i], Tensor):
            s = (<Tensor>c.args[i]).storage
            if s.recipe is not None:
                return False
            if s.data is None and s.device is not META:
                absent = True
        elif ov.slots[i].kind == K_TENSORS:
            return False
    if hints.recorders:
        recorder = <Recorder>thread_state().recorder
        if recorder is not None and (recorder.everything or made.storage.size_bytes <= recorder.limit):
            return False
        absent = absent or recorder is not None
    if absent:
        made.storage.fake = True
    return absent


cdef bint under_recorder(Call* c, Overload ov, list tensors, list outputs, object result) except -1:
    """What a call does while a recorder is entered; False where it is to be computed after all."""
    cdef Recorder recorder = <Recorder>thread_state().recorder
    cdef Tensor t
    cdef bint absent = False, present = False
    for t in tensors:
        if t.storage.data is None:
            absent = True
        elif t.storage.size_bytes:
            present = True
    if recorder.everything:
        if present and not absent:
            return False                # made of data alone, as outside
        if absent:
            return without_data(c, ov, tensors, outputs, result)
        for t in outputs:
            t.storage.fake = True
        record(c, ov, outputs, result)
        return True
    for t in outputs:
        if t.storage.data is not None:
            raise RuntimeError(f"{op_name(c)}(): a tensor of shape {shape_str(t)} that holds data cannot be written to "
                               "under fake tensors; enter it with FakeTensorMode.from_tensor")
        t.storage.fake = True
    if not ov.flags & RANDOM and _constant(tensors, outputs, recorder):
        record(c, ov, outputs, result)
    else:
        for t in outputs:
            t.storage.recipe = None
    return True


cdef bint without_data(Call* c, Overload ov, list tensors, list outputs, object result) except -1:
    """What a call does that lacks the data of an argument; False where it is to be computed after all."""
    cdef Tensor t
    cdef bint known = True, some = False, target = False
    for t in tensors:
        if t.storage.data is None and t.storage.device is not META:
            if t.storage.recipe is None:
                known = False
            else:
                some = True
    for t in outputs:
        if t.storage.data is not None:
            target = True
    if target:
        if known and resolve_arguments(c, ov):
            return False
        raise errors.no_data(op_name(c), <Tensor>outputs[0])
    for t in outputs:
        t.storage.fake = True
    if some and known:
        record(c, ov, outputs, result)
    else:
        for t in outputs:
            t.storage.recipe = None     # what was known of it is no longer so
    return True


cdef int copy_without_data(Tensor target, Tensor source) except -1:
    """A copy that lacks data, recorded where one of the two has a recipe."""
    cdef Step step
    cdef Ghost g
    if target.storage.device is META or source.storage.device is META:
        return 0
    if target.storage.data is not None:
        if source.storage.recipe is None:
            raise errors.no_data("copy_", target)
        from metatensor.deferred import value_of
        source = <Tensor>value_of(source)
        from metatensor._core.device import backend_for
        backend_for(target.storage.device).copy(target, source)
        return 0
    if target.storage.recipe is None and source.storage.recipe is None:
        return 0
    if source.storage.recipe is None and source.storage.data is None:
        target.storage.recipe = None
        return 0
    step = Step.__new__(Step)
    step.device = target.storage.device
    g = ghost_of(target.storage)
    step.args = [ref_of(target, g), _argument(source)]
    step.result = step.args[0]
    step.number = _number()
    g.writers.append(step)
    return 0


def copy_recorded(Storage s not None):
    """A storage with a recipe of its own: a copy of the bytes that another one will have."""
    from metatensor._core.dtype import dtype_by_name
    from metatensor._core.placing import tensor_from_storage
    cdef Storage made = new_storage(s.device, s.size_bytes)
    made.fake = True
    byte = dtype_by_name("uint8")
    ghost_of(made)
    copy_without_data(tensor_from_storage(made, byte, (s.size_bytes,), (1,)),
                      tensor_from_storage(s, byte, (s.size_bytes,), (1,)))
    return made


@cython.final
cdef class Constant:
    """A tensor with data among the arguments of a step: its values as they were, or (large ones) itself, watched."""
    cdef readonly Tensor tensor
    cdef unsigned long long version
    cdef bint own

    def __init__(self, Tensor t not None):
        self.own = t.storage.size_bytes <= 1 << 20
        if self.own and t.storage.data is not None:
            from metatensor.deferred import copy_of
            self.tensor = <Tensor>copy_of(t)
        else:
            self.tensor = <Tensor>t.detach()
        self.version = self.tensor.storage.version

    def value(self):
        """The tensor. RuntimeError where it was changed since."""
        if self.tensor.storage.version != self.version:
            raise RuntimeError(f"materialize: a tensor of shape {shape_str(self.tensor)} that a recipe needs was changed in place "
                               "after it was used; clone() it before it is")
        return self.tensor


# Values for arguments --------------------------------------------------------------------------

cdef bint resolve_arguments(Call* c, Overload ov) except -1:
    """Put values in the place of arguments that have recipes; False where one lacks data and has none."""
    cdef int i
    cdef Tensor t
    from metatensor.deferred import value_of
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if isinstance(value, Tensor):
            t = <Tensor>value
            if t.storage.data is None:
                if t.storage.recipe is None:
                    return False
                value = value_of(t)
                hold(c, value)
                c.args[i] = <PyObject*>value
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            made = []
            for t in value:
                if t.storage.data is None:
                    if t.storage.recipe is None:
                        return False
                    made.append(value_of(t))
                else:
                    made.append(t)
            hold(c, made)
            c.args[i] = <PyObject*>made
    return True


# Replaying ---------------------------------------------------------------------------------------

cdef Tensor placed(Ref r, dict storages, object place):
    """A tensor as it was, over the storage that stands for its ghost now, which is made where there is none."""
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int i
    cdef Storage s
    cdef Tensor t
    found = storages.get(r.ghost)
    if found is None:
        found = storages[r.ghost] = new_storage(<Device>place(r.ghost.device), r.ghost.nbytes)
    s = <Storage>found
    for i in range(len(r.size)):
        sizes[i] = r.size[i]
        strides[i] = r.stride[i]
    t = over_storage(s, r.dtype, <int>len(r.size), sizes, strides, r.offset)
    t.flags |= r.flags
    return t


cdef object _restored(object value, dict storages, object place):
    if isinstance(value, Ref):
        return placed(<Ref>value, storages, place)
    if type(value) is Constant:
        return place((<Constant>value).value())
    if type(value) is list:
        return [_restored(v, storages, place) for v in value]
    if isinstance(value, Device):
        return place(value)
    return value


def replay(Step step not None, dict storages not None, place):
    """Carry out one step. `storages` maps ghosts to storages; `place` maps devices, and constants, to where they go now."""
    cdef Call c
    cdef Overload ov = step.overload
    cdef int i
    cdef Tensor t
    cdef list args = [_restored(v, storages, place) for v in step.args]
    cdef object result
    cdef Device d = <Device?>place(step.device)
    if ov is None:
        from metatensor._core.device import backend_for
        target, source = args
        _allocate(<Tensor>target, d)
        if source.device.type == target.device.type:
            backend_for(d).copy(target, source)
        else:
            target.copy_(source)
        return
    if isinstance(step.result, tuple):
        result = tuple([placed(<Ref>r, storages, place) for r in step.result])
    else:
        result = placed(<Ref>step.result, storages, place)
    c.op = <PyObject*>ov.op
    c.overload = <PyObject*>ov
    c.device = <PyObject*>d
    c.out = c.keep = NULL
    c.flags = 0
    c.mixed = False
    c.variant = FUNCTIONAL
    for i in range(ov.nslots):
        c.args[i] = <PyObject*>args[i]
        if isinstance(args[i], Tensor):
            t = <Tensor>args[i]
            c.flags |= t.flags
            if t.storage.data is None:
                _allocate(t, t.storage.device)
        elif ov.slots[i].kind == K_TENSORS and args[i] is not None:
            for t in args[i]:
                c.flags |= t.flags
                if t.storage.data is None:
                    _allocate(t, t.storage.device)
    compute_values(&c, ov, result)


cdef int _allocate(Tensor t, Device d) except -1:
    """Memory, of any content, for what nothing has written to yet."""
    from metatensor._core.device import backend_for
    if t.storage.data is None:
        t.storage.data = backend_for(d).allocate(t.storage.size_bytes, d.number)
    return 0


def install_data(Storage s not None, Storage filled not None):
    """Give a storage, with all tensors on it, the data and the device of another one."""
    s.device = filled.device
    s.data = filled.data
    s.fake = False
    s.version += 1


def remove_data(Storage s not None, device):
    """Take the data of a storage that has a recipe away again."""
    s.device = <Device?>device
    s.data = None
    s.fake = s.device is not META
