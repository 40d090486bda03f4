"""Triangles and diagonals of matrices, Vandermonde matrices, and search in sorted sequences."""
from metatensor._core.dtype cimport I32, I64, DType, by_code, of_number
from metatensor._core.layout cimport add_dims
from metatensor._core.op cimport (
    COMPOSITE, EXACT_OUT, FUNCTION_ONLY, INPLACE, NO_GRAD, OUT, Call, arg, bool_arg, call, define, int_arg,
    is_none, op_name, result_device, tensor_arg, wrap,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_INT, MAX_DIMS, T_RETRIED, dim_t
from metatensor.ops.operands cimport refuse
from metatensor.ops.view cimport reshape_to
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, recorded_as
from metatensor._core.sharding import sharding

_of = Bodies("views")


# Parts of gradients ---------------------------------------------------------------------------------

def _vander(x, N, increasing):
    made = _of.powers(x, x.shape[0] if N is None else N)
    return made if increasing else made.flip(1)


cdef object triangle_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    int_arg(c, 1)
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): at least 2 dimensions are needed, got shape {shape_str(t)}")
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object diag_embed_meta(Call* c):
    """Put the last dimension on a diagonal of new matrices. Their dimensions in the result are dim1 and dim2."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t offset = int_arg(c, 1), n
    cdef dim_t sizes[MAX_DIMS]
    cdef int ndim = t.ndim + 1, d1 = wrap(c, int_arg(c, 2), ndim), d2 = wrap(c, int_arg(c, 3), ndim), i, k = 0
    if d1 == d2:
        raise RuntimeError(f"{op_name(c)}(): the two dimensions must differ, got {arg(c, 2)} and {arg(c, 3)}")
    if t.ndim == 0 or ndim > MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): 1 to {MAX_DIMS - 1} dimensions are needed, got shape {shape_str(t)}")
    n = add_dims(t.sizes[t.ndim - 1], offset if offset >= 0 else -offset)
    for i in range(ndim):
        if i == d1 or i == d2:
            sizes[i] = n
        else:
            sizes[i] = t.sizes[k]
            k += 1
    return new_contiguous(ndim, sizes, t.dtype, result_device(c))


cdef object diag_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.ndim == 1:
        return call("diag_embed", (t, arg(c, 1)))
    if t.ndim == 2:
        return call("diagonal_copy", (t, arg(c, 1)))
    raise RuntimeError(f"{op_name(c)}(): a vector or a matrix is needed, got shape {shape_str(t)}")


cdef object diagflat_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return call("diag_embed", (reshape_to(t, 1, &t.total), arg(c, 1)))


define("tril(Tensor input, int diagonal=0) -> Tensor", triangle_meta, INPLACE | OUT | EXACT_OUT,
       "Lower triangle of matrices (..., n, m): the elements on and below diagonal `diagonal`, with 0 above it.")
gradient("tril", linear="input", input=lambda grad, diagonal: grad.tril(diagonal))
for _name in ("tril", "triu"):
    sharding(_name, "no cuts", "cut input -> cat where batch2=True")
define("triu(Tensor input, int diagonal=0) -> Tensor", triangle_meta, INPLACE | OUT | EXACT_OUT,
       "Upper triangle of matrices (..., n, m): the elements on and above diagonal `diagonal`, with 0 below it.")
gradient("triu", linear="input", input=lambda grad, diagonal: grad.triu(diagonal))
define("diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diag_embed_meta, 0,
       "Matrices with the last dimension of `input` on diagonal `offset` and zeros elsewhere: (..., n) gives (..., m, "
       "m) with m = n + |offset|. `dim1` and `dim2` are the dimensions of rows and columns in the result.")
gradient("diag_embed", linear="input", input=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2))
define("diag(Tensor input, int diagonal=0) -> Tensor", diag_body, COMPOSITE | OUT | EXACT_OUT,
       "Return a matrix with a vector on diagonal `diagonal` and zeros elsewhere, or a copy of that diagonal of a "
       "matrix.")
define("diagflat(Tensor input, int offset=0) -> Tensor", diagflat_body, COMPOSITE,
       "Return a matrix with all elements, flattened, on diagonal `offset` and zeros elsewhere.")


cdef object vander_meta(Call* c):
    """Compute the result of vander. It is int64 for integers and bool."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[2]
    if t.ndim != 1:
        raise RuntimeError(f"{op_name(c)}(): a vector is needed, got shape {shape_str(t)}")
    sizes[0] = t.sizes[0]
    sizes[1] = t.sizes[0] if is_none(c, 1) else int_arg(c, 1)
    if sizes[1] < 0:
        raise RuntimeError(f"{op_name(c)}(): N must not be negative, got {sizes[1]}")
    return new_contiguous(2, sizes, by_code(I64) if t.dtype.kind <= KIND_INT else t.dtype, result_device(c))


define("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", vander_meta, FUNCTION_ONLY,
       "Vandermonde matrix (n, N) of a vector (n,). The columns are its powers N - 1 to 0, or 0 to N - 1 if "
       "`increasing`. `N` defaults to n.")
recorded_as("vander", _vander)


# Search in sorted sequences -------------------------------------------------------------------

