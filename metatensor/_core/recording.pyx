"""Recipes: recorded steps that compute the bytes of storages without data.

A storage without data on a device other than meta may have a `Recipe`. It lists the steps that wrote to the
storage. A step is one kernel call with its arguments at that time: numbers, tickets (numbers of random ops), host bytes,
and a `Ref` for each tensor without data or a `Constant` for one with data. Steps are recorded while a `Recorder` is active,
and afterwards whenever an argument of a call has a recipe. `replay` runs a step on storages that hold data.

View ops need no steps, because a Ref stores a layout. Changes of tensor objects (``p.data = ...``, ``requires_grad``,
hooks) are not recorded, because the bytes belong to storages.
"""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport U8, DType, by_code
from metatensor._core.layout cimport is_dense
from metatensor._core.gc_tracking cimport untrack, set_tracking, track_all
from metatensor._core.lines cimport line_of, running_code
from metatensor._core.op cimport K_OPERAND, K_TENSOR, K_TENSORS, RANDOM, Call, Overload, op_name
from metatensor._core.recorder cimport Recorder
from metatensor._core.replaying cimport resolve_arguments
from metatensor._core.storage cimport Storage, has_values, new_storage, recorded
from metatensor._core.tensor cimport Tensor, over_storage, shape_str
from metatensor._core.thread cimport hints, thread_state
from metatensor._core.types cimport MAX_DIMS, T_CONJ, T_NEG, dim_t

from metatensor._core import errors
from metatensor._core.late import later

cdef unsigned long long _count = 0
cdef enum:
    COPIED_BYTES = 1 << 20          # tensors with data up to this size are copied into recipes
    CONSTANT_BYTES = 512            # fake tensors up to this size that are computed from constants have a recipe
    CONSTANT_DEPTH = 200            # if a constant needs more steps than this, its values replace them


@cython.final
@cython.freelist(64)
cdef class Recipe:
    def __init__(self, device, nbytes, constant=False):
        self.device = device
        self.nbytes = nbytes
        self.constant = constant
        self.writers = []

    @property
    def made_at(self):
        """The (file, line) of the user code that created the storage, or None."""
        return None if self.code is None else (self.code.co_filename, line_of(self.code, self.lasti))

    def grow(self, nbytes):
        """Update the size after the storage was resized. A replay allocates the largest size."""
        if nbytes > self.nbytes:
            self.nbytes = nbytes


@cython.final
@cython.freelist(64)
cdef class Ref:
    def __init__(self, Recipe recipe not None, DType dtype not None, size, stride, offset, flags):
        cdef int i
        if len(size) != len(stride) or len(size) > MAX_DIMS:
            raise ValueError(f"Ref: sizes {size} and strides {stride} do not match")
        self.raw = <PyObject*>recipe
        self.strong = recipe
        self.dtype = dtype
        self.ndim = len(size)
        if self.ndim > INLINE_DIMS:
            self.heap_dims = (tuple(size), tuple(stride))
        else:
            for i in range(self.ndim):
                self.inline_dims[i] = size[i]
                self.inline_dims[INLINE_DIMS + i] = stride[i]
        self.offset = offset
        self.flags = flags

    @property
    def recipe(self):
        """The recipe of the storage."""
        return None if self.raw == NULL else <Recipe>self.raw

    @property
    def size(self):
        """The sizes as a tuple."""
        return self.heap_dims[0] if self.heap_dims is not None else tuple([self.inline_dims[i] for i in range(self.ndim)])

    @property
    def stride(self):
        """The strides, in elements, as a tuple."""
        return self.heap_dims[1] if self.heap_dims is not None else tuple([self.inline_dims[INLINE_DIMS + i] for i in range(self.ndim)])

    def covers(self):
        """Return True if the tensor covers its whole storage."""
        cdef dim_t sizes[MAX_DIMS]
        cdef dim_t strides[MAX_DIMS]
        cdef dim_t n = 0 if self.raw == NULL else self.dtype.itemsize
        cdef int i
        if n == 0:
            return False
        self.layout(sizes, strides)
        for i in range(self.ndim):
            n *= sizes[i]
        return n >= (<Recipe>self.raw).nbytes and self.offset == 0 and is_dense(self.ndim, sizes, strides)

    cdef int layout(self, dim_t* sizes, dim_t* strides) except -1:
        cdef int i
        for i in range(self.ndim):
            sizes[i] = self.inline_dims[i] if self.heap_dims is None else self.heap_dims[0][i]
            strides[i] = self.inline_dims[INLINE_DIMS + i] if self.heap_dims is None else self.heap_dims[1][i]
        return 0


