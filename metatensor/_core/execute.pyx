"""The steps of a call after its meta kernel: values, in-place variants, ``out`` and requires_grad."""
import warnings

from cpython.object cimport PyObject
from metatensor._core.compute cimport compute, compute_values, copy_values, flat, same_sizes, tensors_in
from metatensor._core.device cimport META, Device, cpu_device, default_device, concrete_device
from metatensor._core.dtype cimport DType, can_cast_to
from metatensor._core.rule_node cimport begin, record, record_write
from metatensor._core.graph cimport Node
from metatensor._core.layout cimport add_dims, extent, is_dense, mul_dims, overlap, row_major
from metatensor._core.op cimport (
    NO_OVERLAP, NO_PARTIAL, COMPOSITE, DATA, ELEMENTWISE, EXACT_OUT, FUNCTIONAL, HOST, IN_PLACE, KEEPS_SHAPE, K_TENSORS,
    MIXED, NO_GRAD, ONE_VALUE, QUIET_OUT, SAFE_CAST, MULTI_VIEW, VIEW, WITH_OUT, Call, Overload, call, make_returns, op_name,
)
from metatensor._core.recording cimport discard_result_data
from metatensor._core.replaying cimport resolve_arguments
from metatensor._core.spec cimport Spec
from metatensor._core.storage cimport resize_storage
from metatensor._core.tensor cimport (
    Tensor, detach_from, mark_changed, new_contiguous, new_strided, set_layout, shape_str,
)
from metatensor._core.thread cimport hints, thread_state
from metatensor._core.types cimport (
    KIND_COMPLEX, KIND_FLOAT, MAX_DIMS, T_CONJ, T_DISTRIBUTED, T_FIXED_VIEW, T_INFERENCE, T_NEG, T_NONLEAF, T_REQUIRES_GRAD,
    T_MULTI_VIEW, T_VIEW, dim_t,
)
from metatensor._core import errors
from metatensor._core.late import later

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callee, PyObject** args, size_t nargsf, PyObject* kwnames)
    PyObject* PyList_GET_ITEM(list values, Py_ssize_t i) noexcept


# The device of the results ------------------------------------------------------------------

cdef int resolve_device(Call* c) except -1:
    """Set `c.device`: the device argument if given, else the device of a factory's `out=`, else that of the tensors.

    If there are none of these, a factory uses the default device, and other ops use meta.
    """
    cdef Overload ov = <Overload>c.overload
    if ov.device_slot >= 0 and <object>c.args[ov.device_slot] is not None:
        c.device = c.args[ov.device_slot]
        if c.device != <PyObject*>META:
            given = concrete_device(<object>c.device)
            c.device = <PyObject*>given     # devices are interned and never freed
        c.mixed = False
        return 0
    if ov.device_slot >= 0 and c.out != NULL and isinstance(<object>c.out, Tensor):
        c.device = <PyObject*>(<Tensor>c.out).storage.device
        c.mixed = False
        return 0
    if c.device == NULL:
        given = default_device() if ov.device_slot >= 0 else META
        c.device = <PyObject*>given
        return 0
    if c.mixed and not ov.flags & MIXED:
        _common_device(c, ov)
    return 0


cdef int _common_device(Call* c, Overload ov) except -1:
    """Set `c.device` to the one device of all tensors, ignoring 0-d cpu tensors. Raise if there are several."""
    cdef Device found = None, d
    cdef Tensor t
    for t in tensors_in(c, ov):
        d = t.storage.device
        if t.ndim == 0 and d.type == "cpu":
            continue
        if found is None:
            found = d
        elif found is not d:
            only_indices_on_cpu = later("only_indices_on_cpu")
            if not only_indices_on_cpu(op_name(c), tensors_in(c, ov)):
                raise errors.different_devices(op_name(c), (found, d), tensors_in(c, ov))
            found = META
            break
    if found is not None:
        c.device = <PyObject*>found
    c.mixed = False
    return 0


# Python meta kernels ---------------------------------------------------------------------------

