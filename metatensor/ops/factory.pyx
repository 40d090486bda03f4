"""Creation of tensors: empty, zeros, ones, full, their `_like` and `new_` versions, and tensors with given strides."""
from cpython.object cimport PyObject
from libc.float cimport DBL_MAX, FLT_MAX
from libc.math cimport isinf, isnan
from libc.string cimport memset
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport (
    BF16, C128, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F16, F64, DType, default_float, number_kind, of_number,
)
from metatensor._core.formats cimport STRIDED, MemoryFormatTag
from metatensor._core.layout cimport count, mul_dims, preserve_strides, set_format
from metatensor._core.op cimport (
    FUNCTION_ONLY, METHOD_ONLY, NO_GRAD, OUT, QUIET_OUT, Call, arg, bool_arg, define, dims_arg, is_none, op_name,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided
from metatensor._core.types cimport (
    FORMAT_CONTIGUOUS, FORMAT_PRESERVE, KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, KIND_OTHER, MAX_DIMS,
    T_REQUIRES_GRAD, dim_t,
)
from metatensor.ops.pointwise cimport elementwise_like
from metatensor.ops.view cimport dims_tuple
from metatensor._core.sharding import sharding

cdef str OPTIONS = ("dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None, "
                    "bool requires_grad=False")
cdef str FORMAT = ", memory_format? memory_format=None"


# Options --------------------------------------------------------------------------------

cdef DType option_dtype(Call* c, int first, DType default):
    """Return the requested dtype, else that of out=, else `default`."""
    cdef DType given
    if is_none(c, first + O_DTYPE):
        if c.out != NULL and isinstance(<object>c.out, Tensor):
            return (<Tensor>c.out).dtype
        return default
    given = <DType>arg(c, first + O_DTYPE)
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype is not given:
        raise RuntimeError(f"{op_name(c)}(): dtype {given.name} does not match the {(<Tensor>c.out).dtype.name} tensor "
                           "given as out=")
    return given


cdef int read_sizes(Call* c, int slot, dim_t* sizes) except -1:
    """Read a list of sizes into `sizes` and return its length. Raise for a negative size."""
    cdef int i, n = dims_arg(c, slot, sizes)
    for i in range(n):
        if sizes[i] < 0:
            raise RuntimeError(f"{op_name(c)}(): a size must not be negative, got {list(dims_tuple(n, sizes))}")
    return n


cdef Tensor with_options(Call* c, int first, Tensor t):
    """Apply the options layout and requires_grad to a new tensor."""
    if not is_none(c, first + O_LAYOUT) and arg(c, first + O_LAYOUT) is not STRIDED:
        raise NotImplementedError(f"{op_name(c)}(): layout {arg(c, first + O_LAYOUT)} is not supported, only strided")
    if bool_arg(c, first + O_GRAD):
        if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX:
            raise RuntimeError(f"{op_name(c)}(): only floating-point and complex tensors can require gradients, not "
                               f"{t.dtype.name}")
        t.flags |= T_REQUIRES_GRAD
    return t


cdef int format_arg(Call* c, int slot, int default) except -1:
    return default if is_none(c, slot) else (<MemoryFormatTag>arg(c, slot)).code


cdef Tensor make_like(Call* c, Tensor like, DType dtype, Device device, int memory_format):
    """Return a new tensor with the sizes of `like` in a memory format. FORMAT_PRESERVE keeps its dimension order."""
    cdef dim_t strides[MAX_DIMS]
    if memory_format == FORMAT_PRESERVE:
        preserve_strides(like.ndim, like.sizes, like.strides, strides)
    else:
        set_format(like.ndim, like.sizes, strides, memory_format)
    return new_strided(like.ndim, like.sizes, strides, dtype, device)


cdef Tensor fresh_like(Tensor like, DType dtype, Device device):
    """Return a new tensor with the sizes and dimension order of `like`. On meta its strides are those of an
    element-wise result, as in PyTorch."""
    cdef dim_t strides[MAX_DIMS]
    if device is META:
        return elementwise_like(like, dtype, device)
    preserve_strides(like.ndim, like.sizes, like.strides, strides)
    return new_strided(like.ndim, like.sizes, strides, dtype, device)


cdef int _forget_input(Call* c, Tensor like) except -1:
    """Replace a meta input by None if the result is on another device, whose kernel must not read the input's data."""
    if like.storage.device is META and result_device(c) is not META:
        c.args[0] = <PyObject*>None
    return 0


# Constant fills -----------------------------------------------------------------------------

cdef object sized_meta(Call* c):
    """Meta kernel of zeros and ones. Arguments: size, options."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = read_sizes(c, 0, sizes)
    cdef DType dtype = option_dtype(c, 1, default_float())
    return with_options(c, 1, new_contiguous(n, sizes, dtype, result_device(c)))


cdef object empty_meta(Call* c):
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n = read_sizes(c, 0, sizes), fmt
    cdef DType dtype
    if c.out == NULL and is_none(c, 1 + O_LAYOUT) and arg(c, 1 + O_GRAD) is False and is_none(c, 1 + O_FORMAT):
        return new_contiguous(n, sizes, default_float() if is_none(c, 1 + O_DTYPE) else <DType>arg(c, 1 + O_DTYPE),
                              result_device(c))
    fmt = format_arg(c, 1 + O_FORMAT, FORMAT_CONTIGUOUS)
    dtype = option_dtype(c, 1, default_float())
    if fmt == FORMAT_CONTIGUOUS:
        return with_options(c, 1, new_contiguous(n, sizes, dtype, result_device(c)))
    if fmt == FORMAT_PRESERVE:
        raise RuntimeError(f"{op_name(c)}(): preserve_format cannot be used here, because there is no input whose "
                           "format could be preserved")
    set_format(n, sizes, strides, fmt)
    return with_options(c, 1, new_strided(n, sizes, strides, dtype, result_device(c)))


cdef object new_sized_meta(Call* c):
    """Meta kernel of new_empty, new_zeros and new_ones. Arguments: input, size, options."""
    cdef Tensor like = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = read_sizes(c, 1, sizes)
    _forget_input(c, like)
    return with_options(c, 2, new_contiguous(n, sizes, option_dtype(c, 2, like.dtype), result_device(c)))


cdef double largest(DType d) noexcept:
    """Return the largest finite number that PyTorch accepts for a floating-point or complex dtype. complex32 has the
    limit of float32."""
    if d.code == F64 or d.code == C128 or d.code == F8E8M0:
        return DBL_MAX
    if d.code == F16:
        return 65504
    if d.code == BF16:
        return 3.3895313892515355e38
    if d.code == F8E5M2 or d.code == F8E5M2FNUZ:
        return 57344
    if d.code == F8E4M3FN:
        return 448
    return 240 if d.code == F8E4M3FNUZ else FLT_MAX


cdef bint has_infinity(DType d) noexcept:
    return d.itemsize > 1 or d.code == F8E5M2


cdef bint holds_float(DType d, double value) noexcept:
    """Return whether a floating-point dtype, or a part of a complex one, accepts `value`."""
    if isnan(value):
        return True
    if isinf(value):
        return has_infinity(d) and (value > 0 or d.is_signed)
    return -largest(d) <= value <= largest(d) and (value >= 0 or d.is_signed)


cdef bint holds(DType d, object value) except -1:
    """Return whether PyTorch accepts a number for a dtype. Integer dtypes truncate fractions. Unsigned dtypes accept
    negative integers, which wrap around."""
    cdef object reach           # a Python int, as 2**64 overflows C integers
    cdef int kind = number_kind(value)
    if d.kind == KIND_BOOL or d.kind == KIND_OTHER or kind == KIND_BOOL:
        return True
    if d.kind == KIND_COMPLEX:
        return holds_float(d, value.real) and holds_float(d, value.imag)
    if kind == KIND_COMPLEX:
        if value.imag != 0:
            return False
        value = value.real
    if d.kind == KIND_FLOAT:
        return holds_float(d, value) or (d.code == F8E8M0 and kind == KIND_INT)
    reach = 2 ** <object>(8 * d.itemsize - d.is_signed)
    if isinstance(value, float):
        return (-<double>reach if d.is_signed else 0) <= <double>value <= <double>(reach - 1)
    return -reach <= value < reach if d.is_signed else -reach < value < reach


cdef object LEAST = -(2 ** <object>63), MOST = 2 ** <object>64 - 1


cdef int check_fill(Call* c, DType dtype, object value) except -1:
    """Raise RuntimeError if a number cannot be stored in `dtype`, and OverflowError for integers beyond 64 bits."""
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise OverflowError(f"{op_name(c)}(): {value} does not fit in 64 bits")
    if not holds(dtype, value):
        raise RuntimeError(f"{op_name(c)}(): the value {value} cannot be converted to {dtype.name} without overflow")
    return 0


cdef object full_meta(Call* c):
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = read_sizes(c, 0, sizes)
    cdef DType dtype = option_dtype(c, 2, of_number(arg(c, 1)))
    check_fill(c, dtype, arg(c, 1))
    return with_options(c, 2, new_contiguous(n, sizes, dtype, result_device(c)))


cdef object new_full_meta(Call* c):
    cdef Tensor like = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = read_sizes(c, 1, sizes)
    cdef DType dtype = option_dtype(c, 3, like.dtype)
    check_fill(c, dtype, arg(c, 2))
    _forget_input(c, like)
    return with_options(c, 3, new_contiguous(n, sizes, dtype, result_device(c)))


cdef Tensor _like(Call* c, int first):
    cdef Tensor like = tensor_arg(c, 0)
    cdef int fmt = format_arg(c, first + O_FORMAT, FORMAT_PRESERVE)
    cdef DType dtype = option_dtype(c, first, like.dtype)
    cdef Tensor t = fresh_like(like, dtype, result_device(c)) if fmt == FORMAT_PRESERVE \
        else make_like(c, like, dtype, result_device(c), fmt)
    _forget_input(c, like)
    return with_options(c, first, t)


cdef object like_meta(Call* c):
    return _like(c, 1)


cdef object full_like_meta(Call* c):
    cdef Tensor t = _like(c, 2)
    check_fill(c, t.dtype, arg(c, 1))
    return t


define(f"empty(int[] size, *, {OPTIONS}{FORMAT}) -> Tensor", empty_meta, OUT | QUIET_OUT,
       "Tensor of shape `size` with uninitialized elements. `dtype` defaults to the default floating-point dtype.")
define(f"zeros(int[] size, *, {OPTIONS}) -> Tensor", sized_meta, OUT | QUIET_OUT,
       "Tensor of shape `size` filled with 0. `dtype` defaults to the default floating-point dtype.")
define(f"ones(int[] size, *, {OPTIONS}) -> Tensor", sized_meta, OUT | QUIET_OUT,
       "Tensor of shape `size` filled with 1. `dtype` defaults to the default floating-point dtype.")
define(f"full(int[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor", full_meta, OUT | QUIET_OUT,
       "Tensor of shape `size` filled with `fill_value`. Without `dtype`, the value determines the dtype: bool for a "
       "bool, int64 for an int, the default floating-point dtype for a float, and the default complex dtype for a "
       "complex number.")
for name, what in (("empty", "with uninitialized elements"), ("zeros", "filled with 0"), ("ones", "filled with 1")):
    define(f"{name}_like(Tensor input, *, {OPTIONS}{FORMAT}) -> Tensor", like_meta, FUNCTION_ONLY | NO_GRAD,
           f"Tensor with the shape, dtype, device and dimension order of `input`, {what}.")
    define(f"new_{name}(Tensor input, int[] size, *, {OPTIONS}) -> Tensor", new_sized_meta, METHOD_ONLY | NO_GRAD,
           f"Tensor of shape `size` with the dtype and device of `input`, {what}.")
define(f"full_like(Tensor input, Scalar fill_value, *, {OPTIONS}{FORMAT}) -> Tensor", full_like_meta,
       FUNCTION_ONLY | NO_GRAD,
       "Tensor with the shape, dtype, device and dimension order of `input`, filled with `fill_value`.")
define(f"new_full(Tensor input, int[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor", new_full_meta,
       METHOD_ONLY | NO_GRAD, "Tensor of shape `size` with the dtype and device of `input`, filled with `fill_value`.")


# Strides ----------------------------------------------------------------------------------------

cdef Tensor _strided(Call* c, int slot, DType dtype):
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n = read_sizes(c, slot, sizes), m = dims_arg(c, slot + 1, strides), i
    if n != m:
        raise RuntimeError(f"{op_name(c)}(): {n} sizes and {m} strides do not match")
    for i in range(n):
        if strides[i] < 0:
            raise RuntimeError(f"{op_name(c)}(): negative strides are not supported, got {dims_tuple(n, strides)}")
    return new_strided(n, sizes, strides, dtype, result_device(c))


cdef object empty_strided_meta(Call* c):
    return with_options(c, 2, _strided(c, 0, option_dtype(c, 2, default_float())))


cdef object new_empty_strided_meta(Call* c):
    cdef Tensor like = tensor_arg(c, 0), t = _strided(c, 1, option_dtype(c, 3, like.dtype))
    _forget_input(c, like)
    return with_options(c, 3, t)


cdef object empty_permuted_meta(Call* c):
    """Return a dense tensor whose dimensions lie in memory in the order `physical_layout`, outermost first."""
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t order[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n = read_sizes(c, 0, sizes), m = dims_arg(c, 1, order), i
    cdef dim_t step = 1
    cdef bint seen[MAX_DIMS]
    memset(seen, 0, sizeof(seen))
    if n != m:
        raise RuntimeError(f"{op_name(c)}(): {n} sizes and {m} dimensions in physical_layout do not match")
    count(n, sizes)
    for i in range(n - 1, -1, -1):
        if order[i] < 0 or order[i] >= n or seen[order[i]]:
            raise RuntimeError(f"{op_name(c)}(): physical_layout must be a permutation of 0 to {n - 1}, got "
                               f"{dims_tuple(n, order)}")
        seen[order[i]] = True
        strides[order[i]] = step
        step = mul_dims(step, max(sizes[order[i]], 1))
    return with_options(c, 2, new_strided(n, sizes, strides, option_dtype(c, 2, default_float()), result_device(c)))


define(f"empty_strided(int[] size, int[] stride, *, {OPTIONS}) -> Tensor", empty_strided_meta, 0,
       "Tensor of shape `size` with uninitialized elements and the strides `stride`, in elements.")
define(f"new_empty_strided(Tensor input, int[] size, int[] stride, *, {OPTIONS}) -> Tensor", new_empty_strided_meta,
       METHOD_ONLY | NO_GRAD,
       "Tensor of shape `size` with uninitialized elements, the dtype and device of `input`, and the strides `stride`, "
       "in elements.")
define(f"empty_permuted(int[] size, int[] physical_layout, *, {OPTIONS}) -> Tensor", empty_permuted_meta, 0,
       "Dense tensor of shape `size` with uninitialized elements. `physical_layout` is the order of the dimensions in "
       "memory, outermost first.")

sharding("empty_like", "cut input -> cat")
for _uninitialized in ("new_empty", "new_empty_strided"):
    sharding(_uninitialized, "cut input -> same", "pass avg, max, min, product, sum of input -> same")
