"""Pooling: max, average and p-norm over windows of fixed size, adaptive and fractional pooling, and max unpooling.

Inputs are (N, C, spatial...), or (C, spatial...) without a batch.
"""
from libc.math cimport isinf

from metatensor._core.dtype cimport I64, DType, by_code, default_float
from metatensor._core.layout cimport add_dims, dims_equal, mul_dims
from metatensor._core.op cimport (
    EXACT_OUT, FUNCTION_ONLY, OUT, RANDOM, Call, alias_op, arg, bool_arg, define, float_arg, is_none, op_name,
    tensor_arg,
)
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport (
    FORMAT_CHANNELS_LAST_3D, FORMAT_CONTIGUOUS, KIND_BOOL, KIND_FLOAT, KIND_INT, T_RETRIED, dim_t,
)
from metatensor._core.random cimport take_ticket
from metatensor._core.sharding import sharding
from metatensor.ops.spatial cimport (
    FLOATS, INTS, LONGS, Image, dims_str, fail, fail_slot, image_format, need_dtype, new_image, on_cpu,
    read_image, spatial_arg,
)


# Windows of fixed size --------------------------------------------------------------------

cdef inline bint batched(Tensor t, Image* x) noexcept:
    return t.ndim == x.n + 2


cdef int not_empty(Call* c, Tensor t, Image* x, bint channels) except -1:
    """Raise RuntimeError if a spatial dimension is empty or, if `channels` is true, the channel dimension."""
    cdef int i
    for i in range(1 if channels else 2, x.n + 2):
        if x.sizes[i] == 0:
            fail(c, f"only the batch may be empty, got an input of shape {shape_str(t)}")
    return 0


cdef int has_planes(Call* c, Tensor t, int n) except -1:
    """Raise IndexError, as PyTorch does for the 2-d averages only, if the input has less than 3 dimensions."""
    if n == 2 and t.ndim < 3:
        raise IndexError(f"{op_name(c)}(): an input of shape {shape_str(t)} has no dimension -3")
    return 0


cdef int window_arg(Call* c, int slot, int n, dim_t* to, dim_t least) except -1:
    """Read `n` sizes of a window into `to`. Raise RuntimeError if one is below `least`, which is 0 or 1."""
    cdef int i
    spatial_arg(c, slot, n, to)
    for i in range(n):
        if to[i] < least:
            fail_slot(c, slot, f"must be {'positive' if least else 'non-negative'}, got {dims_str(n, to)}")
    return 0


cdef bint no_stride(Call* c, int slot) except -1:
    """Return whether the stride is None or (), which both mean the window size."""
    return is_none(c, slot) or (isinstance(arg(c, slot), (tuple, list)) and not arg(c, slot))


cdef int window_sizes(Call* c, Image* x, int window_slot, int padding_slot, int dilation_slot, int ceil_slot,
                      dim_t* sizes) except -1:
    """Compute the output sizes of pooling over `x`. A slot that the op does not have is -1."""
    cdef dim_t kernel[3]
    cdef dim_t stride[3]
    cdef dim_t padding[3]
    cdef dim_t dilation[3]
    cdef dim_t room, size
    cdef bint up = bool_arg(c, ceil_slot)
    cdef int i
    window_arg(c, window_slot, x.n, kernel, 1)
    if no_stride(c, window_slot + 1):
        for i in range(x.n):
            stride[i] = kernel[i]
    else:
        window_arg(c, window_slot + 1, x.n, stride, 1)
    for i in range(x.n):
        padding[i] = 0
        dilation[i] = 1
    if padding_slot >= 0:
        window_arg(c, padding_slot, x.n, padding, 0)
    if dilation_slot >= 0:
        window_arg(c, dilation_slot, x.n, dilation, 1)
    sizes[0] = x.sizes[0]
    sizes[1] = x.sizes[1]
    for i in range(x.n):
        if padding[i] > kernel[i] // 2:
            fail_slot(c, padding_slot, f"must be at most half of the window {dims_str(x.n, kernel)}, "
                                       f"got {dims_str(x.n, padding)}")
        room = add_dims(x.sizes[i + 2], mul_dims(2, padding[i]))
        room -= add_dims(mul_dims(dilation[i], kernel[i] - 1), 1)
        size = add_dims(room, stride[i] - 1 if up else 0)
        # A negative size needs its own case: // is C division here, which rounds towards zero.
        size = size // stride[i] + 1 if size >= 0 else 0
        # The last window must begin inside the image or its left padding.
        if up and mul_dims(size - 1, stride[i]) >= add_dims(x.sizes[i + 2], padding[i]):
            size -= 1
        if size < 1:
            fail(c, f"the window {dims_str(x.n, kernel)} with dilation {dims_str(x.n, dilation)} is larger than the "
                    f"input {dims_str(x.n, x.sizes + 2)} with padding {dims_str(x.n, padding)}")
        sizes[i + 2] = size
    return 0


