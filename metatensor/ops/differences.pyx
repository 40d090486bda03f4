"""Differences and integrals along a dimension, built from other ops: diff, gradient and the trapezoidal rule."""
from metatensor._core.rule_node cimport renamed
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, OUT, Call, arg, call, define, dim_arg, int_arg, is_none, op_name, tensor_arg, wrap,
)
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport KIND_BOOL, dim_t


cdef Tensor part(Tensor t, int dim, object start, object stop):
    """Return ``t[start:stop]`` along a dimension, where bounds may be negative or None as in Python."""
    cdef dim_t size = t.sizes[dim], first, last
    first = 0 if start is None else start if start >= 0 else size + start
    last = size if stop is None else stop if stop >= 0 else size + stop
    first = max(0, min(first, size))
    return call("narrow", (t, dim, first, max(0, min(last, size) - first)))


# diff ------------------------------------------------------------------------------

cdef object diff_body(Call* c):
    """Arguments: input, n, dim, prepend, append."""
    cdef Tensor t = tensor_arg(c, 0), joined
    cdef dim_t n = int_arg(c, 1)
    cdef int dim
    cdef list parts
    if t.ndim == 0:
        raise RuntimeError("diff(): input must have at least 1 dimension")
    if n < 0:
        raise RuntimeError(f"diff(): n must not be negative, got {n}")
    if n == 0 and is_none(c, 3) and is_none(c, 4):
        return call("copy_", (call("empty_like", (t,)), t))
    dim = dim_arg(c, 2, t.ndim)
    if n == 0:
        return call("copy_", (call("empty_like", (t,)), t))
    parts = [x for x in (arg(c, 3), t, arg(c, 4)) if x is not None]
    if len(parts) > 1:
        for x in parts:
            if (<Tensor>x).ndim != t.ndim:
                raise RuntimeError(f"diff(): prepend and append must have as many dimensions as input, got shapes "
                                   f"{shape_str(<Tensor>x)} and {shape_str(t)}")
        t = call("cat", (parts, dim))
    joined = t                  # alive until the end, as in PyTorch
    n = min(n, joined.sizes[dim])
    for _ in range(n):
        t = call("logical_xor" if t.dtype.kind == KIND_BOOL else "sub", (part(t, dim, 1, None), part(t, dim, 0, -1)))
    return t


define("diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", diff_body,
       COMPOSITE | OUT,
       "Differences `input[i + 1] - input[i]` along `dim`, taken `n` times, after concatenating `prepend`, `input` and "
       "`append`. The difference of two bools is their exclusive or. Each repetition reduces the size of `dim` by 1.")


# Trapezoidal rule ---------------------------------------------------------------------

cdef object steps_of(Call* c, Tensor y, Tensor x, int dim):
    """Return the distances between the sample points `x`, shaped to broadcast with y."""
    cdef list shape
    cdef int i
    if y.dtype.kind == KIND_BOOL or x.dtype.kind == KIND_BOOL:
        raise RuntimeError(f"{op_name(c)}(): bool inputs are not supported")
    if x.ndim == 1:
        if x.sizes[0] != y.sizes[dim]:
            raise RuntimeError(f"{op_name(c)}(): there must be one x for each sample, got shapes {shape_str(y)} for y "
                               f"(dimension {dim}) and {shape_str(x)} for x")
        x = call("reshape", (x, [x.sizes[0] if i == dim else 1 for i in range(y.ndim)]))
    elif x.ndim < y.ndim:
        shape = [1] * (y.ndim - x.ndim) + [x.sizes[i] for i in range(x.ndim)]
        x = call("reshape", (x, shape))
    return call("sub", (part(x, dim, 1, None), part(x, dim, 0, -1)))


cdef object trapezoid_body(Call* c):
    """Arguments: y, x, dx, dim."""
    cdef Tensor y = tensor_arg(c, 0)
    cdef int dim = dim_arg(c, 3, y.ndim)
    cdef object sums, steps, product, total, ends, half
    if y.ndim == 0:
        raise IndexError(f"{op_name(c)}(): y must have at least 1 dimension")
    if y.sizes[dim] == 0:
        return call("sum", (y, dim), {"dtype": y.dtype})
    if is_none(c, 1):
        if y.dtype.kind == KIND_BOOL:
            raise RuntimeError(f"{op_name(c)}(): bool inputs are not supported")
        ends = call("add", (call("select", (y, dim, 0)), call("select", (y, dim, -1))))
        half = call("mul", (ends, 0.5))
        total = call("sum", (y, dim), {"dtype": y.dtype})
        sums = call("sub", (total, half))
        return renamed(call("mul", (sums, arg(c, 2))), "MulBackward1")
    steps = steps_of(c, y, tensor_arg(c, 1), dim)
    sums = call("add", (part(y, dim, 0, -1), part(y, dim, 1, None)))
    product = call("mul", (sums, steps))
    total = call("sum", (product, dim))
    return renamed(call("div", (total, 2.0)), "DivBackward1")


