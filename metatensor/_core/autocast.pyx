"""The mode that implements autocast. It casts the arguments of the ops in its tables and passes other calls on.

`metatensor.amp` sets the tables. Each thread has one such mode, shared by nested autocasts.
"""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport F32, F64, DType, by_code
from metatensor._core.modes cimport CASTS, Mode, run_modes
from metatensor._core.op cimport FUNCTIONAL, K_DTYPE, K_OPERAND, K_TENSOR, K_TENSORS, Call, Op, Overload, hold
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport T_INFERENCE, T_REQUIRES_GRAD, T_VIEW

cdef enum Policy:
    POLICY_LOWER, POLICY_FLOAT32, POLICY_DTYPE, POLICY_PROMOTE, POLICY_REFUSE, POLICY_STATE

LOWER, FLOAT32, FLOAT32_DTYPE, PROMOTE, REFUSE, STATE = range(6)


@cython.binding(False)
@cython.final
cdef class AutocastMode(Mode):
    """A mode that casts the arguments of ops.

    `tables` maps a device type to (lower dtype, {op: (policy, argument or None, values)}). If an entry has an argument,
    the policy applies only to calls in which that argument has one of the values. `cache` maps (id(leaf), dtype) to
    (leaf, cast leaf), for leaves that require grad. It is None if casts are not cached.
    """
    cdef public dict tables
    cdef public dict cache
    _rank = CASTS

    def __init__(self):
        self.tables = {}
        self.cache = {}

    cdef tuple rule(self, Call* c):
        """Return (lower dtype, policy, argument, values) for a call, or None if no table applies to it."""
        cdef Device device
        if c.variant != FUNCTIONAL or not self.tables or c.device == NULL:
            return None
        device = _device_of(c)
        if device is None:
            return None
        found = self.tables.get(device.type)
        if found is None:
            return None
        entry = (<dict>found[1]).get(<object>c.op)
        return None if entry is None else (found[0], *entry)

    cdef bint sees(self, Call* c) except -1:
        return self.rule(c) is not None

    cdef object handle(self, Call* c):
        cdef tuple rule = self.rule(c)
        cdef int policy
        if rule is None or (rule[2] is not None and _value_of(c, rule[2]) not in rule[3]):
            return run_modes(c)
        policy = rule[1]
        if policy == POLICY_REFUSE:
            raise RuntimeError(f"{(<Op>c.op).name}: its gradients exceed the range of float16 under autocast; "
                               "use binary_cross_entropy_with_logits, or disable autocast around the call")
        if policy == POLICY_DTYPE:
            self.give_dtype(c)
        elif policy == POLICY_LOWER:
            self.cast_all(c, rule[0])
        elif policy == POLICY_STATE:
            self.cast_all(c, _state_dtype(c, rule[0]))
        elif policy == POLICY_FLOAT32:
            self.cast_all(c, by_code(F32))
        else:
            self.cast_all(c, _widest(c, rule[0]))
        return run_modes(c)

    cdef int give_dtype(self, Call* c) except -1:
        """If the first argument is eligible for casting, pass dtype=float32, unless the call gives a dtype."""
        cdef Overload ov = <Overload>c.overload
        cdef int i
        if not isinstance(<object>c.args[0], Tensor) or not _eligible(c, <Tensor>c.args[0]):
            return 0
        for i in range(ov.nslots):
            if ov.slots[i].kind == K_DTYPE:
                if c.args[i] == <PyObject*>None:
                    dtype = by_code(F32)
                    hold(c, dtype)
                    c.args[i] = <PyObject*>dtype
                return 0
        return self.cast_all(c, by_code(F32))

    cdef int cast_all(self, Call* c, DType dtype) except -1:
        cdef Overload ov = <Overload>c.overload
        cdef int i
        cdef list cast
        for i in range(ov.nslots):
            if ov.slots[i].kind == K_TENSOR or ov.slots[i].kind == K_OPERAND:
                if isinstance(<object>c.args[i], Tensor):
                    t = self.cast(c, <Tensor>c.args[i], dtype)
                    if t is not <object>c.args[i]:
                        hold(c, t)
                        c.args[i] = <PyObject*>t
            elif ov.slots[i].kind == K_TENSORS and isinstance(<object>c.args[i], (list, tuple)):
                cast = [self.cast(c, <Tensor>t, dtype) if isinstance(t, Tensor) else t for t in <object>c.args[i]]
                hold(c, cast)
                c.args[i] = <PyObject*>cast
        return 0

    cdef object cast(self, Call* c, Tensor t, DType dtype):
        if t.dtype is dtype or not _eligible(c, t):
            return t
        if self.cache is None or dtype.code == F32 or t.dtype.code != F32 or not t.flags & T_REQUIRES_GRAD \
                or t.flags & (T_VIEW | T_INFERENCE) or not (<object>t).is_leaf:
            return (<object>t).to(dtype)
        found = self.cache.get((id(t), dtype))
        if found is None:
            found = self.cache[id(t), dtype] = (t, (<object>t).to(dtype))
        return found[1]

    def enter(self):
        """Push the mode onto this thread's mode stack."""
        Mode.__enter__(self)

    def leave(self):
        """Remove the mode from this thread's mode stack, whatever its position there."""
        cdef ThreadState state = thread_state()
        cdef int i
        for i in range(len(state.modes)):
            if state.modes[i] is self:
                del state.modes[i]
                state.level -= i < state.level
                hints.modes -= 1
                return