cdef object with_indices(Call* c, Image* x, const dim_t* sizes, DType dtype, int memory_format, bint indices):
    values = new_image(c, x, sizes, dtype, memory_format)
    if not indices:
        return values
    return (values, new_image(c, x, sizes, by_code(I64), memory_format))


cdef object max_pool(Call* c, int n, bint indices):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Image x
    cdef dim_t sizes[5]
    read_image(c, t, n, &x)
    need_dtype(c, t, FLOATS if n == 1 and not indices else FLOATS | INTS)
    not_empty(c, t, &x, True)
    window_sizes(c, &x, 1, 3, 4, 5, sizes)
    return with_indices(c, &x, sizes, t.dtype, image_format(&x), indices)

cdef object max_pool1d(Call* c):
    return max_pool(c, 1, bool_arg(c, 6))

cdef object max_pool2d(Call* c):
    return max_pool(c, 2, bool_arg(c, 6))

cdef object max_pool3d(Call* c):
    return max_pool(c, 3, bool_arg(c, 6))

cdef object max_pool1d_with_indices(Call* c):
    return max_pool(c, 1, True)

cdef object max_pool2d_with_indices(Call* c):
    return max_pool(c, 2, True)

cdef object max_pool3d_with_indices(Call* c):
    return max_pool(c, 3, True)


cdef object avg_pool(Call* c, int n):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Image x
    cdef dim_t sizes[5]
    cdef dim_t kernel[3]
    cdef int i
    has_planes(c, t, n)
    read_image(c, t, n, &x)
    need_dtype(c, t, FLOATS | LONGS)
    not_empty(c, t, &x, True)
    window_sizes(c, &x, 1, 3, -1, 4, sizes)
    if n == 3:
        # In 3-d, PyTorch requires that the window is not larger than the input without padding.
        window_arg(c, 1, 3, kernel, 1)
        for i in range(3):
            if x.sizes[i + 2] < kernel[i]:
                fail(c, f"the window {dims_str(3, kernel)} is larger than the input {dims_str(3, x.sizes + 2)}")
    if n > 1 and not is_none(c, 6) and arg(c, 6) == 0:
        fail_slot(c, 6, "must not be zero")
    return new_image(c, &x, sizes, t.dtype, image_format(&x) if n < 3 else FORMAT_CONTIGUOUS)

cdef object avg_pool1d(Call* c):
    return avg_pool(c, 1)

cdef object avg_pool2d(Call* c):
    return avg_pool(c, 2)

cdef object avg_pool3d(Call* c):
    return avg_pool(c, 3)


cdef object lp_pool(Call* c, int n):
    """Raise NotImplementedError for integers other than int64 if `norm_type` is an int.

    PyTorch averages the powers of the elements. An integer to the power of an int is an integer, and only int64 has an
    average. An integer to the power of a float is a float.
    """
    cdef Tensor t = tensor_arg(c, 0)
    cdef Image x
    cdef dim_t sizes[5]
    cdef double p = float_arg(c, 1)
    cdef bint exact = t.dtype.kind <= KIND_INT and not isinstance(arg(c, 1), float), most = isinf(p)
    if not most:
        has_planes(c, t, n)
    read_image(c, t, n, &x)
    if most:
        need_dtype(c, t, FLOATS if n == 1 else FLOATS | INTS)
    elif exact and p < 0:
        fail_slot(c, 1, f"must not be negative for the integers of a {t.dtype.name} tensor, got {arg(c, 1)}")
    elif t.dtype.kind > KIND_INT or exact and t.dtype.kind != KIND_BOOL:
        need_dtype(c, t, FLOATS | LONGS)
    not_empty(c, t, &x, True)
    if p == 0 and not c.flags & T_RETRIED:      # PyTorch reports an unsupported dtype first
        raise ZeroDivisionError(f"{op_name(c)}(): argument 'norm_type' must not be zero")
    window_sizes(c, &x, 2, -1, -1, 4, sizes)
    return new_image(c, &x, sizes, t.dtype if t.dtype.kind == KIND_FLOAT or most else default_float(),
                     image_format(&x) if n < 3 else FORMAT_CONTIGUOUS)

