"""Repeat or reorder the elements of a tensor: repeat, tile, repeat_interleave, roll, flip, rot90, combinations."""
from math import comb

from metatensor._core.dtype cimport I32, I64
from metatensor._core.layout cimport copy_dims, mul_dims
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, METHOD_ONLY, Call, arg, bool_arg, call, define, dim_arg, dim_list, dims_arg, int_arg, is_none,
    op_name, result_device, tensor_arg, wrap,
)
from metatensor._core.storage cimport has_values
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.thread cimport hints
from metatensor._core.types cimport FORMAT_PRESERVE, MAX_DIMS, T_DISTRIBUTED, dim_t
from metatensor.ops.factory cimport fresh_like, make_like
from metatensor.ops.view cimport dims_tuple, reshape_to

from metatensor._core.errors import DataDependentError, data_dependent
from metatensor._core.formats import contiguous_format
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, recorded_as

_of = Bodies("views")


# Parts of gradients ---------------------------------------------------------------------------------

def _interleaved(input, repeats, dim, output_size):
    return _of.interleaved(input, repeats, dim, output_size)


def _combined(input, r, with_replacement):
    return _of.combined(input, r, with_replacement)


cdef object repeat_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t times[MAX_DIMS]
    cdef int n = dims_arg(c, 1, times), i, extra
    if n < t.ndim:
        raise RuntimeError(f"{op_name(c)}(): {list(dims_tuple(n, times))} has fewer values than shape {shape_str(t)} "
                           "has dimensions")
    extra = n - t.ndim
    for i in range(n):
        if times[i] < 0:
            raise RuntimeError(f"{op_name(c)}(): repeats must not be negative, got {list(dims_tuple(n, times))}")
        if i >= extra:
            times[i] = mul_dims(times[i], t.sizes[i - extra])
    return new_contiguous(n, times, t.dtype, result_device(c))


cdef object tile_body(Call* c):
    """Call `repeat` with ones in front of `dims` if the tensor has more dimensions."""
    cdef Tensor t = tensor_arg(c, 0)
    times = tuple(arg(c, 1))
    if len(times) < t.ndim:
        times = (1,) * (t.ndim - len(times)) + times
    return call("repeat", (t, times))


define("repeat(Tensor input, int[] repeats) -> Tensor", repeat_meta, METHOD_ONLY,
       "Repeat the tensor along each dimension. If `repeats` has more values than the tensor has dimensions, the first "
       "ones are for new leading dimensions.")
gradient("repeat", linear="input", input=lambda grad, input_meta, repeats: _of.repeated(grad, input_meta.shape, repeats))
define("tile(Tensor input, int[] dims) -> Tensor", tile_body, COMPOSITE,
       "Like `repeat`, but if `dims` has fewer values than there are dimensions, the leading dimensions are not "
       "repeated.")


# repeat_interleave ------------------------------------------------------------------------------

cdef object interleave_meta(Call* c):
    """Arguments: input, repeats, dim, output_size. The caller has checked `repeats`, an int or a tensor."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef int d = dim_arg(c, 2, t.ndim)
    copy_dims(sizes, t.sizes, t.ndim)
    sizes[d] = int_arg(c, 3)
    return new_contiguous(t.ndim, sizes, t.dtype, result_device(c))


cdef object interleave_int_meta(Call* c):
    """Arguments: input, repeats, dim, output_size."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t length = mul_dims(t.sizes[dim_arg(c, 2, t.ndim)], int_arg(c, 1))
    if int_arg(c, 3) != length:
        raise RuntimeError(f"{op_name(c)}(): output_size must be the length of the result, {length}, got {int_arg(c, 3)}")
    return interleave_meta(c)


cdef object interleave_int_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t n = int_arg(c, 1)
    cdef int d = 0 if is_none(c, 2) else dim_arg(c, 2, t.ndim)
    if n < 0:
        raise RuntimeError(f"{op_name(c)}(): repeats must not be negative, got {n}")
    if is_none(c, 2):
        t = <Tensor>reshape_to(t, 1, &t.total)
    elif t.ndim == 0:
        raise IndexError(f"{op_name(c)}(): a 0-d tensor has no dimension to repeat along")
    return call("_repeat_interleave", (t, n, d, mul_dims(t.sizes[d], n) if is_none(c, 3) else int_arg(c, 3)))


