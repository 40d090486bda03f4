"""Window functions: `signal.windows.*`, and the older `hann_window`, `hamming_window` and so on.

The formulas use x = 2 pi k / P, where k is the index of the element. The period P of a window of n elements is n - 1 if
the window is symmetric, and n if it is periodic. The older functions return periodic windows unless `periodic=False`.
Those of `signal.windows` return symmetric ones unless `sym=False`.
"""
cimport cython
from libc.math cimport M_PI, sqrt
from metatensor._core.dtype cimport BF16, F16, F32, F64, DType, default_float
from metatensor._core.formats cimport STRIDED
from metatensor._core.op cimport COMPOSITE, Call, arg, bool_arg, call, define, float_arg, int_arg, is_none, op_name, result_device
from metatensor._core.tensor cimport new_contiguous
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, dim_t
from metatensor.ops.factory cimport O_LAYOUT, option_dtype, with_options

cdef str OLD_OPTIONS = ("dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None, "
                        "bool requires_grad=False")
cdef str OPTIONS = "dtype? dtype=None, layout? layout=None, device? device=None, bool requires_grad=False"


# The older functions, which have kernels -------------------------------------------------

cdef object _old_window(Call* c, int first):
    cdef dim_t n = int_arg(c, 0)
    cdef DType d = option_dtype(c, first, default_float())
    if not is_none(c, first + O_LAYOUT) and arg(c, first + O_LAYOUT) is not STRIDED:
        raise RuntimeError(f"{op_name(c)}(): layout {arg(c, first + O_LAYOUT)} is not supported, only strided")
    if d.kind != KIND_FLOAT and d.kind != KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): a floating-point dtype is needed, got {d.name}")
    if n < 0:
        raise RuntimeError(f"{op_name(c)}(): window_length must not be negative, got {n}")
    if n > 1 and d.code != F32 and d.code != F64 and d.code != F16 and d.code != BF16:
        raise NotImplementedError(f"{op_name(c)}(): dtype {d.name} is not supported")
    return with_options(c, first, new_contiguous(1, &n, d, result_device(c)))


cdef object length_meta(Call* c):
    return _old_window(c, 1)


cdef object periodic_meta(Call* c):
    return _old_window(c, 2)


cdef object one_parameter_meta(Call* c):
    return _old_window(c, 3)


cdef object two_parameters_meta(Call* c):
    return _old_window(c, 4)


for _name, _doc in (("bartlett", "Bartlett window: a triangle from 0 to 1 to 0."),
                    ("blackman", "Blackman window: 0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x)."),
                    ("hamming", "Hamming window: alpha - beta * cos(x). The defaults are alpha=0.54 and beta=0.46."),
                    ("hann", "Hann window: 0.5 - 0.5 * cos(x)."),
                    ("kaiser",
                     "Kaiser window, a ratio of Bessel functions I0. A larger `beta` (default 12) makes it narrower.")):
    define(f"{_name}_window(int window_length, *, {OLD_OPTIONS}) -> Tensor", length_meta, 0, _doc)
    define(f"{_name}_window.periodic(int window_length, bool periodic, *, {OLD_OPTIONS}) -> Tensor", periodic_meta, 0)
define(f"hamming_window.alpha(int window_length, bool periodic, float alpha, *, {OLD_OPTIONS}) -> Tensor", one_parameter_meta, 0)
define(f"hamming_window.alpha_beta(int window_length, bool periodic, float alpha, float beta, *, {OLD_OPTIONS}) -> Tensor",
       two_parameters_meta, 0)
define(f"kaiser_window.beta(int window_length, bool periodic, float beta, *, {OLD_OPTIONS}) -> Tensor", one_parameter_meta, 0)


# signal.windows, composed of other ops -------------------------------------------------------

@cython.final
cdef class _Window:
    """The checked options that all windows share, and helpers that create tensors with these options."""
    cdef dim_t n
    cdef bint symmetric
    cdef dict options

    cdef object whole(self, str name):
        return call(name, ((self.n,),), self.options)

    cdef object ramp(self, double start, double end):
        return call("linspace", (start, end, self.n), self.options)

    cdef double period(self) noexcept:
        """Return the period of the window in elements."""
        return self.n - 1 if self.symmetric else self.n


