"""Padding, and ops that move elements between the channel and spatial dimensions."""
from metatensor._core.layout cimport add_dims, mul_dims, preserve_strides, set_format, suggest_format
from metatensor._core.op cimport (
    FUNCTION_ONLY, Call, alias_op, arg, define, int_arg, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport FORMAT_CONTIGUOUS, KIND_BOOL, KIND_INT, MAX_DIMS, dim_t
from metatensor.ops.factory cimport check_fill
from metatensor.ops.operands cimport refuse
from metatensor.ops.spatial cimport dims_str, fail, fail_slot, on_cpu
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import functional, gradient, ops, recorded_as
from metatensor._core.sharding import sharding

_of = Bodies("views")


# Parts of gradients ---------------------------------------------------------------------------------

_PADDINGS = {"reflect": "Reflection", "replicate": "Replication"}


def _padded(input, pad, mode, value):
    if mode == "constant":
        return ops.constant_pad_nd(input, pad, 0 if value is None else value)
    return _of.padded_around(input, pad) if mode == "circular" else NotImplemented


cdef Tensor in_format(Call* c, Tensor t, const dim_t* sizes, int form):
    """Return a new tensor of `sizes` with the dtype and number of dimensions of `t`, in memory format `form`."""
    cdef dim_t strides[5]
    if form == FORMAT_CONTIGUOUS:
        return new_contiguous(t.ndim, sizes, t.dtype, result_device(c))
    set_format(t.ndim, sizes, strides, form)
    return new_strided(t.ndim, sizes, strides, t.dtype, result_device(c))


cdef int read_pad(Call* c, Tensor t, dim_t* pad) except -1:
    """Read the pairs (before, after), last dimension first, and return the number of dimensions that they pad."""
    cdef object value = arg(c, 1)
    cdef int i, n = len(value)
    if n % 2:
        fail_slot(c, 1, f"must have an even number of values, got {tuple(value)}")
    if n > 2 * t.ndim:
        fail_slot(c, 1, f"has {n} values, too many for an input of shape {shape_str(t)}")
    i = 0
    for x in value:
        pad[i] = x
        i += 1
    return n // 2


cdef object constant_pad(Call* c, int value):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t pad[2 * MAX_DIMS]
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t kept
    cdef bint grows = False
    cdef int i, d, n = read_pad(c, t, pad)
    if not is_none(c, value):
        for i in range(2 * n):
            if pad[i] > 0:      # the value is used only if elements are added
                check_fill(c, t.dtype, float(arg(c, value)) if value == 3 else arg(c, value))
                break
    for i in range(t.ndim):
        sizes[i] = t.sizes[i]
    for i in range(n):
        d = t.ndim - 1 - i
        # Both ends together must not crop more elements than the input has. Padding at one end does not count.
        kept = add_dims(t.sizes[d], min(pad[2 * i], 0))
        if kept < 0 or add_dims(kept, min(pad[2 * i + 1], 0)) < 0:
            fail_slot(c, 1, f"crops more elements than dimension {d} of an input of shape {shape_str(t)} has: "
                            f"{dims_str(2 * n, pad)}")
        sizes[d] = add_dims(add_dims(t.sizes[d], pad[2 * i]), pad[2 * i + 1])
        grows = grows or pad[2 * i] > 0 or pad[2 * i + 1] > 0
    if not grows:
        # The part of the input that remains is cloned. This keeps the order of its strides.
        preserve_strides(t.ndim, sizes, t.strides, strides)
        return new_strided(t.ndim, sizes, strides, t.dtype, result_device(c))
    return in_format(c, t, sizes, suggest_format(t.ndim, t.sizes, t.strides))


cdef object border_pad(Call* c, str mode):
    """Pad the last one to three dimensions of (C, ...) or (N, C, ...) with elements of the image itself."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t pad[2 * MAX_DIMS]
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t before, after
    cdef bint something = False
    cdef int i, d, first, n = len(arg(c, 1)) // 2
    if not is_none(c, 3) and arg(c, 3) != 0:
        fail_slot(c, 3, f"is supported only for mode='constant', got mode={mode!r}")
    if len(arg(c, 1)) % 2 or n < 1 or n > 3 or (t.ndim != n + 1 and t.ndim != n + 2):
        raise NotImplementedError(f"{op_name(c)}(): mode={mode!r} pads the last n = 1, 2 or 3 dimensions of an input "
                                  f"of n + 1 or n + 2 dimensions, got {tuple(arg(c, 1))} for shape {shape_str(t)}")
    read_pad(c, t, pad)
    first = 1 if t.ndim == n + 2 else 0
    for i in range(t.ndim):
        sizes[i] = t.sizes[i]
        if i >= first and sizes[i] == 0 and mode != "circular":
            fail(c, f"only the batch may be empty, got an input of shape {shape_str(t)}")
    for i in range(n):
        d = t.ndim - 1 - i
        before = pad[2 * i]
        after = pad[2 * i + 1]
        sizes[d] = add_dims(add_dims(t.sizes[d], before), after)
        if mode == "reflect" and (before >= t.sizes[d] or after >= t.sizes[d]):
            fail_slot(c, 1, f"must be smaller than dimension {d} of an input of shape {shape_str(t)}, got "
                            f"{dims_str(2 * n, pad)}")
        if mode == "circular" and (before > t.sizes[d] or after > t.sizes[d]):
            fail_slot(c, 1, f"must not wrap around more than once in dimension {d} of an input of shape "
                            f"{shape_str(t)}, got {dims_str(2 * n, pad)}")
        if sizes[d] < 0:
            fail_slot(c, 1, f"leaves size {sizes[d]} in dimension {d} of an input of shape {shape_str(t)}")
        something = something or sizes[d] > 0
    if not something and mode != "circular":
        fail_slot(c, 1, f"leaves no elements of an input of shape {shape_str(t)}")
    if mode != "circular" and (t.dtype.kind == KIND_BOOL or (
            t.dtype.kind == KIND_INT and not t.dtype.is_signed and t.dtype.itemsize > 1)):
        refuse(c, t.dtype)
    if mode != "circular" and n > 1 and on_cpu(c):
        return in_format(c, t, sizes, suggest_format(t.ndim, t.sizes, t.strides))
    return new_contiguous(t.ndim, sizes, t.dtype, result_device(c))


cdef object pad(Call* c):
    cdef str mode = arg(c, 2)
    if mode == "constant":
        return constant_pad(c, 3)
    if mode == "reflect" or mode == "replicate" or mode == "circular":
        return border_pad(c, mode)
    raise NotImplementedError(f"{op_name(c)}(): argument 'mode' must be 'constant', 'reflect', 'replicate' or "
                              f"'circular', got {mode!r}")


cdef object constant_pad_nd(Call* c):
    return constant_pad(c, 2)


# Channels and space -----------------------------------------------------------------------

cdef Tensor image_like(Call* c, Tensor t, const dim_t* sizes, bint keep):
    """Return a new result of `sizes`, in the memory format of `t` if `keep`, else contiguous."""
    return in_format(c, t, sizes, suggest_format(t.ndim, t.sizes, t.strides) if keep else FORMAT_CONTIGUOUS)


cdef dim_t factor(Call* c, Tensor t) except -1:
    cdef dim_t r = int_arg(c, 1)
    if t.ndim < 3:
        fail(c, f"expected an input of at least 3 dimensions, got shape {shape_str(t)}")
    if r <= 0:
        fail_slot(c, 1, f"must be positive, got {r}")
    return r


cdef object pixel_shuffle(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t r = factor(c, t)
    cdef int i, n = t.ndim
    if t.sizes[n - 3] % mul_dims(r, r):
        fail(c, f"the channels of an input of shape {shape_str(t)} must be a multiple of {r} squared")
    for i in range(n - 3):
        sizes[i] = t.sizes[i]
    sizes[n - 3] = t.sizes[n - 3] // mul_dims(r, r)
    sizes[n - 2] = mul_dims(t.sizes[n - 2], r)
    sizes[n - 1] = mul_dims(t.sizes[n - 1], r)
    return image_like(c, t, sizes, on_cpu(c))


cdef object pixel_unshuffle(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t r = factor(c, t)
    cdef int i, n = t.ndim
    if t.sizes[n - 2] % r or t.sizes[n - 1] % r:
        fail(c, f"height and width of an input of shape {shape_str(t)} must be multiples of {r}")
    for i in range(n - 3):
        sizes[i] = t.sizes[i]
    sizes[n - 3] = mul_dims(t.sizes[n - 3], mul_dims(r, r))
    sizes[n - 2] = t.sizes[n - 2] // r
    sizes[n - 1] = t.sizes[n - 1] // r
    return image_like(c, t, sizes, True)


cdef object channel_shuffle(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t groups = int_arg(c, 1)
    if t.ndim < 3:
        fail(c, f"expected an input of at least 3 dimensions, got shape {shape_str(t)}")
    if groups <= 0:
        fail_slot(c, 1, f"must be positive, got {groups}")
    if t.sizes[1] % groups:
        fail(c, f"the {t.sizes[1]} channels of an input of shape {shape_str(t)} must be a multiple of groups={groups}")
    return image_like(c, t, t.sizes, True)


define("nn.functional.pad(Tensor input, int[] pad, str mode='constant', float? value=None) -> Tensor", pad,
       FUNCTION_ONLY,
       "Pad the trailing dimensions. `pad` holds pairs (before, after), last dimension first. Negative values crop. "
       "`mode` is 'constant' (fill with `value`, default 0), 'reflect', 'replicate' or 'circular'.")
recorded_as("nn.functional.pad", _padded)
gradient("nn.functional.pad", node=lambda pad, mode: f"{_PADDINGS[mode]}Pad{len(pad) // 2}DBackward0",
         input=lambda grad, input, pad, mode: _of.unpadded(grad, input.shape, pad, mode))
define("constant_pad_nd(Tensor input, int[] pad, Scalar value=0) -> Tensor", constant_pad_nd, FUNCTION_ONLY,
       "Pad the trailing dimensions with `value`. `pad` holds pairs (before, after), last dimension first. Negative "
       "values crop.")
gradient("constant_pad_nd", input=lambda grad, pad: ops.constant_pad_nd(grad, [-n for n in pad]))
for _name in ("nn.functional.pad", "constant_pad_nd"):     # not the dimensions that may be padded
    sharding(_name, "no cuts", *(f"cut input -> cat where pad_length={2 * n}, batch{n}=True" for n in (1, 2, 3, 4, 5)))
define("nn.functional.pixel_shuffle(Tensor input, int upscale_factor) -> Tensor", pixel_shuffle, FUNCTION_ONLY,
       "Move channels to space: (..., C * r * r, H, W) becomes (..., C, H * r, W * r), where r is `upscale_factor`.")
gradient("nn.functional.pixel_shuffle", linear="input", node="PixelShuffleBackward0",
         input=lambda grad, upscale_factor: functional.pixel_unshuffle(grad, upscale_factor))
define("nn.functional.pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor", pixel_unshuffle, FUNCTION_ONLY,
       "Move space to channels: (..., C, H * r, W * r) becomes (..., C * r * r, H, W), where r is `downscale_factor`.")
gradient("nn.functional.pixel_unshuffle", linear="input", node="PixelUnshuffleBackward0",
         input=lambda grad, downscale_factor: functional.pixel_shuffle(grad, downscale_factor))
define("nn.functional.channel_shuffle(Tensor input, int groups) -> Tensor", channel_shuffle, FUNCTION_ONLY,
       "Interleave `groups` groups of channels of (N, C, ...): view C as (groups, C / groups), transpose and flatten.")
gradient("nn.functional.channel_shuffle", linear="input", node="ChannelShuffleBackward0",
         input=lambda grad, groups: functional.channel_shuffle(grad, grad.shape[1] // groups))
for _name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
    alias_op(_name, f"nn.functional.{_name}")
for _name in ("nn.functional.native_channel_shuffle", "native_channel_shuffle"):
    alias_op(_name, "nn.functional.channel_shuffle")
