"""Discrete Fourier transforms over one, two or several dimensions (`fft.*`).

The input is truncated or zero-padded to the size `n`, or to the sizes `s` if there are several dimensions. `norm` is
'backward' (the default: inverse transforms divide by the number of points), 'forward' (forward transforms divide by
that number) or 'ortho' (both divide by its square root).
"""
from metatensor._core.dtype cimport DType, default_float, to_complex
from metatensor._core.layout cimport copy_dims, dims_equal, mul_dims, row_major
from metatensor._core.op cimport (
    COMPOSITE, OUT, SAFE_CAST, Call, MetaFn, arg, call, define, dims_arg, int_arg, is_none, op_name, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_view, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, T_CONTIGUOUS, dim_t
from metatensor.ops.fourier cimport need_precision, transform_dim
from metatensor.ops.spatial cimport on_cpu


# Shared by all transforms ------------------------------------------------------------------------

cdef struct Plan:
    int n
    int dims[MAX_DIMS]
    dim_t points[MAX_DIMS]      # size to which the input is truncated or padded, for each of dims
    dim_t last                  # size of a real result in the last dimension of dims


cdef int _check_points(Call* c, dim_t points) except -1:
    if points < 1:
        raise RuntimeError(f"{op_name(c)}(): the number of data points must be positive, got {points}")
    return 0


cdef int _plan_one(Call* c, Tensor t, bint real_result, Plan* p) except -1:
    """Fill in the plan from the arguments input, n and dim."""
    cdef dim_t d = int_arg(c, 2), given
    p.n = 1
    p.dims[0] = transform_dim(c, d, t.ndim)
    if not is_none(c, 1):
        given = int_arg(c, 1)
    elif real_result:
        given = mul_dims(2, t.sizes[p.dims[0]] - 1)
    else:
        given = t.sizes[p.dims[0]]
    _check_points(c, given)
    p.last = given
    if not real_result:
        p.points[0] = given
    else:
        p.points[0] = t.sizes[p.dims[0]] if is_none(c, 1) else given // 2 + 1
    return 0


cdef int _plan_many(Call* c, Tensor t, bint real_result, Plan* p) except -1:
    """Fill in the plan from the arguments input, s and dim."""
    cdef dim_t given[MAX_DIMS]
    cdef int i, k, n
    p.n = t.ndim
    for i in range(t.ndim):
        p.dims[i] = i
    if not is_none(c, 2):
        p.n = dims_arg(c, 2, given)
        for i in range(p.n):
            p.dims[i] = transform_dim(c, given[i], t.ndim)
        for i in range(p.n):
            for k in range(i):
                if p.dims[k] == p.dims[i]:
                    raise RuntimeError(f"{op_name(c)}(): dimension {p.dims[i]} appears twice")
    for i in range(p.n):
        p.points[i] = -1
    if not is_none(c, 1):
        n = dims_arg(c, 1, given)
        if not is_none(c, 2) and n != p.n:
            raise RuntimeError(f"{op_name(c)}(): s and dim must have the same length, got {n} and {p.n}")
        if n > t.ndim:
            raise RuntimeError(f"{op_name(c)}(): s has {n} sizes, but the input has shape {shape_str(t)}")
        if is_none(c, 2):
            p.n = n
            for i in range(n):
                p.dims[i] = t.ndim - n + i
        copy_dims(p.points, given, n)
    p.last = p.points[p.n - 1] if p.n else 0
    for i in range(p.n):
        if p.points[i] == -1:
            p.points[i] = t.sizes[p.dims[i]]
        _check_points(c, p.points[i])
    if real_result and p.n:
        if p.last == -1:
            p.last = mul_dims(2, t.sizes[p.dims[p.n - 1]] - 1)
        _check_points(c, p.last)
        p.points[p.n - 1] = p.last // 2 + 1
    return 0


cdef int _need_dims(Call* c, Plan* p) except -1:
    if p.n == 0:
        raise RuntimeError(f"{op_name(c)}(): at least one dimension must be transformed")
    return 0


cdef Tensor _promoted(Call* c, Tensor t, bint to_complex_too):
    """Convert integers to the default float dtype and, if `to_complex_too`, real numbers to complex ones."""
    cdef DType d = t.dtype
    if d.kind == KIND_COMPLEX:
        return t
    if d.kind <= KIND_INT:
        d = default_float()
    need_precision(c, d)
    if to_complex_too:
        d = to_complex(d)
    return t if d is t.dtype else <Tensor>call("to", (t, d))


cdef Tensor _fitted(Tensor t, Plan* p):
    """Truncate or zero-pad the transformed dimensions to the sizes in the plan."""
    cdef int i
    cdef bint short = False
    for i in range(p.n):
        if t.sizes[p.dims[i]] > p.points[i]:
            t = <Tensor>call("narrow", (t, p.dims[i], 0, p.points[i]))
        short = short or t.sizes[p.dims[i]] < p.points[i]
    if not short:
        return t
    pad = [0] * (2 * t.ndim)
    for i in range(p.n):
        pad[2 * (t.ndim - p.dims[i]) - 1] = p.points[i] - t.sizes[p.dims[i]]
    return <Tensor>call("constant_pad_nd", (t, pad))


cdef int _normalization(Call* c, bint forward) except -1:
    """Return the code of the divisor that argument `norm` (slot 3) implies: 0 for no division, 1 for the root of
    the number of points, 2 for that number."""
    cdef object norm = arg(c, 3)
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm == "forward":
        return 2 if forward else 0
    if norm == "ortho":
        return 1
    raise RuntimeError(f"{op_name(c)}(): norm must be 'backward', 'forward' or 'ortho', got {norm!r}")


cdef tuple _dims(Plan* p, int n):
    return tuple([p.dims[i] for i in range(n)])


cdef int _check_out(Call* c, int kind) except -1:
    """Check that out= has a dtype of the given kind. Its precision may differ."""
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype.kind != kind:
        raise RuntimeError(f"{op_name(c)}(): out= must be {'complex' if kind == KIND_COMPLEX else 'floating-point'}, got "
                           f"{(<Tensor>c.out).dtype.name}")
    return 0


cdef object _result(Call* c, object result):
    """Return the result for the dispatcher. If out= must be resized, make the result row-major, so that out= becomes
    row-major too."""
    cdef Tensor t = <Tensor>result, out
    cdef dim_t strides[MAX_DIMS]
    if c.out == NULL or not isinstance(<object>c.out, Tensor):
        return t
    out = <Tensor>c.out
    if out.ndim == t.ndim and dims_equal(out.sizes, t.sizes, t.ndim):
        return t
    t = <Tensor>call("contiguous", (t,))
    row_major(t.ndim, t.sizes, strides)
    return new_view(t, t.ndim, t.sizes, strides, t.offset)


cdef object _exact_result(Call* c, object result):
    """Do the same as `_result` for ops where PyTorch conjugates directly into out=. The dtype of out= must be that of
    the result."""
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype is not (<Tensor>result).dtype:
        raise RuntimeError(f"{op_name(c)}(): out= must be {(<Tensor>result).dtype.name}, got {(<Tensor>c.out).dtype.name}")
    # The CPU keeps the dimension order of a result that is not contiguous.
    return result if on_cpu(c) and not (<Tensor>result).flags & T_CONTIGUOUS else _result(c, result)


# One dimension -------------------------------------------------------------------------------

cdef object _from_complex(Call* c, bint forward):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef int norm
    _plan_one(c, t, False, &p)
    t = _fitted(t, &p)
    norm = _normalization(c, forward)
    _check_out(c, KIND_COMPLEX)
    return _result(c, call("_fft_c2c", (t, _dims(&p, 1), norm, forward)))


cdef object _from_real(Call* c, bint forward, bint onesided):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef object result
    cdef int norm
    if t.dtype.kind == KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): the input must be real, got {t.dtype.name}")
    _check_out(c, KIND_COMPLEX)
    t = _promoted(c, t, False)
    _plan_one(c, t, False, &p)
    t = _fitted(t, &p)
    norm = _normalization(c, forward)
    result = call("_fft_r2c", (t, _dims(&p, 1), norm, onesided))
    return _result(c, result) if forward else _exact_result(c, call("conj", (result,)))