cdef object python_meta(Call* c):
    """Run the Python meta function of an op and return its results as tensors."""
    cdef Overload ov = <Overload>c.overload
    cdef object body = ov.pymeta, result = None
    cdef PyObject* keywords = NULL
    if ov.npos < ov.nslots:
        keywords = PyList_GET_ITEM(ov.refs, 1)
    if body is not None:
        # Slots have the order of vectorcall arguments: positional ones first, then keyword-only ones.
        result = PyObject_Vectorcall(body, c.args, ov.npos, keywords)
    elif not ov.flags & DATA:
        raise errors.no_meta(ov.qualname)
    if ov.flags & DATA and <object>c.device is META:
        raise errors.data_dependent(ov.qualname)    # the meta function has already checked the arguments
    if type(result) is Spec:
        if ov.nreturns == 1 and not (ov.flags & VIEW and <object>c.device is not META):
            return _from_spec(c, <Spec>result)
        raise errors.wrong_meta(ov.qualname, ov.text, result)
    if ov.flags & (COMPOSITE | HOST | DATA):
        return result
    return _python_results(c, ov, result)


cdef object _python_results(Call* c, Overload ov, object result):
    """Replace Specs by tensors in the results of a Python meta function. Raise if they do not match the schema."""
    cdef Tensor t
    cdef bint many = isinstance(result, (tuple, list)), plain = True
    cdef tuple given
    cdef list made
    if many:
        given, made = tuple(result), []
        for r in given:
            if type(r) is Spec:
                made.append(_from_spec(c, <Spec>r))
            else:
                plain = plain and isinstance(r, Tensor)
                made.append(r)
        plain = plain and (ov.nreturns < 0 or (ov.nreturns > 1 and ov.nreturns == len(made)))
        result = made if ov.nreturns < 0 else tuple(made)
    else:
        plain = ov.nreturns == 1 and isinstance(result, Tensor)
    if ov.nreturns == 0:
        if result is not None and result != ():
            raise errors.wrong_meta(ov.qualname, ov.text, result)
        return None
    if not plain and not (<list>ov.refs)[0]._admits(result, Tensor):
        raise errors.wrong_meta(ov.qualname, ov.text, result)
    if <object>c.device is not META and not ov.flags & VIEW and not ov.mutates:
        # A kernel will write values into the results, so they must not alias an argument.
        for t in flat(result):
            for a in tensors_in(c, ov):
                if (<Tensor>a).storage is t.storage:
                    raise errors.undeclared_alias(ov.qualname, ov.text)
    return make_returns(c, result) if many and ov.returns is not None else result


cdef Tensor _from_spec(Call* c, Spec s):
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef tuple shape = <tuple>s.shape
    cdef int i, n = <int>len(shape)
    cdef Device d = <Device>c.device if s.device is None else concrete_device(s.device)
    if not isinstance(s.dtype, DType):
        raise TypeError(f"{op_name(c)}: Spec.dtype must be a dtype, not {type(s.dtype).__name__}")
    if n > MAX_DIMS or (s.strides is not None and len(<tuple>s.strides) != n):
        raise RuntimeError(f"{op_name(c)}: Spec of shape {s.shape} has strides {s.strides}")
    for i in range(n):
        sizes[i] = shape[i]
        if sizes[i] < 0:
            raise RuntimeError(f"{op_name(c)}: Spec has the negative size {shape[i]} in {shape}")
    if s.strides is None:
        return new_contiguous(n, sizes, <DType>s.dtype, d)
    for i in range(n):
        strides[i] = (<tuple>s.strides)[i]
        if strides[i] < 0:
            raise RuntimeError(f"{op_name(c)}: Spec has the negative stride {strides[i]}")
    return new_strided(n, sizes, strides, <DType>s.dtype, d)


# After the meta kernel ----------------------------------------------------------------------------

cdef object finish(Call* c, object result):
    """Return the result of the call, given the result of its meta kernel."""
    cdef Overload ov = <Overload>c.overload
    cdef Node node = None
    cdef bint grad
    cdef list written = None
    if ov.flags & DATA and not ov.flags & HOST:
        result = _data_dependent(c, ov)
        if c.variant == FUNCTIONAL:
            if c.flags & T_REQUIRES_GRAD and not ov.flags & NO_GRAD and thread_state().grad_enabled:
                record(c, ov, result)
            return result
    if c.variant == IN_PLACE:
        return _in_place(c, ov, result)
    if c.variant == WITH_OUT:
        return _with_out(c, ov, result)
    if ov.flags & (HOST | COMPOSITE):
        return result
    if result is <object>c.args[0] and not ov.mutates:
        return result           # the meta kernel returned its input: there is nothing to compute
    grad = c.flags & T_REQUIRES_GRAD and not ov.flags & NO_GRAD and thread_state().grad_enabled
    if ov.mutates:
        _before_mutation(c, ov, grad)
        if grad and result is <object>c.args[0]:
            node = begin(c, ov)
        elif grad and ov.gradient is False:
            written = _written_without_rule(c, ov)
    if not ov.flags & VIEW and <object>c.device is not META:
        result = compute(c, ov, result)
    if ov.mutates:
        _after_mutation(c, ov)
        if written is not None:
            for t, made in written:
                record_write(c, ov, <Node>made, t)
    if grad:
        if node is not None:
            record_write(c, ov, node, result)
        else:
            record(c, ov, result)
        if ov.flags & MULTI_VIEW:
            for t in result:
                (<Tensor>t).flags |= T_MULTI_VIEW
    elif ov.flags & VIEW and c.flags & T_REQUIRES_GRAD and not ov.flags & NO_GRAD:
        for t in flat(result):
            if t is not <object>c.args[0] and (<Tensor>t).flags & T_VIEW:
                (<Tensor>t).flags |= T_FIXED_VIEW
    return result


