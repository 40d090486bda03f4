"""Histograms in one or several dimensions, with bins of equal width or with given edges, and counts of integers."""
from cpython.object cimport PyObject
from libc.math cimport isfinite
from metatensor._core.device cimport META
from metatensor._core.dtype cimport F32, F64, DType, by_code
from metatensor._core.op cimport (
    COMPOSITE, DATA, EXACT_OUT, FUNCTION_ONLY, NO_GRAD, OUT, Call, arg, call, define, dims_arg, float_arg, hold,
    int_arg, is_none, make_returns, op_name, result_device, tensor_arg, tensors_arg,
)
from metatensor._core.size cimport make_size
from metatensor._core.storage cimport has_values
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, dim_t
from metatensor.ops.operands cimport refuse

from metatensor._core import errors
from metatensor._core.sharding import sharding


# Checks -------------------------------------------------------------------------------------

cdef int require_bins(Call* c, dim_t n) except -1:
    if n <= 0:
        raise RuntimeError(f"{op_name(c)}(): the number of bins must be positive, got {n}")
    return 0


cdef int require_edges(Call* c, Tensor input, Tensor edges) except -1:
    """Check bin edges: a vector of the input's dtype with at least 2 elements."""
    if edges.dtype is not input.dtype:
        raise RuntimeError(f"{op_name(c)}(): bins must have the dtype of input, {input.dtype.name}, got {edges.dtype.name}")
    if edges.ndim != 1 or edges.total == 0:
        raise RuntimeError(f"{op_name(c)}(): the bin edges must be a vector with elements, got shape "
                           f"{shape_str(edges)}")
    return require_bins(c, edges.total - 1)


cdef int require_weight(Call* c, Tensor input, int slot, int drop) except -1:
    """Check an optional weight. It must have the input's dtype, and one value for each element, or for each row if
    `drop` is 1."""
    cdef Tensor weight
    cdef bint fits
    cdef int i
    if is_none(c, slot):
        return 0
    weight = tensor_arg(c, slot)
    if weight.dtype is not input.dtype:
        raise RuntimeError(f"{op_name(c)}(): weight must have the dtype of input, {input.dtype.name}, got "
                           f"{weight.dtype.name}")
    fits = weight.total == input.total if drop == 0 else weight.ndim == input.ndim - 1
    if drop:
        for i in range(input.ndim - 1):
            fits = fits and weight.sizes[i] == input.sizes[i]
    if not fits:
        raise RuntimeError(f"{op_name(c)}(): weight of shape {shape_str(weight)} does not match input of shape "
                           f"{shape_str(input)}")
    return 0


cdef int require_range(Call* c, int slot, Py_ssize_t dims) except -1:
    """Check an optional range, which holds the lowest and the highest value for each dimension."""
    cdef object ends = arg(c, slot)
    cdef Py_ssize_t i
    cdef double low, high
    if ends is None:
        return 0
    if len(ends) != 2 * dims:
        raise RuntimeError(f"{op_name(c)}(): range must have {2 * dims} elements for {dims} dimensions, got {len(ends)}")
    for i in range(dims):
        low, high = ends[2 * i], ends[2 * i + 1]
        if not isfinite(low) or not isfinite(high) or low > high:
            raise RuntimeError(f"{op_name(c)}(): range must hold finite numbers, the lower and then the higher end of "
                               f"each dimension, got {tuple(ends)}")
    return 0


cdef int require_float(Call* c, DType d, bint half) except -1:
    """Check that a dtype is float32 or float64 or, if `half`, float16 or bfloat16, as in PyTorch."""
    if d.code != F32 and d.code != F64 and not (half and d.kind == KIND_FLOAT and d.itemsize == 2):
        refuse(c, d)
    return 0


# One dimension --------------------------------------------------------------------------------