cdef object _to_real_numbers(Call* c, bint forward):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef int norm
    _check_out(c, KIND_FLOAT)
    t = _promoted(c, t, True)
    _plan_one(c, t, True, &p)
    t = _fitted(t, &p)
    norm = _normalization(c, forward)
    if forward:
        t = <Tensor>call("conj", (t,))
    return _result(c, call("_fft_c2r", (t, _dims(&p, 1), norm, p.last)))


cdef object fft_body(Call* c):
    return _from_complex(c, True) if tensor_arg(c, 0).dtype.kind == KIND_COMPLEX else _from_real(c, True, False)


cdef object ifft_body(Call* c):
    return _from_complex(c, False) if tensor_arg(c, 0).dtype.kind == KIND_COMPLEX else _from_real(c, False, False)


cdef object rfft_body(Call* c):
    return _from_real(c, True, True)


cdef object irfft_body(Call* c):
    return _to_real_numbers(c, False)


cdef object hfft_body(Call* c):
    return _to_real_numbers(c, True)


cdef object ihfft_body(Call* c):
    return _from_real(c, False, True)


# Several dimensions ----------------------------------------------------------------------------

cdef object _many(Call* c, bint forward):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef int norm
    _plan_many(c, t, False, &p)
    t = _fitted(_promoted(c, t, True), &p)
    norm = _normalization(c, forward)
    _check_out(c, KIND_COMPLEX)
    return _result(c, call("_fft_c2c", (t, _dims(&p, p.n), norm, forward)))


