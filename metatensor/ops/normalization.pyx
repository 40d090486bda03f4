"""Normalization over dimensions and groups. Results have the input's shape and dtype."""
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport BF16, F16, F32, DType, by_code
from metatensor._core.layout cimport dims_equal, is_row_major, mul_dims, preserve_strides, set_format, suggest_format
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, OUT, Call, arg, call, define, dim_list, dims_arg, int_arg, is_none, op_name,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, MAX_DIMS, T_CONTIGUOUS, dim_t
from metatensor.ops.operands cimport Operands, no_operands, refuse, shape_operand
from metatensor.ops.pointwise cimport elementwise_result
from metatensor.ops.reduction cimport require_floating
from metatensor._core.gradients import gradient, recorded_as


# Checks --------------------------------------------------------------------------------

cdef int need_real_float(Call* c, Tensor t) except -1:
    if t.dtype.kind != KIND_FLOAT:
        refuse(c, t.dtype)
    return 0


cdef int check_parameter(Call* c, Tensor t, Tensor p, str name) except -1:
    """Check that a weight or statistic has the input's dtype, or float32 if the input is float16 or bfloat16."""
    if p.dtype is not t.dtype and not (p.dtype.code == F32 and (t.dtype.code == F16 or t.dtype.code == BF16)):
        raise RuntimeError(f"{op_name(c)}(): {name} must have the dtype of input, {t.dtype.name}"
                           f"{' or float32' if t.dtype.itemsize == 2 else ''}, got {p.dtype.name}")
    return 0


cdef int check_pair(Call* c, int slot) except -1:
    """Check that a weight and the bias in the slot after it have one dtype, if both are given."""
    if not is_none(c, slot) and not is_none(c, slot + 1) and tensor_arg(c, slot).dtype is not tensor_arg(c, slot + 1).dtype:
        raise RuntimeError(f"{op_name(c)}(): weight and bias must have one dtype, got {tensor_arg(c, slot).dtype.name} and "
                           f"{tensor_arg(c, slot + 1).dtype.name}")
    return 0


cdef Tensor in_format(Call* c, Tensor t):
    """Return a new dense tensor in the memory format of the input."""
    cdef dim_t strides[MAX_DIMS]
    if t.flags & T_CONTIGUOUS:
        return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))
    set_format(t.ndim, t.sizes, strides, suggest_format(t.ndim, t.sizes, t.strides))
    return new_strided(t.ndim, t.sizes, strides, t.dtype, result_device(c))


# layer_norm and rms_norm ----------------------------------------------------------------

cdef int check_normalized(Call* c, Tensor t) except -1:
    """Check that the input's shape ends with `normalized_shape` (slot 1), and return the length of the latter."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = dims_arg(c, 1, sizes)
    if n == 0:
        raise RuntimeError(f"{op_name(c)}(): normalized_shape must have at least one size, got {list(arg(c, 1))}")
    if n > t.ndim or not dims_equal(sizes, t.sizes + t.ndim - n, n):
        raise RuntimeError(f"{op_name(c)}(): input must have a shape that ends with normalized_shape "
                           f"{list(arg(c, 1))}, got {shape_str(t)}")
    return n


cdef int check_weight(Call* c, Tensor t, int slot, str name, int n) except -1:
    cdef Tensor w
    if is_none(c, slot):
        return 0
    w = tensor_arg(c, slot)
    if w.ndim != n or not dims_equal(w.sizes, t.sizes + t.ndim - n, n):
        raise RuntimeError(f"{op_name(c)}(): {name} must have the shape given by normalized_shape, {list(arg(c, 1))}, "
                           f"got {shape_str(w)}")
    return 0


cdef int check_layer_norm(Call* c, Tensor t) except -1:
    cdef int n
    if t.dtype.kind != KIND_FLOAT and not (is_none(c, 2) and is_none(c, 3)):
        check_parameter(c, t, tensor_arg(c, 3 if is_none(c, 2) else 2), "weight" if not is_none(c, 2) else "bias")
    need_real_float(c, t)
    n = check_normalized(c, t)
    check_weight(c, t, 2, "weight", n)
    check_weight(c, t, 3, "bias", n)
    if not is_none(c, 2) and tensor_arg(c, 2).dtype is not t.dtype:
        check_parameter(c, t, tensor_arg(c, 2), "weight")
    if not is_none(c, 3) and tensor_arg(c, 3).dtype is not t.dtype:
        check_parameter(c, t, tensor_arg(c, 3), "bias")
    check_pair(c, 2)
    return n


cdef object layer_norm_meta(Call* c):
    """Arguments: input, normalized_shape, weight, bias, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    check_layer_norm(c, t)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef DType statistics_dtype(Call* c, Tensor t, int weight_slot, int n=2):
    """Return the dtype of saved statistics: float32 for half precision, except on a cpu without parameters in float32.

    The parameters are in `n` slots from `weight_slot` on: the weight and, if `n` is 2, the bias.
    """
    cdef int slot
    if t.dtype.itemsize > 2:
        return t.dtype
    if not is_cpu(result_device(c)):
        return by_code(F32)
    for slot in range(weight_slot, weight_slot + n):
        if not is_none(c, slot) and tensor_arg(c, slot).dtype is not t.dtype:
            return by_code(F32)
    return t.dtype