@cython.final
@cython.freelist(64)
cdef class Step:
    def __init__(self, number, overload, args, result, device):
        self.number = number
        self.overload = overload
        self.args = args
        self.result = result
        self.device = device

    @property
    def name(self):
        """The qualified name of the op, or "copy"."""
        return "copy" if self.overload is None else self.overload.qualname

    @property
    def op(self):
        """The op, or None for a copy."""
        return None if self.overload is None else self.overload.op


# Recording -----------------------------------------------------------------------------------

cdef Ref ref_of(Tensor t, Recipe recipe):
    cdef Ref r = Ref.__new__(Ref)
    cdef int i
    r.raw = <PyObject*>recipe
    r.strong = recipe
    r.dtype = t.dtype
    r.ndim = t.ndim
    if t.ndim > INLINE_DIMS:
        r.heap_dims = (tuple([t.sizes[i] for i in range(t.ndim)]), tuple([t.strides[i] for i in range(t.ndim)]))
    else:
        for i in range(t.ndim):
            r.inline_dims[i] = t.sizes[i]
            r.inline_dims[INLINE_DIMS + i] = t.strides[i]
    r.offset = t.offset
    r.flags = t.flags & (T_CONJ | T_NEG)
    return r


cdef Recipe ensure_recipe(Storage s, bint constant):
    """Return the recipe of a storage that is written to, creating it if necessary. `constant`: see `_all_constant`."""
    cdef Recipe g
    if s.recipe is None:
        g = Recipe.__new__(Recipe)
        g.device = s.device
        g.nbytes = s.size_bytes
        g.writers = []
        g.constant = constant
        if not constant:
            g.code = running_code(&g.lasti)
        s.recipe = g
        untrack(g)
        untrack(g.writers)
    elif not constant:
        (<Recipe>s.recipe).constant = False
    return <Recipe>s.recipe


cdef bint _all_constant(list args) except -1:
    """Return True if all recorded tensors in `args` are small constants of fake tensors."""
    cdef Recorder recorder = <Recorder>thread_state().recorder
    if recorder is not None and recorder.everything:
        return False
    for value in args:
        if isinstance(value, Ref):
            if not (<Recipe>(<Ref>value).raw).constant:
                return False
        elif type(value) is list and not _all_constant(value):
            return False
    return True


cdef object _argument(object value, Storage own):
    """Return an argument in the form stored in a step. References to the storage `own` are weak, to avoid a cycle."""
    cdef Tensor t
    if isinstance(value, Tensor):
        t = <Tensor>value
        if recorded(t.storage) and t.storage.data is None:
            return _weak(t, <Recipe>t.storage.recipe) if t.storage is own else ref_of(t, <Recipe>t.storage.recipe)
        return Constant(t)
    if type(value) is list or (isinstance(value, tuple) and value and isinstance(value[0], Tensor)):
        return [_argument(v, own) for v in value]
    return value


def next_number():
    """Return the next step number."""
    global _count
    _count += 1
    return _count


cdef int record(Call* c, Overload ov, list outputs, object result) except -1:
    """Record one kernel call as a step in the recipes of the storages that it writes to."""
    cdef Step step = Step.__new__(Step)
    cdef Tensor t
    cdef Recipe g
    cdef int i
    global _count
    _count += 1
    step.number = _count
    step.overload = ov
    step.device = <Device>c.device
    if not isinstance(result, Tensor) or (ov.mutates and (c.args[0] != <PyObject*>result or _mutates_others(c, ov))):
        step.args = _arguments(c, ov, None)
        constant = _all_constant(step.args)
        refs = []
        for t in outputs:
            g = ensure_recipe(t.storage, constant)
            refs.append(ref_of(t, g))
            _add_writer(g, step)
        step.result = refs[0] if isinstance(result, Tensor) else None if result is None else tuple(refs)
        for i in range(ov.nslots):
            if ov.slots[i].mutated:
                _mutated(step, step.args[i])
        track_all(step)
        return 0
    t = <Tensor>result
    step.args = _arguments(c, ov, t)
    g = ensure_recipe(t.storage, _all_constant(step.args))
    step.result = _weak(t, g)
    if ov.nslots and c.args[0] == <PyObject*>t:
        step.args[0] = step.result
    set_tracking(step, g, not g.writers)
    g.writers.append(step)
    if g.constant:
        g.depth = max(g.depth, _depth(step.args)) + 1
        if g.depth > CONSTANT_DEPTH:
            _note_values(t.storage)
    return 0