cdef Device _device_of(Call* c):
    """Return the device of the tensor arguments. Its type selects the table.

    If the tensors are on several devices, return the first one other than cpu.
    """
    cdef Overload ov = <Overload>c.overload
    cdef Device device = <Device>c.device if not c.mixed else None
    cdef int i
    if device is not None:
        return device
    for i in range(ov.nslots):
        if ov.slots[i].kind == K_TENSOR or ov.slots[i].kind == K_OPERAND:
            tensors = (<object>c.args[i],)
        elif ov.slots[i].kind == K_TENSORS and isinstance(<object>c.args[i], (list, tuple)):
            tensors = <object>c.args[i]
        else:
            continue
        for t in tensors:
            if isinstance(t, Tensor) and (device is None or device.type == "cpu"):
                device = (<Tensor>t).storage.device
    return device


cdef bint _eligible(Call* c, Tensor t) except -1:
    """Return True if autocast casts a tensor: floating point, not float64, and on the device of the call."""
    if not t.dtype.is_floating_point or t.dtype.code == F64:
        return False
    return not c.mixed or t.storage.device is _device_of(c)


cdef DType _widest(Call* c, DType lower):
    """Return float32 if any eligible argument has a dtype other than `lower`, else `lower`."""
    cdef Overload ov = <Overload>c.overload
    cdef int i
    for i in range(ov.nslots):
        if ov.slots[i].kind == K_TENSOR or ov.slots[i].kind == K_OPERAND:
            tensors = (<object>c.args[i],)
        elif ov.slots[i].kind == K_TENSORS and isinstance(<object>c.args[i], (list, tuple)):
            tensors = <object>c.args[i]
        else:
            continue
        for t in tensors:
            if isinstance(t, Tensor) and (<Tensor>t).dtype is not lower and _eligible(c, <Tensor>t):
                return by_code(F32)
    return lower


cdef DType _state_dtype(Call* c, DType lower):
    """Return the dtype in which a recurrent op computes: `lower` if its state has that dtype, else float32.

    If there are several states, the last one decides.
    """
    cdef Overload ov = <Overload>c.overload
    cdef int i
    for i in range(ov.nslots):
        if <object>ov.slots[i].name == "hx":
            state = <object>c.args[i]
            if isinstance(state, (list, tuple)):
                state = state[len(state) - 1]
            if (<Tensor>state).dtype is lower:
                return lower
    return by_code(F32)


cdef object _value_of(Call* c, str name):
    """Return the value of argument `name` if it is a str, "number" if it is a number, and None otherwise."""
    cdef Overload ov = <Overload>c.overload
    cdef int i
    for i in range(ov.nslots):
        if <object>ov.slots[i].name == name:
            value = <object>c.args[i]
            return value if isinstance(value, str) else "number" if isinstance(value, (int, float)) else None
    return None