cdef object native_layer_norm_meta(Call* c):
    """Return the result of `layer_norm_meta`, the mean and the reciprocal of the standard deviation."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int i, n = check_layer_norm(c, t)
    cdef dim_t sizes[MAX_DIMS]
    cdef Device device = result_device(c)
    cdef DType kept = statistics_dtype(c, t, 2)
    for i in range(t.ndim):
        sizes[i] = t.sizes[i] if i < t.ndim - n else 1
    return (new_contiguous(t.ndim, t.sizes, t.dtype, device), new_contiguous(t.ndim, sizes, kept, device),
            new_contiguous(t.ndim, sizes, kept, device))


cdef object rms_norm_meta(Call* c):
    """Arguments: input, normalized_shape, weight, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = dims_arg(c, 1, sizes)
    if n > t.ndim and (is_none(c, 2) or (tensor_arg(c, 2).ndim == n and dims_equal(tensor_arg(c, 2).sizes, sizes, n))):
        raise ValueError(f"{op_name(c)}(): the input must have at least {n} dimensions, got shape {shape_str(t)}")
    if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX:
        need_real_float(c, t)
    check_weight(c, t, 2, "weight", check_normalized(c, t))
    return in_format(c, t)


define("nn.functional.layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
       "float eps=1e-05) -> Tensor", layer_norm_meta, 0,
       "Layer normalization: scale and shift to mean 0 and variance 1 over the trailing dimensions "
       "`normalized_shape`, then multiply by `weight` and add `bias`.")
define("native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
       "-> (Tensor, Tensor, Tensor)", native_layer_norm_meta, OUT | FUNCTION_ONLY,
       "`layer_norm` that also returns the mean and the reciprocal of the standard deviation. Both have size 1 in the "
       "normalized dimensions.")
define("nn.functional.rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
       rms_norm_meta, 0,
       "Divide by the root of the mean square over the trailing dimensions `normalized_shape`, then multiply by "
       "`weight`.")


# group_norm ---------------------------------------------------------------------------------

cdef int check_groups(Call* c, Tensor t, dim_t channels, dim_t groups, int weight) except -1:
    cdef int i
    cdef Tensor p
    if groups <= 0:
        raise RuntimeError(f"{op_name(c)}(): num_groups must be greater than 0, got {groups}")
    if channels % groups:
        raise RuntimeError(f"{op_name(c)}(): the number of channels must be divisible by num_groups, got input of shape "
                           f"{shape_str(t)} and {groups} groups")
    for i in range(2):
        if is_none(c, weight + i):
            continue
        p = tensor_arg(c, weight + i)
        if p.ndim != 1 or p.sizes[0] != channels:
            raise RuntimeError(f"{op_name(c)}(): {'bias' if i else 'weight'} must be a vector with {channels} elements, "
                               f"one for each channel of input {shape_str(t)}, got shape {shape_str(p)}")
        check_parameter(c, t, p, "bias" if i else "weight")
    check_pair(c, weight)
    return 0