cdef object cumulative_body(Call* c):
    """Arguments: y, x, dx, dim."""
    cdef Tensor y = tensor_arg(c, 0)
    cdef int dim = dim_arg(c, 3, y.ndim)
    cdef object sums, steps, product, total
    if y.ndim == 0:
        raise IndexError(f"{op_name(c)}(): y must have at least 1 dimension")
    if is_none(c, 1):
        if y.dtype.kind == KIND_BOOL:
            raise RuntimeError(f"{op_name(c)}(): bool inputs are not supported")
        sums = call("add", (part(y, dim, 0, -1), part(y, dim, 1, None)))
        product = call("mul", (sums, arg(c, 2) / 2.0))
        return call("cumsum", (product, dim))
    steps = steps_of(c, y, tensor_arg(c, 1), dim)
    sums = call("add", (part(y, dim, 0, -1), part(y, dim, 1, None)))
    product = call("mul", (steps, sums))
    total = call("cumsum", (product, dim))
    return renamed(call("div", (total, 2.0)), "DivBackward1")


define("trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor", trapezoid_body,
       COMPOSITE | FUNCTION_ONLY,
       "Integral of the samples `y` along `dim` by the trapezoidal rule. `x` holds the sample points. Without `x`, "
       "they are `dx` apart.")
define("trapz(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor", trapezoid_body,
       COMPOSITE | FUNCTION_ONLY, "Old name of `trapezoid`.")
define("cumulative_trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor", cumulative_body,
       COMPOSITE | FUNCTION_ONLY,
       "Cumulative integral of the samples `y` along `dim` by the trapezoidal rule. The size of `dim` is reduced by "
       "1. `x` holds the sample points. Without `x`, they are `dx` apart.")


# gradient -------------------------------------------------------------------------------


cdef Tensor difference(Tensor t, int dim, object a, object b, object c, object d):
    """Return ``t[a:b] - t[c:d]`` along a dimension."""
    return call("sub", (part(t, dim, a, b), part(t, dim, c, d)))


cdef Tensor even_gradient(Tensor t, int dim, object step, int edge_order):
    """Return central differences of samples `step` apart, with one-sided differences at the ends."""
    cdef object first, last, middle = call("div", (difference(t, dim, 2, None, 0, -2), step))
    if edge_order == 1:
        first = call("div", (difference(t, dim, 1, 2, 0, 1), step))
        last = call("div", (difference(t, dim, -1, None, -2, -1), step))
    else:
        # At each end, use the slope of the parabola through the three outermost samples.
        first = combined(t, dim, (0, 1, 2), (-1.5, 2.0, -0.5), step)
        last = combined(t, dim, (-3, -2, -1), (0.5, -2.0, 1.5), step)
    return call("cat", ([first, call("div", (middle, 2.0)), last], dim))


cdef object combined(Tensor t, int dim, tuple places, tuple weights, object step):
    """Return the sum of `weight / step * sample` over the samples at `places`."""
    cdef object total = None, term
    for place, weight in zip(places, weights):
        term = call("mul", (part(t, dim, place, None if place == -1 else place + 1), weight / step))
        total = term if total is None else call("add", (total, term))
    return total


cdef Tensor uneven_gradient(Tensor t, int dim, Tensor points, int edge_order):
    """Return slopes at the given points, from the parabola through each sample and its neighbours."""
    cdef list shape = [1] * t.ndim
    cdef Tensor gaps
    cdef object h, g, first, last, middle
    shape[dim] = -1
    gaps = call("reshape", (call("diff", (points,)), shape))
    h, g = part(gaps, dim, 0, -1), part(gaps, dim, 1, None)
    middle = weighted(
        (part(t, dim, 0, -2), minus(ratio(g, h, h, g))),
        (part(t, dim, 1, -1), call("div", (call("sub", (g, h)), call("mul", (h, g))))),
        (part(t, dim, 2, None), ratio(h, g, h, g)),
    )
    if edge_order == 1:
        first = call("div", (difference(t, dim, 1, 2, 0, 1), one(gaps, dim, 0)))
        last = call("div", (difference(t, dim, -1, None, -2, -1), one(gaps, dim, -1)))
    else:
        first = end_slope(t, gaps, dim, (0, 1, 2), 0, 1)
        last = minus(end_slope(t, gaps, dim, (-1, -2, -3), -1, -2))
    return call("cat", ([first, middle, last], dim))


