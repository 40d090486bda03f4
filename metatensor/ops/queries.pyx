"""Queries of a tensor's properties, such as `numel` and `is_complex`, and `fill_diagonal_`."""
from metatensor._core.compute cimport same_sizes
from metatensor._core.layout cimport add_dims, mul_dims, overlap
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, HOST, METHOD_ONLY, MIXED, Call, arg, bool_arg, call, define, op_name, tensor_arg,
)
from metatensor._core.storage cimport Storage, recorded
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, T_CONJ, T_INFERENCE, T_NEG, dim_t
from metatensor.ops.pointwise cimport Operands, no_operands, operand_arg, promoted
from metatensor._core.formats cimport MemoryFormatTag
from metatensor._core.late import later


cdef object numel_host(Call* c):
    return tensor_arg(c, 0).total


cdef object is_kind_host(Call* c):
    """Compute is_complex and is_floating_point."""
    return tensor_arg(c, 0).dtype.kind == (KIND_COMPLEX if op_name(c) == "is_complex" else KIND_FLOAT)


cdef object is_signed_host(Call* c):
    return tensor_arg(c, 0).dtype.is_signed


cdef object is_flagged_host(Call* c):
    """Compute is_conj, is_neg and is_inference."""
    cdef str name = op_name(c)
    return tensor_arg(c, 0).flags & (T_CONJ if name == "is_conj" else T_NEG if name == "is_neg" else T_INFERENCE) != 0


cdef object get_device_host(Call* c):
    return tensor_arg(c, 0).storage.device.number


cdef object is_pinned_host(Call* c):
    return bool(getattr(tensor_arg(c, 0).storage.data, "is_pinned", False))


cdef object pin_memory_host(Call* c):
    return later("pin")(tensor_arg(c, 0), arg(c, 1))


cdef object is_shared_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return t.storage.is_shared()


cdef object share_memory_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Storage s = t.storage
    if s.data is None and recorded(s):
        later("materialize")(t)
    s.share_memory_()
    return t


cdef object is_same_size_host(Call* c):
    return same_sizes(tensor_arg(c, 0), tensor_arg(c, 1))