cdef object group_norm_meta(Call* c):
    """Arguments: input, num_groups, weight, bias, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t groups = int_arg(c, 1), values
    cdef int i
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): input must have at least 2 dimensions, got shape {shape_str(t)}")
    if groups == 0:
        raise ZeroDivisionError(f"{op_name(c)}(): num_groups must not be 0")
    if t.dtype.kind == KIND_COMPLEX:
        for i in range(2, 4):
            if not is_none(c, i) and tensor_arg(c, i).dtype is not t.dtype:
                raise RuntimeError(f"{op_name(c)}(): input, weight and bias must have the same dtype, got {t.dtype.name} and "
                                   f"{tensor_arg(c, i).dtype.name}")
    need_real_float(c, t)
    if t.total:
        values = mul_dims(t.sizes[0], t.sizes[1]) // groups
        for i in range(2, t.ndim):
            values = mul_dims(values, t.sizes[i])
        if values == 1:
            raise ValueError(f"{op_name(c)}(): more than 1 value per group is needed, got input of shape {shape_str(t)} "
                             f"and {groups} groups")
    check_groups(c, t, t.sizes[1], groups, 2)
    if is_cpu(result_device(c)):
        return in_format(c, t)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object native_group_norm_meta(Call* c):
    """Return the result of `group_norm`, the means and the reciprocal standard deviations, both (N, groups).

    Arguments: input, weight, bias, N, C, HxW, group, eps.
    """
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t n = int_arg(c, 3), channels = int_arg(c, 4), pixels = int_arg(c, 5), groups = int_arg(c, 6)
    cdef dim_t sizes[2]
    cdef Device device = result_device(c)
    cdef DType kept = t.dtype
    need_real_float(c, t)
    if n < 0 or channels < 0 or pixels < 0 or <object>n * channels * pixels != t.total:
        raise RuntimeError(f"{op_name(c)}(): N * C * HxW must be the number of elements of input {shape_str(t)}, got "
                           f"{n}, {channels} and {pixels}")
    check_groups(c, t, channels, groups, 1)
    sizes[0], sizes[1] = n, groups
    if is_cpu(device):
        kept = statistics_dtype(c, t, 1)
        set_format(t.ndim, t.sizes, strides, suggest_format(t.ndim, t.sizes, t.strides))
    else:
        preserve_strides(t.ndim, t.sizes, t.strides, strides)
    return (new_strided(t.ndim, t.sizes, strides, t.dtype, device), new_contiguous(2, sizes, kept, device),
            new_contiguous(2, sizes, kept, device))


define("nn.functional.group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
       "float eps=1e-05) -> Tensor", group_norm_meta, 0,
       "Group normalization of (N, C, ...): scale and shift each of `num_groups` groups of channels to mean 0 and "
       "variance 1, then multiply by `weight` (C,) and add `bias` (C,).")
define("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) "
       "-> (Tensor, Tensor, Tensor)", native_group_norm_meta, OUT | FUNCTION_ONLY,
       "`group_norm` that also returns the mean and the reciprocal standard deviation of each group, both of shape (N, "
       "group).")


# normalize and local_response_norm ----------------------------------------------------------

cdef object normalize_meta(Call* c):
    """Arguments: input, p, dim, eps. The strides are those of `input` divided by its expanded norms."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t step = 1
    cdef Operands o
    cdef int i
    require_floating(c, t.dtype)
    dim_list(c, 2, t.ndim, chosen)
    no_operands(&o)
    shape_operand(&o, t)
    shape_operand(&o, t)
    for i in range(t.ndim - 1, -1, -1):
        strides[i] = 0 if chosen[i] and t.sizes[i] != 1 else step
        if not chosen[i] and t.sizes[i]:
            step = mul_dims(step, t.sizes[i])
    if t.dtype.kind == KIND_COMPLEX:
        # The real norms are first converted to complex, which makes their expanded strides dense.
        preserve_strides(t.ndim, t.sizes, strides, strides)
    o.strides[1] = strides
    o.contiguous = t.flags & T_CONTIGUOUS and is_row_major(t.ndim, t.sizes, strides)
    o.first = NULL
    return elementwise_result(c, &o, t.dtype)


cdef object local_response_norm_body(Call* c):
    """Arguments: input, size, alpha, beta, k. The mean of squares is computed by average pooling over the channels."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object mean
    cdef dim_t size = int_arg(c, 1)
    cdef int i
    if t.ndim < 3:
        raise ValueError(f"{op_name(c)}(): input must have at least 3 dimensions, got shape {shape_str(t)}")
    if size <= 0:
        raise RuntimeError(f"{op_name(c)}(): size must be greater than 0, got {size}")
    if t.total == 0:
        return t
    mean = call("mul", (t, t))
    if t.ndim == 3:
        mean = call("nn.functional.pad", (call("unsqueeze", (mean, 1)), (0, 0, size // 2, (size - 1) // 2)))
        mean = call("squeeze", (call("nn.functional.avg_pool2d", (mean, (size, 1), 1)), 1))
    else:
        mean = call("reshape", (mean, (t.sizes[0], 1, t.sizes[1], t.sizes[2], -1)))
        mean = call("nn.functional.pad", (mean, (0, 0, 0, 0, size // 2, (size - 1) // 2)))
        mean = call("squeeze", (call("nn.functional.avg_pool3d", (mean, (size, 1, 1), 1)), 1))
        mean = call("reshape", (mean, [t.sizes[i] for i in range(t.ndim)]))
    mean = call("add", (call("mul", (mean, arg(c, 2))), arg(c, 4)))
    return call("div", (t, call("pow", (mean, arg(c, 3)))))


define("nn.functional.normalize(Tensor input, float p=2.0, int[1] dim=1, float eps=1e-12) -> Tensor", normalize_meta,
       OUT, "Divide by the `p`-norm over `dim`, or by `eps` if that is larger.")
define("nn.functional.local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) "
       "-> Tensor", local_response_norm_body, COMPOSITE,
       "Divide (N, C, ...) by `(k + alpha * m) ** beta`, where m is the mean square over `size` neighbouring channels "
       "(Krizhevsky et al., 2012).")

# Gradients ---------------------------------------------------------------------------------

recorded_as("nn.functional.layer_norm", op="native_layer_norm", result=0)
recorded_as("nn.functional.rms_norm", "norm.rms_norm")
recorded_as("nn.functional.group_norm", "norm.group_norm")
recorded_as("nn.functional.normalize", "norm.normalize")
gradient("native_layer_norm", tangent="tangents.layer_norm", joint="norm.native_layer_norm", outputs=(0,), input=True, weight=True,
         bias=True)
gradient("native_group_norm", tangent="tangents.group_norm", joint="norm.native_group_norm", input=True, weight=True, bias=True)