cdef object end_slope(Tensor t, Tensor gaps, int dim, tuple places, int near, int far):
    """Return the slope at an end of `dim`, from the three samples at the indices `places`, the outermost first.

    `near` and `far` are the indices of the two gaps between them. The result has the wrong sign if `places` runs backwards
    from the last sample.
    """
    cdef object h = one(gaps, dim, near), g = one(gaps, dim, far)
    cdef object twice = call("add", (call("mul", (h, 2.0)), g))
    return weighted(
        (one(t, dim, places[0]), minus(ratio(twice, h, h, g))),
        (one(t, dim, places[1]), call("div", (call("add", (h, g)), call("mul", (h, g))))),
        (one(t, dim, places[2]), minus(ratio(h, g, h, g))),
    )


cdef object ratio(object top, object bottom, object h, object g):
    """Return top / (bottom * (h + g))."""
    return call("div", (top, call("mul", (bottom, call("add", (h, g))))))


cdef object minus(object t):
    return call("neg", (t,))


cdef object weighted(tuple first, tuple second, tuple third):
    """Return the sum of three products, given as pairs of factors."""
    cdef object sums = call("add", (call("mul", first), call("mul", second)))
    return call("add", (sums, call("mul", third)))


cdef Tensor one(Tensor t, int dim, int place):
    """Return the element at index `place` of a dimension, which is kept with size 1."""
    return part(t, dim, place, None if place == -1 else place + 1)


cdef object gradient_body(Call* c):
    """Arguments: input, spacing, dim, edge_order. Returns a list with one result for each dimension."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object spacing = arg(c, 1), given = arg(c, 2)
    cdef int edge_order = int_arg(c, 3), d
    cdef list dims = [], results = []
    if edge_order != 1 and edge_order != 2:
        raise RuntimeError(f"gradient(): edge_order must be 1 or 2, got {edge_order}")
    given = list(range(t.ndim)) if given is None else [given] if isinstance(given, int) else list(given)
    if spacing is None:
        spacing = 1
    if isinstance(spacing, Tensor) or not isinstance(spacing, (list, tuple)):
        spacing = [spacing] * len(given)
    if len(spacing) != len(given):
        raise RuntimeError(f"gradient(): spacing must be one number or one for each of the {len(given)} dimensions, got "
                           f"{len(spacing)}")
    for i in given:
        d = wrap(c, i, t.ndim)
        if d in dims:
            raise RuntimeError(f"gradient(): dimension {d} appears more than once in {given}")
        dims.append(d)
    for d in dims:
        if t.sizes[d] < edge_order + 1:
            raise RuntimeError(f"gradient(): each dimension must have at least {edge_order + 1} elements, got shape "
                               + shape_str(t))
    for i in range(len(dims)):
        if isinstance(spacing[i], Tensor) and (<Tensor>spacing[i]).ndim == 1:
            if (<Tensor>spacing[i]).sizes[0] != t.sizes[<int>dims[i]]:
                raise RuntimeError(f"gradient(): there must be one point for each element of dimension {dims[i]} of "
                                   f"{shape_str(t)}, got {(<Tensor>spacing[i]).sizes[0]}")
            results.append(uneven_gradient(t, dims[i], spacing[i], edge_order))
        else:
            results.append(even_gradient(t, dims[i], spacing[i], edge_order))
    return results


define("gradient(Tensor input, *, any? spacing=1, any? dim=None, int edge_order=1) -> Tensor[]", gradient_body,
       COMPOSITE | FUNCTION_ONLY,
       "Derivatives of the samples along each dimension in `dim` (all by default), by second-order central "
       "differences. `spacing` is the distance between samples: one number, or for each dimension a number or a vector "
       "of sample points. `edge_order` (1 or 2) is the order of accuracy at the ends. Return one tensor with the shape "
       "of `input` for each dimension.")