cdef int _depth(list args) except -1:
    """Return the length of the longest chain of steps that leads to the arguments."""
    cdef int depth = 0
    for value in args:
        if isinstance(value, Ref):
            depth = max(depth, (<Recipe>(<Ref>value).raw).depth)
        elif type(value) is list:
            depth = max(depth, _depth(value))
    return depth


cdef int _note_values(Storage s) except -1:
    """Replace a constant's long recipe by its values. Drop the recipe if they cannot be computed."""
    from metatensor._core.op import registry
    bytes_of = later("bytes_of")
    cdef Step step = Step.__new__(Step)
    cdef Recipe g
    try:
        data = bytes_of(_bytes_of(s))
    except (RuntimeError, NotImplementedError):
        s.recipe = None
        return 0
    s.recipe = None
    g = ensure_recipe(s, True)
    step.number = next_number()
    step.overload = registry["_from_host"].overloads[0]
    step.device = s.device
    step.result = _weak(_bytes_of(s), g)
    step.args = [bytes(data), (s.size_bytes,), (1,), by_code(U8), s.device]
    set_tracking(step, g, True)
    g.writers.append(step)
    return 0


cdef Ref _weak(Tensor t, Recipe g):
    cdef Ref r = ref_of(t, g)
    r.strong = None
    return r


cdef list _arguments(Call* c, Overload ov, Tensor result):
    """Return the arguments in the form stored in a step.

    `result` is the only tensor that the step fills in, or None.
    """
    cdef Storage own = None if result is None else result.storage
    cdef int i
    cdef list args = []
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if value is None or isinstance(value, (float, int)):
            pass
        else:
            value = _argument(value, own)
        args.append(value)
    return args


cdef bint _mutates_others(Call* c, Overload ov) noexcept:
    """Return True if the call writes to an argument other than the first."""
    cdef int i
    for i in range(1, ov.nslots):
        if ov.slots[i].mutated and <object>c.args[i] is not None:
            return True
    return False


cdef int _add_writer(Recipe g, Step step) except -1:
    if not g.writers or g.writers[len(g.writers) - 1] is not step:
        g.writers.append(step)
    return 0


cdef int _mutated(Step step, object value) except -1:
    if isinstance(value, Ref):
        _add_writer((<Ref>value).recipe, step)
    elif type(value) is list:
        for v in value:
            _mutated(step, v)
    return 0


cdef bint _constant(Overload ov, list tensors, list outputs, Recorder recorder) except -1:
    """Return True if the results are small and computed only from recorded values."""
    cdef Tensor t
    if ov.flags & RANDOM or ov.qualname.startswith("empty"):
        return False
    for t in tensors:
        if not recorded(t.storage) or t.storage.data is not None:
            return False
    for t in outputs:
        if t.storage.size_bytes > CONSTANT_BYTES:
            return False
    return True