cdef int _mark(object result) except -1:
    """Mark the floating-point and complex tensors of a result as requiring grad and not leaves."""
    cdef Tensor t
    for t in flat(result):
        if t.dtype.kind == KIND_FLOAT or t.dtype.kind == KIND_COMPLEX:
            t.flags |= T_REQUIRES_GRAD | T_NONLEAF
    return 0


cdef int _check_leaf(Call* c, Tensor t) except -1:
    if t.flags & T_INFERENCE and not thread_state().inference:
        raise errors.inference_inplace(op_name(c))
    if t.flags & T_REQUIRES_GRAD and not t.flags & T_NONLEAF and thread_state().grad_enabled:
        raise errors.leaf_inplace(op_name(c))
    if t.flags & T_MULTI_VIEW and thread_state().grad_enabled:
        raise errors.multi_view_inplace(op_name(c))
    base = t.base
    if base is not None and (<Tensor>base).flags & T_REQUIRES_GRAD \
            and not (<Tensor>base).flags & T_NONLEAF and thread_state().grad_enabled:
        raise errors.leaf_inplace(op_name(c), "a view of ")
    if t.flags & T_FIXED_VIEW and thread_state().grad_enabled and (
            (t.flags | c.flags) & T_REQUIRES_GRAD or base is not None and (<Tensor>base).flags & T_REQUIRES_GRAD):
        raise errors.fixed_view_inplace(op_name(c))
    return 0


cdef int _check_written(Call* c, Tensor t) except -1:
    _check_leaf(c, t)
    if overlap(t.ndim, t.sizes, t.strides):
        raise errors.written_overlap(op_name(c), t, "several of its elements share one place in memory")
    return 0


cdef int _before_mutation(Call* c, Overload ov, bint grad) except -1:
    cdef int i, k
    cdef Tensor t
    for i in range(ov.nslots):
        if ov.slots[i].mutated and ov.slots[i].kind == K_TENSORS and <object>c.args[i] is not None:
            for t in <object>c.args[i]:
                _check_written(c, t)
        elif ov.slots[i].mutated and isinstance(<object>c.args[i], Tensor):
            t = <Tensor>c.args[i]
            _check_written(c, t)
            if ov.flags & (ELEMENTWISE | NO_OVERLAP):
                for k in range(ov.nslots):
                    if k != i and isinstance(<object>c.args[k], Tensor):
                        _check_shared(c, ov, t, <Tensor>c.args[k])
                    elif ov.slots[k].kind == K_TENSORS and <object>c.args[k] is not None:
                        for other in <object>c.args[k]:
                            _check_shared(c, ov, t, other)
    return 0


cdef list _written_without_rule(Call* c, Overload ov):
    """Return (tensor, node) pairs for the tensors that an operator without a rule writes to.

    Backward through these nodes raises.
    """
    cdef list pairs = []
    cdef int i
    for i in range(ov.nslots):
        if not ov.slots[i].mutated or <object>c.args[i] is None:
            continue
        for t in <object>c.args[i] if ov.slots[i].kind == K_TENSORS else (<object>c.args[i],):
            if isinstance(t, Tensor) and (<Tensor>t).dtype.kind in (KIND_FLOAT, KIND_COMPLEX):
                pairs.append((t, begin(c, ov)))
    return pairs


