"""Capture: a mode that lists the calls of a thread with the metadata of every value.

A value describes a tensor during a run: its storage and its layout. Storages are identified by their numbers in
memory logs, so that a capture keeps nothing alive that the run releases; those that existed before are kept. Two tensor
objects with the same storage and layout may be the same value, for instance if autograd saves a tensor. An
argument that no call has returned is a *leaf*: an input, a parameter or another tensor that existed before. If only its
storage is known, the tensor is a view of that storage, and the capture adds a call of ``as_strided`` that creates this view.

Calls are those of operators that are not composite, below autograd's decisions and above devices. Operators that only read
metadata are left out. Those that read a number from a tensor are recorded, because later calls may depend on it.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdlib cimport free, realloc
from metatensor._core.integer_map cimport map_free, map_get, map_set
from metatensor._core.lines cimport line_of, running_code
from metatensor._core.memory cimport DEATH, Event, MemoryLog
from metatensor._core.modes cimport Mode, run_modes
from metatensor._core.dtype cimport DType, default_float
from metatensor._core.op cimport FUNCTIONAL, HOST, IN_PLACE, K_DTYPE, K_GENERATOR, K_TENSORS, Call, Op, Overload
from metatensor._core.random cimport Generator, default, generators_made
from metatensor._core.size cimport make_tuple
from metatensor._core.storage cimport Storage, next_capture
from metatensor._core.tensor cimport Tensor, over_storage
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport T_CONJ, T_NEG, T_REQUIRES_GRAD, dim_t

from bisect import bisect_left
from metatensor._core.engine import latest_node, visited_node
from metatensor._core.op import registry

_RESEEDED = "trace: the seed of a random number generator was changed during the run; set it before, or create a generator in the run"
_READS = frozenset(("item", "tolist"))


@cython.final
@cython.freelist(256)
@cython.no_gc
cdef class Value:
    """A tensor in a program: its sizes, strides, offset, dtype, device, and the number of its storage."""

    def __init__(self, number, storage, offset, shape, stride, dtype, device, conj=False, neg=False, requires_grad=False):
        self.number, self.storage, self.offset = number, storage, offset
        self.shape, self.stride = tuple(shape), tuple(stride)
        self.dtype, self.device = dtype, device
        self.flags = (T_CONJ if conj else 0) | (T_NEG if neg else 0)
        self.requires_grad = requires_grad

    @property
    def conj(self):
        """Whether the tensor has the conjugate bit."""
        return self.flags & T_CONJ != 0

    @property
    def neg(self):
        """Whether the tensor has the negative bit."""
        return self.flags & T_NEG != 0

    def __repr__(self):
        return f"%{self.number}: {self.dtype.name}[{', '.join([str(n) for n in self.shape])}]"


@cython.final
@cython.freelist(256)
cdef class ProgramCall:
    """One call of an operator. In `args` and `kwargs`, a `Value` replaces each tensor."""

    def __init__(self, op, args, kwargs, result, writes=(), grad=True, backward=False, module=0, first=0, last=0):
        self.op, self.args, self.options, self.result, self.writes = op, tuple(args), dict(kwargs), result, tuple(writes)
        self.grad, self.backward, self.module, self.first, self.last = grad, backward, module, first, last

    def replace(self, **changes):
        """Return a copy with other attributes. It keeps this call's source location."""
        cdef ProgramCall made = ProgramCall.__new__(ProgramCall)
        made.op, made.args, made.options, made.result, made.writes = self.op, self.args, self.kwargs, self.result, self.writes
        made.grad, made.backward, made.module, made.first, made.last = self.grad, self.backward, self.module, self.first, self.last
        made.code, made.instruction = self.code, self.instruction
        for name, value in changes.items():
            if name == "op":
                made.op = value
            elif name == "args":
                made.args = tuple(value)
            elif name == "kwargs":
                made.options = dict(value)
            elif name == "result":
                made.result = value
            elif name == "writes":
                made.writes = tuple(value)
            elif name == "grad":
                made.grad = value
            elif name == "backward":
                made.backward = value
            elif name == "module":
                made.module = value
            else:
                raise TypeError(f"replace() got an unexpected keyword argument {name!r}")
        return made

    @property
    def kwargs(self):
        """The keyword arguments, a dict."""
        if self.options is None:
            self.options = {}
        return self.options

    @property
    def place(self):
        """The file and the line of the user's code that made the call, or None."""
        return None if self.code is None else (self.code.co_filename, line_of(self.code, self.instruction))

    def __repr__(self):
        return f"{self.result} = {self.op.name}({', '.join([repr(a) for a in self.args] + [f'{k}={v!r}' for k, v in self.kwargs.items()])})"