cdef int _check_order(Call* c, Tensor sequence, int side, int sorter) except -1:
    if side >= 0 and not is_none(c, side):
        if arg(c, side) not in ("left", "right"):
            raise RuntimeError(f"{op_name(c)}(): side must be 'left' or 'right', got {arg(c, side)!r}")
        if arg(c, side) == "left" and bool_arg(c, side - 1):
            raise RuntimeError(f"{op_name(c)}(): side='left' contradicts right=True")
    if sorter >= 0 and not is_none(c, sorter):
        if tensor_arg(c, sorter).dtype.code != I64:
            raise RuntimeError(f"{op_name(c)}(): the sorter must be int64, not {tensor_arg(c, sorter).dtype.name}")
        if tensor_arg(c, sorter).ndim != sequence.ndim:
            raise RuntimeError(f"{op_name(c)}(): the sorter must have the sequence's shape, {shape_str(sequence)}, got "
                               f"{shape_str(tensor_arg(c, sorter))}")
        for i in range(sequence.ndim):
            if tensor_arg(c, sorter).sizes[i] != sequence.sizes[i]:
                raise RuntimeError(f"{op_name(c)}(): the sorter must have the sequence's shape, {shape_str(sequence)}, "
                                   f"got {shape_str(tensor_arg(c, sorter))}")
    return 0


cdef int _check_ordered(Call* c, Tensor sequence, object values) except -1:
    """Refuse complex values, and bools if both are bool."""
    cdef DType d = (<Tensor>values).dtype if isinstance(values, Tensor) else of_number(values)
    if isinstance(values, Tensor) and (<Tensor>values).total == 0:
        return 0        # PyTorch looks for no kernel if there is nothing to find
    if sequence.dtype.kind == KIND_COMPLEX:
        refuse(c, sequence.dtype)
    if d.kind == KIND_COMPLEX or d.kind == sequence.dtype.kind == KIND_BOOL:
        if isinstance(values, Tensor) and not c.flags & T_RETRIED:
            refuse(c, d)
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {d.name}")
    return 0


cdef object searchsorted_meta(Call* c):
    """Arguments: sorted_sequence, input, out_int32, right, side, sorter."""
    cdef Tensor sequence = tensor_arg(c, 0), values
    cdef int i
    _check_order(c, sequence, 4, 5)
    if sequence.ndim == 0:
        raise RuntimeError(f"{op_name(c)}(): the sorted sequence must have at least 1 dimension")
    dtype = by_code(I32 if bool_arg(c, 2) else I64)
    if not isinstance(arg(c, 1), Tensor):
        if sequence.ndim != 1:
            raise RuntimeError(f"{op_name(c)}(): a number can be searched only in a vector, got shape "
                               f"{shape_str(sequence)}")
        _check_ordered(c, sequence, arg(c, 1))
        return new_contiguous(0, NULL, dtype, result_device(c))
    values = tensor_arg(c, 1)
    if sequence.ndim != 1:
        fits = values.ndim == sequence.ndim
        for i in range(sequence.ndim - 1):
            fits = fits and values.sizes[i] == sequence.sizes[i]
        if not fits:
            raise RuntimeError(f"{op_name(c)}(): the values of shape {shape_str(values)} must match the sequence "
                               f"of shape {shape_str(sequence)} in every dimension except the last")
    _check_ordered(c, sequence, values)
    return new_contiguous(values.ndim, values.sizes, dtype, result_device(c))


cdef object bucketize_meta(Call* c):
    """Arguments: input, boundaries, out_int32, right."""
    cdef Tensor boundaries = tensor_arg(c, 1), values
    _check_order(c, boundaries, -1, -1)
    if boundaries.ndim != 1:
        raise RuntimeError(f"{op_name(c)}(): the boundaries must be a vector, got shape {shape_str(boundaries)}")
    dtype = by_code(I32 if bool_arg(c, 2) else I64)
    _check_ordered(c, boundaries, arg(c, 0))
    if not isinstance(arg(c, 0), Tensor):
        return new_contiguous(0, NULL, dtype, result_device(c))
    values = tensor_arg(c, 0)
    return new_contiguous(values.ndim, values.sizes, dtype, result_device(c))


define("searchsorted(Tensor sorted_sequence, Tensor|Scalar input, *, bool out_int32=False, bool right=False, "
       "str? side=None, Tensor? sorter=None) -> Tensor", searchsorted_meta, OUT | EXACT_OUT | NO_GRAD | FUNCTION_ONLY,
       "Indices at which the elements of `input` can be inserted into sorted sequences without breaking their order. "
       "They are int64, or int32 if `out_int32`. The sequences lie along the last dimension. The leading dimensions "
       "of both tensors must be equal unless `sorted_sequence` is a vector. The index is the first possible one, or "
       "the last possible one if `right=True` or `side='right'`.")
for _name in ("searchsorted", "bucketize"):
    sharding(_name, "no passes")        # a reduced sequence is another one
define("bucketize(Tensor|Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
       bucketize_meta, OUT | EXACT_OUT | NO_GRAD | FUNCTION_ONLY,
       "Index of the interval between the sorted `boundaries` (a vector) that contains each element, as int64, or "
       "int32 if `out_int32`. An element equal to a boundary belongs to the interval below it, or above it if `right`.")