cdef bint plainly_absent(Call* c, Overload ov, object result) except -1:
    """Handle the common case: one result, and no tensor that holds data.

    Return False if the general functions must handle the call.
    """
    cdef Tensor made
    cdef Recorder recorder = None
    cdef bint absent = False, known = False
    cdef int i, kind
    cdef object t
    if not isinstance(result, Tensor):
        return False
    made = <Tensor>result
    if made.storage.data is not None or (ov.mutates and (c.args[0] != <PyObject*>made or _mutates_others(c, ov))):
        return False
    for i in range(ov.nslots):
        kind = ov.slots[i].kind
        if kind == K_TENSOR or kind == K_OPERAND:
            if not isinstance(<object>c.args[i], Tensor):
                continue
            # No local variable here: each assignment would change a reference count.
            if (<Tensor>c.args[i]).storage.data is not None:
                if hints.recorders or recorded((<Tensor>c.args[i]).storage):
                    return False
            elif recorded((<Tensor>c.args[i]).storage):
                known = True
            elif (<Tensor>c.args[i]).storage.device is not META:
                absent = True
        elif kind == K_TENSORS and <object>c.args[i] is not None:
            for t in <object>c.args[i]:
                if (<Tensor>t).storage.data is not None or recorded((<Tensor>t).storage) \
                        or (<Tensor>t).storage.device is META:
                    return False
                absent = True
    if hints.recorders:
        recorder = <Recorder>thread_state().recorder
    if absent:
        if known or made.storage.recipe is not None or (recorder is not None and recorder.everything):
            return False
    elif recorder is None:
        if not known:
            return False
        for i in range(ov.nslots):
            if isinstance(<object>c.args[i], Tensor) and (<Tensor>c.args[i]).storage.data is not None:
                return False
        record(c, ov, None, result)
    elif recorder.everything:
        record(c, ov, None, result)
    elif known or made.storage.size_bytes <= CONSTANT_BYTES:
        return False
    made.storage.fake = True
    return True


cdef bint under_recorder(Call* c, Overload ov, list tensors, list outputs, object result) except -1:
    """Handle a call while a recorder is active. Return False if the values must be computed."""
    cdef Recorder recorder = <Recorder>thread_state().recorder
    cdef Tensor t
    cdef bint absent = False, present = False
    for t in tensors:
        if t.storage.data is None:
            absent = True
        elif t.storage.size_bytes:
            present = True
    for t in outputs:
        if t.storage.data is not None:
            present = True
    if recorder.everything:
        if present and not absent:
            return False                # all arguments hold data: compute as usual
        if absent:
            return without_data(c, ov, tensors, outputs, result)
        for t in outputs:
            t.storage.fake = True
        record(c, ov, outputs, result)
        return True
    for t in outputs + written(c, ov):
        if t.storage.data is not None:
            raise RuntimeError(f"{op_name(c)}(): cannot write to a tensor of shape {shape_str(t)} that holds data "
                               "in fake tensor mode; convert it with FakeTensorMode.from_tensor")
        t.storage.fake = True
    if _constant(ov, tensors, outputs, recorder) or _deferred(tensors):
        record(c, ov, outputs, result)
    else:
        for t in outputs + written(c, ov):
            t.storage.recipe = None
    return True


cdef bint _deferred(list tensors) except -1:
    """Return True if all tensors have data or a recipe and one of them is deferred."""
    cdef Tensor t
    cdef bint found = False
    for t in tensors:
        if t.storage.data is None and not recorded(t.storage):
            return False
        if t.storage.data is None and not (<Recipe>t.storage.recipe).constant:
            found = True
    return found


cdef int discard_result_data(object result, int resolved, Device device) except -1:
    """Remove the data of results that had to be computed because their shape depends on values.

    A recipe keeps the values of deferred results and of small fake ones. `resolved` comes from `resolve_arguments`.
    """
    cdef Recorder recorder = <Recorder>thread_state().recorder
    if resolved == 2 or (recorder is not None and (resolved or not recorder.everything)):
        _discard_data(result, device, resolved == 2 or not recorder.everything, {})
    return 0


cdef int _discard_data(object result, Device device, bint fake, dict absent) except -1:
    """Move new tensors to storages without data whose recipes copy the values.

    `absent` maps old storages to new ones.
    """
    cdef Tensor t
    cdef Storage made
    if isinstance(result, (tuple, list)):
        for r in result:
            _discard_data(r, device, fake, absent)
    elif isinstance(result, Tensor):
        t = <Tensor>result
        if t.storage.data is None:
            return 0
        if t.storage not in absent:
            made = absent[t.storage] = new_storage(device, t.storage.size_bytes)
            made.fake = True
            if not fake or made.size_bytes <= CONSTANT_BYTES:
                values = Constant.__new__(Constant)
                (<Constant>values).adopt(_bytes_of(t.storage))
                _record_copy(_bytes_of(made), values, fake)
        t.storage = <Storage>absent[t.storage]
    return 0


