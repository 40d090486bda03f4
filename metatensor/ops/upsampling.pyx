"""Resampling of images: interpolation to another size, and sampling at given positions."""
from libc.math cimport floor
from metatensor._core.dtype cimport U8

import warnings

from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, Call, arg, bool_arg, call, define, dims_arg, int_arg, is_none, op_name, result_device,
    tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport FORMAT_CONTIGUOUS, KIND_FLOAT, MAX_DIMS, T_RETRIED, dim_t
from metatensor.ops.spatial cimport (
    FLOATS, Image, dims_str, fail, fail_slot, image_format, need_dtype, new_image, read_image,
)

# _corners holds the number of spatial dimensions that each mode requires. The modes in _plain support any number, but
# not align_corners.
cdef dict _corners = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3, "lanczos": 2}
cdef tuple _plain = ("nearest", "nearest-exact", "area")


cdef tuple per_dimension(Call* c, int slot, str name, int n):
    """Return an argument as a tuple of one value for each of `n` spatial dimensions."""
    cdef object value = arg(c, slot)
    if isinstance(value, (tuple, list)):
        value = tuple(value)        # iterate only once, because a subclass of list may give other values the next time
        if len(value) != n:
            raise ValueError(f"{op_name(c)}(): argument '{name}' must be a number or {n} of them, got {value}")
        return value
    return (value,) * n


cdef int check_mode(Call* c, Tensor t, str mode) except -1:
    """Check the mode, the arguments that depend on it, and that either size or scale_factor is given."""
    cdef bint corners = not is_none(c, 4) and bool_arg(c, 4)
    if mode in _plain:
        if not is_none(c, 4):
            raise ValueError(f"{op_name(c)}(): align_corners requires mode 'linear', 'bilinear', 'bicubic' or "
                             f"'trilinear', got mode={mode!r}")
    if bool_arg(c, 6) and (mode not in ("bilinear", "bicubic", "lanczos") or t.ndim != 4):
        raise ValueError(f"{op_name(c)}(): antialias requires mode 'bilinear', 'bicubic' or 'lanczos' and an input "
                         f"of 4 dimensions, got mode={mode!r} and shape {shape_str(t)}")
    if is_none(c, 1) == is_none(c, 2):
        raise ValueError(f"{op_name(c)}(): needs either size or scale_factor, got "
                         f"{'neither' if is_none(c, 1) else 'both'}")
    per_dimension(c, 1, "size", t.ndim - 2)
    per_dimension(c, 2, "scale_factor", t.ndim - 2)
    if t.ndim < 3 or t.ndim > 5 or (mode not in _plain and _corners.get(mode) != t.ndim - 2):
        raise NotImplementedError(f"{op_name(c)}(): mode={mode!r} is not supported for an input of shape "
                                  f"{shape_str(t)}; "
                                  "use 'nearest', 'nearest-exact', 'area', 'linear' (3 dimensions), 'bilinear', "
                                  "'bicubic', 'lanczos' (4) or 'trilinear' (5)")
    if mode == "lanczos" and (corners or not bool_arg(c, 6)):
        raise ValueError(f"{op_name(c)}(): mode='lanczos' requires antialias=True and does not support align_corners")
    return 0


cdef int wrong_type(Call* c, int slot, str name, int n) except -1:
    raise TypeError(f"{op_name(c)}(): argument '{name}' must be a number or {n} of them, got {arg(c, slot)!r}")


cdef int resized(Call* c, Image* x, dim_t least, dim_t* sizes) except -1:
    """Compute the output sizes: the requested ones, or the input's sizes times the factors, rounded down.

    Raise RuntimeError if one of them is below `least`.
    """
    cdef int i = 2
    if not is_none(c, 1):
        if not is_none(c, 5) and bool_arg(c, 5):
            raise ValueError(f"{op_name(c)}(): recompute_scale_factor cannot be combined with size")
        for v in per_dimension(c, 1, "size", x.n):
            if type(v) is not int and (isinstance(v, bool) or not hasattr(v, "__index__")):
                wrong_type(c, 1, "size", x.n)
            sizes[i] = v
            i += 1
    else:
        for v in per_dimension(c, 2, "scale_factor", x.n):
            if not isinstance(v, (int, float)):
                wrong_type(c, 2, "scale_factor", x.n)
            sizes[i] = scaled(c, x.sizes[i], v)
            i += 1
    for i in range(2, x.n + 2):
        if sizes[i] < least or x.sizes[i] <= 0:
            fail(c, f"sizes must be positive: input {dims_str(x.n, x.sizes + 2)}, output {dims_str(x.n, sizes + 2)}")
    return 0


cdef dim_t scaled(Call* c, dim_t size, double factor) except? -1:
    cdef double product = floor(<double>size * factor)
    if not -9e18 < product < 9e18:
        fail(c, f"a size of {size} times {factor} is out of range")
    return <dim_t>product


