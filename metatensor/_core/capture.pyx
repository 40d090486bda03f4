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
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from metatensor._core.lines cimport line_of, running_code
from metatensor._core.modes cimport Mode, run_modes
from metatensor._core.dtype cimport DType, default_float
from metatensor._core.op cimport FUNCTIONAL, HOST, IN_PLACE, K_DTYPE, K_GENERATOR, K_TENSORS, Call, Op, Overload
from metatensor._core.random cimport Generator, default
from metatensor._core.size cimport make_tuple
from metatensor._core.storage cimport Storage, next_capture
from metatensor._core.tensor cimport Tensor, over_storage
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport T_CONJ, T_NEG, T_REQUIRES_GRAD, dim_t

from bisect import bisect_left
from metatensor._core.engine import latest_node, visited_node
from metatensor._core.op import registry

_READS = frozenset(("item", "tolist"))


@cython.final
@cython.freelist(256)
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
        self.op, self.args, self.kwargs, self.result, self.writes = op, tuple(args), dict(kwargs), result, tuple(writes)
        self.grad, self.backward, self.module, self.first, self.last = grad, backward, module, first, last

    def replace(self, **changes):
        """Return a copy with other attributes. It keeps this call's source location."""
        cdef ProgramCall made = ProgramCall.__new__(ProgramCall)
        made.op, made.args, made.kwargs, made.result, made.writes = self.op, self.args, self.kwargs, self.result, self.writes
        made.grad, made.backward, made.module, made.first, made.last = self.grad, self.backward, self.module, self.first, self.last
        made.code, made.instruction = self.code, self.instruction
        for name, value in changes.items():
            if name == "op":
                made.op = value
            elif name == "args":
                made.args = tuple(value)
            elif name == "kwargs":
                made.kwargs = dict(value)
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
        self.calls, self.leaves, self.reads, self.storages, self.generators = [], [], [], [], []
        self.used = []
        self.by_object, self.by_storage = {}, {}
        self.nodes, self.callers, self.copies = [], [], []
        self.held, self.inputs = set(), set()
        self.takes_parts = True
        self.begun = next_capture()
        self.default_dtype = default_float()

    def input(self, Tensor t not None):
        """Return the value of an argument. Tensors found to be views of it are computed from it."""
        cdef Value v = self.value_of(t, False)
        self.inputs.add(v.storage)
        return v

    def value(self, Tensor t not None):
        """Return the value of a tensor that existed before, or that a call returned."""
        return self.value_of(t, False)

    def known(self, Tensor t not None):
        """Return the value of a tensor, or None if it has none yet."""
        cdef long long key = self.key_of(t.storage)
        cdef PyObject* found = self.latest(<size_t><PyObject*>t)
        return <Value>found if found != NULL and _fits(<Value>found, t, key) else self.existing(t, key, self.by_storage.get(key))

    cdef long long key_of(self, Storage s):
        return s.number if s.scope is not None else -<long long><size_t><PyObject*>s

    cdef PyObject* latest(self, size_t address) except? NULL:
        """Return the latest value of the tensor at an address, a borrowed reference, or NULL. Another tensor may be there now."""
        cdef Recent* k = &self.recent[(address >> 4) & (RECENT - 1)]
        if k.address == address:
            return k.value
        return PyDict_GetItem(self.by_object, address)

    cdef int remember(self, size_t address, Value v) except -1:
        cdef Recent* k = &self.recent[(address >> 4) & (RECENT - 1)]
        self.by_object[address] = v
        k.address, k.value = address, <PyObject*>v
        return 0

    cdef Value value_of(self, Tensor t, bint made):
        cdef long long key = self.key_of(t.storage)
        cdef size_t address = <size_t><PyObject*>t
        cdef Value v
        cdef list others
        cdef PyObject* found = NULL if made else self.latest(address)
        if found != NULL and _fits(<Value>found, t, key):
            return <Value>found
        others = self.by_storage.get(key)
        if not made:
            if others is None and key > 0:
                others = self.counted_late(t, key)
            v = self.existing(t, key, others)
            if v is not None:
                self.remember(address, v)
                return v
        v = Value.__new__(Value)
        v.number = self.n_values
        self.n_values += 1
        v.key, v.offset, v.dtype, v.device = key, t.offset, t.dtype, t.storage.device
        v.shape, v.stride = make_tuple(t.ndim, t.sizes), make_tuple(t.ndim, t.strides)
        v.flags = t.flags & (T_CONJ | T_NEG)
        v.requires_grad = t.flags & T_REQUIRES_GRAD != 0
        if others is None:
            others = self.by_storage[key] = []
            v.storage = <int>len(self.storages)
            self.storages.append(t.storage.number if t.storage.scope is not None else 0)
            self.used.append(0)
            if not made:
                if t.storage.scope is None and t.storage.number <= -self.begun:
                    raise RuntimeError(f"trace: another thread made a tensor of shape {list(v.shape)} during the run; only the calls of "
                                       "the thread that traces are recorded, so make it there, or before the trace")
                self.leaves.append((v, t))
                self.held.add(v.storage)
        else:
            v.storage = (<Value>others[0]).storage
            if not made:
                if v.storage in self.held and v.storage not in self.inputs:
                    self.leaves.append((v, t))
                else:
                    self.view_of_storage(v, others)
        others.append(v)
        self.remember(address, v)
        return v

    cdef Value existing(self, Tensor t, long long key, list others):
        """Return the newest of `others`, the values of a tensor's storage or None, that has the tensor's layout, or None."""
        cdef Py_ssize_t i
        if others is not None:
            for i in range(len(others) - 1, -1, -1):        # the newest first
                if _fits(<Value>others[i], t, key):
                    return <Value>others[i]
        return None

    cdef list counted_late(self, Tensor t, long long key):
        """Return the values of a storage that was counted only after the call that made it, or None."""
        cdef long long was = -<long long><size_t><PyObject*>t.storage
        cdef list found = self.by_storage.get(was)
        cdef Value v
        if found is None or (<Value>found[0]).storage in self.held:
            return None
        self.by_storage[key] = self.by_storage.pop(was)
        self.storages[(<Value>found[0]).storage] = key
        for v in found:
            v.key = key
        return found

    cdef int view_of_storage(self, Value v, list others) except -1:
        """Add a call that creates a view which no call has returned."""
        cdef Value other, base = None
        for other in others:
            if other.dtype is v.dtype and other.flags == v.flags:
                base = other
                break
        if base is None:
            base = self.of_dtype(v, others)
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
            made.number = self.n_values
            self.n_values += 1
            made.key, made.storage, made.offset, made.dtype, made.device = v.key, v.storage, 0, dtype, v.device
            made.shape, made.stride = (nbytes // dtype.itemsize,), (1,)
            self.add_view(name, (last, *args), made)
            others.append(made)
            last = made
        return last

    cdef int add_view(self, str name, tuple args, Value result) except -1:
        """Add a call that makes a view."""
        cdef ProgramCall made = ProgramCall.__new__(ProgramCall)
        made.op = <Op>registry[name]
        made.args, made.kwargs, made.result, made.writes = args, {}, result, ()
        made.module = self.module
        made.first = made.last = thread_state().operators
        self.calls.append(made)
        return 0

    cdef Value of_storage(self, Storage s, DType dtype):
        """Return the value of a tensor of a dtype that has the whole storage."""
        cdef dim_t size = s.size_bytes // dtype.itemsize, stride = 1
        cdef Value v
        cdef list others = self.by_storage.get(self.key_of(s))
        if others is not None:
            for v in others:
                if v.dtype is dtype and v.flags == 0:
                    return v                        # the call that takes it says which layout it wants
        return self.value_of(over_storage(s, dtype, 1, &size, &stride, 0), False)

    cdef object encode(self, object argument):
        cdef Value v
        if isinstance(argument, Tensor):
            v = self.value_of(<Tensor>argument, False)
            self.used[v.storage] = len(self.calls)
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
        cdef PyObject* given
        if isinstance(result, Tensor):
            for i in range((<Overload>c.overload).nslots):
                is_given = is_given or c.args[i] == <PyObject*>result
            given = self.latest(<size_t><PyObject*>result) if is_given else NULL
            if given != NULL and _fits(<Value>given, <Tensor>result, self.key_of((<Tensor>result).storage)):
                return <Value>given         # the argument itself, with its old layout
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

    cdef Ticket ticket(self, object generator, tuple taken):
        cdef Ticket made = Ticket.__new__(Ticket)
        cdef Generator g = default if generator is None else <Generator>generator
        for known, key, first in self.generators:
            if known is g:
                break
        else:
            key, first = taken
            self.generators.append((g, key, first))
        if taken[0] != key or taken[1] < first:
            raise RuntimeError("trace: the seed of a random number generator was changed during the capture; set it before")
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
        cdef dict kwargs = {}
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
                    kwargs[<object>ov.slots[i].name] = self.encode(<object>c.args[i])
            if ov.slots[i].kind == K_GENERATOR:
                slot, generator = i, <object>c.args[i]
        args = PyTuple_New(last + 1)
        for i in range(last + 1):
            argument = self.encode(<object>c.args[i])
            Py_INCREF(argument)
            PyTuple_SET_ITEM(args, i, argument)
        if ov.device_slot >= 0 and c.device != NULL and <object>c.args[ov.device_slot] is None and not _has_tensors(c, ov):
            kwargs["device"] = <object>c.device
        if c.out != NULL:
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
            args = self.with_ticket(ov, slot, args, kwargs, self.ticket(generator, <tuple><object>c.args[slot]))
        if default_float() is not self.default_dtype:
            args = self.with_dtype(c, args, kwargs, result)
        made.args, made.kwargs = args, kwargs
        made.result = self.results(c, result)
        self.calls.append(made)
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
        self.used[v.storage] = len(self.calls)
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

    cdef tuple with_ticket(self, Overload ov, int slot, tuple args, dict kwargs, Ticket ticket):
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
        made.args, made.kwargs, made.writes = (self.encode(t),), {}, ()
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
        cdef list shift = [0], kept = []
        cdef Py_ssize_t i
        returned = {(<Value>v).storage for v in outputs}
        for made in self.copies:
            if not self.used[(<Value>made.result).storage] and (<Value>made.result).storage not in returned:
                dead.add(id(made))
        if not dead:
            return
        for made in self.calls:
            if id(made) in dead:
                shift.append(<object>shift[len(shift) - 1] + 1)
            else:
                kept.append(made)
                shift.append(shift[len(shift) - 1])
        self.calls[:] = kept
        self.reads[:] = [(at - shift[at], name, value) for at, name, value in self.reads]
        for i in range(len(self.used)):
            self.used[i] = max(<object>self.used[i] - shift[self.used[i]], 0)

    def releases(self, log):
        """Return the storages that the run released after each call, by the index of the call. `log` is the `MemoryLog` of the run."""
        cdef dict found = {}
        cdef list values
        cdef Py_ssize_t at = 0, last = len(self.calls) - 1, i
        if last < 0:
            return {}
        cdef long long storage, operator
        for storage, operator in log.deaths():          # almost always in the order of the operators
            if operator <= (<ProgramCall>(<list>self.calls)[at]).first:
                at = 0
            values = self.by_storage.get(storage)
            if values is None:
                continue
            number = (<Value>values[0]).storage
            while at < last and (<ProgramCall>(<list>self.calls)[at + 1]).first < operator:
                at += 1
            i = max(at, <Py_ssize_t>self.used[number])      # some calls run no operator that the log counts
            if i in found:
                (<list>found[i]).append(number)
            else:
                found[i] = [number]
        return {after: tuple(<list>numbers) for after, numbers in found.items()}


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
    cdef list others
    if capture is not None and s.size_bytes:
        others = capture.by_storage.get(capture.key_of(s))
        value = others[len(others) - 1] if others is not None else capture.of_storage(s, dtype_by_name("uint8"))
        capture.reads.append((len(capture.calls), name, value))


def refuse_in_trace(str what not None):
    """Raise RuntimeError if a trace would miss what is about to happen."""
    if active_capture() is not None:
        raise RuntimeError(f"trace: {what} is no call of an operator, so a program cannot do it; do it outside of the trace")
