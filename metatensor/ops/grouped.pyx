"""Grouped matrix products: groups of rows or columns of different sizes, each multiplied by its own matrix, as in
mixture-of-experts layers."""
from metatensor._core.dtype cimport BF16, F16, F32, I32
from metatensor._core.gradients import gradient
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, Call, arg, call, define, dtype_arg, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport dim_t


cdef int refuse(Call* c, str message) except -1:
    raise RuntimeError(f"{op_name(c)}(): {message}")


cdef int check_factor(Call* c, Tensor t, str name) except -1:
    """Check dimensions, dtype and strides. One of the last two dimensions must have stride 1, and the stride of the
    other must be a multiple of 16 bytes."""
    cdef int n = t.ndim
    cdef dim_t rows, columns
    if n != 2 and n != 3:
        refuse(c, f"{name} must have 2 or 3 dimensions, got shape {shape_str(t)}")
    if t.dtype.code != BF16 and t.dtype.code != F16 and t.dtype.code != F32:
        refuse(c, f"{name} must be bfloat16, float16 or float32, got {t.dtype.name}")
    rows, columns = t.strides[n - 2], t.strides[n - 1]
    if not (columns == 1 and rows >= max(1, t.sizes[n - 1]) or rows == 1 and columns >= max(1, t.sizes[n - 2])):
        refuse(c, f"{name} must be dense along one of its last two dimensions, got strides {t.stride()}")
    if (rows if columns == 1 else columns) * t.dtype.itemsize % 16:
        refuse(c, f"the strides of {name} must be multiples of 16 bytes, got {t.stride()} elements of "
                  f"{t.dtype.itemsize} bytes")
    return 0


cdef int check_offsets(Call* c, Tensor a, Tensor b, Tensor offs) except -1:
    """Check the int32 vector of group ends, which has one element for each matrix of a 3-d factor."""
    cdef Tensor groups = a if a.ndim == 3 else b
    if offs.ndim != 1:
        refuse(c, f"offs must have one dimension, got shape {shape_str(offs)}")
    if offs.dtype.code != I32:
        refuse(c, f"offs must be int32, got {offs.dtype.name}")
    if groups.ndim == 3 and groups.sizes[0] != offs.sizes[0]:
        refuse(c, f"offs must have an element for each of {groups.sizes[0]} matrices, got {offs.sizes[0]}")
    return 0


cdef object grouped_meta(Call* c):
    """Arguments: input, mat2, offs, bias, out_dtype.

    If only `input` is 2-d, the groups split its rows. If only `mat2` is 2-d, they split its columns. If both are 2-d,
    they split the dimension that the product sums over.
    """
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef dim_t sizes[3]
    cdef int n = 0
    check_factor(c, a, "mat_a")
    check_factor(c, b, "mat_b")
    if a.dtype is not b.dtype:
        refuse(c, f"mat_a and mat_b must have the same dtype, got {a.dtype.name} and {b.dtype.name}")
    if a.sizes[a.ndim - 1] != b.sizes[b.ndim - 2]:
        refuse(c, f"mat_a of shape {shape_str(a)} and mat_b of shape {shape_str(b)} cannot be multiplied")
    if a.ndim == 3 and b.ndim == 3 and a.sizes[0] != b.sizes[0]:
        refuse(c, f"mat_a and mat_b must have the same number of matrices, got shapes {shape_str(a)} and "
                  f"{shape_str(b)}")
    if (a.ndim == 3 and b.ndim == 3) != is_none(c, 2):
        refuse(c, "offs must be given if mat_a or mat_b has 2 dimensions, and must be None otherwise")
    if not is_none(c, 2):
        check_offsets(c, a, b, tensor_arg(c, 2))
    if not is_none(c, 3):
        refuse(c, "a bias is not supported")
    if dtype_arg(c, 4, a.dtype) is not a.dtype:
        refuse(c, f"out_dtype must be the dtype of the factors, {a.dtype.name}")
    if a.ndim == b.ndim:
        sizes[0] = a.sizes[0] if a.ndim == 3 else tensor_arg(c, 2).sizes[0]
        n = 1
    sizes[n] = a.sizes[a.ndim - 2]
    sizes[n + 1] = b.sizes[b.ndim - 1]
    return new_contiguous(n + 2, sizes, a.dtype, result_device(c))


cdef object grouped_body(Call* c):
    return call("_grouped_mm", (tensor_arg(c, 0), tensor_arg(c, 1), arg(c, 2), arg(c, 3), arg(c, 4)))


define("_grouped_mm(Tensor input, Tensor mat2, Tensor? offs=None, Tensor? bias=None, dtype? out_dtype=None) -> Tensor",
       grouped_meta, FUNCTION_ONLY, "Grouped matrix product, like `nn.functional.grouped_mm`.")
gradient("_grouped_mm", linear="input mat2", node="GroupedMmBackward0", input="grouped.first", mat2="grouped.second")
define("nn.functional.grouped_mm(Tensor mat_a, Tensor mat_b, *, Tensor? offs=None, Tensor? bias=None, "
       "dtype? out_dtype=None) -> Tensor", grouped_body, COMPOSITE | FUNCTION_ONLY,
       "Product of groups of rows or columns, each with its own matrix, in bfloat16, float16 or float32. The int32 "
       "vector `offs` (G,) holds the end of each group. For `mat_a` (M, K) and `mat_b` (G, K, N), the groups split M "
       "and the result is (M, N). For (G, M, K) and (K, N), they split N and the result is (M, N). For (M, K) and (K, "
       "N), they split K and the result is (G, M, N). Without `offs`, (G, M, K) and (G, K, N) give the batched "
       "product. `bias` is not supported.")