cdef _Window _read(Call* c, int first):
    """Read the length from slot 0, and sym and the options from slot `first` on."""
    cdef _Window s = _Window.__new__(_Window)
    cdef DType d = default_float() if is_none(c, first + 1) else <DType>arg(c, first + 1)
    s.n = int_arg(c, 0)
    s.symmetric = bool_arg(c, first)
    if s.n < 0:
        raise ValueError(f"{op_name(c)}(): M must not be negative, got {s.n}")
    if not is_none(c, first + 2) and arg(c, first + 2) is not STRIDED:
        raise ValueError(f"{op_name(c)}(): layout {arg(c, first + 2)} is not supported, only strided")
    if d.code != F32 and d.code != F64:
        raise ValueError(f"{op_name(c)}(): dtype must be float32 or float64, got {d.name}")
    s.options = {"dtype": d, "device": result_device(c), "requires_grad": arg(c, first + 4)}
    return s


cdef object bartlett_body(Call* c):
    cdef _Window s = _read(c, 1)
    if s.n < 2:
        return s.whole("ones")
    return 1 - call("abs", (s.ramp(-1, -1 + 2 * (s.n - 1) / s.period()),))


cdef object exponential_body(Call* c):
    """Arguments: M, center, tau, sym, options."""
    cdef _Window s = _read(c, 3)
    cdef double tau = float_arg(c, 2), center
    if tau <= 0:
        raise ValueError(f"{op_name(c)}(): tau must be positive, got {tau}")
    if s.symmetric and not is_none(c, 1):
        raise ValueError(f"{op_name(c)}(): center is supported only with sym=False")
    if s.n == 0:
        return s.whole("empty")
    if is_none(c, 1):
        center = (s.n - 1 if s.symmetric or s.n == 1 else s.n) / 2.0
    else:
        center = float_arg(c, 1)
    return call("exp", (-call("abs", (s.ramp(-center / tau, (s.n - 1 - center) / tau),)),))


cdef object gaussian_body(Call* c):
    """Arguments: M, std, sym, options."""
    cdef _Window s = _read(c, 2)
    cdef double std = float_arg(c, 1), start, scale
    if std <= 0:
        raise ValueError(f"{op_name(c)}(): std must be positive, got {std}")
    if s.n == 0:
        return s.whole("empty")
    start = -(s.n - 1 if s.symmetric or s.n == 1 else s.n) / 2.0
    scale = std * sqrt(2.0)
    k = s.ramp(start / scale, (start + s.n - 1) / scale)
    return call("exp", (-(k * k),))


cdef object cosine_body(Call* c):
    cdef _Window s = _read(c, 1)
    cdef double scale
    if s.n == 0:
        return s.whole("empty")
    scale = M_PI / (s.n if s.symmetric or s.n == 1 else s.n + 1)
    return call("sin", (s.ramp(0.5 * scale, (s.n - 0.5) * scale),))


cdef object kaiser_body(Call* c):
    """Arguments: M, beta, sym, options."""
    cdef _Window s = _read(c, 2)
    cdef double beta = float_arg(c, 1)
    if beta < 0:
        raise ValueError(f"{op_name(c)}(): beta must not be negative, got {beta}")
    if s.n < 2:
        return s.whole("ones")
    k = s.ramp(-beta, min(beta, -beta + 2 * beta * (s.n - 1) / s.period()))
    top = call("scalar_tensor", (beta,), {"dtype": s.options["dtype"], "device": s.options["device"]})
    return call("i0", (call("sqrt", (top * top - k * k,)),)) / call("i0", (top,))


cdef object _cosines(_Window s, list weights):
    """Return the sum of weights[i] * cos(i * x) with alternating signs. This modifies `weights`."""
    cdef dict options = s.options
    cdef object signed
    cdef Py_ssize_t i
    for i in range(1, len(weights), 2):
        weights[i] = -weights[i]
    signed = call("tensor", (weights,), options)
    order = call("arange", (len(weights),), options)
    k = s.ramp(0, 2 * M_PI * (s.n - 1) / s.period())
    waves = call("cos", (call("unsqueeze", (order, -1)) * k,))
    return call("sum", (call("unsqueeze", (signed, -1)) * waves, 0))


