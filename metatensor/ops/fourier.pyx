"""The three primitive Fourier transforms, on which all others are built, and the strides of their results."""
from metatensor._core.dtype cimport F16, F32, F64, DType, to_complex, to_real
from metatensor._core.layout cimport copy_dims, mul_dims, preserve_strides, row_major
from metatensor._core.op cimport (
    FUNCTION_ONLY, OUT, SAFE_CAST, Call, arg, bool_arg, define, dims_arg, int_arg, op_name, result_device, tensor_arg, wrap,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport FORMAT_PRESERVE, KIND_COMPLEX, KIND_FLOAT, MAX_DIMS, T_CONJ, T_NEG, dim_t
from metatensor.ops.factory cimport make_like
from metatensor.ops.spatial cimport on_cpu

from metatensor._core.gradients import gradient, ops


# Strides of the results -------------------------------------------------------------------
#
# An FFT library transforms the last dimensions of a dense array. The other (batch) dimensions are moved to the front,
# in the order of their strides, and the result is permuted back. In a transform of several steps, each step orders the
# dimensions by the strides of the previous step's result.

cdef enum:
    STEP_DIMS = 3       # dimensions that the CUDA library transforms in one step


cdef void _by_stride(int n, int* dims, const dim_t* strides) noexcept:
    """Sort dimensions by decreasing stride. The sort is stable."""
    cdef int i, k, d
    for i in range(1, n):
        d = dims[i]
        k = i
        while k > 0 and strides[dims[k - 1]] < strides[d]:
            dims[k] = dims[k - 1]
            k -= 1
        dims[k] = d


cdef int _batch(int ndim, const bint* transformed, bint swapping, int* dims) noexcept:
    """Write the dimensions that are not transformed to `dims` and return their number. Their order is ascending or, if
    `swapping`, the one that an in-place partition by swaps produces."""
    cdef int i, m = 0, last = ndim
    if not swapping:
        for i in range(ndim):
            if not transformed[i]:
                dims[m] = i
                m += 1
        return m
    while m < last:
        dims[m] = m
        if transformed[m]:
            last -= 1
            while last > m and transformed[last]:
                last -= 1
            if last == m:
                break
            dims[m] = last
        m += 1
    return m


cdef int _step(bint cpu, int ndim, const dim_t* strides, const dim_t* sizes, int n, const int* dims,
               dim_t* out) except -1:
    """Write the strides of a transform's result to `out`. The transform is over `dims`, in this order. `strides` are
    those of its input, and `sizes` are those of its result."""
    cdef int batch[MAX_DIMS]
    cdef bint transformed[MAX_DIMS]
    cdef int i, m
    cdef dim_t step = 1, count = 1
    for i in range(ndim):
        transformed[i] = False
    for i in range(n):
        transformed[dims[i]] = True
    # The sort is stable, so dimensions of equal strides keep the initial order of the batch dimensions.
    m = _batch(ndim, transformed, cpu, batch)
    _by_stride(m, batch, strides)
    for i in range(n - 1, -1, -1):
        out[dims[i]] = step
        step = mul_dims(step, max(sizes[dims[i]], 1))
    for i in range(m - 1, -1, -1):
        out[batch[i]] = mul_dims(count, step)
        count = mul_dims(count, sizes[batch[i]])
    return 0


cdef int _steps(int ndim, dim_t* strides, const dim_t* sizes, int n, int* dims) except -1:
    """Update `strides` for a transform over `dims` in steps of up to STEP_DIMS dimensions. The first steps take the
    dimensions of small strides. This reorders `dims`."""
    cdef dim_t out[MAX_DIMS]
    cdef int m
    while n:
        _by_stride(n, dims, strides)
        m = min(n, STEP_DIMS)
        _step(False, ndim, strides, sizes, m, &dims[n - m], out)
        copy_dims(strides, out, ndim)
        n -= m
    return 0


cdef inline bint _at_once(int n, const int* dims) noexcept:
    """Return whether the CUDA library does a real transform in one step."""
    return n <= STEP_DIMS and not (n >= 2 and dims[0] == 0 and dims[1] == 1)


cdef int _read_strides(Tensor t, dim_t* strides) except -1:
    """Write the strides of the tensor that the library transforms: `t`, or a copy if `t` is a conjugate or negative
    view."""
    if t.flags & (T_CONJ | T_NEG):
        return preserve_strides(t.ndim, t.sizes, t.strides, strides)
    copy_dims(strides, t.strides, t.ndim)
    return 0


cdef int _c2c_strides(Call* c, Tensor t, int n, int* dims, dim_t* out) except -1:
    cdef dim_t strides[MAX_DIMS]
    _read_strides(t, strides)
    if on_cpu(c):
        _by_stride(n, dims, strides)
        return _step(True, t.ndim, strides, t.sizes, n, dims, out)
    copy_dims(out, strides, t.ndim)
    return _steps(t.ndim, out, t.sizes, n, dims)


# Primitives ---------------------------------------------------------------------------------

cdef int transform_dim(Call* c, dim_t d, int ndim) except -1:
    """Return a dimension wrapped to 0 <= d < ndim. Raise IndexError for a 0-d tensor."""
    if ndim == 0:
        raise IndexError(f"{op_name(c)}(): dimension {d} is out of range for a tensor without dimensions")
    return wrap(c, d, ndim)


cdef int need_precision(Call* c, DType real) except -1:
    """Raise RuntimeError unless `real` is float32 or float64, or float16 on a device other than the CPU."""
    if real.code != F32 and real.code != F64 and (real.code != F16 or on_cpu(c)):
        raise RuntimeError(f"{op_name(c)}(): {real.name} numbers are not supported on {result_device(c).type}")
    return 0


cdef int _read_dims(Call* c, Tensor t, int* dims) except -1:
    """Read the dimensions to transform and return their number. Raise if one repeats or has size 0."""
    cdef dim_t given[MAX_DIMS]
    cdef int i, k, n = dims_arg(c, 1, given)
    for i in range(n):
        dims[i] = transform_dim(c, given[i], t.ndim)
        for k in range(i):
            if dims[k] == dims[i]:
                raise RuntimeError(f"{op_name(c)}(): dimension {dims[i]} appears twice")
        if t.sizes[dims[i]] == 0:
            raise RuntimeError(f"{op_name(c)}(): dimension {dims[i]} of an input of shape {shape_str(t)} has size 0")
    if not 0 <= int_arg(c, 2) <= 2:
        raise RuntimeError(f"{op_name(c)}(): normalization must be 0, 1 or 2, got {arg(c, 2)}")
    return n


cdef int _need(Call* c, Tensor t, int kind) except -1:
    """Raise RuntimeError unless the dtype of `t` is of this kind and of a supported precision."""
    if t.dtype.kind != kind:
        raise RuntimeError(f"{op_name(c)}(): a {'floating-point' if kind == KIND_FLOAT else 'complex'} tensor is needed, "
                           f"got {t.dtype.name}")
    return need_precision(c, to_real(t.dtype))


cdef object c2c_meta(Call* c):
    """Arguments: input, dim, normalization, forward."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dims[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n
    if t.dtype.kind != KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): a complex tensor is needed, got {t.dtype.name}")
    n = _read_dims(c, t, dims)
    if n == 0:
        return make_like(c, t, t.dtype, result_device(c), FORMAT_PRESERVE)
    _need(c, t, KIND_COMPLEX)
    _c2c_strides(c, t, n, dims, strides)
    return new_strided(t.ndim, t.sizes, strides, t.dtype, result_device(c))


cdef object r2c_meta(Call* c):
    """Arguments: input, dim, normalization, onesided."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dims[MAX_DIMS]
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t half[MAX_DIMS]
    cdef dim_t before[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n, last
    _need(c, t, KIND_FLOAT)
    n = _read_dims(c, t, dims)
    if n == 0:
        raise RuntimeError(f"{op_name(c)}(): at least one dimension is needed")
    last = dims[n - 1]
    copy_dims(half, t.sizes, t.ndim)
    half[last] = t.sizes[last] // 2 + 1
    copy_dims(sizes, t.sizes, t.ndim)
    if bool_arg(c, 3):
        sizes[last] = half[last]
    _read_strides(t, before)
    if on_cpu(c):
        _by_stride(n - 1, dims, before)
        _step(True, t.ndim, before, sizes, n, dims, strides)
    elif _at_once(n, dims):
        _step(False, t.ndim, before, sizes, n, dims, strides)
    elif half[last] != sizes[last]:
        # The transform computes one half. The result is a new tensor to which both halves are written.
        return new_contiguous(t.ndim, sizes, to_complex(t.dtype), result_device(c))
    else:
        _step(False, t.ndim, before, half, 1, &last, strides)
        _steps(t.ndim, strides, half, n - 1, dims)
    return new_strided(t.ndim, sizes, strides, to_complex(t.dtype), result_device(c))


cdef object c2r_meta(Call* c):
    """Arguments: input, dim, normalization, last_dim_size."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dims[MAX_DIMS]
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t before[MAX_DIMS]
    cdef int n, last
    _need(c, t, KIND_COMPLEX)
    n = _read_dims(c, t, dims)
    if n == 0:
        raise RuntimeError(f"{op_name(c)}(): at least one dimension is needed")
    last = dims[n - 1]
    copy_dims(sizes, t.sizes, t.ndim)
    sizes[last] = int_arg(c, 3)
    if sizes[last] < 1:
        raise RuntimeError(f"{op_name(c)}(): last_dim_size must be positive, got {sizes[last]}")
    if not on_cpu(c) and _at_once(n, dims):
        # The library overwrites its input, so it gets a dense copy.
        row_major(t.ndim, t.sizes, before)
        _step(False, t.ndim, before, sizes, n, dims, strides)
    else:
        if n > 1:
            _c2c_strides(c, t, n - 1, dims, before)
        else:
            _read_strides(t, before)
        _step(on_cpu(c), t.ndim, before, sizes, 1, &last, strides)
    return new_strided(t.ndim, sizes, strides, to_real(t.dtype), result_device(c))


def _of_real(grad, shape, dim, normalization, onesided):
    """Gradient of a transform of real input: the inverse transform, with zeros for the points that were left out."""
    if onesided:
        last = dim[len(dim) - 1] % len(shape)
        missing = shape[last] - grad.shape[last]
        if missing:
            zeros = list(grad.shape)
            zeros[last] = missing
            grad = ops.cat((grad, grad.new_zeros(zeros)), last)
    return ops.real(ops._fft_c2c(grad, dim, normalization, False))


def _of_half(grad, dim, normalization, size):
    """Gradient of a transform to real numbers: every point that stood for two, itself and its conjugate, counts twice."""
    made = ops._fft_r2c(grad, dim, normalization, True)
    last = dim[len(dim) - 1] % grad.dim()
    twice = size - made.shape[last]
    if twice <= 0:
        return made
    made.narrow(last, 1, twice).mul_(2)
    return made


define("_fft_c2c(Tensor input, int[1] dim, int normalization, bool forward) -> Tensor", c2c_meta,
       OUT | SAFE_CAST | FUNCTION_ONLY,
       "Complex Fourier transform over `dim`. `normalization` is 0 for no scaling, 1 to divide by the square root of "
       "N or 2 to divide by N, the number of points.")
gradient("_fft_c2c", linear="input", node="FftC2CBackward0",
         input=lambda grad, dim, normalization, forward: ops._fft_c2c(grad, dim, normalization, not forward))
define("_fft_r2c(Tensor input, int[1] dim, int normalization, bool onesided) -> Tensor", r2c_meta,
       OUT | SAFE_CAST | FUNCTION_ONLY,
       "Fourier transform of real input over `dim`, with a complex result. If `onesided`, the last dimension in `dim` "
       "keeps only the first half of the points: n // 2 + 1 of n. The others follow by symmetry. `normalization` is as in "
       "`_fft_c2c`.")
gradient("_fft_r2c", linear="input", input=lambda grad, input, dim, normalization, onesided:
         _of_real(grad, input.shape, dim, normalization, onesided))
define("_fft_c2r(Tensor input, int[1] dim, int normalization, int last_dim_size) -> Tensor", c2r_meta,
       OUT | SAFE_CAST | FUNCTION_ONLY,
       "Inverse Fourier transform over `dim` with a real result. `input` is half of a Hermitian-symmetric spectrum, "
       "and the result has size `last_dim_size` in the last dimension of `dim`. `normalization` is as in `_fft_c2c`.")
gradient("_fft_c2r", linear="input", node="FftC2RBackward0",
         input=lambda grad, dim, normalization, last_dim_size: _of_half(grad, dim, normalization, last_dim_size))