cdef object histc_meta(Call* c):
    """Arguments: input, bins, min, max. If min equals max, the kernel takes the range from the data."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t n = int_arg(c, 1)
    cdef double low, high
    for i in (2, 3):
        if isinstance(arg(c, i), complex):
            raise RuntimeError(f"{op_name(c)}(): min and max must be real, got {arg(c, i)}")
    low, high = float_arg(c, 2), float_arg(c, 3)
    require_bins(c, n)
    if not isfinite(low) or not isfinite(high) or high < low:
        raise RuntimeError(f"{op_name(c)}(): min and max must be finite with min <= max, got {low} and {high}")
    # PyTorch's CPU does not support integers here, but other devices do.
    if t.dtype.kind == KIND_BOOL or t.dtype.kind == KIND_COMPLEX or t.dtype.itemsize == 1 and t.dtype.kind == KIND_FLOAT \
            or t.dtype.kind == KIND_INT and result_device(c).type == "cpu":
        refuse(c, t.dtype)
    return new_contiguous(1, &n, t.dtype, result_device(c))


cdef object pair_of(Call* c, Tensor t, dim_t n):
    cdef dim_t edges = n + 1
    return make_returns(c, (new_contiguous(1, &n, t.dtype, result_device(c)),
                            new_contiguous(1, &edges, t.dtype, result_device(c))))


cdef object histogram_meta(Call* c):
    """Arguments: input, edges, weight, density."""
    cdef Tensor t = tensor_arg(c, 0), edges = tensor_arg(c, 1)
    require_edges(c, t, edges)
    require_weight(c, t, 2, 0)
    require_float(c, t.dtype, True)
    return pair_of(c, t, edges.total - 1)


cdef object histogram_count_meta(Call* c):
    """Arguments: input, bins, range, weight, density."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t n = int_arg(c, 1)
    require_bins(c, n)
    require_weight(c, t, 3, 0)
    require_range(c, 2, 1)
    require_float(c, t.dtype, False)
    return pair_of(c, t, n)


define("histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", histc_meta, OUT | EXACT_OUT | NO_GRAD,
       "Number of elements in each of `bins` bins of equal width from `min` to `max`, in the dtype of `input`. If "
       "`min` equals `max`, the bins cover the range of the data.")
sharding("histogram", "no passes")        # the sums of bins are no bins
sharding("_histogramdd_from_bin_tensors", "gather")
define("histogram(Tensor input, Tensor bins, *, Tensor? weight=None, bool density=False) "
       "-> (Tensor hist, Tensor bin_edges)", histogram_meta, OUT | EXACT_OUT,
       "Number of elements, or sum of their `weight`, in each bin, and the bin edges. `bins` is a vector of edges, or "
       "a number of bins of equal width in `range` (default: the range of the data). `density` divides by the total "
       "and the bin widths.")
define("histogram.bin_ct(Tensor input, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) "
       "-> (Tensor hist, Tensor bin_edges)", histogram_count_meta, OUT | EXACT_OUT)


# Several dimensions -----------------------------------------------------------------------------

cdef int require_rows(Call* c, Tensor t) except -1:
    """Check that the input has at least 2 dimensions. The last one holds the coordinates of points."""
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): input must have at least 2 dimensions, got shape {shape_str(t)}")
    return 0


cdef object bin_edges_meta(Call* c):
    """Arguments: input, bins, range, weight, density."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t counts[MAX_DIMS]
    cdef dim_t size
    cdef int i, n = dims_arg(c, 1, counts)
    require_rows(c, t)
    if n != t.sizes[t.ndim - 1]:
        raise RuntimeError(f"{op_name(c)}(): bins must have one number for each of the {t.sizes[t.ndim - 1]} columns of input, "
                           f"got {n}")
    for i in range(n):
        require_bins(c, counts[i])
    require_range(c, 2, n)
    require_float(c, t.dtype, False)
    found = []
    for i in range(n):
        size = counts[i] + 1
        found.append(new_contiguous(1, &size, t.dtype, result_device(c)))
    return tuple(found)


cdef object from_edges_meta(Call* c):
    """Arguments: input, edges, weight, density."""
    cdef Tensor t = tensor_arg(c, 0), edges
    cdef list bins = tensors_arg(c, 1)
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = 0
    require_rows(c, t)
    if len(bins) != t.sizes[t.ndim - 1]:
        raise RuntimeError(f"{op_name(c)}(): bins must have the edges for each of the {t.sizes[t.ndim - 1]} columns of input, "
                           f"got {len(bins)}")
    if len(bins) > MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): at most {MAX_DIMS} dimensions are supported")
    for edges in bins:
        require_edges(c, t, edges)
        sizes[n] = edges.total - 1
        n += 1
    require_weight(c, t, 2, 1)
    require_float(c, t.dtype, True)
    return new_contiguous(n, sizes, t.dtype, result_device(c))


cdef object several_body(Call* c):
    """Arguments: input, bins, range, weight, density. A single number of bins applies to all coordinates."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object bins = arg(c, 1), edges
    if isinstance(bins, int):
        if t.ndim == 0:
            raise IndexError(f"{op_name(c)}(): input must have at least 2 dimensions, got a 0-d tensor")
        bins = (bins,) * <object>t.sizes[t.ndim - 1]
    edges = call("_histogramdd_bin_edges", (t, bins), {"range": arg(c, 2)})
    return make_returns(c, (call("_histogramdd_from_bin_tensors", (t, edges),
                                 {"weight": arg(c, 3), "density": arg(c, 4)}), edges))