cdef object interpolate(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef str mode = arg(c, 3)
    cdef Image x
    cdef dim_t sizes[5]
    check_mode(c, t, mode)
    read_image(c, t, t.ndim - 2, &x)
    resized(c, &x, 0 if mode == "area" else 1, sizes)
    if t.dtype.code != U8 or mode == "area":
        need_dtype(c, t, FLOATS)
    if x.sizes[1] == 0 and mode != "area":
        fail(c, f"only the batch may be empty, got an input of shape {shape_str(t)}")
    sizes[0] = x.sizes[0]
    sizes[1] = x.sizes[1]
    if x.n == 1 and mode != "area" or x.n == 3 and mode == "area":
        return new_image(c, &x, sizes, t.dtype, FORMAT_CONTIGUOUS)
    return new_image(c, &x, sizes, t.dtype, image_format(&x))


cdef object upsample(Call* c):
    return call("nn.functional.interpolate", (arg(c, 0), arg(c, 1), arg(c, 2), arg(c, 3), arg(c, 4)))


cdef object upsample_nearest(Call* c):
    return call("nn.functional.interpolate", (arg(c, 0), arg(c, 1), arg(c, 2)))


cdef object upsample_bilinear(Call* c):
    return call("nn.functional.interpolate", (arg(c, 0), arg(c, 1), arg(c, 2), "bilinear", True))


# Sampling by a grid ------------------------------------------------------------------------

cdef object sampled(Call* c, bint cubic, int n):
    """Return a result of (N, C, spatial sizes of the grid).

    `n` is the required number of spatial dimensions, or 0 to take it from the input.
    """
    cdef Tensor t = tensor_arg(c, 0), grid = tensor_arg(c, 1)
    cdef dim_t sizes[5]
    cdef int i
    if t.ndim == 0 or grid.ndim == 0:
        raise IndexError(f"{op_name(c)}(): input and grid need a first dimension, got shapes {shape_str(t)} and {shape_str(grid)}")
    if n == 0:
        n = t.ndim - 2
    if n < 1 or t.ndim != n + 2 or grid.ndim != t.ndim or n > 3 or n == 1:
        fail(c, f"expected an input and a grid of {'4 or 5' if n < 2 or n > 3 else n + 2} dimensions, got shapes "
                f"{shape_str(t)} and {shape_str(grid)}")
    if grid.sizes[0] != t.sizes[0]:
        fail(c, f"input and grid must have the same batch size, got shapes {shape_str(t)} and {shape_str(grid)}")
    if grid.sizes[n + 1] != n:
        fail(c, f"the grid must have {n} coordinates in its last dimension, got shape {shape_str(grid)}")
    for i in range(n):
        if t.sizes[i + 2] == 0:
            fail(c, f"the spatial dimensions of the input must not be empty, got shape {shape_str(t)}")
        sizes[i + 2] = grid.sizes[i + 1]
    if cubic and n != 2:
        fail(c, f"bicubic sampling needs an input of 4 dimensions, got shape {shape_str(t)}")
    need_dtype(c, t, FLOATS)
    if t.dtype is not grid.dtype and not c.flags & T_RETRIED:
        fail(c, f"input and grid must have the same dtype, got {t.dtype.name} and {grid.dtype.name}")
    sizes[0] = t.sizes[0]
    sizes[1] = t.sizes[1]
    return new_contiguous(t.ndim, sizes, t.dtype, result_device(c))


cdef object grid_sample(Call* c):
    mode, padding = arg(c, 2), arg(c, 3)
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"{op_name(c)}(): argument 'mode' must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}")
    if padding not in ("zeros", "border", "reflection"):
        raise ValueError(f"{op_name(c)}(): argument 'padding_mode' must be 'zeros', 'border' or 'reflection', "
                         f"got {padding!r}")
    return sampled(c, mode == "bicubic", 0)


cdef object sampled_by_number(Call* c, int n):
    """Modes 0 to 2 are bilinear, nearest and bicubic. Paddings 0 to 2 are zeros, border and reflection."""
    cdef int slot
    result = sampled(c, int_arg(c, 2) == 2, n)
    for slot in range(2, 4):
        if not 0 <= int_arg(c, slot) <= 2 and not c.flags & T_RETRIED:
            fail_slot(c, slot, f"must be 0, 1 or 2, got {arg(c, slot)}")
    return result

cdef object grid_sampler(Call* c):
    return sampled_by_number(c, 0)

cdef object grid_sampler_2d(Call* c):
    return sampled_by_number(c, 2)

cdef object grid_sampler_3d(Call* c):
    return sampled_by_number(c, 3)


