"""Look-up of rows of a table by index: embedding, embedding_bag and one_hot."""
from metatensor._core.device cimport META
from metatensor._core.dtype cimport I32, I64, by_code, promote
from metatensor._core.layout cimport dims_equal
from metatensor._core.op cimport (
    FUNCTION_ONLY, MIXED, Call, arg, bool_arg, call, define, int_arg, is_none, make_returns, op_name, result_device, tensor_arg,
)
from metatensor._core.storage cimport has_values
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_FLOAT, MAX_DIMS, dim_t
from metatensor._core.versions cimport detached
from metatensor.ops.gathering cimport look_up
from metatensor.ops.spatial cimport FLOATS, fail, fail_slot, need_dtype

from metatensor._core import errors
from metatensor._core.gradients import gradient, recorded_as


cdef int check_indices(Call* c, int slot) except -1:
    cdef int code = tensor_arg(c, slot).dtype.code
    if code != I64 and code != I32:
        fail_slot(c, slot, f"must be int64 or int32, got {tensor_arg(c, slot).dtype.name}")
    return 0


cdef Tensor rows(Call* c, Tensor indices, Tensor weight):
    """Return a result of shape (*indices.shape, D) for a table `weight` of shape (V, D)."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int i, n = indices.ndim
    if weight.ndim != 2:
        fail(c, f"the weight must have 2 dimensions, got shape {shape_str(weight)}")
    if weight.sizes[0] == 0 and indices.total:
        fail(c, f"the weight of shape {shape_str(weight)} has no rows to look up")
    if n >= MAX_DIMS:
        fail(c, f"at most {MAX_DIMS - 1} dimensions of indices are supported")
    for i in range(n):
        sizes[i] = indices.sizes[i]
    sizes[n] = weight.sizes[1]
    return new_contiguous(n + 1, sizes, weight.dtype, result_device(c))


cdef int renorm(Tensor weight, Tensor indices, object max_norm, object norm_type) except -1:
    """Scale the rows that are looked up to a norm of at most `max_norm`, in place."""
    call("embedding_renorm_", (detached(weight), indices, max_norm, norm_type))
    return 0


cdef object embedding(Call* c):
    cdef Tensor indices = tensor_arg(c, 0), weight = tensor_arg(c, 1)
    cdef dim_t pad
    look_up(c, weight, indices)
    check_indices(c, 0)
    if not is_none(c, 2):
        pad = int_arg(c, 2)
        if weight.ndim == 2 and (pad >= weight.sizes[0] or pad < -weight.sizes[0]):
            raise AssertionError(f"{op_name(c)}(): argument 'padding_idx' is {pad}, but the weight has "
                                 f"{weight.sizes[0]} rows")
    result = rows(c, indices, weight)
    if not is_none(c, 3):
        renorm(weight, indices, arg(c, 3), arg(c, 4))
    return result


cdef object table_lookup(Call* c):
    look_up(c, tensor_arg(c, 0), tensor_arg(c, 1))
    check_indices(c, 1)
    return rows(c, tensor_arg(c, 1), tensor_arg(c, 0))


cdef object embedding_renorm_(Call* c):
    cdef Tensor weight = tensor_arg(c, 0)
    check_indices(c, 1)
    if weight.ndim != 2:
        fail(c, f"the weight must have 2 dimensions, got shape {shape_str(weight)}")
    need_dtype(c, weight, FLOATS)
    return weight


# Bags ----------------------------------------------------------------------------------

cdef dim_t bags(Call* c, Tensor indices) except -1:
    """Return the number of bags: rows of a 2-d index, or the runs of a vector that begin at the offsets."""
    cdef Tensor offsets
    cdef dim_t n
    if indices.ndim == 2:
        if not is_none(c, 2):
            raise ValueError(f"{op_name(c)}(): with an input of 2 dimensions, every row is a bag and 'offsets' "
                             "must be None")
        if indices.sizes[1] == 0:       # as in PyTorch, which passes this size to arange() as the step
            fail(c, f"bags without elements need 'offsets', got an input of shape {shape_str(indices)}")
        return indices.sizes[0]
    if indices.ndim != 1:
        raise ValueError(f"{op_name(c)}(): expected an input of 1 or 2 dimensions, got shape {shape_str(indices)}")
    if is_none(c, 2):
        raise ValueError(f"{op_name(c)}(): with an input of 1 dimension, 'offsets' must be given")
    offsets = tensor_arg(c, 2)
    if offsets.ndim != 1:
        raise ValueError(f"{op_name(c)}(): 'offsets' must have 1 dimension, got shape {shape_str(offsets)}")
    common = promote(indices.dtype, offsets.dtype)      # PyTorch converts both
    if common.code != I64 and common.code != I32:
        fail_slot(c, 2, f"must promote to int64 or int32 with the input, got {offsets.dtype.name} and {indices.dtype.name}")
    n = offsets.sizes[0]
    if bool_arg(c, 9):
        if n == 0:
            fail_slot(c, 2, "must hold at least one value with include_last_offset")
        n -= 1
    return n


cdef int check_sample_weights(Call* c, Tensor weight, str mode) except -1:
    cdef Tensor samples = tensor_arg(c, 8)
    if mode != "sum":
        raise NotImplementedError(f"{op_name(c)}(): per_sample_weights needs mode='sum', got mode={mode!r}")
    if samples.dtype is not weight.dtype:
        fail(c, f"per_sample_weights must be {weight.dtype.name} like the weight, got {samples.dtype.name}")
    return 0


cdef int check_sample_shape(Call* c, Tensor indices) except -1:
    cdef Tensor samples = tensor_arg(c, 8)
    if samples.ndim != indices.ndim or not dims_equal(samples.sizes, indices.sizes, indices.ndim):
        raise ValueError(f"{op_name(c)}(): per_sample_weights must have the input's shape {shape_str(indices)}, "
                         f"got {shape_str(samples)}")
    return 0


cdef tuple bag_work(Call* c, Tensor indices, const dim_t* sizes, str mode):
    """Return outputs for a contiguous index, the offsets of rows, the bag of each index, the sizes of bags, and the maxima."""
    cdef dim_t starts = sizes[0] if indices.ndim == 2 else tensor_arg(c, 2).sizes[0]
    return (None if indices.is_contiguous() else new_contiguous(1, &indices.total, indices.dtype, META),
            new_contiguous(1, &starts, indices.dtype, META) if indices.ndim == 2 else None,
            new_contiguous(1, &indices.total, indices.dtype, META), new_contiguous(1, &starts, indices.dtype, META),
            new_contiguous(2, sizes, indices.dtype, META) if mode == "max" else None)


cdef object embedding_bag(Call* c):
    cdef Tensor indices = tensor_arg(c, 0), weight = tensor_arg(c, 1)
    cdef str mode = arg(c, 6)
    cdef dim_t sizes[2]
    cdef dim_t pad
    if not is_none(c, 8):
        check_sample_shape(c, indices)
    if weight.ndim != 2:
        raise ValueError(f"{op_name(c)}(): the weight must have 2 dimensions, got shape {shape_str(weight)}")
    sizes[0] = bags(c, indices)
    sizes[1] = weight.sizes[1]
    if mode != "sum" and mode != "mean" and mode != "max":
        raise ValueError(f"{op_name(c)}(): argument 'mode' must be 'sum', 'mean' or 'max', got {mode!r}")
    if mode == "max" and (bool_arg(c, 5) or bool_arg(c, 7)):
        raise ValueError(f"{op_name(c)}(): mode='max' does not support scale_grad_by_freq and sparse")
    if indices.ndim == 2:
        check_indices(c, 0)
    if weight.dtype.kind != KIND_FLOAT:
        fail(c, f"the weight must be floating-point, got {weight.dtype.name}")
    need_dtype(c, weight, FLOATS)
    if not is_none(c, 8):
        check_sample_weights(c, weight, mode)
    if not is_none(c, 10):
        pad = int_arg(c, 10)
        if pad >= weight.sizes[0] or pad < -weight.sizes[0]:
            fail_slot(c, 10, f"is {pad}, but the weight has {weight.sizes[0]} rows")
    result = new_contiguous(2, sizes, weight.dtype, result_device(c))
    if result_device(c) is META:     # trackers count the temporaries of the call
        _work = bag_work(c, indices, sizes, mode)
    if not is_none(c, 3):
        renorm(weight, indices if indices.ndim == 2 else <Tensor>indices.to(by_code(I64)), arg(c, 3), arg(c, 4))
    return result


cdef object bag_parts_meta(Call* c):
    """Arguments: weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
    padding_idx."""
    cdef Tensor weight = tensor_arg(c, 0), indices = tensor_arg(c, 1), offsets = tensor_arg(c, 2)
    cdef dim_t sizes[2]
    cdef dim_t none = 0
    sizes[0], sizes[1] = offsets.total - (1 if bool_arg(c, 7) else 0), weight.sizes[1]
    return make_returns(c, (new_contiguous(2, sizes, weight.dtype, result_device(c)),
                            new_contiguous(1, indices.sizes, indices.dtype, result_device(c)),
                            new_contiguous(1, offsets.sizes, indices.dtype, result_device(c)),
                            new_contiguous(2, sizes, indices.dtype, result_device(c)) if arg(c, 4) == "max" else
                            new_contiguous(1, &none, indices.dtype, result_device(c))))


cdef object bag_backward_meta(Call* c):
    """Arguments: grad (B, D), indices, offset2bag, bag_size, maximum_indices, per_sample_weights, num_weights, ..."""
    cdef Tensor grad = tensor_arg(c, 0)
    cdef dim_t sizes[2]
    if grad.ndim != 2 or tensor_arg(c, 1).ndim != 1:
        fail(c, f"expected a gradient of 2 dimensions and a vector of indices, got shapes {shape_str(grad)} and "
                + shape_str(tensor_arg(c, 1)))
    sizes[0], sizes[1] = int_arg(c, 6), grad.sizes[1]
    return new_contiguous(2, sizes, grad.dtype, result_device(c))


cdef object bag_weights_backward_meta(Call* c):
    """Arguments: grad (B, D), weight (V, D), indices, offset2bag, padding_idx."""
    cdef Tensor grad = tensor_arg(c, 0), indices = tensor_arg(c, 2)
    if grad.ndim != 2 or indices.ndim != 1:
        fail(c, f"expected a gradient of 2 dimensions and a vector of indices, got shapes {shape_str(grad)} and {shape_str(indices)}")
    return new_contiguous(1, indices.sizes, grad.dtype, result_device(c))


# One-hot ----------------------------------------------------------------------------------

cdef object one_hot(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t classes = int_arg(c, 1)
    cdef int i
    if t.dtype.code != I64:
        fail_slot(c, 0, f"must be int64, got {t.dtype.name}")
    if classes < -1 or (classes == 0 and t.total):
        fail_slot(c, 1, f"must be positive, or -1 for one more than the largest value, got {classes}")
    if classes <= 0 and not t.total:
        fail_slot(c, 1, f"must be given for an input without elements, of shape {shape_str(t)}")
    if t.ndim >= MAX_DIMS:
        fail(c, f"at most {MAX_DIMS - 1} dimensions are supported")
    if classes == -1:
        if result_device(c) is META or not has_values(t.storage):
            raise errors.data_dependent(op_name(c), result_device(c), t.shape)
        classes = call("max", (t,)).item() + 1
    for i in range(t.ndim):
        sizes[i] = t.sizes[i]
    sizes[t.ndim] = classes
    return new_contiguous(t.ndim + 1, sizes, t.dtype, result_device(c))


define("nn.functional.embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, "
       "float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", embedding, FUNCTION_ONLY | MIXED,
       "Rows of `weight` (V, D) at the int64 or int32 indices `input`: shape (*input.shape, D). If `max_norm` is "
       "given, the rows that are looked up are first scaled in place to a `norm_type`-norm of at most `max_norm`.")
define("embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
       "bool sparse=False) -> Tensor", table_lookup, FUNCTION_ONLY | MIXED,
       "Rows of `weight` (V, D) at the int64 or int32 `indices`: shape (*indices.shape, D).")
define("embedding_renorm_(Tensor(a!) input, Tensor indices, float max_norm, float norm_type) -> Tensor",
       embedding_renorm_, FUNCTION_ONLY,
       "Scale the rows of `input` at the indices to a `norm_type`-norm of at most `max_norm`, in place.")
define("nn.functional.embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, "
       "float norm_type=2.0, bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, "
       "Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) -> Tensor",
       embedding_bag, FUNCTION_ONLY,
       "Sum, mean or maximum (`mode`) of the rows of `weight` (V, D) in each bag of indices: shape (B, D). The bags "
       "are the rows of a 2-d `input`, or the runs of a vector that begin at `offsets`. `per_sample_weights`, of the "
       "shape of `input`, scales the rows in mode 'sum'. Indices equal to `padding_idx` do not contribute.")
define("_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, str mode, bool sparse, "
       "Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) "
       "-> (Tensor output, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices)", bag_parts_meta, FUNCTION_ONLY | MIXED,
       "`nn.functional.embedding_bag` of a vector of indices, with what its gradient needs: the bag of each index, the "
       "size of each bag, and the index of each maximum.")
define("_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, "
       "Tensor? per_sample_weights, int num_weights, bool scale_grad_by_freq, str mode, int? padding_idx) -> Tensor",
       bag_backward_meta, FUNCTION_ONLY | MIXED, "Gradient of `_embedding_bag` with respect to its table.")
recorded_as("_embedding_bag_backward", "sampling.bag_gradient")
define("_embedding_bag_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offset2bag, int? padding_idx) "
       "-> Tensor", bag_weights_backward_meta, FUNCTION_ONLY | MIXED,
       "Gradient of `_embedding_bag` with respect to the weights of the samples.")
recorded_as("_embedding_bag_weights_backward", "sampling.bag_weights_gradient")
gradient("_embedding_bag", outputs=(0,), weight="sampling.bag_weight", per_sample_weights="sampling.bag_sample_weights")
recorded_as("nn.functional.embedding_bag", "sampling.embedding_bag")
define("nn.functional.one_hot(Tensor input, int num_classes=-1) -> Tensor", one_hot, FUNCTION_ONLY,
       "One-hot encoding of an int64 tensor: a new last dimension of size `num_classes` holds 1 at the index and 0 "
       "elsewhere. With `num_classes=-1` the size is one more than the largest value, so `input` must hold data.")