cdef object lp_pool1d(Call* c):
    return lp_pool(c, 1)

cdef object lp_pool2d(Call* c):
    return lp_pool(c, 2)

cdef object lp_pool3d(Call* c):
    return lp_pool(c, 3)


# Adaptive and fractional pooling --------------------------------------------------------------

cdef int output_sizes(Call* c, int slot, Image* x, dim_t* sizes) except -1:
    """Read the output size: an int, or a list with one size per spatial dimension. None means the input's size."""
    cdef object value = arg(c, slot)
    cdef int i
    sizes[0] = x.sizes[0]
    sizes[1] = x.sizes[1]
    if type(value) is int and value >= 0:
        for i in range(x.n):
            sizes[i + 2] = value
        return 0
    if isinstance(value, (tuple, list)):
        if len(value) != x.n:
            fail_slot(c, slot, f"must have {x.n} values, got {value}")
        values = value
    else:
        values = (value,) * x.n
    if not all([v is None or (hasattr(v, "__index__") and not isinstance(v, bool)) for v in values]):
        raise TypeError(f"{op_name(c)}(): the output size must be an int or {x.n} of them, got {value!r}")
    for i in range(x.n):
        sizes[i + 2] = x.sizes[i + 2] if values[i] is None else values[i]
        if sizes[i + 2] < 0:
            fail_slot(c, slot, f"must not be negative, got {value}")
    return 0


cdef object adaptive(Call* c, int n, bint average, bint indices):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Image x
    cdef dim_t sizes[5]
    cdef int form, i
    cdef bint whole = True
    if isinstance(arg(c, 1), (tuple, list)) and t.ndim <= (n if n == 1 else len(arg(c, 1))):
        raise ValueError(f"{op_name(c)}(): an input of shape {shape_str(t)} has too few dimensions for an output "
                         f"size of {arg(c, 1)}")
    read_image(c, t, n, &x)
    need_dtype(c, t, FLOATS)
    output_sizes(c, 1, &x, sizes)
    not_empty(c, t, &x, batched(t, &x) and (n == 3 or not average))
    form = image_format(&x)
    if n == 3:
        # PyTorch keeps channels_last_3d only for an average over the whole input.
        for i in range(2, 5):
            whole = whole and sizes[i] == 1
        if not (average and whole and form == FORMAT_CHANNELS_LAST_3D):
            form = FORMAT_CONTIGUOUS
    return with_indices(c, &x, sizes, t.dtype, form, indices)

cdef object adaptive_avg_pool1d(Call* c):
    return adaptive(c, 1, True, False)

cdef object adaptive_avg_pool2d(Call* c):
    return adaptive(c, 2, True, False)

cdef object adaptive_avg_pool3d(Call* c):
    return adaptive(c, 3, True, False)

cdef object adaptive_max_pool1d(Call* c):
    return adaptive(c, 1, False, bool_arg(c, 2))

cdef object adaptive_max_pool2d(Call* c):
    return adaptive(c, 2, False, bool_arg(c, 2))

cdef object adaptive_max_pool3d(Call* c):
    return adaptive(c, 3, False, bool_arg(c, 2))

cdef object adaptive_max_pool1d_with_indices(Call* c):
    return adaptive(c, 1, False, True)

cdef object adaptive_max_pool2d_with_indices(Call* c):
    return adaptive(c, 2, False, True)