cdef bint without_data(Call* c, Overload ov, list tensors, list outputs, object result) except -1:
    """Handle a call with an argument that has no data. Return False if the values must be computed."""
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
    for t in written(c, ov):
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
        for t in outputs + written(c, ov):
            t.storage.recipe = None     # the values are no longer known
    return True


cdef list written(Call* c, Overload ov):
    """Return the tensors among the arguments that a call writes to."""
    cdef int i
    found = []
    if ov.mutates:
        for i in range(ov.nslots):
            if ov.slots[i].mutated and <object>c.args[i] is not None:
                if isinstance(<object>c.args[i], Tensor):
                    found.append(<object>c.args[i])
                elif ov.slots[i].kind == K_TENSORS:
                    found.extend(<object>c.args[i])
    return found


cdef int copy_without_data(Tensor target, Tensor source) except -1:
    """Copy a tensor if source or target has no data. Record the copy if the target has a recipe."""
    if target.storage.device is META or source.storage.device is META:
        return 0
    if target.storage.data is not None:
        if source.storage.recipe is None:
            raise errors.no_data("copy_", target)
        value_of = later("value_of")
        source = <Tensor>value_of(source)
        from metatensor._core.device import backend_for
        backend_for(target.storage.device).copy(target, source)
        return 0
    if target.storage.recipe is None:
        return 0                        # the target's other values are unknown, so nothing is recorded
    if not has_values(source.storage):
        target.storage.recipe = None
        return 0
    value = _argument(source, target.storage)
    _record_copy(target, value, _all_constant([value]))
    return 0


cdef int _record_copy(Tensor target, object source, bint constant) except -1:
    """Record that `source`, a Ref or a Constant, is copied into `target`."""
    cdef Step step = Step.__new__(Step)
    cdef Recipe g = ensure_recipe(target.storage, constant)
    global _count
    step.device = target.storage.device
    step.result = _weak(target, g)
    step.args = [step.result, source]
    _count += 1
    step.number = _count
    set_tracking(step, g, not g.writers)
    g.writers.append(step)
    return 0


def copy_recorded(Storage s not None):
    """Return a new storage whose recipe copies the bytes of `s`."""
    cdef Storage made = new_storage(s.device, s.size_bytes)
    made.fake = True
    _record_copy(_bytes_of(made), ref_of(_bytes_of(s), <Recipe>s.recipe), (<Recipe>s.recipe).constant)
    return made


cdef Tensor _bytes_of(Storage s):
    """Return a tensor over the whole storage, a vector of uint8."""
    cdef dim_t one = 1
    return over_storage(s, by_code(U8), 1, &s.size_bytes, &one, 0)


@cython.final
cdef class Constant:
    """A tensor with data among the arguments of a step.

    Small tensors are copied. Large ones are referenced, and `value` raises if they have changed since.
    """
    cdef readonly Tensor tensor
    cdef unsigned long long version
    cdef object mark                # a checksum of a referenced tensor, or None for a copy

    def __init__(self, Tensor t not None):
        checksum, copy_of = later("checksum"), later("copy_of")
        if t.storage.data is not None and t.storage.size_bytes <= COPIED_BYTES:
            self.adopt(<Tensor>copy_of(t))
        else:
            self.adopt(<Tensor>t.detach())
            self.mark = checksum(self.tensor)

    cdef int adopt(self, Tensor t) except -1:
        """Store a tensor and the version of its storage."""
        self.tensor = <Tensor>t.detach()
        self.version = self.tensor.storage.version
        return 0

    def value(self):
        """Return the tensor. Raise RuntimeError if it was modified since it was recorded."""
        checksum = later("checksum")
        if self.tensor is None:
            raise RuntimeError("Constant: it was created without a tensor")
        if self.tensor.storage.version != self.version or (self.mark is not None and checksum(self.tensor) != self.mark):
            raise RuntimeError(f"materialize: a tensor of shape {shape_str(self.tensor)} that a recipe uses was changed in place "
                               "after it was used; clone() it before changing it")
        return self.tensor