cdef object general_cosine_body(Call* c):
    """Arguments: M, a, sym, options."""
    cdef _Window s = _read(c, 2)
    cdef list weights
    if s.n < 2:
        return s.whole("ones")
    try:
        weights = list(arg(c, 1))
    except TypeError:
        raise TypeError(f"{op_name(c)}(): argument 'a' must hold numbers, not be of type {type(arg(c, 1)).__name__}") from None
    if not weights:
        raise ValueError(f"{op_name(c)}(): argument 'a' must not be empty")
    return _cosines(s, weights)


cdef object _fixed(Call* c, int first, list weights):
    cdef _Window s = _read(c, first)
    return s.whole("ones") if s.n < 2 else _cosines(s, weights)


cdef object general_hamming_body(Call* c):
    return _fixed(c, 2, [float_arg(c, 1), 1 - float_arg(c, 1)])


cdef object hamming_body(Call* c):
    return _fixed(c, 1, [0.54, 1 - 0.54])


cdef object hann_body(Call* c):
    return _fixed(c, 1, [0.5, 0.5])


cdef object blackman_body(Call* c):
    return _fixed(c, 1, [0.42, 0.5, 0.08])


cdef object nuttall_body(Call* c):
    return _fixed(c, 1, [0.3635819, 0.4891775, 0.1365995, 0.0106411])


cdef str SYM = f"bool sym=True, {OPTIONS}"

define(f"signal.windows.bartlett(int M, *, {SYM}) -> Tensor", bartlett_body, COMPOSITE,
       "Bartlett window: a triangle from 0 to 1 to 0.")
define(f"signal.windows.blackman(int M, *, {SYM}) -> Tensor", blackman_body, COMPOSITE,
       "Blackman window: 0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x).")
define(f"signal.windows.cosine(int M, *, {SYM}) -> Tensor", cosine_body, COMPOSITE,
       "Cosine window: half a period of a sine.")
define(f"signal.windows.exponential(int M, *, float? center=None, float tau=1.0, {SYM}) -> Tensor", exponential_body, COMPOSITE,
       "Exponential window: `exp(-|k - center| / tau)` for element k. `center` defaults to the middle. It can be given "
       "only if `sym` is False.")
define(f"signal.windows.gaussian(int M, *, float std=1.0, {SYM}) -> Tensor", gaussian_body, COMPOSITE,
       "Gaussian window with its maximum in the middle and a standard deviation of `std` elements.")
define(f"signal.windows.general_cosine(int M, *, any a, {SYM}) -> Tensor", general_cosine_body, COMPOSITE,
       "Sum of `(-1)**i * a[i] * cos(i * x)` over the indices i of the weights `a`.")
define(f"signal.windows.general_hamming(int M, *, float alpha=0.54, {SYM}) -> Tensor", general_hamming_body, COMPOSITE,
       "Generalized Hamming window: alpha - (1 - alpha) * cos(x).")
define(f"signal.windows.hamming(int M, *, {SYM}) -> Tensor", hamming_body, COMPOSITE,
       "Hamming window: 0.54 - 0.46 * cos(x).")
define(f"signal.windows.hann(int M, *, {SYM}) -> Tensor", hann_body, COMPOSITE, "Hann window: 0.5 - 0.5 * cos(x).")
define(f"signal.windows.kaiser(int M, *, float beta=12.0, {SYM}) -> Tensor", kaiser_body, COMPOSITE,
       "Kaiser window: I0(beta * sqrt(1 - (2 * k / P - 1)**2)) / I0(beta) for element k. A larger `beta` makes it "
       "narrower.")
define(f"signal.windows.nuttall(int M, *, {SYM}) -> Tensor", nuttall_body, COMPOSITE,
       "Nuttall window with low sidelobes: 0.3635819 - 0.4891775 * cos(x) + 0.1365995 * cos(2 * x) - 0.0106411 * "
       "cos(3 * x).")
