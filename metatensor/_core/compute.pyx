"""Execution of kernels and decompositions, which fill in the tensors that the meta kernel created."""
from types import FunctionType

from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device, backend_of
from metatensor._core.layout cimport dims_equal
from metatensor._core.op cimport (
    DATA, K_INTS, K_OPERAND, K_TENSOR, K_TENSORS, MIXED, Call, Op, Overload, make_returns,
)
from metatensor._core.recording cimport copy_without_data, plainly_absent, under_recorder, without_data
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport MAX_ARGS, T_CONJ, T_NEG, T_REQUIRES_GRAD
from metatensor._core.versions cimport detached
from metatensor._core import errors
from metatensor._core.late import later

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callee, PyObject** args, size_t nargsf, PyObject* kwnames)


# Helpers -----------------------------------------------------------------------------------------

cdef list names_of(Overload ov):
    cdef int i
    return [<object>ov.slots[i].name for i in range(ov.nslots)]


cdef list tensors_in(Call* c, Overload ov):
    """Return the tensors among the arguments, in order."""
    cdef int i
    found = []
    for i in range(ov.nslots):
        if ov.slots[i].kind == K_TENSOR or ov.slots[i].kind == K_OPERAND:
            if isinstance(<object>c.args[i], Tensor):
                found.append(<object>c.args[i])
        elif ov.slots[i].kind == K_TENSORS and <object>c.args[i] is not None:
            found.extend(<object>c.args[i])
    return found


cdef list flat(object result):
    """Return the tensors in a result as a list."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for t in result if isinstance(t, Tensor)]
    return []


cdef bint same_sizes(Tensor a, Tensor b) noexcept:
    return a.ndim == b.ndim and dims_equal(a.sizes, b.sizes, a.ndim)


cdef int copy_values(Tensor target, Tensor source) except -1:
    if target.storage.data is None or source.storage.data is None:
        return copy_without_data(target, source)
    backend_of(target.storage.device).copy(target, source)
    return 0


# Values ------------------------------------------------------------------------------------------------

cdef object _kernel(Overload ov, Device d):
    """Return the device's kernel of an op, or None. The result is cached."""
    cdef object found
    cdef list kernels = ov.kernels      # find_kernel may replace ov.kernels
    while len(kernels) <= d.kind:
        kernels.append(None)
    found = kernels[d.kind]
    if found is None:
        find_kernel = later("find_kernel")
        found = find_kernel(ov.qualname, d.type, backend_of(d)) or False
        kernels[d.kind] = found
    return None if found is False else found


def forget_kernels(op):
    """Drop the cached kernels and decompositions of an op. Call this after registering one."""
    if not isinstance(op, Op):
        raise TypeError("forget_kernels: expected an Op")
    for ov in (<Op>op).overloads:
        (<Overload>ov).kernels = []
        (<Overload>ov).decomposition = None


cdef object _decomposition(Overload ov):
    if ov.decomposition is None:
        ov.decomposition = later("decompositions")().get(ov.qualname, False)
    return None if ov.decomposition is False else ov.decomposition


cdef tuple _integers(object given, int repeat):
    """Return an integer argument as the tuple of ints that kernels receive.

    For ``int[n]``, repeat a single int n times.
    """
    cdef tuple values = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    cdef object value
    if repeat > 1 and len(values) == 1:
        values = values * repeat
    for value in values:
        if type(value) is not int:
            return tuple([int(v) for v in values])
    return values


cdef object compute(Call* c, Overload ov, object result):
    """Fill in the values of `result` on its device. Leave `result` without data if an input holds none."""
    if plainly_absent(c, ov, result):
        return result
    if hints.recorders and thread_state().recorder is not None:
        if under_recorder(c, ov, tensors_in(c, ov), flat(result), result):
            return result
    if _lacks_data(c, ov) and without_data(c, ov, tensors_in(c, ov), flat(result), result):
        return result
    return compute_values(c, ov, result)


cdef object compute_values(Call* c, Overload ov, object result):
    """Call the device's kernel. All tensors among the arguments must hold data.

    Operators that a kernel or decomposition calls are not recorded, because the call itself is.
    """
    cdef ThreadState state
    if not c.flags & T_REQUIRES_GRAD:
        return _values(c, ov, result)
    state = thread_state()
    if not state.grad_enabled:
        return _values(c, ov, result)
    state.grad_enabled = False
    try:
        return _values(c, ov, result)
    finally:
        state.grad_enabled = True