cdef dim_t _sum_of(Call* c, Tensor repeats) except -1:
    cdef dim_t total = 0, n
    if not has_values(repeats.storage) and not hints.modes and not repeats.flags & T_DISTRIBUTED:
        raise data_dependent(op_name(c), repeats.storage.device, repeats.shape)
    try:
        values = repeats.flatten().tolist()
    except DataDependentError:
        raise data_dependent(op_name(c), repeats.storage.device, repeats.shape) from None
    for value in values:
        n = value
        if n < 0:
            raise RuntimeError(f"{op_name(c)}(): repeats must not be negative, got {n}")
        total += n
    return total


cdef object _check_repeats(Call* c, Tensor repeats):
    if repeats.ndim > 1:
        raise RuntimeError(f"{op_name(c)}(): repeats must be 0-d or a vector, got shape {shape_str(repeats)}")
    if repeats.dtype.code != I64 and repeats.dtype.code != I32:
        raise RuntimeError(f"{op_name(c)}(): repeats must be int32 or int64, not {repeats.dtype.name}")


cdef object interleave_tensor_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0), repeats = tensor_arg(c, 1)
    cdef dim_t length
    cdef int d
    _check_repeats(c, repeats)
    if is_none(c, 2) or t.ndim == 0:
        t = <Tensor>reshape_to(t, 1, &t.total)
        d = 0
    else:
        d = dim_arg(c, 2, t.ndim)
    if repeats.total == 1:
        repeats = <Tensor>repeats.reshape(1).expand(t.sizes[d])
    elif repeats.total != t.sizes[d] or repeats.ndim == 0:
        raise RuntimeError(f"{op_name(c)}(): {repeats.total} repeats do not match the size of dimension {d}, "
                           f"{t.sizes[d]}, of shape {shape_str(t)}")
    length = _sum_of(c, repeats) if is_none(c, 3) else int_arg(c, 3)
    return call("_repeat_interleave_by", (t, repeats, d, length))


cdef object interleave_indices_body(Call* c):
    """Compute repeat_interleave(repeats), which holds each index i repeated repeats[i] times."""
    cdef Tensor repeats = tensor_arg(c, 0)
    _check_repeats(c, repeats)
    if repeats.ndim != 1:
        raise RuntimeError(f"{op_name(c)}(): repeats must be a vector, got shape {shape_str(repeats)}")
    length = _sum_of(c, repeats) if is_none(c, 1) else int_arg(c, 1)
    index = call("arange", (repeats.total,), {"dtype": repeats.dtype, "device": repeats.storage.device})
    return call("_repeat_interleave_by", (index, repeats, 0, length))


define("repeat_interleave(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
       interleave_int_body, COMPOSITE,
       "Repeat each element of the flattened input, or each index along `dim`, several times in a row. `repeats` is "
       "an int, or an int tensor with one count per element or index. If only a `repeats` tensor is given, the result "
       "holds each index i repeated repeats[i] times. If `repeats` is a tensor on the meta device, "
       "`output_size` is required.")
define("repeat_interleave.self_Tensor(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
       interleave_tensor_body, COMPOSITE)
define("repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor", interleave_indices_body, COMPOSITE)
define("_repeat_interleave(Tensor input, int repeats, int dim, int output_size) -> Tensor", interleave_int_meta, FUNCTION_ONLY)
gradient("_repeat_interleave", linear="input", node="ViewBackward0",
         input=lambda grad, repeats, dim, input_meta: grad.unflatten(dim, (input_meta.shape[dim], repeats)).sum(dim % grad.ndim + 1))
define("_repeat_interleave_by(Tensor input, Tensor repeats, int dim, int output_size) -> Tensor", interleave_meta,
       FUNCTION_ONLY)
recorded_as("_repeat_interleave_by", _interleaved)


# Reordering ------------------------------------------------------------------------------------