cdef object several_edges_body(Call* c):
    """Arguments: input, edges, range, weight, density. The range is ignored."""
    return make_returns(c, (call("_histogramdd_from_bin_tensors", (arg(c, 0), arg(c, 1)),
                                 {"weight": arg(c, 3), "density": arg(c, 4)}), tuple(tensors_arg(c, 1))))


cdef object from_counts_body(Call* c):
    return call("histogramdd", (arg(c, 0), arg(c, 1)), {"range": arg(c, 2), "weight": arg(c, 3), "density": arg(c, 4)})[0]


cdef str MORE = "Tensor? weight=None, bool density=False"

define(f"_histogramdd_bin_edges(Tensor input, int[] bins, *, float[]? range=None, {MORE}) -> Tensor[]", bin_edges_meta,
       FUNCTION_ONLY,
       "Edges of bins of equal width for the points `input` (..., D), as one vector for each of the D coordinates.")
define(f"_histogramdd_from_bin_tensors(Tensor input, Tensor[] bins, *, {MORE}) -> Tensor", from_edges_meta, FUNCTION_ONLY,
       "Number of points, or sum of their `weight`, in each bin between the given edges. The result has one "
       "dimension for each coordinate.")
define(f"_histogramdd_from_bin_cts(Tensor input, int[] bins, *, float[]? range=None, {MORE}) -> Tensor", from_counts_body,
       COMPOSITE | FUNCTION_ONLY,
       "Number of points, or sum of their `weight`, in each bin of equal width. The result has one dimension for each "
       "coordinate.")
define(f"histogramdd(Tensor input, int[1] bins, float[]? range=None, {MORE}) -> (Tensor hist, Tensor[] bin_edges)",
       several_body, COMPOSITE | FUNCTION_ONLY,
       "Histogram of points `input` (..., D) in D dimensions: the number of points, or the sum of their `weight`, in "
       "each bin, and the D vectors of bin edges. `bins` is a number, a sequence with the number of bins "
       "of each coordinate, or a sequence with the vector of edges of each. `range` holds the lowest "
       "and the highest edge of the first coordinate, then those of the second, and so on.")
define(f"histogramdd.edges(Tensor input, Tensor[] bins, float[]? range=None, {MORE}) -> (Tensor hist, Tensor[] bin_edges)",
       several_edges_body, COMPOSITE | FUNCTION_ONLY)


# Small integers -----------------------------------------------------------------------------------

cdef object bincount_meta(Call* c):
    """Arguments: input, weights, minlength. The size of the result depends on the largest value."""
    cdef Tensor t = tensor_arg(c, 0), weights
    if int_arg(c, 2) < 0:
        raise RuntimeError(f"{op_name(c)}(): minlength must not be negative, got {int_arg(c, 2)}")
    if t.dtype.kind != KIND_INT or (not t.dtype.is_signed and t.dtype.itemsize > 1):
        refuse(c, t.dtype)
    if t.ndim != 1:
        raise RuntimeError(f"{op_name(c)}(): input must be a vector, got shape {shape_str(t)}")
    if not is_none(c, 1) and t.total:
        weights = tensor_arg(c, 1)
        if weights.ndim != 1 or weights.total != t.total:
            raise RuntimeError(f"{op_name(c)}(): weights must have the shape of input, {shape_str(t)}, got "
                               f"{shape_str(weights)}")
        if weights.dtype.code != F32 and weights.dtype.code != F64 and has_values(weights.storage):
            weights = <Tensor>call("to", (weights,), {"dtype": by_code(F64)})
            hold(c, weights)
            c.args[1] = <PyObject*>weights
    if result_device(c) is META:
        raise errors.data_dependent(op_name(c), META, make_size(t.ndim, t.sizes))
    return None


define("bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor", bincount_meta, DATA,
       "Number of occurrences, or sum of `weights`, of each integer from 0 to the largest value in a vector of "
       "non-negative integers. The result has at least `minlength` elements.")
