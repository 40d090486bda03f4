"""Helpers for convolution, pooling and resampling: spatial arguments, optional batch dimension, memory formats."""
from metatensor._core.device cimport cpu_device
from metatensor._core.dtype cimport BF16, F16, F32, F64, I64, U16, U32, U64, C32, C64, C128, DType
from metatensor._core.layout cimport mul_dims, set_format, suggest_format
from metatensor._core.op cimport Call, Overload, SlotSpec, dims_arg, op_name, result_device
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport (
    FORMAT_CHANNELS_LAST, FORMAT_CONTIGUOUS, KIND_BOOL, KIND_INT, MAX_DIMS, dim_t,
)
from metatensor.ops.operands cimport refuse


cdef int fail(Call* c, str message) except -1:
    raise RuntimeError(f"{op_name(c)}(): {message}")


cdef int fail_slot(Call* c, int slot, str message) except -1:
    cdef SlotSpec* s = &(<Overload>c.overload).slots[slot]
    raise RuntimeError(f"{op_name(c)}(): argument '{<object>s.name}' {message}")


cdef bint on_cpu(Call* c) except -1:
    """Return whether the result is on the CPU and gets the strides of PyTorch's CPU kernels, not its CUDA kernels."""
    return result_device(c).kind == cpu_device().kind


cdef int need_dtype(Call* c, Tensor t, int kinds) except -1:
    """Raise NotImplementedError unless the dtype of `t` is of one of `kinds`. float8 and quantized dtypes are never
    supported."""
    cdef int code = t.dtype.code
    if kinds & FLOATS and (code == F32 or code == BF16 or code == F16 or code == F64):
        return 0
    if kinds & LONGS and code == I64:
        return 0
    if kinds & INTS and t.dtype.kind == KIND_INT and not (code == U16 or code == U32 or code == U64):
        return 0
    if kinds & COMPLEXES and (code == C64 or code == C128 or code == C32):
        return 0
    if kinds & BOOLS and t.dtype.kind == KIND_BOOL:
        return 0
    refuse(c, t.dtype)


cdef str dims_str(int n, const dim_t* values):
    return str([values[i] for i in range(n)])


cdef int spatial_arg(Call* c, int slot, int n, dim_t* to) except -1:
    """Read one value for each of `n` spatial dimensions. A single value applies to all."""
    cdef dim_t values[MAX_DIMS]
    cdef object value = <object>c.args[slot]
    cdef int i, given
    if type(value) is int:
        to[0] = value
        for i in range(1, n):
            to[i] = to[0]
        return 0
    given = dims_arg(c, slot, values)
    if given != n and given != 1:
        fail_slot(c, slot, f"must be an int or {n} ints, got {dims_str(given, values)}")
    for i in range(n):
        to[i] = values[i if given == n else 0]
    return 0


cdef int read_image(Call* c, Tensor t, int n, Image* image) except -1:
    """Read the sizes and strides of `t` as (N, C, spatial...), adding N = 1 if it has no batch dimension."""
    cdef int i, lead
    if t.ndim != n + 1 and t.ndim != n + 2:
        fail(c, f"expected an input of {n + 1} dimensions (no batch) or {n + 2} (with batch), got shape {shape_str(t)}")
    image.n = n
    image.batched = t.ndim == n + 2
    lead = 0 if image.batched else 1
    if lead:
        image.sizes[0] = 1
        image.strides[0] = mul_dims(t.sizes[0], t.strides[0])
    for i in range(t.ndim):
        image.sizes[i + lead] = t.sizes[i]
        image.strides[i + lead] = t.strides[i]
    return 0


cdef int image_format(Image* image) except -1:
    """Return the memory format that a result keeps. A 1-d image counts as a 2-d image of height 1."""
    cdef dim_t sizes[4]
    cdef dim_t strides[4]
    if image.n != 1:
        return suggest_format(image.n + 2, image.sizes, image.strides)
    sizes[0] = image.sizes[0]
    sizes[1] = image.sizes[1]
    sizes[2] = 1
    sizes[3] = image.sizes[2]
    strides[0] = image.strides[0]
    strides[1] = image.strides[1]
    strides[2] = mul_dims(image.sizes[2], image.strides[2])
    strides[3] = image.strides[2]
    return suggest_format(4, sizes, strides)


cdef Tensor new_image(Call* c, Image* like, const dim_t* sizes, DType dtype, int memory_format):
    """Return a new image of `sizes` (N, C, spatial...), without N if `like` has no batch dimension."""
    cdef dim_t strides[5]
    cdef dim_t flat[4]
    cdef int lead = 0 if like.batched else 1
    cdef int ndim = like.n + 2
    if memory_format == FORMAT_CONTIGUOUS:
        return new_contiguous(ndim - lead, sizes + lead, dtype, result_device(c))
    if like.n == 1:
        flat[0] = sizes[0]
        flat[1] = sizes[1]
        flat[2] = 1
        flat[3] = sizes[2]
        set_format(4, flat, strides, FORMAT_CHANNELS_LAST)
        strides[2] = strides[3]
    else:
        set_format(ndim, sizes, strides, memory_format)
    return new_strided(ndim - lead, sizes + lead, strides + lead, dtype, result_device(c))