cdef object affine_grid(Call* c):
    """`theta` is (N, 2, 3) for a size (N, C, H, W), and (N, 3, 4) for (N, C, D, H, W)."""
    cdef Tensor theta = tensor_arg(c, 0)
    cdef dim_t size[MAX_DIMS]
    cdef dim_t sizes[5]
    cdef int i, n
    if not isinstance(arg(c, 1), (tuple, list)):
        raise TypeError(f"{op_name(c)}(): argument 'size' must be a tuple of ints, got {arg(c, 1)!r}")
    n = dims_arg(c, 1, size)
    if theta.dtype.kind != KIND_FLOAT:
        raise ValueError(f"{op_name(c)}(): theta must be floating-point, got {theta.dtype.name}")
    if n != 4 and n != 5:
        raise NotImplementedError(f"{op_name(c)}(): argument 'size' must have 4 or 5 values, got {dims_str(n, size)}")
    n -= 2
    if theta.ndim != 3 or theta.sizes[1] != n or theta.sizes[2] != n + 1:
        kind = ValueError
        if op_name(c) == "affine_grid_generator":
            kind = IndexError if theta.ndim < 3 else RuntimeError
        raise kind(f"{op_name(c)}(): for a size {dims_str(n + 2, size)} theta must have shape "
                   f"[N, {n}, {n + 1}], got {shape_str(theta)}")
    for i in range(n + 2):
        if size[i] <= 0:
            raise ValueError(f"{op_name(c)}(): argument 'size' must be positive, got {dims_str(n + 2, size)}")
    if theta.sizes[0] != size[0]:
        fail(c, f"theta of shape {shape_str(theta)} and size {dims_str(n + 2, size)} must have the same batch size")
    sizes[0] = size[0]
    flat = False
    for i in range(n):
        sizes[i + 1] = size[i + 2]
        flat = flat or size[i + 2] == 1
    sizes[n + 1] = n
    if flat and not is_none(c, 2) and bool_arg(c, 2) and op_name(c) == "nn.functional.affine_grid":
        warnings.warn(f"{op_name(c)}(): with align_corners=True the only position along a dimension of size 1 is its centre 0, "
                      f"not -1 (size {dims_str(n + 2, size)})", UserWarning, stacklevel=1)
    return new_contiguous(n + 2, sizes, theta.dtype, result_device(c))


define("nn.functional.interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', "
       "bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor", interpolate,
       FUNCTION_ONLY,
       "Resize images (N, C, spatial...) to the spatial sizes `size`, or by the factor `scale_factor`. `mode` is "
       "'nearest', 'nearest-exact' or 'area'. It may also be 'linear' for inputs of 3 dimensions, 'bilinear', "
       "'bicubic' or 'lanczos' for 4, and 'trilinear' for 5.")
define("nn.functional.upsample(Tensor input, any size=None, any scale_factor=None, str mode='nearest', "
       "bool? align_corners=None) -> Tensor", upsample, FUNCTION_ONLY | COMPOSITE, "Older name of `interpolate`.")
define("nn.functional.upsample_nearest(Tensor input, any size=None, any scale_factor=None) -> Tensor",
       upsample_nearest, FUNCTION_ONLY | COMPOSITE, "`interpolate` with mode='nearest'.")
define("nn.functional.upsample_bilinear(Tensor input, any size=None, any scale_factor=None) -> Tensor",
       upsample_bilinear, FUNCTION_ONLY | COMPOSITE, "`interpolate` with mode='bilinear' and align_corners=True.")
define("nn.functional.grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', "
       "bool? align_corners=None) -> Tensor", grid_sample, FUNCTION_ONLY,
       "Sample images (N, C, H, W) at the positions in `grid` (N, H', W', 2). The result is (N, C, H', W'). In 3-d, "
       "the images are (N, C, D, H, W) and the grid is (N, D', H', W', 3). Positions are (x, y) or (x, y, z), with -1 "
       "and 1 at the edges of the image.")
define("grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
       "-> Tensor", grid_sampler, FUNCTION_ONLY, "`grid_sample` with modes given by number.")
define("grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
       "-> Tensor", grid_sampler_2d, FUNCTION_ONLY, "`grid_sample` of (N, C, H, W) with modes given by number.")
define("grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
       "-> Tensor", grid_sampler_3d, FUNCTION_ONLY, "`grid_sample` of (N, C, D, H, W) with modes given by number.")
define("nn.functional.affine_grid(Tensor theta, any size, bool? align_corners=None) -> Tensor", affine_grid,
       FUNCTION_ONLY,
       "Return the grid for `grid_sample` that applies one affine map per image. `theta` (N, 2, 3) and `size` (N, C, "
       "H, W) give (N, H, W, 2). `theta` (N, 3, 4) and `size` (N, C, D, H, W) give (N, D, H, W, 3).")
define("affine_grid_generator(Tensor theta, any size, bool align_corners) -> Tensor", affine_grid, FUNCTION_ONLY,
       "Older name of `affine_grid`.")