@cython.final
cdef class Ticket:
    """The ticket of a random operator, relative to the state of its generator when the capture began."""

    def __init__(self, generator, number):
        self.generator, self.number = generator, number

    def __eq__(self, other):
        return type(other) is Ticket and (<Ticket>other).generator is self.generator and (<Ticket>other).number == self.number

    def __hash__(self):
        return hash(self.number)

    def __repr__(self):
        return f"Ticket({self.number})"


cdef inline bint _fits(Value v, Tensor t, long long key):
    """Whether a value has the storage and the layout of a tensor."""
    cdef int i
    if v.key != key or v.offset != t.offset or v.dtype is not t.dtype or v.flags != t.flags & (T_CONJ | T_NEG) or len(v.shape) != t.ndim:
        return False
    for i in range(t.ndim):
        if <dim_t>v.shape[i] != t.sizes[i] or <dim_t>v.stride[i] != t.strides[i]:
            return False
    return True


cdef bint _has_tensors(Call* c, Overload ov):
    """Whether the tensors among the arguments determine the device of the results."""
    cdef int i
    for i in range(ov.nslots):
        if isinstance(<object>c.args[i], Tensor) or ov.slots[i].kind == K_TENSORS and <object>c.args[i] is not None:
            return True
    return False


@cython.final
@cython.binding(False)
cdef class Capture(Mode):
    """A mode that lists the calls of its thread. It must be entered inside a `MemoryTracker`, which numbers the storages."""

    def __init__(self):
        self.calls, self.leaves, self.reads, self.values, self.generators = [], [], [], [], []
        self.nodes, self.callers, self.copies, self.marks = [], [], [], []
        self.dropped = {}
        self.takes_parts = True
        self.begun, self.first_generator = next_capture(), generators_made()
        self.default_dtype = default_float()

    def __dealloc__(self):
        free(self.storages)
        map_free(&self.by_object)
        map_free(&self.by_storage)

    def input(self, Tensor t not None):
        """Return the value of an argument. Tensors found to be views of it are computed from it."""
        cdef Value v = self.value_of(t, False)
        self.storages[v.storage].is_input = True
        return v

    def value(self, Tensor t not None):
        """Return the value of a tensor that existed before, or that a call returned."""
        cdef Value v = self.value_of(t, False)
        return self.dropped.get(v.number, v)

    def known(self, Tensor t not None):
        """Return the value of a tensor, or None if it has none yet."""
        cdef long long key = self.key_of(t.storage)
        cdef Value found = self.latest(t)
        return found if found is not None and _fits(found, t, key) else self.existing(t, key, self.storage_of(key))

    cdef long long key_of(self, Storage s):
        return s.number if s.scope is not None else -<long long><size_t><PyObject*>s

    cdef Value latest(self, Tensor t):
        """Return the latest value of the tensor at this address, or None. It may have been another tensor."""
        cdef Py_ssize_t at = map_get(&self.by_object, <long long><size_t><PyObject*>t)
        return None if at < 0 else <Value>self.values[at]

    cdef int storage_of(self, long long key) noexcept:
        """Return the number of a storage in the program, or -1."""
        return <int>map_get(&self.by_storage, key)

    cdef list values_of(self, int storage):
        """Return the values of a storage, the oldest first."""
        cdef list found = []
        cdef int at = self.storages[storage].newest
        while at >= 0:
            found.append(self.values[at])
            at = (<Value>self.values[at]).older
        found.reverse()
        return found

    cdef int add_storage(self, long long key) except -1:
        """Give a number to a storage."""
        cdef StorageUse* more
        cdef int number = self.n_storages
        if number == self.room:
            more = <StorageUse*>realloc(self.storages, (self.room * 2 + 256) * sizeof(StorageUse))
            if more == NULL:
                raise MemoryError()
            self.storages, self.room = more, self.room * 2 + 256
        map_set(&self.by_storage, key, number)
        self.storages[number].newest = -1
        self.storages[number].used = 0
        self.storages[number].held = self.storages[number].is_input = False
        self.n_storages += 1
        return number

    cdef int add_value(self, Value v, int storage) except -1:
        """Number a value, the newest of its storage."""
        v.number, v.storage, v.older = <int>len(self.values), storage, self.storages[storage].newest
        self.values.append(v)
        self.storages[storage].newest = v.number
        return 0

    cdef Value value_of(self, Tensor t, bint made):
        cdef long long key = self.key_of(t.storage)
        cdef Value v
        cdef int storage
        if not made:
            v = self.latest(t)
            if v is not None and _fits(v, t, key):
                return v
        storage = self.storage_of(key)
        if not made:
            if storage < 0 and key > 0:
                storage = self.counted_late(t, key)
            v = self.existing(t, key, storage)
            if v is not None:
                map_set(&self.by_object, <long long><size_t><PyObject*>t, v.number)
                return v
        v = Value.__new__(Value)
        v.key, v.offset, v.dtype, v.device = key, t.offset, t.dtype, t.storage.device
        v.shape, v.stride = make_tuple(t.ndim, t.sizes), make_tuple(t.ndim, t.strides)
        v.flags = t.flags & (T_CONJ | T_NEG)
        v.requires_grad = t.flags & T_REQUIRES_GRAD != 0
        if storage < 0:
            if not made and t.storage.scope is None and t.storage.number <= -self.begun:
                raise RuntimeError(f"trace: another thread made a tensor of shape {list(v.shape)} during the run; only the calls of "
                                   "the thread that traces are recorded, so make it there, or before the trace")
            storage = self.add_storage(key)
            self.add_value(v, storage)
            if not made:
                self.leaves.append((v, t))
                self.storages[storage].held = True
        elif made:
            self.add_value(v, storage)
        elif self.storages[storage].held and not self.storages[storage].is_input:
            self.add_value(v, storage)
            self.leaves.append((v, t))
        else:
            self.view_of_storage(v, storage)
        map_set(&self.by_object, <long long><size_t><PyObject*>t, v.number)
        return v

    cdef Value existing(self, Tensor t, long long key, int storage):
        """Return the newest value of a storage that has the tensor's layout, or None. A `storage` of -1 has no values."""
        cdef Value v
        cdef int at = self.storages[storage].newest if storage >= 0 else -1
        while at >= 0:
            v = <Value>self.values[at]
            if _fits(v, t, key):
                return v
            at = v.older
        return None

    cdef int counted_late(self, Tensor t, long long key) except -2:
        """Return the number of a storage that was counted only after the call that made it, or -1."""
        cdef long long was = -<long long><size_t><PyObject*>t.storage
        cdef int storage = self.storage_of(was)
        cdef Value v
        if storage < 0 or self.storages[storage].held:
            return -1
        map_set(&self.by_storage, was, -1)
        map_set(&self.by_storage, key, storage)
        for v in self.values_of(storage):
            v.key = key
        return storage

    cdef int view_of_storage(self, Value v, int storage) except -1:
        """Add a call that creates a view which no call has returned."""
        cdef Value other, base = None
        cdef list others = self.values_of(storage)
        for other in others:
            if other.dtype is v.dtype and other.flags == v.flags:
                base = other
                break
        if base is None:
            base = self.of_dtype(v, others)
        self.add_value(v, storage)
        self.add_view("as_strided", (base, v.shape, v.stride, v.offset), v)
        return 0

    cdef Value of_dtype(self, Value v, list others):
        """Add the calls that make a view of a whole storage with the dtype of `v`."""
        cdef Value other, last = None, made
        for other in others:
            if other.flags == 0 and v.flags == 0:
                last = other
        if last is None:
            raise RuntimeError(f"trace: a tensor of dtype {v.dtype.name} is a view that no operator made, of a storage that it "
                               "conjugates or negates")
        count = last.offset + 1
        for n, stride in zip(last.shape, last.stride):
            count = 0 if n == 0 or count == 0 else count + (n - 1) * stride
        nbytes = count * last.dtype.itemsize
        if nbytes % v.dtype.itemsize or count == 0:
            raise RuntimeError(f"trace: a tensor of dtype {v.dtype.name} is a view that no operator made, of {nbytes} bytes of "
                               f"{last.dtype.name}")
        for dtype, name, args in ((last.dtype, "as_strided", ((count,), (1,), 0)), (v.dtype, "view", (v.dtype,))):
            made = Value.__new__(Value)
            made.key, made.offset, made.dtype, made.device = v.key, 0, dtype, v.device
            made.shape, made.stride = (nbytes // dtype.itemsize,), (1,)
            self.add_value(made, last.storage)
            self.add_view(name, (last, *args), made)
            last = made
        return last

    cdef int add_view(self, str name, tuple args, Value result) except -1:
        """Add a call that makes a view."""
        cdef ProgramCall made = ProgramCall.__new__(ProgramCall)
        made.op = <Op>registry[name]
        made.args, made.result, made.writes = args, result, ()
        made.module = self.module
        made.first = made.last = thread_state().operators
        self.calls.append(made)
        return 0

    cdef Value of_storage(self, Storage s, DType dtype):
        """Return the value of a tensor of a dtype that has the whole storage."""
        cdef dim_t size = s.size_bytes // dtype.itemsize, stride = 1
        cdef Value v
        cdef int storage = self.storage_of(self.key_of(s))
        if storage >= 0:
            for v in self.values_of(storage):
                if v.dtype is dtype and v.flags == 0:
                    return v                        # the call that takes it says which layout it wants
        return self.value_of(over_storage(s, dtype, 1, &size, &stride, 0), False)

    cdef object encode(self, object argument):
        cdef Value v
        if isinstance(argument, Tensor):
            v = self.value_of(<Tensor>argument, False)
            self.storages[v.storage].used = len(self.calls)
            return v
        if type(argument) is list:
            return [self.encode(a) for a in argument]
        if isinstance(argument, tuple) and argument:
            for a in argument:
                if type(a) is not int:
                    return tuple([self.encode(a) for a in argument])
        return argument

    cdef object results(self, Call* c, object result):
        cdef int i
        cdef bint is_given = c.out != NULL
        cdef Value given = None
        if isinstance(result, Tensor):
            for i in range((<Overload>c.overload).nslots):
                is_given = is_given or c.args[i] == <PyObject*>result
            if is_given:
                given = self.latest(<Tensor>result)
            if given is not None and _fits(given, <Tensor>result, self.key_of((<Tensor>result).storage)):
                return given                # the argument itself, with its old layout
            return self.value_of(<Tensor>result, True)
        if isinstance(result, tuple):
            return tuple([self.results(c, r) for r in result])
        if isinstance(result, list):
            return [self.results(c, r) for r in result]
        return None

    cdef tuple written(self, Call* c):
        """Return the values to which a call writes."""
        cdef Overload ov = <Overload>c.overload
        cdef int i
        cdef list found
        if c.variant == FUNCTIONAL and not ov.mutates and c.out == NULL:
            return ()
        found = []
        if c.variant == IN_PLACE or (ov.inplace_slot >= 0 and c.args[ov.inplace_slot] == <PyObject*>True):
            found.append(self.value_of(<Tensor>c.args[0], False))
        for i in range(ov.nslots):
            if ov.slots[i].mutated and <object>c.args[i] is not None:
                for t in <object>c.args[i] if isinstance(<object>c.args[i], (list, tuple)) else (<object>c.args[i],):
                    v = self.value_of(<Tensor>t, False)
                    if v not in found:
                        found.append(v)
        if c.out != NULL:
            for t in <object>c.out if isinstance(<object>c.out, (list, tuple)) else (<object>c.out,):
                found.append(self.value_of(<Tensor>t, False))
        return tuple(found)

    cdef int note_state(self, Generator g) except -1:
        """Note the state of a generator that existed before the run, unless it is noted already."""
        if g.serial >= self.first_generator:
            return 0
        for known, _, _ in self.generators:
            if known is g:
                return 0
        self.generators.append((g, g.key, g.taken))
        return 0

    cdef object ticket(self, object generator, tuple taken):
        """Return the ticket of a call; that of a generator that the run has created is a constant."""
        cdef Ticket made = Ticket.__new__(Ticket)
        cdef Generator g
        if type(generator) is tuple:            # a program that runs inside: it draws from the default generator, or from one of its own
            self.note_state(default)
            for known, key, first in self.generators:
                if taken[0] == key and taken[1] >= first:
                    made.generator = None if known is default else known
                    made.number = taken[1] - first
                    return made
            return taken
        g = default if generator is None else <Generator>generator
        if g.serial >= self.first_generator:
            return taken
        for known, key, first in self.generators:
            if known is g:
                break
        else:
            key, first = taken
            self.generators.append((g, key, first))
        if taken[0] != key or taken[1] < first:
            raise RuntimeError(_RESEEDED)
        made.generator = None if g is default else g
        made.number = taken[1] - first
        return made

    cdef bint sees(self, Call* c) except -1:
        return False

    cdef object handle(self, Call* c):
        cdef Overload ov = <Overload>c.overload
        cdef ThreadState state = thread_state()
        cdef ProgramCall made
        cdef int i, last = -1, slot = -1
        cdef object generator = None
        cdef tuple args
        cdef dict kwargs = None
        if ov.flags & HOST and ov.nreturns <= 1 and ov.text.rpartition("->")[2].strip() != "Tensor":
            result = run_modes(c)
            if (<Op>c.op).name in _READS:
                self.reads.append((len(self.calls), (<Op>c.op).name, self.value_of(<Tensor>c.args[0], False)))
            return result
        for i in range(ov.nslots):
            if ov.slots[i].default == NULL or c.args[i] != ov.slots[i].default:
                if i < ov.npos:
                    last = i
                else:
                    kwargs = {} if kwargs is None else kwargs
                    kwargs[<object>ov.slots[i].name] = self.encode(<object>c.args[i])
            if ov.slots[i].kind == K_GENERATOR:
                slot, generator = i, <object>c.args[i]
        args = PyTuple_New(last + 1)
        for i in range(last + 1):
            argument = self.encode(<object>c.args[i])
            Py_INCREF(argument)
            PyTuple_SET_ITEM(args, i, argument)
        if ov.device_slot >= 0 and c.device != NULL and <object>c.args[ov.device_slot] is None and not _has_tensors(c, ov):
            kwargs = {} if kwargs is None else kwargs
            kwargs["device"] = <object>c.device
        if c.out != NULL:
            kwargs = {} if kwargs is None else kwargs
            kwargs["out"] = self.encode(<object>c.out)
        if ov.flags & HOST and ov.qualname == "set_.source_Storage":
            args = self.with_source(c, args)
        made = ProgramCall.__new__(ProgramCall)
        made.op = <Op>c.op
        made.writes = self.written(c)
        made.grad, made.backward = state.grad_enabled, state.walk is not None
        made.module = self.calling_module(state)
        made.code = running_code(&made.instruction)
        made.first = state.operators
        result = run_modes(c)
        made.last = state.operators
        if slot >= 0 and type(<object>c.args[slot]) is tuple:
            kwargs = {} if kwargs is None else kwargs
            args = self.with_ticket(ov, slot, args, kwargs, self.ticket(generator, <tuple><object>c.args[slot]))
        if default_float() is not self.default_dtype:
            kwargs = {} if kwargs is None else kwargs
            args = self.with_dtype(c, args, kwargs, result)
        made.args, made.options = args, kwargs
        made.result = self.results(c, result)
        self.calls.append(made)
        if self.ends is not None:
            ends, self.ends = self.ends, None
            raise ends
        if made.result is None and result is not None:      # a decision, such as that of `equal`
            for argument in args:
                if type(argument) is Value:
                    self.reads.append((len(self.calls), (<Op>c.op).name, argument))
        return result

    cdef tuple with_dtype(self, Call* c, tuple args, dict kwargs, object result):
        """Return the positional arguments of a call under another default dtype than that of the program, with the dtype of the result."""
        cdef Overload ov = <Overload>c.overload
        cdef int i
        if not isinstance(result, Tensor) or not ((<Tensor>result).dtype.is_floating_point or (<Tensor>result).dtype.is_complex):
            return args
        for i in range(ov.nslots):
            given = <object>c.args[i]
            if isinstance(given, Tensor) and ((<Tensor>given).dtype.is_floating_point or (<Tensor>given).dtype.is_complex):
                return args                             # a number does not change its dtype
        for i in range(ov.nslots):
            if ov.slots[i].kind == K_DTYPE:
                if c.args[i] == <PyObject*>None:
                    if i < len(args):
                        return args[:i] + ((<Tensor>result).dtype,) + args[i + 1:]
                    kwargs[<object>ov.slots[i].name] = (<Tensor>result).dtype
                return args
        raise RuntimeError(f"trace: the default dtype was changed during the run, and {(<Op>c.op).name}() depends on it; change it before")

    cdef tuple with_source(self, Call* c, tuple args):
        """Return the arguments of ``set_`` with a tensor over the storage, of the layout that the call gives to its target."""
        cdef Tensor target = <Tensor>c.args[0]
        source = getattr(<object>c.args[1], "_untyped_storage", <object>c.args[1])
        if not isinstance(source, Storage):
            return args                                     # the call raises an error
        v = self.of_storage(<Storage>source, target.dtype)
        self.storages[v.storage].used = len(self.calls)
        if len(args) == 2:
            args += (0, ((<Storage>source).size_bytes // target.dtype.itemsize,))
        return (args[0], v, *args[2:])

    cdef int calling_module(self, ThreadState state) except -1:
        """Return the number of the running module; in a backward pass, of the one that called the operator whose gradient is computed."""
        cdef object node
        cdef Py_ssize_t i
        if state.walk is None:
            if state.grad_enabled:
                self.nodes.append(latest_node())
                self.callers.append(self.module)
            return self.module
        if self.module != 0:
            return self.module                  # recomputation
        node = visited_node()
        i = bisect_left(self.nodes, node) - 1
        return self.callers[i] if i >= 0 else 0

    cdef tuple with_ticket(self, Overload ov, int slot, tuple args, dict kwargs, object ticket):
        """Return the positional arguments with the ticket, or add it to the keyword arguments."""
        if slot < len(args):
            return args[:slot] + (ticket,) + args[slot + 1:]
        kwargs[<object>ov.slots[slot].name] = ticket
        return args

    cdef int copied(self, Tensor t, Tensor copy) except -1:
        """Add the call of `clone` that keeps what the call that is being handled will overwrite."""
        cdef ThreadState state = thread_state()
        cdef ProgramCall made = ProgramCall.__new__(ProgramCall)
        made.op = <Op>registry["clone"]
        made.args, made.writes = (self.encode(t),), ()
        made.result = self.value_of(copy, True)
        made.module, made.backward = self.module, state.walk is not None
        made.first, made.last = state.operators - 1, state.operators
        self.calls.append(made)
        self.copies.append(made)
        return 0

    def drop_unused_copies(self, outputs):
        """Leave out the copies that no gradient of this run has used. A run that records gradients makes its own.

        `outputs` are values that the callable returned.
        """
        cdef ProgramCall made
        cdef set dead = set()
        returned = {(<Value>v).storage for v in outputs}
        for made in self.copies:
            if not self.storages[(<Value>made.result).storage].used and (<Value>made.result).storage not in returned:
                dead.add(id(made))
        if dead:
            self.leave_out(dead)

    cdef int leave_out(self, set dead) except -1:
        """Leave out calls, given by their ids."""
        cdef ProgramCall made
        cdef list shift = [0], kept = []
        cdef Py_ssize_t i
        for made in self.calls:
            if id(made) in dead:
                shift.append(<object>shift[len(shift) - 1] + 1)
            else:
                kept.append(made)
                shift.append(shift[len(shift) - 1])
        self.calls[:] = kept
        self.reads[:] = [(at - shift[at], name, value) for at, name, value in self.reads]
        for i in range(self.n_storages):
            self.storages[i].used = max(self.storages[i].used - <Py_ssize_t>shift[self.storages[i].used], 0)
        return 0

    def check_generators(self):
        """Raise RuntimeError if the run has left generators in states that a run of the program would not set."""
        cdef Generator g
        for g, key, first in self.generators:
            if g.key != key or g.taken < first:
                raise RuntimeError(_RESEEDED)

    def releases(self, MemoryLog log not None):
        """Return the storages that the run released after each call, by the index of the call. `log` is the `MemoryLog` of the run."""
        cdef dict found = {}, several = {}
        cdef Py_ssize_t at = 0, last = len(self.calls) - 1, i
        cdef long long operator
        cdef Event* event
        cdef int number
        log.check()
        if last < 0:
            return found
        for i in range(log.n_events):                   # almost always in the order of the operators
            event = &log.log[i]
            if event.change & 3 != DEATH:
                continue
            number = self.storage_of(log.first_storage + event.storage)
            if number < 0:
                continue
            operator = log.first_operator + event.operator
            if operator <= (<ProgramCall>self.calls[at]).first:
                at = 0
            while at < last and (<ProgramCall>self.calls[at + 1]).first < operator:
                at += 1
            after = max(at, self.storages[number].used)     # some calls run no operator that the log counts
            one = found.get(after)
            if one is None:
                found[after] = number
            elif after in several:
                several[after].append(number)
            else:
                several[after] = [one, number]
        return {after: (one,) if after not in several else tuple(several[after]) for after, one in found.items()}


cdef Capture active_capture():
    """Return the innermost capture that sees the calls of this thread now, or None."""
    cdef ThreadState state
    cdef int i
    if hints.modes:
        state = thread_state()
        for i in range(state.level - 1, -1, -1):
            if type(state.modes[i]) is Capture:
                return <Capture>state.modes[i]
    return None


def note_copy(Tensor t not None, Tensor copy not None):
    """Note a copy of what the call that is being handled will overwrite, for its gradient."""
    cdef ThreadState state = thread_state()
    cdef Py_ssize_t i
    for i in range(state.level, len(state.modes)):
        if type(state.modes[i]) is Capture:
            (<Capture>state.modes[i]).copied(t, copy)
            return


def note_read(Tensor t not None, str name not None):
    """Note that the values of a tensor leave the library by other means than operators. `name` says by which."""
    cdef Capture capture = active_capture()
    if capture is not None:
        capture.reads.append((len(capture.calls), name, capture.value_of(t, False)))


def note_storage_read(Storage s not None, str name not None):
    """Note that the bytes of a storage leave the library."""
    from metatensor._core.dtype import dtype_by_name
    cdef Capture capture = active_capture()
    cdef int storage
    if capture is not None and s.size_bytes:
        storage = capture.storage_of(capture.key_of(s))
        value = capture.of_storage(s, dtype_by_name("uint8")) if storage < 0 else capture.values[capture.storages[storage].newest]
        capture.reads.append((len(capture.calls), name, value))


def note_seed(Generator g not None, bint by_chance):
    """Note that the state of a generator is about to be set, and whether to random bytes."""
    cdef Capture capture = active_capture()
    if capture is None:
        return
    if by_chance:
        raise RuntimeError("trace: seed() sets a random seed, which a program cannot repeat; use manual_seed()")
    capture.note_state(g)


def raise_after_call(ends not None):
    """Raise an exception, but if a call is being traced, after it has returned and been recorded."""
    cdef ThreadState state = thread_state()
    cdef Py_ssize_t i
    for i in range(state.level, len(state.modes)):
        if type(state.modes[i]) is Capture:
            (<Capture>state.modes[i]).ends = ends
            return
    raise ends


def is_traced():
    """Return whether a trace records the calls of this thread now."""
    return active_capture() is not None


def refuse_in_trace(str what not None):
    """Raise RuntimeError if a trace would miss what is about to happen."""
    if active_capture() is not None:
        raise RuntimeError(f"trace: {what} is no call of an operator, so a program cannot do it; do it outside of the trace")