cdef object _values(Call* c, Overload ov, object result):
    cdef Device d = <Device>c.device
    cdef PyObject* args[MAX_ARGS + 1]
    cdef Tensor t
    cdef int i
    cdef object kernel, value
    cdef bint plain
    cdef list resolved = None           # keeps references to converted arguments
    kernel = _kernel(ov, d)
    if kernel is None:
        return _decompose(c, ov, result)
    # A kernel in Python may call numpy(), which raises for tensors that require grad: pass detached ones.
    plain = c.flags & T_REQUIRES_GRAD and type(kernel) is FunctionType
    args[0] = <PyObject*>result
    for i in range(ov.nslots):
        args[i + 1] = c.args[i]
        if ov.device_slot < 0 and isinstance(<object>c.args[i], Tensor) \
                and (<Tensor>c.args[i]).storage.device.kind != d.kind and not ov.flags & MIXED:
            value = (<Tensor>c.args[i]).to(d)       # a 0-d cpu tensor, allowed with any device
            resolved = resolved or []
            resolved.append(value)
            args[i + 1] = <PyObject*>value
        elif ov.slots[i].kind == K_INTS and <object>c.args[i] is not None:
            value = _integers(<object>c.args[i], ov.slots[i].repeat)
            resolved = resolved or []
            resolved.append(value)
            args[i + 1] = <PyObject*>value
    if c.flags & (T_CONJ | T_NEG):
        resolved = resolved or []
        for i in range(ov.nslots):
            value = <object>args[i + 1]
            if isinstance(value, Tensor):
                if not (<Tensor>value).flags & (T_CONJ | T_NEG) or ov.slots[i].mutated:
                    continue
                value = value.resolve_conj().resolve_neg()
            elif ov.slots[i].kind == K_TENSORS and value is not None:
                value = [v.resolve_conj().resolve_neg() for v in value]
            else:
                continue
            resolved.append(value)
            args[i + 1] = <PyObject*>value
    if plain:
        resolved = resolved or []
        for i in range(ov.nslots):
            value = <object>args[i + 1]
            if isinstance(value, Tensor):
                value = detached(<Tensor>value)
            elif ov.slots[i].kind == K_TENSORS and value is not None:
                value = [detached(<Tensor?>v) for v in value]
            resolved.append(value)
            args[i + 1] = <PyObject*>value
    if isinstance(result, Tensor):
        t = <Tensor>result
        if t.storage.data is None:
            _allocate(ov, t, d)
    else:
        for t in flat(result):
            if t.storage.data is None:
                _allocate(ov, t, d)
    try:
        value = PyObject_Vectorcall(kernel, args, <size_t>ov.nslots + 1, NULL)
        if ov.flags & DATA and not (value is None and result is not None):     # None: the kernel filled in `result`
            return _checked_data(c, ov, d, value)
        return result if value is None else _adopt(ov, d, result, value)
    except Exception as error:
        errors.note_kernel(error, ov.qualname, d)
        raise


cdef int _allocate(Overload ov, Tensor t, Device d) except -1:
    """Allocate memory for a result."""
    if t.storage.device.kind != d.kind:
        raise errors.wrong_device(ov.qualname, t.storage.device, d)
    t.storage.data = backend_of(d).allocate(t.storage.size_bytes, d.number)
    return 0


cdef object _checked_data(Call* c, Overload ov, Device d, object value):
    """Return the results of a data-dependent kernel. Raise unless they match the schema and hold data on the device."""
    cdef Tensor t
    if isinstance(value, list) and ov.nreturns >= 0:
        value = tuple(value)
    if value is None or not (<list>ov.refs)[0]._admits(value, Tensor):
        raise errors.wrong_data_kernel(ov.qualname, ov.text, d, value)
    for t in flat(value):
        if t.storage.device.type != d.type or t.storage.data is None:
            raise errors.wrong_data_kernel(ov.qualname, ov.text, d, value)
    return make_returns(c, value) if type(value) is tuple and ov.returns is not None else value


cdef bint _lacks_data(Call* c, Overload ov) except -1:
    """Return True if an argument is a fake tensor: on a device other than meta, without data."""
    cdef int i
    cdef Storage s
    for i in range(ov.nslots):
        if ov.slots[i].kind == K_TENSOR or ov.slots[i].kind == K_OPERAND:
            if isinstance(<object>c.args[i], Tensor):
                s = (<Tensor>c.args[i]).storage
                if s.data is None and s.device is not META:
                    return True
        elif ov.slots[i].kind == K_TENSORS and <object>c.args[i] is not None:
            for t in <object>c.args[i]:
                s = (<Tensor?>t).storage
                if s.data is None and s.device is not META:
                    return True
    return False


cdef object _adopt(Overload ov, Device d, object result, object value):
    """Copy the tensors that a kernel returned into `result`. Raise if their shape or dtype differs."""
    cdef list due = flat(result), got = flat(value)
    cdef Tensor want, have
    cdef int i
    if not due:
        raise TypeError(f"{ov.qualname}: the kernel of the device {d} returned tensors, but the op returns none")
    if len(due) != len(got):
        raise errors.wrong_kernel(ov.qualname, d, <Tensor>due[0], value)
    for i in range(len(due)):
        want, have = <Tensor>due[i], <Tensor>got[i]
        if not same_sizes(want, have) or want.dtype is not have.dtype:
            raise errors.wrong_kernel(ov.qualname, d, want, have)
        if want is not have:
            copy_values(want, have)
    return result


cdef object _argument(Call* c, Overload ov, int i):
    """Return an argument in the form that kernels and decompositions receive."""
    cdef object value = <object>c.args[i]
    return value if ov.slots[i].kind != K_INTS or value is None else _integers(value, ov.slots[i].repeat)


cdef object _decompose(Call* c, Overload ov, object result):
    """Compute an op by its decomposition. Raise if the result does not match the meta kernel's."""
    cdef Device d = <Device>c.device
    cdef int i
    cdef Tensor t
    body = _decomposition(ov)
    if body is None:
        raise errors.no_kernel(ov.qualname, d, names_of(ov))
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    state.grad_enabled = False      # the call itself is recorded, not the operators that compute it
    try:
        value = body(*[_argument(c, ov, i) for i in range(ov.nslots)])
    finally:
        state.grad_enabled = was
    if ov.flags & DATA and result is None:
        return _checked_data(c, ov, d, value)
    backend = backend_of(d)
    for t in flat(result):
        if t.storage.data is None:
            t.storage.data = backend.allocate(t.storage.size_bytes, d.number)
    return _adopt(ov, d, result, value)