cdef int _after_mutation(Call* c, Overload ov) except -1:
    cdef int i
    for i in range(ov.nslots):
        if ov.slots[i].mutated and ov.slots[i].kind == K_TENSORS and <object>c.args[i] is not None:
            for t in <object>c.args[i]:
                mark_changed(<Tensor>t)
        elif ov.slots[i].mutated and isinstance(<object>c.args[i], Tensor):
            mark_changed(<Tensor>c.args[i])
    return 0


cdef object _data_dependent(Call* c, Overload ov):
    """Run the kernel of a data-dependent op and return its results.

    Raise DataDependentError if an argument has no data.
    """
    cdef Tensor t
    cdef Device d = <Device>c.device, there = d
    cdef int resolved = 0
    for t in tensors_in(c, ov):
        if t.storage.data is None and not resolved:
            resolved = resolve_arguments(c, ov)
            if not resolved:
                raise errors.data_dependent(op_name(c), t.storage.device, t.shape, t)
    if d is META:
        raise errors.data_dependent(op_name(c))
    if resolved == 2:
        there = cpu_device()
        c.device = <PyObject*>there
    result = compute_values(c, ov, None)
    c.device = <PyObject*>d
    if hints.recorders or resolved == 2:
        discard_result_data(result, resolved, d)
    return result


# Writing into an existing tensor ---------------------------------------------------------------------

cdef bint _same_layout(Tensor a, Tensor b) noexcept:
    cdef int i
    if a.ndim != b.ndim or a.offset != b.offset:
        return False
    for i in range(a.ndim):
        if a.sizes[i] != b.sizes[i] or (a.sizes[i] != 1 and a.strides[i] != b.strides[i]):
            return False
    return True


cdef int _ranges(Tensor a, Tensor b) except -1:
    """Return how two tensors overlap in memory: 0 not at all, 1 exactly, 2 partly, 3 unknown."""
    cdef dim_t a_end, b_end
    if a.storage is not b.storage or a.total == 0 or b.total == 0:
        return 0
    if _same_layout(a, b) and a.dtype is b.dtype:
        return 1
    a_end = (a.offset + extent(a.ndim, a.sizes, a.strides)) * a.dtype.itemsize
    b_end = (b.offset + extent(b.ndim, b.sizes, b.strides)) * b.dtype.itemsize
    if a.offset * a.dtype.itemsize >= b_end or b.offset * b.dtype.itemsize >= a_end:
        return 0
    if is_dense(a.ndim, a.sizes, a.strides) and is_dense(b.ndim, b.sizes, b.strides):
        return 2
    return 3


cdef bint _one_value(Call* c, Overload ov) noexcept:
    """Return True if the op writes a single value, as fill_ and masked_fill_ do with a number.

    The last argument must be a number, or a 0-d tensor if the op has more than two arguments. An op with one argument,
    such as zero_, always qualifies.
    """
    cdef object value = <object>c.args[ov.nslots - 1]
    return ov.nslots == 1 or not isinstance(value, Tensor) or (ov.nslots > 2 and (<Tensor>value).ndim == 0)


cdef bint _selects(Call* c, Overload ov) noexcept:
    """Return True if the op writes to elements that a mask or an index selects."""
    return isinstance(<object>c.args[1], (Tensor, list)) or isinstance(<object>c.args[2], Tensor)


cdef int _check_cast(Call* c, Overload ov, Tensor target, Tensor result) except -1:
    if target.dtype is not result.dtype:
        if (ov.flags & EXACT_OUT and c.variant == WITH_OUT) or not (ov.flags & SAFE_CAST
                                                                    or can_cast_to(result.dtype, target.dtype)):
            raise errors.cannot_cast(op_name(c), result.dtype, target.dtype)
    return 0


cdef bint _check_target(Call* c, Overload ov, Tensor target, Tensor result) except -1:
    """Raise if `result` cannot be written to `target`. Return True if a kernel may write to `target` directly."""
    cdef int i
    cdef bint direct = target.dtype is result.dtype and not target.flags & (T_CONJ | T_NEG)
    _check_cast(c, ov, target, result)
    if overlap(target.ndim, target.sizes, target.strides) \
            and not (ov.flags & ONE_VALUE and _one_value(c, ov)):
        raise errors.written_overlap(op_name(c), target, "several of its elements share one place in memory")
    if c.variant == IN_PLACE and ov.flags & ONE_VALUE and ov.nslots > 2 and _selects(c, ov) \
            and overlap(target.ndim, target.sizes, target.strides):
        warnings.warn(f"{op_name(c)}(): writing a part of an expanded tensor changes other elements, too; clone() it first",
                      UserWarning, stacklevel=1)
    # In an in-place call the first argument is the target.
    if c.variant == IN_PLACE:
        direct = ov.flags & ELEMENTWISE != 0 and direct
    for i in range(c.variant == IN_PLACE, ov.nslots):
        if ov.slots[i].kind == K_TENSORS and <object>c.args[i] is not None:
            for t in <object>c.args[i]:
                direct = _check_shared(c, ov, target, t) and direct
        elif isinstance(<object>c.args[i], Tensor):
            direct = _check_shared(c, ov, target, <Tensor>c.args[i]) and direct
    return direct