cdef object adaptive_max_pool3d_with_indices(Call* c):
    return adaptive(c, 3, False, True)


cdef int ratio_sizes(Call* c, Image* x, dim_t* sizes) except -1:
    """Compute the spatial output sizes from `output_ratio`, rounded down."""
    cdef object ratio = arg(c, 3)
    cdef int i
    values = tuple(ratio) if isinstance(ratio, (tuple, list)) else (ratio,) * x.n
    if len(values) != x.n:
        raise ValueError(f"{op_name(c)}(): argument 'output_ratio' must be a number or {x.n} of them, got {ratio!r}")
    if not all([isinstance(v, (int, float)) for v in values]):
        raise TypeError(f"{op_name(c)}(): argument 'output_ratio' must be a number or {x.n} of them, got {ratio!r}")
    for i in range(x.n):
        sizes[i + 2] = int(x.sizes[i + 2] * float(values[i]))
    return 0


cdef int check_samples(Call* c, Tensor t, Image* x, Tensor samples) except -1:
    if samples.ndim != 3 or samples.sizes[0] < x.sizes[0] or samples.sizes[1] != x.sizes[1] or samples.sizes[2] != x.n:
        fail(c, f"_random_samples must have shape [{x.sizes[0]}, {x.sizes[1]}, {x.n}], got {shape_str(samples)}")
    return 0


cdef object fractional(Call* c, int n, bint indices):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Image x
    cdef dim_t sizes[5]
    cdef dim_t kernel[3]
    cdef int i
    read_image(c, t, n, &x)
    if not is_none(c, 5) and tensor_arg(c, 5).dtype is not t.dtype and not c.flags & T_RETRIED:
        fail(c, f"_random_samples must be {t.dtype.name} like the input, got {tensor_arg(c, 5).dtype.name}")
    need_dtype(c, t, FLOATS)
    not_empty(c, t, &x, batched(t, &x))
    if isinstance(arg(c, 1), (tuple, list)) and len(arg(c, 1)) != n:
        fail_slot(c, 1, f"must be an int or {n} of them, got {arg(c, 1)}")
    window_arg(c, 1, n, kernel, 1)
    sizes[0] = x.sizes[0]
    sizes[1] = x.sizes[1]
    if not is_none(c, 2):
        output_sizes(c, 2, &x, sizes)
    elif not is_none(c, 3):
        ratio_sizes(c, &x, sizes)
    else:
        raise ValueError(f"{op_name(c)}(): needs an output_size or an output_ratio")
    for i in range(n):
        if c.flags & T_RETRIED:
            break       # the samples are drawn first, in the input's dtype
        if add_dims(sizes[i + 2], kernel[i]) - 1 > x.sizes[i + 2] - (n == 3):   # 3-d: one element more, as in PyTorch
            fail(c, f"windows of {dims_str(n, kernel)} at {dims_str(n, sizes + 2)} places do not fit an input of "
                    f"{dims_str(n, x.sizes + 2)}")
    if is_none(c, 5):
        take_ticket(c, 6)
    else:
        check_samples(c, t, &x, tensor_arg(c, 5))
    return with_indices(c, &x, sizes, t.dtype, FORMAT_CONTIGUOUS, indices)

cdef object fractional_max_pool2d(Call* c):
    return fractional(c, 2, bool_arg(c, 4))

cdef object fractional_max_pool3d(Call* c):
    return fractional(c, 3, bool_arg(c, 4))

cdef object fractional_max_pool2d_with_indices(Call* c):
    return fractional(c, 2, True)

cdef object fractional_max_pool3d_with_indices(Call* c):
    return fractional(c, 3, True)


# Max unpooling -----------------------------------------------------------------------------