cdef object fftn_body(Call* c):
    return _many(c, True)


cdef object ifftn_body(Call* c):
    return _many(c, False)


cdef Tensor _prepared(Call* c, Tensor t, bint halved, Plan* p):
    """Return the input, cropped or padded to the plan and promoted. Check that at least one dimension is transformed.

    `halved` means that the input is half of a Hermitian-symmetric spectrum and the result is real.
    """
    _plan_many(c, t, halved, p)
    _need_dims(c, p)
    return _fitted(_promoted(c, t, halved), p)


cdef object rfftn_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef int norm
    if t.dtype.kind == KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): the input must be real, got {t.dtype.name}")
    t = _prepared(c, t, False, &p)
    norm = _normalization(c, True)
    _check_out(c, KIND_COMPLEX)
    return _result(c, call("_fft_r2c", (t, _dims(&p, p.n), norm, True)))


cdef object irfftn_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef int norm
    t = _prepared(c, t, True, &p)
    norm = _normalization(c, False)
    _check_out(c, KIND_FLOAT)
    return _result(c, call("_fft_c2r", (t, _dims(&p, p.n), norm, p.last)))


cdef object hfftn_body(Call* c):
    """Transform all dimensions except the last. Then transform the conjugate along the last dimension to real
    numbers."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef int norm
    t = _prepared(c, t, True, &p)
    norm = _normalization(c, True)
    _check_out(c, KIND_FLOAT)
    if p.n > 1:
        t = <Tensor>call("_fft_c2c", (t, _dims(&p, p.n - 1), norm, True))
    t = <Tensor>call("conj", (t,))
    return _result(c, call("_fft_c2r", (t, (p.dims[p.n - 1],), norm, p.last)))


cdef object ihfftn_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Plan p
    cdef int norm
    t = _prepared(c, t, False, &p)
    norm = _normalization(c, False)
    t = <Tensor>call("_fft_r2c", (t, (p.dims[p.n - 1],), norm, True))
    _check_out(c, KIND_COMPLEX)
    if p.n == 1:
        return _result(c, call("conj", (t,)))
    # PyTorch materializes the conjugate. On the CPU that keeps the strides, as a conjugate view does here.
    t = <Tensor>call("conj" if on_cpu(c) else "conj_physical", (t,))
    return _result(c, call("_fft_c2c", (t, _dims(&p, p.n - 1), norm, False)))


cdef long FLAGS = COMPOSITE | OUT | SAFE_CAST


cdef int _declare(str name, MetaFn one, MetaFn many, str doc) except -1:
    """Define a transform over one, two and several dimensions. A % in `doc` stands for the suffix of the name."""
    define(f"fft.{name}(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor", one, FLAGS,
           f"One-dimensional {doc.replace('%', '')}")
    define(f"fft.{name}2(Tensor input, int[1]? s=None, int[1] dim=(-2, -1), str? norm=None) -> Tensor", many, FLAGS,
           f"Two-dimensional {doc.replace('%', '2')}")
    define(f"fft.{name}n(Tensor input, int[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", many, FLAGS,
           f"Multi-dimensional {doc.replace('%', 'n')} `dim` defaults to the last `len(s)` dimensions, or to all if `s` is None.")
    return 0


_declare("fft", fft_body, fftn_body, "discrete Fourier transform over `dim`.")
_declare("ifft", ifft_body, ifftn_body, "inverse discrete Fourier transform over `dim`.")
_declare("rfft", rfft_body, rfftn_body,
         "Fourier transform of real input over `dim`. In the last transformed dimension, the result has only the first half "
         "of the points: n // 2 + 1 of n. The others follow by Hermitian symmetry.")
_declare("irfft", irfft_body, irfftn_body,
         "inverse Fourier transform over `dim` with a real result: the inverse of `rfft%`. By default, the last "
         "transformed dimension grows from size m to `2 * (m - 1)`.")
_declare("hfft", hfft_body, hfftn_body,
         "Fourier transform over `dim` of a Hermitian-symmetric signal, with a real result. `input` holds the first "
         "half of the signal. By default, the last transformed dimension grows from size m to `2 * (m - 1)`.")
_declare("ihfft", ihfft_body, ihfftn_body,
         "inverse Fourier transform of real input over `dim`: the inverse of `hfft%`. In the last transformed "
         "dimension, the result has only the first half of the points: n // 2 + 1 of n.")