cdef bint _check_shared(Call* c, Overload ov, Tensor target, Tensor t) except -1:
    """Raise if argument `t` must not overlap the target, but does. Return True if the kernel may write directly to the
    target although it also reads `t`."""
    cdef int shared
    if t.storage is not target.storage:
        return True
    shared = 1 if t is target and t.total else _ranges(target, t)
    if ov.flags & NO_OVERLAP and (shared == 1 or shared == 2):
        raise errors.written_overlap(op_name(c), target, "it shares memory with another argument")
    if shared == 2 and ov.flags & (ELEMENTWISE | NO_PARTIAL):
        raise errors.written_overlap(op_name(c), target, "it overlaps another argument in part")
    return not shared or (shared == 1 and ov.flags & ELEMENTWISE != 0)


cdef int _store(Call* c, Overload ov, Tensor target, Tensor result, bint direct) except -1:
    """Write the result to `target`: let the kernel write there if `direct`, else copy the result."""
    if ov.flags & COMPOSITE:
        if result is not target:
            if target.flags & T_DISTRIBUTED:
                call("copy_", (target, result))
            else:
                copy_values(target, result)
    elif <object>c.device is META or target.storage.device is META:
        if not same_sizes(target, result) and not _keeps_shape(ov, target, result):
            _resize_out(c, ov, target, result)
    elif direct:
        compute(c, ov, target)
    else:
        _deposit(c, ov, target, <Tensor>compute(c, ov, result))
    return 0


cdef int _deposit(Call* c, Overload ov, Tensor target, Tensor made) except -1:
    """Copy a result into `target`. If the shapes differ, resize `target`, unless the op keeps the shape of `out=`."""
    cdef dim_t strides[MAX_DIMS]
    if not same_sizes(target, made):
        if not _keeps_shape(ov, target, made):
            _resize_out(c, ov, target, made)
        else:
            row_major(target.ndim, target.sizes, strides)
            set_layout(made, target.ndim, target.sizes, strides, made.offset)
    return copy_values(target, made)


cdef inline bint _keeps_shape(Overload ov, Tensor out, Tensor spec) noexcept:
    return ov.flags & KEEPS_SHAPE and out.total == spec.total


cdef bint _is_argument(Call* c, Overload ov, Tensor t) except -1:
    for other in tensors_in(c, ov):
        if other is t:
            return True
    return False


cdef object _in_place(Call* c, Overload ov, object result):
    cdef Tensor target, made
    cdef Node node = None
    cdef bint direct, unchanged, grad = c.flags & T_REQUIRES_GRAD and not ov.flags & NO_GRAD and thread_state().grad_enabled
    target = <Tensor>c.args[0]
    made = <Tensor>result
    if ov.flags & VIEW:
        if made is not target:
            _check_leaf(c, target)
            if grad:
                node = begin(c, ov)
            detach_from(target, made)
        mark_changed(target)
        if node is not None:
            record_write(c, ov, node, target)
        return target
    if not same_sizes(target, made):
        raise errors.inplace_shape(op_name(c), target, made)
    if made.storage.device is not target.storage.device:
        raise errors.different_devices(op_name(c), (target.storage.device, made.storage.device))
    # A meta kernel that returns the target itself leaves nothing to write.
    unchanged = made is target and not ov.flags & COMPOSITE
    direct = unchanged or _check_target(c, ov, target, made)
    _check_leaf(c, target)
    if grad and ov.flags & COMPOSITE and made is not target:
        call("copy_", (target, made))       # recorded, like the operators in the body
        return target
    if grad and not ov.flags & COMPOSITE:
        node = begin(c, ov)
    if not unchanged:
        _store(c, ov, target, made, direct)
    mark_changed(target)
    if node is not None:
        record_write(c, ov, node, target)
    return target