cdef object roll_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t shifts[MAX_DIMS]
    cdef dim_t dims[MAX_DIMS]
    cdef int n = dims_arg(c, 1, shifts), m = 0 if is_none(c, 2) else dims_arg(c, 2, dims), i
    if n == 0:
        raise RuntimeError(f"{op_name(c)}(): at least one shift is needed")
    if n != m and not (n == 1 and m == 0):
        raise RuntimeError(f"{op_name(c)}(): {n} shifts do not match {m} dimensions")
    if m and t.ndim == 0:
        raise IndexError(f"{op_name(c)}(): dimension {dims[0]} was given for a 0-d tensor")
    for i in range(m):
        wrap(c, dims[i], t.ndim)
    if t.total == 0:
        return make_like(c, t, t.dtype, result_device(c), FORMAT_PRESERVE)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object flip_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    dim_list(c, 1, t.ndim, chosen)
    return fresh_like(t, t.dtype, result_device(c))


cdef object flip_side_body(Call* c):
    """Compute fliplr and flipud."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int d = 1 if op_name(c) == "fliplr" else 0
    if t.ndim <= d:
        raise RuntimeError(f"{op_name(c)}(): at least {d + 1} dimension{'s are' if d else ' is'} needed, got shape {shape_str(t)}")
    return call("flip", (t, (d,)))


cdef object rot90_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t dims[MAX_DIMS]
    cdef dim_t k = int_arg(c, 1) % 4
    cdef int n = dims_arg(c, 2, dims), a, b
    if n != 2:
        raise RuntimeError(f"{op_name(c)}(): two dimensions are needed, got {list(dims_tuple(n, dims))}")
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): at least 2 dimensions are needed, got shape {shape_str(t)}")
    a, b = wrap(c, dims[0], t.ndim), wrap(c, dims[1], t.ndim)
    if a == b:
        raise RuntimeError(f"{op_name(c)}(): the two dimensions must differ, got {list(dims_tuple(n, dims))}")
    if k < 0:       # the remainder has the sign of k, as in C
        k += 4
    if k == 0:
        return call("clone", (t,), {"memory_format": contiguous_format})
    if k == 2:
        return call("flip", (t, (a, b)))
    return call("transpose", (call("flip", (t, (b if k == 1 else a,))), a, b))


define("roll(Tensor input, int[1] shifts, int[1]? dims=()) -> Tensor", roll_meta, 0,
       "Shift elements along `dims`, moving those beyond the end to the start. Without `dims`, shift the elements of "
       "the flattened input, but keep its shape.")
gradient("roll", linear="input", input=lambda grad, shifts, dims: grad.roll(_of.negated(shifts), dims))
define("flip(Tensor input, int[] dims) -> Tensor", flip_meta, 0, "Reverse the order of elements along `dims`.")
gradient("flip", linear="input", input=lambda grad, dims: grad.flip(dims))
define("fliplr(Tensor input) -> Tensor", flip_side_body, COMPOSITE, "Reverse the order along dimension 1.")
define("flipud(Tensor input) -> Tensor", flip_side_body, COMPOSITE, "Reverse the order along dimension 0.")
define("rot90(Tensor input, int k=1, int[] dims=(0, 1)) -> Tensor", rot90_body, COMPOSITE,
       "Rotate by `k` quarter turns in the plane of the two dimensions `dims`, from the first towards the second.")
gradient("rot90", input=lambda grad, k, dims: grad.rot90(-k, dims))


cdef object BOUND = 2 ** 62


cdef object combinations_meta(Call* c):
    """Compute the number of combinations from the length of the vector."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t r = int_arg(c, 1)
    cdef dim_t sizes[2]
    cdef object n
    if t.ndim != 1:
        raise RuntimeError(f"{op_name(c)}(): a vector is needed, got shape {shape_str(t)}")
    if r < 0:
        raise RuntimeError(f"{op_name(c)}(): r must not be negative, got {r}")
    if r == 0:
        sizes[0] = 0
        return new_contiguous(1, sizes, t.dtype, result_device(c))
    items = t.sizes[0] + (r - 1 if bool_arg(c, 2) else 0)
    n = comb(items, r)
    if n >= BOUND:
        raise RuntimeError(f"{op_name(c)}(): there are too many combinations")
    sizes[0], sizes[1] = n, r
    return new_contiguous(2, sizes, t.dtype, result_device(c))


define("combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor", combinations_meta, 0,
       "Return all combinations of `r` elements of a vector as the rows of a matrix.")
recorded_as("combinations", _combined)