cdef int unpooled_sizes(Call* c, Image* x, dim_t* sizes) except -1:
    cdef dim_t kernel[3]
    cdef dim_t stride[3]
    cdef dim_t padding[3]
    cdef dim_t low, high
    cdef int i, lead
    window_arg(c, 2, x.n, kernel, 0)
    if no_stride(c, 3):
        for i in range(x.n):
            stride[i] = kernel[i]
    else:
        window_arg(c, 3, x.n, stride, 0)
    spatial_arg(c, 4, x.n, padding)
    for i in range(x.n):
        sizes[i + 2] = add_dims(mul_dims(x.sizes[i + 2] - 1, stride[i]), kernel[i]) - mul_dims(2, padding[i])
        if x.n == 3 and stride[i] <= 0:
            fail_slot(c, 3, f"must be positive, got {dims_str(3, stride)}")
    if not is_none(c, 5):
        given = tuple(arg(c, 5))
        lead = len(given) - x.n
        if lead != 0 and lead != 2 - (not x.batched) and lead != 2:
            raise ValueError(f"{op_name(c)}(): argument 'output_size' must have {x.n} or {x.n + 2} values, got {given}")
        for i in range(x.n):
            low = sizes[i + 2] - stride[i]
            high = sizes[i + 2] + stride[i]
            if not low < given[i + lead] < high:
                raise ValueError(f"{op_name(c)}(): argument 'output_size' is {given}, but dimension {i} must lie "
                                 f"between {low} and {high}")
            sizes[i + 2] = given[i + lead]
    for i in range(x.n):
        if sizes[i + 2] < 0:
            raise ValueError(f"{op_name(c)}(): the output would have the negative sizes {dims_str(x.n, sizes + 2)}")
    return 0


cdef object unpool(Call* c, int n):
    cdef Tensor t = tensor_arg(c, 0), indices = tensor_arg(c, 1)
    cdef Image x
    cdef dim_t sizes[5]
    read_image(c, t, n, &x)
    if indices.dtype.code != I64 and not c.flags & T_RETRIED:
        fail_slot(c, 1, f"must be int64, got {indices.dtype.name}")
    if indices.ndim != t.ndim or not dims_equal(indices.sizes, t.sizes, t.ndim):
        fail_slot(c, 1, f"must have the input's shape {shape_str(t)}, got {shape_str(indices)}")
    need_dtype(c, t, FLOATS)
    unpooled_sizes(c, &x, sizes)
    not_empty(c, t, &x, batched(t, &x))
    sizes[0] = x.sizes[0]
    sizes[1] = x.sizes[1]
    return new_image(c, &x, sizes, t.dtype, image_format(&x) if n == 2 and on_cpu(c) else FORMAT_CONTIGUOUS)

cdef object max_unpool1d(Call* c):
    return unpool(c, 1)

cdef object max_unpool2d(Call* c):
    return unpool(c, 2)

cdef object max_unpool3d(Call* c):
    return unpool(c, 3)


# Declarations -------------------------------------------------------------------------------

cdef str _window = "Tensor input, int[{n}] kernel_size, int[{n}]? stride=None"
cdef str _max = _window + ", int[{n}] padding=0, int[{n}] dilation=1, bool ceil_mode=False, bool return_indices=False"
cdef str _avg = _window + ", int[{n}] padding=0, bool ceil_mode=False, bool count_include_pad=True"
cdef str _lp = "Tensor input, float norm_type, int[{n}] kernel_size, int[{n}]? stride=None, bool ceil_mode=False"
cdef str _fractional = ("Tensor input, int[{n}] kernel_size, any output_size=None, any output_ratio=None, "
                        "bool return_indices=False, Tensor? _random_samples=None, *, generator? generator=None")
cdef str _unpool = ("Tensor input, Tensor indices, int[{n}] kernel_size, int[{n}]? stride=None, int[{n}] padding=0, "
                    "int[]? output_size=None")
cdef str _pair = "(Tensor, Tensor)"

define(f"nn.functional.max_pool1d({_max.format(n=1)}) -> Tensor", max_pool1d, FUNCTION_ONLY,
       "Maximum of each window of (N, C, L). If `return_indices`, also return the int64 indices of the maxima.")
define(f"nn.functional.max_pool1d_with_indices({_max.format(n=1)}) -> {_pair}", max_pool1d_with_indices,
       FUNCTION_ONLY,
       "Like `max_pool1d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the last dimension.")
alias_op("max_pool1d", "nn.functional.max_pool1d")
define(f"nn.functional.max_pool2d({_max.format(n=2)}) -> Tensor", max_pool2d, FUNCTION_ONLY,
       "Maximum of each window of (N, C, H, W). If `return_indices`, also return the int64 indices of the maxima.")