cdef bint _check_out(Call* c, Overload ov, Tensor out, Tensor spec) except -1:
    """Check ``out`` and resize it if necessary. Return True if a kernel may write to it directly."""
    if (c.flags | out.flags) & T_REQUIRES_GRAD and not ov.flags & NO_GRAD and thread_state().grad_enabled:
        raise RuntimeError(f"{op_name(c)}(): functions with out= do not record gradients, but one of "
                           "the arguments requires grad")
    if out.storage.device is not spec.storage.device:
        raise errors.different_devices(op_name(c), (spec.storage.device, out.storage.device))
    if same_sizes(out, spec):
        return _check_target(c, ov, out, spec)
    if _is_argument(c, ov, out) and not ov.flags & COMPOSITE and out.total:
        # The kernel reads this tensor, so it is resized after the kernel has run.
        if ov.flags & ELEMENTWISE:
            raise errors.inplace_shape(op_name(c), out, spec)
        _check_cast(c, ov, out, spec)
        _check_shared(c, ov, out, out)
        return False
    if _keeps_shape(ov, out, spec):
        _check_target(c, ov, out, spec)
        return False
    _resize_out(c, ov, out, spec)
    return _check_target(c, ov, out, spec)


cdef int _one_out(Call* c, Overload ov, Tensor out, Tensor spec) except -1:
    _store(c, ov, out, spec, _check_out(c, ov, out, spec))
    mark_changed(out)
    return 0


cdef object _with_out(Call* c, Overload ov, object result):
    cdef list made, outs
    cdef int i
    cdef bint direct = True
    given = <object>c.out
    if isinstance(given, Tensor) and isinstance(result, Tensor):
        _one_out(c, ov, <Tensor>given, <Tensor>result)
        return given
    made = flat(result)
    if isinstance(given, (tuple, list)) and not isinstance(result, Tensor):     # a single result needs a Tensor
        outs = list(given)
    else:
        outs = [given] if isinstance(given, Tensor) else None
    if outs is None or len(outs) != len(made):
        raise TypeError(f"{op_name(c)}(): argument 'out' must be "
                        f"{'a Tensor' if len(made) == 1 else f'a tuple of {len(made)} Tensors'}, "
                        f"not {errors.type_name(given)}")
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(f"{op_name(c)}(): argument 'out' must hold Tensors, not {errors.type_name(o)}")
    for i in range(len(outs)):
        direct = _check_out(c, ov, <Tensor>outs[i], <Tensor>made[i]) and direct
    if ov.flags & COMPOSITE or <object>c.device is META:
        for i in range(len(outs)):
            _store(c, ov, <Tensor>outs[i], <Tensor>made[i], False)
    elif direct:
        compute(c, ov, given)
    else:
        made = flat(compute(c, ov, result))
        for i in range(len(outs)):
            _deposit(c, ov, <Tensor>outs[i], <Tensor>made[i])
    for i in range(len(outs)):
        mark_changed(<Tensor>outs[i])
    return make_returns(c, tuple(outs))


cdef int _resize_out(Call* c, Overload ov, Tensor out, Tensor spec) except -1:
    """Resize `out` to the shape of the result. Most ops warn if `out` had elements."""
    if out.flags & T_DISTRIBUTED:
        raise errors.inplace_shape(op_name(c), out, spec)
    if out.total and not ov.flags & QUIET_OUT:
        warnings.warn(f"{op_name(c)}(): the tensor given as out= has the shape {shape_str(out)} and is resized "
                      f"to {shape_str(spec)}; pass an empty tensor to have it resized", UserWarning, stacklevel=2)
    resize_tensor(out, spec.ndim, spec.sizes, spec.strides)
    return 0


cdef int resize_tensor(Tensor t, int ndim, const dim_t* sizes, const dim_t* strides) except -1:
    """Set sizes and strides of `t`. Keep its offset. Grow its storage if it is too small."""
    cdef dim_t need = extent(ndim, sizes, strides)
    if need:
        need = mul_dims(add_dims(need, t.offset), t.dtype.itemsize)
    if need > t.storage.size_bytes:
        resize_storage(t.storage, need)
    set_layout(t, ndim, sizes, strides, t.offset)
    return 0


def mark_output(tensor):
    """Mark a floating-point or complex tensor as requiring grad and not a leaf, like the result of an op. Return it."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"mark_output: expected a Tensor, got {type(tensor).__name__}")
    _mark(tensor)
    return tensor
