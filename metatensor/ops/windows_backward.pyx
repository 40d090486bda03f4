"""Operators that compute the gradients of pooling, resizing, grid sampling and embedding.

Each gradient has the shape of the corresponding input.
"""
from metatensor._core.layout cimport set_format, suggest_format
from metatensor._core.op cimport FUNCTION_ONLY, Call, arg, define, dims_arg, int_arg, result_device, tensor_arg
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport MAX_DIMS, dim_t
from metatensor.ops.spatial cimport fail
from metatensor._core.gradients import gradient, ops
from metatensor._core.gradients import recorded_as
from metatensor._core.sharding import sharding


cdef object like_input(Call* c):
    """Arguments: grad_output, input, ... The result is dense in the memory format of the input."""
    cdef Tensor t = tensor_arg(c, 1)
    cdef dim_t strides[MAX_DIMS]
    set_format(t.ndim, t.sizes, strides, suggest_format(t.ndim, t.sizes, t.strides))
    return new_strided(t.ndim, t.sizes, strides, t.dtype, result_device(c))


cdef object like_pooled(Call* c):
    """Arguments: grad_output, input, indices, n. Without a batch, the result of three dimensions is contiguous."""
    cdef Tensor t = tensor_arg(c, 1)
    check_pooled(c, arg(c, 3))
    if int_arg(c, 3) == 3 and t.ndim == 4:
        return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))
    return like_input(c)


cdef int check_pooled(Call* c, object n) except -1:
    """Raise RuntimeError unless the gradient and the input have `n` (1 to 3) pooled dimensions, channels, and optionally a batch."""
    cdef Tensor g = tensor_arg(c, 0), t = tensor_arg(c, 1)
    if n not in (1, 2, 3) or g.ndim != t.ndim or t.ndim not in (n + 1, n + 2):
        fail(c, f"expected n from 1 to 3, and tensors of n + 1 or n + 2 dimensions, got n = {n}, grad_output of shape {shape_str(g)} and "
                f"input of shape {shape_str(t)}")
    return 0


cdef object like_averaged(Call* c):
    """Arguments: grad_output, input, kernel_size or n, ... The result of three dimensions is contiguous."""
    cdef Tensor t = tensor_arg(c, 1)
    n = arg(c, 2) if isinstance(arg(c, 2), int) else len(arg(c, 2))
    check_pooled(c, n)
    if n == 3:
        return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))
    return like_input(c)


cdef object of_sizes(Call* c):
    """Arguments: grad_output, input_size, scale_factor, mode, ..."""
    cdef Tensor g = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n = dims_arg(c, 1, sizes)
    if n != g.ndim:
        fail(c, f"input_size must have {g.ndim} sizes, got {n}")
    mode = arg(c, 3)
    if mode == "bicubic" or (n == 5 and mode in ("nearest", "nearest-exact")):
        return new_contiguous(n, sizes, g.dtype, result_device(c))
    set_format(n, sizes, strides, suggest_format(g.ndim, g.sizes, g.strides))
    return new_strided(n, sizes, strides, g.dtype, result_device(c))


cdef object embedding_backward(Call* c):
    """Arguments: grad_output, indices, num_weights, padding_idx, scale_grad_by_freq."""
    cdef Tensor g = tensor_arg(c, 0)
    cdef dim_t sizes[2]
    if g.ndim == 0 or int_arg(c, 2) < 0:
        fail(c, f"the gradient needs a dimension, and num_weights must not be negative, got shape {shape_str(g)}")
    sizes[0], sizes[1] = int_arg(c, 2), g.sizes[g.ndim - 1]
    return new_contiguous(2, sizes, g.dtype, result_device(c))


define("_max_pool_backward(Tensor grad_output, Tensor input, Tensor indices, int n) -> Tensor", like_pooled, FUNCTION_ONLY,
       "Gradient of max pooling over the last `n` dimensions.")
# The indices count the elements of the pooled dimensions, which therefore stay whole.
sharding("_max_pool_backward", "no cuts", *(f"cut grad_output, indices, input -> cat where n={n}, batch{n}=True" for n in (1, 2, 3)))
define("_avg_pool_backward(Tensor grad_output, Tensor input, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, "
       "int? divisor_override) -> Tensor", like_averaged, FUNCTION_ONLY, "Gradient of average pooling.")
sharding("_avg_pool_backward", "no cuts",
         *(f"cut grad_output, input -> cat where kernel_size_length={n}, batch{n}=True" for n in (1, 2, 3)))
sharding("_adaptive_avg_pool_backward", "no cuts", *(f"cut grad_output, input -> cat where n={n}, batch{n}=True" for n in (1, 2, 3)))
define("_adaptive_avg_pool_backward(Tensor grad_output, Tensor input, int n) -> Tensor", like_averaged, FUNCTION_ONLY,
       "Gradient of adaptive average pooling over the last `n` dimensions.")
define("_upsample_backward(Tensor grad_output, int[] input_size, any? scale_factor, str mode, bool? align_corners, "
       "bool? recompute_scale_factor, bool antialias) -> Tensor", of_sizes, FUNCTION_ONLY, "Gradient of `interpolate`.")
