"""Factories of regular values: arange, range, linspace, logspace, eye, tril_indices, triu_indices, scalar_tensor."""
from libc.math cimport ceil, floor, isfinite
from metatensor._core.dtype cimport BOOL, I32, I64, DType, by_code, default_complex, default_float, number_kind
from metatensor._core.layout cimport add_dims, mul_dims
from metatensor._core.op cimport (
    KEEPS_SHAPE, MIXED, NO_GRAD, OUT, QUIET_OUT, Call, arg, define, int_arg, is_none, op_name, result_device,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, KIND_INT, dim_t
from metatensor.ops.factory cimport option_dtype, with_options

cdef str OPTIONS = ("dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None, "
                    "bool requires_grad=False")


cdef object _bounds(Call* c, object start, object end, object step):
    return RuntimeError(f"{op_name(c)}(): from {start} to {end} in steps of {step}: the sign of the step does not "
                        "match the bounds")


cdef dim_t _int_length(Call* c, object start, object end, object step) except -1:
    """Return the number of values start, start + step, ... before `end`, for integers of any size."""
    cdef object n
    if step == 0:
        raise RuntimeError(f"{op_name(c)}(): the step must not be 0")
    if (end - start > 0 and step < 0) or (end - start < 0 and step > 0):
        raise _bounds(c, start, end, step)
    n = -((start - end) // step)
    if n >= 1 << 62:
        raise RuntimeError(f"{op_name(c)}(): {n} elements are too many")
    return n


cdef int _check_floats(Call* c, double start, double end, double step) except -1:
    if step == 0:
        raise RuntimeError(f"{op_name(c)}(): the step must not be 0")
    if not isfinite(start) or not isfinite(end):
        raise RuntimeError(f"{op_name(c)}(): unsupported range from {start} to {end}")
    if (end > start and step < 0) or (end < start and step > 0):
        raise _bounds(c, start, end, step)
    return 0


cdef dim_t _float_length(Call* c, double start, double end, double step) except -1:
    cdef double n = ceil((end - start) / step)
    if not n < 4e18:
        raise RuntimeError(f"{op_name(c)}(): {n} elements are too many")
    return <dim_t>n


cdef object _arange(Call* c, object start, object end, object step, int first):
    cdef DType dtype
    cdef dim_t n
    cdef bint floats = isinstance(start, float) or isinstance(end, float) or isinstance(step, float)
    if isinstance(start, complex) or isinstance(end, complex) or isinstance(step, complex):
        raise RuntimeError(f"{op_name(c)}(): complex bounds have no order")
    dtype = option_dtype(c, first, default_float() if floats else by_code(I64))
    if dtype.kind != KIND_FLOAT and dtype.kind != KIND_INT:
        raise NotImplementedError(f"{op_name(c)}(): dtype {dtype.name} is not supported")
    if floats:
        _check_floats(c, start, end, step)
    if floats and dtype.code == I64:
        # Like PyTorch, truncate the bounds for int64. For other dtypes, the length is computed in floats.
        start, end, step = int(start), int(end), int(step) if isfinite(step) else 1
        if step == 0:
            raise ValueError(f"{op_name(c)}(): the step is 0 as an int64")
        floats = False
    n = _float_length(c, start, end, step) if floats else _int_length(c, start, end, step)
    return with_options(c, first, new_contiguous(1, &n, dtype, result_device(c)))


cdef object arange_end(Call* c):
    return _arange(c, 0, arg(c, 0), 1, 1)


cdef object arange_start(Call* c):
    return _arange(c, arg(c, 0), arg(c, 1), arg(c, 2), 3)


cdef object range_meta(Call* c):
    """Arguments: start, end, step, options. For int64 the bounds are truncated to integers first."""
    cdef object start = arg(c, 0), end = arg(c, 1), step = arg(c, 2)
    cdef DType dtype = option_dtype(c, 3, default_float())
    cdef double length
    cdef dim_t n
    if isinstance(start, complex) or isinstance(end, complex) or isinstance(step, complex):
        raise RuntimeError(f"{op_name(c)}(): complex bounds have no order")
    if dtype.kind != KIND_FLOAT and dtype.kind != KIND_INT:
        raise NotImplementedError(f"{op_name(c)}(): dtype {dtype.name} is not supported")
    _check_floats(c, start, end, step)
    if dtype.code == I64:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError(f"{op_name(c)}(): the step is 0 as an int64")
        n = (end - start) // step + 1
    else:
        length = floor((<double>end - <double>start) / <double>step)
        if not length < 4e18:
            raise RuntimeError(f"{op_name(c)}(): {length} elements are too many")
        n = <dim_t>length + 1
    return with_options(c, 3, new_contiguous(1, &n, dtype, result_device(c)))


define(f"range(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor", range_meta, OUT | KEEPS_SHAPE | QUIET_OUT,
       "Return a vector of start, start + step, ... up to and including `end`, in the default floating-point dtype "
       "unless `dtype` is given. In contrast, `arange` excludes its end, like Python's `range`.")
define(f"arange(Scalar end, *, {OPTIONS}) -> Tensor", arange_end, OUT | KEEPS_SHAPE,
       "Return a vector of start, start + step, ... up to but excluding `end`. `start` defaults to 0. The dtype "
       "defaults to int64, or to the default floating-point dtype if an argument is a float.")
define(f"arange.start(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor", arange_start, OUT | KEEPS_SHAPE)


cdef DType _spaced_dtype(Call* c, int first):
    """Return the requested dtype. Without one, return the default complex dtype if a bound is complex, else the default
    floating-point dtype."""
    cdef bint complex_bound = False
    cdef DType dtype
    cdef int i
    for i in range(2):
        if isinstance(arg(c, i), Tensor):
            if (<Tensor>arg(c, i)).ndim:
                raise RuntimeError(f"{op_name(c)}(): start and end must be numbers or 0-d tensors, got shape "
                                   f"{shape_str(<Tensor>arg(c, i))}")
            complex_bound = complex_bound or (<Tensor>arg(c, i)).dtype.kind == KIND_COMPLEX
        else:
            complex_bound = complex_bound or number_kind(arg(c, i)) == KIND_COMPLEX
    if not complex_bound:
        dtype = option_dtype(c, first, default_float())
    else:
        dtype = option_dtype(c, first, default_complex())
        if dtype.kind != KIND_COMPLEX:
            raise RuntimeError(f"{op_name(c)}(): with a complex bound the dtype must be complex, not {dtype.name}")
    if dtype.code == BOOL:
        raise NotImplementedError(f"{op_name(c)}(): dtype bool is not supported")
    return dtype


cdef object _spaced(Call* c, int first):
    cdef dim_t steps = int_arg(c, 2)
    if steps < 0:
        raise RuntimeError(f"{op_name(c)}(): the number of steps must not be negative, got {steps}")
    return with_options(c, first, new_contiguous(1, &steps, _spaced_dtype(c, first), result_device(c)))


cdef object linspace_meta(Call* c):
    return _spaced(c, 3)


cdef object logspace_meta(Call* c):
    return _spaced(c, 4)


cdef long SPACED = OUT | MIXED | NO_GRAD | KEEPS_SHAPE | QUIET_OUT

define(f"linspace(Tensor|Scalar start, Tensor|Scalar end, int steps, *, {OPTIONS}) -> Tensor", linspace_meta, SPACED,
       "Return a vector of `steps` evenly spaced numbers from `start` to `end`, both included. The bounds are numbers "
       "or 0-d tensors.")
define(f"logspace(Tensor|Scalar start, Tensor|Scalar end, int steps, float base=10.0, *, {OPTIONS}) -> Tensor",
       logspace_meta, SPACED, "Return `base` to the power of each element of `linspace(start, end, steps)`.")


# Matrices ---------------------------------------------------------------------------------------

cdef object _eye(Call* c, dim_t n, dim_t m, int first):
    cdef dim_t sizes[2]
    sizes[0], sizes[1] = n, m
    if n < 0 or m < 0:
        raise RuntimeError(f"{op_name(c)}(): the sizes must not be negative, got {n} and {m}")
    return with_options(c, first, new_contiguous(2, sizes, option_dtype(c, first, default_float()),
                                                 result_device(c)))


cdef object eye_meta(Call* c):
    return _eye(c, int_arg(c, 0), int_arg(c, 0), 1)


cdef object eye_m_meta(Call* c):
    return _eye(c, int_arg(c, 0), int_arg(c, 0) if is_none(c, 1) else int_arg(c, 1), 2)


define(f"eye(int n, *, {OPTIONS}) -> Tensor", eye_meta, OUT | QUIET_OUT,
       "Return the (n, m) matrix whose element (i, j) is 1 if i = j and 0 otherwise. `m` defaults to `n`.")
define(f"eye.m(int n, int? m, *, {OPTIONS}) -> Tensor", eye_m_meta, OUT | QUIET_OUT)


cdef dim_t _below(dim_t rows, dim_t columns, dim_t offset) except -1:
    """Return the number of elements on and below a diagonal.

    Row i has i + 1 + offset such elements, limited to the range from 0 to `columns`.
    """
    cdef dim_t first, last, ramp, full
    if rows == 0 or columns == 0 or offset <= -rows:
        return 0
    if offset >= columns - 1:
        return mul_dims(rows, columns)
    first = min(columns, 1 + offset) if offset > 0 else (1 if rows + offset > 0 else 0)
    last = max(min(columns, rows + offset), 0)
    ramp = last - first + 1
    full = max(min(rows, rows + offset), 0) - ramp
    return add_dims(mul_dims(first + last, ramp) >> 1, mul_dims(full, columns) if full > 0 else 0)


cdef object indices_meta(Call* c):
    cdef dim_t rows = int_arg(c, 0), columns = int_arg(c, 1), offset = int_arg(c, 2)
    cdef DType dtype = option_dtype(c, 3, by_code(I64))
    cdef dim_t sizes[2]
    if rows < 0 or columns < 0:
        raise RuntimeError(f"{op_name(c)}(): the sizes must not be negative, got {rows} and {columns}")
    if dtype.code != I64 and dtype.code != I32:
        raise NotImplementedError(f"{op_name(c)}(): indices are int32 or int64, not {dtype.name}")
    sizes[0] = 2
    if op_name(c) == "tril_indices":
        sizes[1] = _below(rows, columns, offset)
    else:
        sizes[1] = mul_dims(rows, columns) - _below(rows, columns, max(offset, -rows) - 1)
    return with_options(c, 3, new_contiguous(2, sizes, dtype, result_device(c)))


define(f"tril_indices(int row, int col, int offset=0, *, {OPTIONS}) -> Tensor", indices_meta, 0,
       "Return the indices of the elements on and below diagonal `offset` of a (row, col) matrix. The result has shape "
       "(2, n) and holds the row indices, then the column indices.")
define(f"triu_indices(int row, int col, int offset=0, *, {OPTIONS}) -> Tensor", indices_meta, 0,
       "Return the indices of the elements on and above diagonal `offset` of a (row, col) matrix. The result has shape "
       "(2, n) and holds the row indices, then the column indices.")


cdef object scalar_tensor_meta(Call* c):
    return with_options(c, 1, new_contiguous(0, NULL, option_dtype(c, 1, default_float()), result_device(c)))


define(f"scalar_tensor(Scalar s, *, {OPTIONS}) -> Tensor", scalar_tensor_meta, 0,
       "Return a 0-d tensor that holds `s`, in the default floating-point dtype unless `dtype` is given.")
