"""Contractions: tensordot, inner, vecdot, kron and chains of matrix products. All except vecdot are composed of other
ops."""
from metatensor._core.layout cimport Layout, broadcast_into, copy_dims, mul_dims
from metatensor._core.op cimport (
    NO_OVERLAP, NO_PARTIAL, COMPOSITE, EXACT_OUT, FUNCTION_ONLY, OUT, WITH_OUT, Call, arg, call, define, dim_arg, op_name, result_device,
    tensor_arg, tensors_arg, wrap,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport MAX_ARGS, MAX_DIMS, T_CONTIGUOUS, T_VIEW, dim_t
from metatensor.ops.matmul cimport same_dtype
from metatensor.ops.reduction cimport require_floating
from metatensor._core import errors
from metatensor._core.gradients import recorded_as

cdef Tensor permuted(Tensor t, list order):
    return t if order == list(range(t.ndim)) else call("permute", (t, order))


# tensordot and inner -------------------------------------------------------------------

cdef int check_contracted(str op, Tensor a, int i, Tensor b, int j) except -1:
    if a.sizes[i] != b.sizes[j] and a.sizes[i] != 1 and b.sizes[j] != 1:
        raise RuntimeError(f"{op}(): contracted dimensions must have the same size, got {a.sizes[i]} (dimension {i} of "
                           f"{shape_str(a)}) and {b.sizes[j]} (dimension {j} of {shape_str(b)})")
    return 0


cdef Tensor contracted(str op, Tensor a, Tensor b, list dims_a, list dims_b):
    """Return the sum of products over pairs of dimensions. If one dimension of a pair has size 1, the other tensor is
    summed over its own dimension of the pair first."""
    cdef list free_a, free_b, shape
    cdef int i, j
    for i, j in zip(dims_a, dims_b):
        check_contracted(op, a, i, b, j)
        if a.sizes[i] != b.sizes[j]:
            if a.sizes[i] == 1:
                b = call("sum", (b, j, True), {"dtype": b.dtype})
            else:
                a = call("sum", (a, i, True), {"dtype": a.dtype})
    free_a = [i for i in range(a.ndim) if i not in dims_a]
    free_b = [i for i in range(b.ndim) if i not in dims_b]
    shape = [a.sizes[<int>i] for i in free_a] + [b.sizes[<int>i] for i in free_b]
    rows, columns, k = 1, 1, 1
    for i in free_a:
        rows *= a.sizes[i]
    for i in free_b:
        columns *= b.sizes[i]
    for i in dims_a:
        k *= a.sizes[i]
    a, b = permuted(a, free_a + dims_a), permuted(b, dims_b + free_b)
    if rows == 1 and columns == 1:
        # The result is one number. `dot` would copy operands that are not contiguous; `mul` and `sum` do not.
        if a.flags & T_CONTIGUOUS and b.flags & T_CONTIGUOUS:
            product = call("dot", (call("reshape", (a, (k,))), call("reshape", (b, (k,)))))
        else:
            product = call("sum", (call("mul", (call("squeeze", (a,)), call("squeeze", (b,)))),), {"dtype": a.dtype})
        return call("view", (product, shape))
    left = call("reshape", (a, (rows, k)))
    right = call("reshape", (b, (k, columns)))
    return call("reshape", (call("mm", (left, right)), shape))


cdef object tensordot_body(Call* c):
    """Arguments: a, b, dims. `dims` is a number of dimensions, or a list of dimensions of a and one of b."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef object dims = arg(c, 2)
    cdef int k
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)) and len(dims) == 1 and isinstance(dims[0], int):
        dims = dims[0]
    if isinstance(dims, int):
        if dims < 0 or dims > a.ndim or dims > b.ndim:
            raise RuntimeError(f"tensordot(): dims must be between 0 and the number of dimensions, got {dims} for "
                               f"shapes {shape_str(a)} and {shape_str(b)}")
        dims_a, dims_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        if not isinstance(dims, (list, tuple)) or len(dims) != 2:
            raise RuntimeError(f"tensordot(): dims must be an int or two lists of dimensions, got {dims!r}")
        dims_a, dims_b = [[d] if isinstance(d, int) else list(d) for d in dims]
        if len(dims_a) != len(dims_b):
            raise RuntimeError(f"tensordot(): dims must name the same number of dimensions of a and b, got {dims_a} "
                               f"and {dims_b}")
        if dims_a and (a.ndim == 0 or b.ndim == 0):
            raise IndexError("tensordot(): dimensions were given for a tensor that has none")
        for k in range(len(dims_a)):
            dims_a[k], dims_b[k] = wrap(c, dims_a[k], a.ndim), wrap(c, dims_b[k], b.ndim)
            check_contracted("tensordot", a, dims_a[k], b, dims_b[k])
        for dims in (dims_a, dims_b):
            if len(set(dims)) < len(dims):
                raise RuntimeError(f"tensordot(): a dimension appears more than once in {dims}")
    same_dtype(c, a, b, "a", "b")
    return contracted("tensordot", a, b, dims_a, dims_b)


cdef object inner_body(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    if a.ndim == 0 or b.ndim == 0:
        return call("mul", (a, b))
    same_dtype(c, a, b, "input", "other")
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype is not a.dtype:
        raise errors.cannot_cast(op_name(c), a.dtype, (<Tensor>c.out).dtype)
    if a.sizes[a.ndim - 1] != b.sizes[b.ndim - 1]:
        raise RuntimeError(f"inner(): the last dimensions of input and other must have the same size, got shapes "
                           f"{shape_str(a)} and {shape_str(b)}")
    return contracted("inner", a, b, [a.ndim - 1], [b.ndim - 1])


cdef object vecdot_meta(Call* c):
    """Arguments: x, y, dim. The result is the sum of conj(x) * y over `dim` of the broadcast shape."""
    cdef Tensor x = tensor_arg(c, 0), y = tensor_arg(c, 1)
    cdef Layout lay
    cdef dim_t sizes[MAX_DIMS]
    cdef int i, n = 0, dim
    require_floating(c, x.dtype)
    same_dtype(c, x, y, "x", "y")
    if x.ndim == 1 and y.ndim == 1 and x.sizes[0] != y.sizes[0]:
        raise RuntimeError(f"{op_name(c)}(): two vectors must have the same number of elements, got shapes "
                           f"{shape_str(x)} and "
                           + shape_str(y))
    lay.ndim = x.ndim
    copy_dims(lay.sizes, x.sizes, x.ndim)
    if broadcast_into(&lay, y.ndim, y.sizes):
        raise RuntimeError(f"{op_name(c)}(): the shapes {shape_str(x)} and {shape_str(y)} do not broadcast")
    dim = dim_arg(c, 2, lay.ndim)
    for i in range(lay.ndim):
        if i != dim:
            sizes[n] = lay.sizes[i]
            n += 1
    return new_contiguous(n, sizes, x.dtype, result_device(c))


define("tensordot(Tensor a, Tensor b, any dims=2) -> Tensor", tensordot_body, COMPOSITE | OUT | EXACT_OUT | FUNCTION_ONLY,
       "Sum of products over the last `dims` dimensions of `a` and the first `dims` dimensions of `b`. `dims` may also "
       "be a list of dimensions of `a` and a list of dimensions of `b`, which are paired in order. The result has the "
       "remaining dimensions of `a`, then those of `b`.")
define("inner(Tensor input, Tensor other) -> Tensor", inner_body, COMPOSITE | OUT,
       "Sum of products over the last dimensions, which must have the same size. If an operand is 0-d, the result is "
       "the product.")
define("linalg.vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", vecdot_meta, OUT | EXACT_OUT,
       "Broadcast `x` and `y`, and return the sum of `conj(x) * y` along `dim`. The result has one dimension less.")
recorded_as("linalg.vecdot", "products.vecdot")


# kron and chains ------------------------------------------------------------------------

cdef object kron_body(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef int n = max(a.ndim, b.ndim), i
    cdef dim_t size_a, size_b
    cdef Tensor product, result
    left, right, shape = [], [], []
    for i in range(n):
        size_a = 1 if i < n - a.ndim else a.sizes[i - n + a.ndim]
        size_b = 1 if i < n - b.ndim else b.sizes[i - n + b.ndim]
        left += [size_a, 1]
        right += [1, size_b]
        shape.append(mul_dims(size_a, size_b))
    product = call("mul", (call("_unsafe_view", (a, left)), call("_unsafe_view", (b, right))))
    # If the operands are strided, the product may have strides that allow no view with these sizes.
    result = <Tensor>call("_unsafe_view" if product.flags & T_CONTIGUOUS else "reshape", (product, shape))
    if result.base is product:      # nothing else refers to the product
        result.base = None
        result.flags &= ~T_VIEW
    return result


cdef object chained(list mats):
    """Return the product of matrices, computed in the order that needs the fewest scalar multiplications."""
    cdef int n = len(mats), span, i, j, k
    if n == 2:
        return call("mm", (mats[0], mats[1]))
    if n == 3:
        # If both orders cost the same, three matrices are multiplied from the left, and more from the right.
        p, q = (<Tensor>mats[0]).sizes[0], (<Tensor>mats[2]).sizes[1]
        inner, outer = (<Tensor>mats[0]).sizes[1], (<Tensor>mats[2]).sizes[0]
        if p * outer * (inner + q) <= inner * q * (outer + p):
            return call("mm", (call("mm", (mats[0], mats[1])), mats[2]))
        return call("mm", (mats[0], call("mm", (mats[1], mats[2]))))
    p = [(<Tensor>m).sizes[0] for m in mats] + [(<Tensor>mats[n - 1]).sizes[1]]
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            best = None
            for k in range(i, j):
                total = cost[i][k] + cost[k + 1][j] + p[i] * p[k + 1] * p[j + 1]
                if best is None or total < best:
                    best = total
                    split[i][j] = k
            cost[i][j] = best
    return chain_part(mats, split, 0, n - 1)


cdef object chain_part(list mats, list split, int i, int j):
    """Return the product of matrices i to j, inclusive."""
    if i == j:
        return mats[i]
    k = split[i][j]
    return call("mm", (chain_part(mats, split, i, k), chain_part(mats, split, k + 1, j)))


cdef object multi_dot_body(Call* c):
    """Arguments: tensors. A vector counts as a row if it is the first tensor, and as a column if it is the last."""
    cdef list given = list(tensors_arg(c, 0))
    cdef int n = len(given), k
    cdef Tensor t, first, last
    if n < 2:
        raise RuntimeError(f"{op_name(c)}(): at least 2 tensors are needed, got {n}")
    first, last = given[0], given[n - 1]
    for k in range(n):
        t = <Tensor>given[k]
        if t.ndim != 2 and not (t.ndim == 1 and (k == 0 or k == n - 1)):
            raise RuntimeError(f"{op_name(c)}(): tensor {k} must be a matrix"
                               f"{' or a vector' if k == 0 or k == n - 1 else ''}, got shape {shape_str(t)}")
        same_dtype(c, first, t, "tensor 0", f"tensor {k}")
    mats = [call("unsqueeze", (first, 0)) if first.ndim == 1 else first] + given[1:n - 1] \
        + [call("unsqueeze", (last, 1)) if last.ndim == 1 else last]
    for k in range(1, n):
        if (<Tensor>mats[k - 1]).sizes[1] != (<Tensor>mats[k]).sizes[0]:
            raise RuntimeError(f"{op_name(c)}(): the shapes of tensors {k - 1} and {k} cannot be multiplied: "
                               f"{shape_str(<Tensor>given[k - 1])} and {shape_str(<Tensor>given[k])}")
    t = <Tensor>chained(mats)
    shape = ([t.sizes[0]] if first.ndim == 2 else []) + ([t.sizes[1]] if last.ndim == 2 else [])
    return call("view", (t, shape))


cdef object chain_of(Call* c, list given):
    for t in given:
        if (<Tensor>t).ndim != 2:
            raise RuntimeError(f"chain_matmul(): a matrix is needed, got shape {shape_str(<Tensor>t)}")
    if not given:
        raise RuntimeError("chain_matmul(): at least one matrix is needed")
    if len(given) == 1:
        if c.variant == WITH_OUT and isinstance(<object>c.out, Tensor):
            return given[0] if given[0].dtype is (<Tensor>c.out).dtype else given[0].to((<Tensor>c.out).dtype)   # a copy
        return given[0]
    return chained(given)


cdef object chain_matmul_body(Call* c):
    return chain_of(c, tensors_arg(c, 0))


cdef object several_body(Call* c):
    """Arguments: matrix1, matrix2, ..."""
    cdef list given = []
    cdef int i = 0
    while i < MAX_ARGS and arg(c, i) is not None:
        given.append(arg(c, i))
        i += 1
    return chain_of(c, given)


define("kron(Tensor input, Tensor other) -> Tensor", kron_body, COMPOSITE | OUT | NO_OVERLAP,
       "Kronecker product: each element of `input` times `other`, as blocks of the result. Dimension i of the result "
       "has size `input.shape[i] * other.shape[i]`. The tensor with fewer dimensions gets leading dimensions of size "
       "1.")
define("linalg.multi_dot(Tensor[] tensors) -> Tensor", multi_dot_body, COMPOSITE | OUT | EXACT_OUT,
       "Product of two or more matrices, multiplied in the cheapest order. The first and last may be vectors.")
define("chain_matmul(Tensor[] matrices) -> Tensor", chain_matmul_body,
       COMPOSITE | FUNCTION_ONLY | OUT | EXACT_OUT | NO_PARTIAL,
       "Product of one or more matrices, multiplied in the cheapest order.")
define("chain_matmul.several(Tensor matrix1, "
       + ", ".join([f"Tensor? matrix{i}=None" for i in range(2, MAX_ARGS + 1)]) + ") -> Tensor", several_body,
       COMPOSITE | FUNCTION_ONLY | OUT | EXACT_OUT | NO_PARTIAL)