cdef object is_set_to_host(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef int i
    if a.storage is not b.storage or a.offset != b.offset or not same_sizes(a, b):
        return False
    for i in range(a.ndim):
        if a.strides[i] != b.strides[i]:
            return False
    return True


cdef object dim_order_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef object check = arg(c, 1)
    if isinstance(check, (list, tuple)) and all([isinstance(f, MemoryFormatTag) for f in check]):
        if sum([t.is_contiguous(memory_format=f) for f in check]) > 1:
            raise RuntimeError(f"{op_name(c)}(): the strides {t.stride()} fit several of the formats")
    elif not isinstance(check, bool):
        raise TypeError(f"{op_name(c)}(): ambiguity_check must be a bool or a list of memory formats, not {check!r}")
    elif check and (1 in t.shape or len(set(t.stride())) < t.ndim):
        raise RuntimeError(f"{op_name(c)}(): dimensions of size 1 or of equal strides have no order: shape "
                           f"{list(t.shape)}, strides {t.stride()}")
    order = [(-t.strides[i], i) for i in range(t.ndim)]
    order.sort()
    return tuple([i for _, i in order])


cdef object result_type_host(Call* c):
    cdef Operands o
    no_operands(&o)
    operand_arg(&o, c, 0)
    operand_arg(&o, c, 1)
    return promoted(c, &o)


define("numel(Tensor input) -> int", numel_host, HOST | FUNCTION_ONLY, "Return the number of elements.")
define("is_complex(Tensor input) -> bool", is_kind_host, HOST | FUNCTION_ONLY, "Return whether the dtype is complex.")
define("is_floating_point(Tensor input) -> bool", is_kind_host, HOST | FUNCTION_ONLY,
       "Return whether the dtype is a real floating-point dtype.")
define("is_signed(Tensor input) -> bool", is_signed_host, HOST | FUNCTION_ONLY,
       "Return whether the dtype can hold negative values.")
define("is_conj(Tensor input) -> bool", is_flagged_host, HOST | FUNCTION_ONLY,
       "Return whether the tensor is a lazily conjugated view: its elements are conjugated when they are read.")
define("is_neg(Tensor input) -> bool", is_flagged_host, HOST | FUNCTION_ONLY,
       "Return whether the tensor is a lazily negated view: its elements are negated when they are read.")
define("is_inference(Tensor input) -> bool", is_flagged_host, HOST | FUNCTION_ONLY,
       "Return whether the tensor was made in inference mode.")
define("get_device(Tensor input) -> int", get_device_host, HOST | FUNCTION_ONLY,
       "Return the index of the tensor's device, or -1 if it has none.")
define("is_pinned(Tensor input) -> bool", is_pinned_host, HOST | METHOD_ONLY,
       "Return whether the tensor is in page-locked memory.")
define("pin_memory(Tensor input, device? device=None) -> Tensor", pin_memory_host, HOST | METHOD_ONLY,
       "Return a copy in page-locked memory, from which transfers to `device` are faster. Raise RuntimeError if no "
       "such memory is available.")
define("is_shared(Tensor input) -> bool", is_shared_host, HOST | METHOD_ONLY,
       "Return whether the memory is shared with processes that are forked from this one.")
define("share_memory_(Tensor(a!) input) -> Tensor", share_memory_host, HOST | METHOD_ONLY,
       "Move the storage to memory that is shared with processes forked later.")
define("is_same_size(Tensor input, Tensor other) -> bool", is_same_size_host, HOST | MIXED,
       "Return whether two tensors have the same shape.")
define("is_set_to(Tensor input, Tensor tensor) -> bool", is_set_to_host, HOST | METHOD_ONLY | MIXED,
       "Return whether two tensors are the same view: same storage, offset, shape and strides.")
define("dim_order(Tensor input, *, any ambiguity_check=False) -> any", dim_order_host, HOST | METHOD_ONLY,
       "Return the dimensions as a tuple, ordered from the outermost to the innermost in memory. If "
       "`ambiguity_check` is True, raise RuntimeError if several orders are possible. If it is a list of memory formats, "
       "only their orders count.")
define("result_type(Tensor|Scalar tensor1, Tensor|Scalar tensor2) -> dtype", result_type_host,
       HOST | FUNCTION_ONLY | MIXED, "Return the dtype that two tensors or numbers promote to in arithmetic.")


cdef object fill_diagonal_body(Call* c):
    """Fill the main diagonal. If `wrap`, skip a row at its end and restart in the first column while rows are left."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[2]
    cdef dim_t strides[2]
    cdef dim_t stride = 0, n, whole, rest, k
    cdef int i
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): at least 2 dimensions are needed, got shape {shape_str(t)}")
    n = t.sizes[0]
    for i in range(t.ndim):
        if t.ndim > 2 and t.sizes[i] != t.sizes[0]:
            raise RuntimeError(f"{op_name(c)}(): all sizes must be equal if there are more than 2 dimensions, "
                               f"got shape {shape_str(t)}")
        n = min(n, t.sizes[i])
        stride = add_dims(stride, t.strides[i])
    if not (bool_arg(c, 2) and t.ndim == 2 and t.sizes[1] < t.sizes[0] - 1):
        call("fill_", (call("as_strided", (t, (n,), (stride,), t.offset)), arg(c, 1)))
        return t
    whole = t.sizes[0] // (n + 1) + (t.sizes[0] % (n + 1) == n)     # number of complete diagonals
    rest = t.sizes[0] - whole * (n + 1)                             # length of the last, incomplete one
    sizes[0], sizes[1] = whole, n
    strides[0], strides[1] = mul_dims(n + 1, t.strides[0]), stride
    if not overlap(2, sizes, strides):
        call("fill_", (call("as_strided", (t, (whole, n), (strides[0], stride), t.offset)), arg(c, 1)))
    elif t.strides[0] == 0:
        call("fill_", (call("as_strided", (t, (n,), (stride,), t.offset)), arg(c, 1)))
        return t
    else:
        for k in range(whole):
            call("fill_", (call("as_strided", (t, (n,), (stride,), t.offset + k * strides[0])), arg(c, 1)))
    if rest > 0:
        call("fill_", (call("as_strided", (t, (rest,), (stride,), t.offset + whole * strides[0])), arg(c, 1)))
    return t


define("fill_diagonal_(Tensor(a!) input, Scalar fill_value, bool wrap=False) -> Tensor", fill_diagonal_body,
       COMPOSITE | METHOD_ONLY,
       "Fill the main diagonal in place. If there are more than 2 dimensions, all sizes must be equal. If `wrap` is "
       "true and a matrix has more rows than columns, the diagonal restarts in the first column after skipping a row.")