for _name in ("max_pool", "avg_pool", "adaptive_avg_pool"):
    gradient(f"_{_name}_backward", grad_output=f"windows.{_name}_twice", input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
recorded_as("_upsample_backward", "windows.upsample_backward")
define("embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq) -> Tensor",
       embedding_backward, FUNCTION_ONLY, "Gradient of `embedding` with respect to its table.")
recorded_as("embedding_dense_backward", "attention.embedding_dense_backward")

for _n in ("2d", "3d"):
    _node = _n.upper()
    recorded_as(f"nn.functional.max_pool{_n}", f"windows.max_pool{_n}")
    recorded_as(f"nn.functional.adaptive_max_pool{_n}", f"windows.adaptive_max_pool{_n}")
    recorded_as(f"nn.functional.fractional_max_pool{_n}", f"windows.fractional_max_pool{_n}")
    recorded_as(f"nn.functional.adaptive_avg_pool{_n}", f"windows.adaptive_avg_pool{_n}")
    recorded_as(f"nn.functional.lp_pool{_n}", f"windows.lp_pool{_n}")
    gradient(f"nn.functional.avg_pool{_n}", linear="input", node=f"AvgPool{_node}Backward0", input=f"windows.avg_pool{_n}")
    if _n == "2d":
        _max = lambda grad, input, result1: ops._max_pool_backward(grad, input, result1, 2)     # noqa: E731
        _mean = lambda grad, input: ops._adaptive_avg_pool_backward(grad, input, 2)     # noqa: E731
    else:
        _max = lambda grad, input, result1: ops._max_pool_backward(grad, input, result1, 3)     # noqa: E731
        _mean = lambda grad, input: ops._adaptive_avg_pool_backward(grad, input, 3)     # noqa: E731
    gradient(f"nn.functional.max_pool{_n}_with_indices", node=f"MaxPool{_node}WithIndicesBackward0", outputs=(0,), input=_max)
    gradient(f"nn.functional.adaptive_max_pool{_n}_with_indices", node=f"AdaptiveMaxPool{_node}Backward0", outputs=(0,), input=_max)
    gradient(f"nn.functional.fractional_max_pool{_n}_with_indices", node=f"FractionalMaxPool{_node}Backward0", outputs=(0,), input=_max)
    gradient(f"nn.functional.adaptive_avg_pool{_n}", linear="input", node=f"AdaptiveAvgPool{_node}Backward0", input=_mean)
gradient("nn.functional.max_unpool2d", linear="input", node="MaxUnpool2DBackward0", input="windows.unpool2d")
gradient("nn.functional.max_unpool3d", linear="input", node="MaxUnpool3DBackward0", input="windows.unpool3d")
for _name in ("max_pool1d", "max_pool1d_with_indices", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices", "max_unpool1d",
              "avg_pool1d", "adaptive_avg_pool1d", "lp_pool1d"):
    recorded_as(f"nn.functional.{_name}", f"windows.{_name}")
recorded_as("max_pool1d_with_indices", "windows.max_pool1d_with_indices")
recorded_as("adaptive_max_pool1d", "windows.adaptive_max_pool1d_with_indices")
recorded_as("nn.functional.interpolate", "windows.interpolate")
gradient("nn.functional.interpolate", linear="input", node="windows.upsample_node", input="windows.upsample")
gradient("nn.functional.embedding", tangent="tangents.embedding", node="EmbeddingBackward0", weight="attention.embedding_weight")
gradient("embedding", linear="weight", node="EmbeddingBackward0", weight="attention.table_weight")
recorded_as("nn.functional.scaled_dot_product_attention", "attention.attention")


# Sampling ---------------------------------------------------------------------------------------------

cdef object grid_sampler_backward(Call* c):
    """Arguments: grad_output, input, grid, mode, padding_mode, align_corners, output_mask."""
    cdef Tensor t = tensor_arg(c, 1), grid = tensor_arg(c, 2)
    mask = arg(c, 6)
    if len(mask) != 2:
        fail(c, f"output_mask must have 2 values, got {mask}")
    return (new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c)) if mask[0] else None,
            new_contiguous(grid.ndim, grid.sizes, grid.dtype, result_device(c)) if mask[1] else None)


define("_grid_sampler_backward(Tensor grad_output, Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners, "
       "bool[] output_mask) -> (Tensor, Tensor)", grid_sampler_backward, FUNCTION_ONLY, "Gradients of `grid_sample`.")
recorded_as("_grid_sampler_backward", "sampling.grid_sampler_backward")
gradient("nn.functional.grid_sample", node="sampling.grid_node", joint="sampling.grid_sample_gradients", input=True, grid=True)
for _name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"):
    gradient(_name, node="sampling.grid_node", joint="sampling.grid_sampler_gradients", input=True, grid=True)
recorded_as("nn.functional.affine_grid", "sampling.affine_grid")
recorded_as("affine_grid_generator", "sampling.affine_grid")
