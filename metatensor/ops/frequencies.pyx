"""Sample frequencies of Fourier transforms, and shifts that move the zero frequency to the center."""
from metatensor._core.dtype cimport DType, default_float
from metatensor._core.op cimport (
    COMPOSITE, KEEPS_SHAPE, OUT, Call, arg, call, define, dims_arg, int_arg, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, MAX_DIMS, dim_t
from metatensor.ops.factory cimport option_dtype, with_options
from metatensor.ops.fourier cimport transform_dim

cdef str OPTIONS = ("dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None, "
                    "bool requires_grad=False")


cdef object _shifted(Call* c, bint back):
    """Roll each dimension by half of its size, rounded down. If `back` is true, round up, which undoes the shift."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t given[MAX_DIMS]
    cdef int i, d, n = t.ndim
    cdef list dims = [], shifts = []
    if not is_none(c, 1):
        n = dims_arg(c, 1, given)
    for i in range(n):
        d = i
        if not is_none(c, 1):
            d = transform_dim(c, given[i], t.ndim)
        dims.append(d)
        shifts.append((t.sizes[d] + back) // 2)
    return call("roll", (t, shifts, dims))


cdef object fftshift_body(Call* c):
    return _shifted(c, False)


cdef object ifftshift_body(Call* c):
    return _shifted(c, True)


cdef object _frequencies(Call* c, dim_t n):
    """Arguments: n, d, options."""
    cdef DType dtype = option_dtype(c, 2, default_float())
    if dtype.kind != KIND_FLOAT and dtype.kind != KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): a floating-point dtype is needed, got {dtype.name}")
    if dtype.kind == KIND_COMPLEX or dtype.itemsize == 1:
        raise NotImplementedError(f"{op_name(c)}(): dtype {dtype.name} is not supported")
    if n < 0:
        raise RuntimeError(f"{op_name(c)}(): n must not be negative, got {arg(c, 0)}")
    return with_options(c, 2, new_contiguous(1, &n, dtype, result_device(c)))


cdef object fftfreq_meta(Call* c):
    return _frequencies(c, int_arg(c, 0))


cdef object rfftfreq_meta(Call* c):
    return _frequencies(c, int_arg(c, 0) // 2 + 1)


define("fft.fftshift(Tensor input, int[1]? dim=None) -> Tensor", fftshift_body, COMPOSITE,
       "Move the zero frequency to the center by rolling each of the dimensions `dim` (default: all) by half of its "
       "size.")
define("fft.ifftshift(Tensor input, int[1]? dim=None) -> Tensor", ifftshift_body, COMPOSITE,
       "Inverse of `fft.fftshift`.")
define(f"fft.fftfreq(int n, float d=1.0, *, {OPTIONS}) -> Tensor", fftfreq_meta, OUT | KEEPS_SHAPE,
       "Sample frequencies of `fft.fft` for `n` points that are `d` apart, as a vector of `n` elements. The negative "
       "frequencies come last.")
define(f"fft.rfftfreq(int n, float d=1.0, *, {OPTIONS}) -> Tensor", rfftfreq_meta, OUT | KEEPS_SHAPE,
       "Sample frequencies of `fft.rfft` for `n` points that are `d` apart, as a vector of `n // 2 + 1` elements.")
