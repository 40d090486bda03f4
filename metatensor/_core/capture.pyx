"""Capture: a mode that lists the calls of a thread with the metadata of every value.

A value is what a tensor is during a run: a storage, and a layout on it. Storages are told apart by their numbers in
memory logs, so that a capture keeps nothing alive that the run releases; those that existed before are kept. Two tensor
objects with the same storage and the same layout can be one value, for instance where autograd saves a tensor. An
argument that no call has returned is a *leaf*: an input, a parameter or another tensor that existed before. If only its
storage is known, it is a view of it, and the capture adds the call of ``as_strided`` that makes this view.

Calls are those of operators that are not composite, below autograd's decisions and above devices. Operators that only read
metadata are left out. Those that read a number from a tensor are noted: what follows may depend on it.
"""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.lines cimport line_of, running_code
from metatensor._core.modes cimport Mode, run_modes
from metatensor._core.op cimport FUNCTIONAL, HOST, IN_PLACE, K_GENERATOR, K_TENSORS, Call, Op, Overload
from metatensor._core.random cimport Generator, default
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, thread_state
from metatensor._core.types cimport T_CONJ, T_NEG, T_REQUIRES_GRAD, dim_t

from metatensor._core.op import registry

_READS = frozenset(("item", "tolist"))


@cython.final
@cython.freelist(256)
cdef class Value:
    """What a tensor is in a program: sizes, strides, offset, dtype, device, and which storage it shares."""

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
    """One call of an operator. Where an argument is a tensor, `args` and `kwargs` have its `Value`."""

    def __init__(self, op, args, kwargs, result, writes=(), grad=True, backward=False, module=0, first=0, last=0):
        self.op, self.args, self.kwargs, self.result, self.writes = op, tuple(args), dict(kwargs), result, tuple(writes)
        self.grad, self.backward, self.module, self.first, self.last = grad, backward, module, first, last

    def replace(self, **changes):
        """Return a copy with other attributes. It has the place of this call."""
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
        self.by_object, self.by_layout, self.numbers = {}, {}, {}
        self.held, self.inputs = set(), set()
        self.takes_parts = True

    def input(self, Tensor t not None):
        """Return the value of an argument. What is found to be a view of it is computed from it."""
        cdef Value v = self.value_of(t, False)
        self.inputs.add(v.storage)
        return v

    def value(self, Tensor t not None):
        """Return the value of a tensor that existed before, or that a call returned."""
        return self.value_of(t, False)

    def known(self, Tensor t not None):
        """Return the value of a tensor, or None if it has none yet."""
        cdef int i
        cdef long long key = self.key_of(t.storage)
        cdef object found = self.by_object.get(<size_t><PyObject*>t)
        if found is not None and _fits(<Value>found, t, key):
            return found
        shape, stride = tuple([t.sizes[i] for i in range(t.ndim)]), tuple([t.strides[i] for i in range(t.ndim)])
        return self.by_layout.get((key, t.offset, t.dtype, t.flags & (T_CONJ | T_NEG), shape, stride))

    cdef long long key_of(self, Storage s):
        return s.number if s.scope is not None else -<long long><size_t><PyObject*>s

    cdef Value value_of(self, Tensor t, bint made):
        cdef long long key = self.key_of(t.storage)
        cdef size_t address = <size_t><PyObject*>t
        cdef int i
        cdef Value v
        cdef object found = None if made else self.by_object.get(address)
        if found is not None and _fits(<Value>found, t, key):
            return <Value>found
        shape = tuple([t.sizes[i] for i in range(t.ndim)])
        stride = tuple([t.strides[i] for i in range(t.ndim)])
        layout = (key, t.offset, t.dtype, t.flags & (T_CONJ | T_NEG), shape, stride)
        if not made:
            found = self.by_layout.get(layout)
            if found is not None:
                self.by_object[address] = found
                return <Value>found
        v = Value.__new__(Value)
        v.number = self.n_values
        self.n_values += 1
        v.key, v.offset, v.shape, v.stride, v.dtype, v.device = key, t.offset, shape, stride, t.dtype, t.storage.device
        v.flags = t.flags & (T_CONJ | T_NEG)
        v.requires_grad = t.flags & T_REQUIRES_GRAD != 0
        found = self.numbers.get(key)
        if found is None and key > 0 and not made:
            found = self.counted_late(v, <Tensor>t)
            if found is not None:
                self.by_object[address] = self.by_layout[layout] = found
                return <Value>found
        if found is None:
            found = self.numbers[key] = len(self.storages)
            self.storages.append(t.storage.number if t.storage.scope is not None else 0)
            if not made:
                self.leaves.append((v, t))
                self.held.add(found)
        elif not made:
            if found in self.held and found not in self.inputs:
                self.leaves.append((v, t))
            else:
                self.view_of_storage(v)
        v.storage = found
        self.by_object[address] = self.by_layout[layout] = v
        return v

    cdef Value counted_late(self, Value v, Tensor t):
        """Return the value of a tensor whose storage was counted only after the call that made it, or None."""
        cdef long long was = -<long long><size_t><PyObject*>t.storage
        cdef object number = self.numbers.get(was)
        cdef Value other
        if number is None or number in self.held:
            return None
        self.numbers[v.key] = number
        del self.numbers[was]
        self.storages[number] = v.key
        known = list(self.by_layout.values())
        self.by_layout.clear()
        for other in known:
            if other.storage == number and other.key == was:
                other.key = v.key
            self.by_layout[other.key, other.offset, other.dtype, other.flags, other.shape, other.stride] = other
        self.n_values -= 1
        return self.value_of(t, False)

    cdef int view_of_storage(self, Value v) except -1:
        """Add the call that makes a view which no call has returned."""
        cdef Value other, base = None
        cdef ProgramCall made
        for other in self.by_layout.values():
            if other.key == v.key and other.dtype is v.dtype and other.flags == v.flags:
                base = other
                break
        if base is None:
            raise RuntimeError(f"trace: a tensor of dtype {v.dtype.name} is a view that no operator made, of a storage of another dtype")
        made = ProgramCall.__new__(ProgramCall)
        made.op = <Op>registry["as_strided"]
        made.args, made.kwargs, made.result, made.writes = (base, v.shape, v.stride, v.offset), {}, v, ()
        made.module = self.module
        made.first = made.last = thread_state().operators
        self.calls.append(made)
        return 0

    cdef object encode(self, object argument):
        if isinstance(argument, Tensor):
            return self.value_of(<Tensor>argument, False)
        if type(argument) is list:
            return [self.encode(a) for a in argument]
        if isinstance(argument, tuple) and argument:
            for a in argument:
                if type(a) is not int:
                    return tuple([self.encode(a) for a in argument])
        return argument

    cdef object results(self, Call* c, object result):
        cdef int i
        if isinstance(result, Tensor):
            given = self.by_object.get(<size_t><PyObject*>result)
            if given is not None and _fits(<Value>given, <Tensor>result, self.key_of((<Tensor>result).storage)):
                if c.out != NULL:
                    return given
                for i in range((<Overload>c.overload).nslots):
                    if c.args[i] == <PyObject*>result:
                        return given            # the argument itself, with the layout that it had
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
        cdef list args
        cdef dict kwargs
        if ov.flags & HOST and ov.nreturns <= 1 and ov.text.rpartition("->")[2].strip() != "Tensor":
            result = run_modes(c)
            if (<Op>c.op).name in _READS:
                self.reads.append((len(self.calls), (<Op>c.op).name, self.value_of(<Tensor>c.args[0], False)))
            return result
        args, kwargs = [], {}
        for i in range(ov.nslots):
            if ov.slots[i].default == NULL or c.args[i] != ov.slots[i].default:
                if i < ov.npos:
                    last = i
                else:
                    kwargs[<object>ov.slots[i].name] = self.encode(<object>c.args[i])
            if ov.slots[i].kind == K_GENERATOR:
                slot, generator = i, <object>c.args[i]
        for i in range(last + 1):
            args.append(self.encode(<object>c.args[i]))
        if ov.device_slot >= 0 and c.device != NULL and <object>c.args[ov.device_slot] is None and not _has_tensors(c, ov):
            kwargs["device"] = <object>c.device
        if c.out != NULL:
            kwargs["out"] = self.encode(<object>c.out)
        made = ProgramCall.__new__(ProgramCall)
        made.op = <Op>c.op
        made.writes = self.written(c)
        made.grad, made.backward = state.grad_enabled, state.walk is not None
        made.module = self.module
        made.code = running_code(&made.instruction)
        made.first = state.operators
        result = run_modes(c)
        made.last = state.operators
        if slot >= 0 and type(<object>c.args[slot]) is tuple:
            self.put_ticket(ov, slot, args, kwargs, self.ticket(generator, <tuple><object>c.args[slot]))
        made.args, made.kwargs = tuple(args), kwargs
        made.result = self.results(c, result)
        self.calls.append(made)
        return result

    cdef int put_ticket(self, Overload ov, int slot, list args, dict kwargs, Ticket ticket) except -1:
        if slot < len(args):
            args[slot] = ticket
        else:
            kwargs[<object>ov.slots[slot].name] = ticket
        return 0