define(f"nn.functional.max_pool2d_with_indices({_max.format(n=2)}) -> {_pair}", max_pool2d_with_indices,
       FUNCTION_ONLY,
       "Like `max_pool2d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the flattened last two dimensions.")
alias_op("max_pool2d", "nn.functional.max_pool2d")
define(f"nn.functional.max_pool3d({_max.format(n=3)}) -> Tensor", max_pool3d, FUNCTION_ONLY,
       "Maximum of each window of (N, C, D, H, W). If `return_indices`, also return the int64 indices of the maxima.")
define(f"nn.functional.max_pool3d_with_indices({_max.format(n=3)}) -> {_pair}", max_pool3d_with_indices,
       FUNCTION_ONLY,
       "Like `max_pool3d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the flattened last three dimensions.")
alias_op("max_pool3d", "nn.functional.max_pool3d")
define(f"max_pool1d_with_indices({_max.format(n=1)}) -> {_pair}", max_pool1d_with_indices, FUNCTION_ONLY,
       "Like `max_pool1d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "along the last dimension.")
define(f"nn.functional.avg_pool1d({_avg.format(n=1)}) -> Tensor", avg_pool1d, FUNCTION_ONLY,
       "Average of each window of (N, C, L).")
define(f"nn.functional.avg_pool2d({_avg.format(n=2)}, int? divisor_override=None) -> Tensor", avg_pool2d, FUNCTION_ONLY | OUT | EXACT_OUT,
       "Average of each window of (N, C, H, W).")
define(f"nn.functional.avg_pool3d({_avg.format(n=3)}, int? divisor_override=None) -> Tensor", avg_pool3d, FUNCTION_ONLY | OUT | EXACT_OUT,
       "Average of each window of (N, C, D, H, W).")
alias_op("avg_pool1d", "nn.functional.avg_pool1d")
define(f"nn.functional.lp_pool1d({_lp.format(n=1)}) -> Tensor", lp_pool1d, FUNCTION_ONLY,
       "Norm of order `norm_type` of each window of (N, C, L).")
define(f"nn.functional.lp_pool2d({_lp.format(n=2)}) -> Tensor", lp_pool2d, FUNCTION_ONLY,
       "Norm of order `norm_type` of each window of (N, C, H, W).")
define(f"nn.functional.lp_pool3d({_lp.format(n=3)}) -> Tensor", lp_pool3d, FUNCTION_ONLY,
       "Norm of order `norm_type` of each window of (N, C, D, H, W).")
define("nn.functional.adaptive_avg_pool1d(Tensor input, any output_size) -> Tensor", adaptive_avg_pool1d,
       FUNCTION_ONLY,
       "Average pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the "
       "input's size.")
define("nn.functional.adaptive_max_pool1d(Tensor input, any output_size, bool return_indices=False) -> Tensor",
       adaptive_max_pool1d, FUNCTION_ONLY,
       "Max pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's "
       "size. If `return_indices`, also return the int64 indices of the maxima.")
define(f"nn.functional.adaptive_max_pool1d_with_indices(Tensor input, any output_size, "
       f"bool return_indices=False) -> {_pair}", adaptive_max_pool1d_with_indices, FUNCTION_ONLY,
       "Like `adaptive_max_pool1d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the last dimension.")
define("nn.functional.adaptive_avg_pool2d(Tensor input, any output_size) -> Tensor", adaptive_avg_pool2d,
       FUNCTION_ONLY,
       "Average pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the "
       "input's size.")
define("nn.functional.adaptive_max_pool2d(Tensor input, any output_size, bool return_indices=False) -> Tensor",
       adaptive_max_pool2d, FUNCTION_ONLY,
       "Max pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's "
       "size. If `return_indices`, also return the int64 indices of the maxima.")
define(f"nn.functional.adaptive_max_pool2d_with_indices(Tensor input, any output_size, "
       f"bool return_indices=False) -> {_pair}", adaptive_max_pool2d_with_indices, FUNCTION_ONLY,
       "Like `adaptive_max_pool2d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the flattened last two dimensions.")
define("nn.functional.adaptive_avg_pool3d(Tensor input, any output_size) -> Tensor", adaptive_avg_pool3d,
       FUNCTION_ONLY,
       "Average pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the "
       "input's size.")
define("nn.functional.adaptive_max_pool3d(Tensor input, any output_size, bool return_indices=False) -> Tensor",
       adaptive_max_pool3d, FUNCTION_ONLY,
       "Max pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's "
       "size. If `return_indices`, also return the int64 indices of the maxima.")
define(f"nn.functional.adaptive_max_pool3d_with_indices(Tensor input, any output_size, "
       f"bool return_indices=False) -> {_pair}", adaptive_max_pool3d_with_indices, FUNCTION_ONLY,
       "Like `adaptive_max_pool3d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the flattened last three dimensions.")
alias_op("adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool1d")
define(f"adaptive_max_pool1d(Tensor input, any output_size) -> {_pair}", adaptive_max_pool1d_with_indices, FUNCTION_ONLY,
       "Max pooling with windows chosen so that the output length is `output_size`. Returns (values, int64 indices).")
define(f"nn.functional.fractional_max_pool2d({_fractional.format(n=2)}) -> Tensor", fractional_max_pool2d,
       FUNCTION_ONLY | RANDOM,
       "Fractional max pooling: maxima over windows at pseudo-random positions (Graham, 2014). The spatial output "
       "sizes are `output_size`, or the input's sizes times `output_ratio`. If `return_indices`, also return the int64 "
       "indices of the maxima.")
define(f"nn.functional.fractional_max_pool2d_with_indices({_fractional.format(n=2)}) -> {_pair}",
       fractional_max_pool2d_with_indices, FUNCTION_ONLY | RANDOM,
       "Like `fractional_max_pool2d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the flattened last two dimensions.")
define(f"nn.functional.fractional_max_pool3d({_fractional.format(n=3)}) -> Tensor", fractional_max_pool3d,
       FUNCTION_ONLY | RANDOM,
       "Fractional max pooling: maxima over windows at pseudo-random positions (Graham, 2014). The spatial output "
       "sizes are `output_size`, or the input's sizes times `output_ratio`. If `return_indices`, also return the int64 "
       "indices of the maxima.")
define(f"nn.functional.fractional_max_pool3d_with_indices({_fractional.format(n=3)}) -> {_pair}",
       fractional_max_pool3d_with_indices, FUNCTION_ONLY | RANDOM,
       "Like `fractional_max_pool3d`, but returns (values, indices): the indices are the int64 positions of the maxima "
       "in the flattened last three dimensions.")
define(f"nn.functional.max_unpool1d({_unpool.format(n=1)}) -> Tensor", max_unpool1d, FUNCTION_ONLY,
       "Write the maxima selected by `max_pool1d` to their original indices in a larger output of zeros.")
define(f"nn.functional.max_unpool2d({_unpool.format(n=2)}) -> Tensor", max_unpool2d, FUNCTION_ONLY,
       "Write the maxima selected by `max_pool2d` to their original indices in a larger output of zeros.")
define(f"nn.functional.max_unpool3d({_unpool.format(n=3)}) -> Tensor", max_unpool3d, FUNCTION_ONLY,
       "Write the maxima selected by `max_pool3d` to their original indices in a larger output of zeros.")

# Windows reach across the borders of parts, and indices count the elements of whole images, so only other dimensions are cut.
for _n in (1, 2, 3):
    sharding(f"nn.functional.avg_pool{_n}d", "no cuts", f"cut input -> cat no empty parts where batch{_n}=True")
    sharding(f"nn.functional.adaptive_max_pool{_n}d", "no cuts", f"cut input -> cat no empty parts where batch{_n}=True",
             f"cut input -> cat, cat no empty parts where batch{_n}=True")
    sharding(f"nn.functional.adaptive_max_pool{_n}d_with_indices", "no cuts", f"cut input -> cat, cat no empty parts where batch{_n}=True")
sharding("adaptive_max_pool1d", "no cuts", "cut input -> cat, cat no empty parts where batch1=True")
