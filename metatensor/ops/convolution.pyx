"""Convolutions, transposed convolutions, and conversions between images and columns of patches.

Images have shape (N, C, spatial...), or (C, spatial...) without a batch. The result of a convolution over two or more
spatial dimensions is channels_last if the input or the weight is, as on CPU and CUDA.
"""
from metatensor._core.layout cimport add_dims, mul_dims, set_format, suggest_format
from metatensor._core.op cimport (
    FUNCTION_ONLY, Call, alias_op, arg, bool_arg, define, int_arg, is_none, result_device,
    tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport FORMAT_CONTIGUOUS, T_RETRIED, dim_t
from metatensor.ops.pointwise cimport canonical
from metatensor.ops.spatial cimport (
    BOOLS, COMPLEXES, FLOATS, INTS, Image, dims_str, fail, fail_slot, image_format, need_dtype, new_image,
    read_image, spatial_arg,
)

from metatensor._core.gradients import gradient
from metatensor._core.gradients import recorded_as
from metatensor._core.sharding import sharding


# Slots of the arguments. The schemas order them differently.
cdef struct Slots:
    int stride
    int padding
    int dilation
    int output_padding      # -1 for a convolution that is not transposed
    int groups


cdef Slots FORWARD = Slots(3, 4, 5, -1, 6)
cdef Slots TRANSPOSED = Slots(3, 4, 7, 5, 6)


cdef int check_operands(Call* c, Image* x, Tensor t, Tensor w, dim_t groups, bint transposed) except -1:
    """Check dtypes, channels, groups and bias. `t` is the input, `x` its sizes as an image, and `w` the weight."""
    cdef dim_t out_channels
    cdef Tensor bias
    cdef int i
    if w.dtype is not t.dtype and not c.flags & T_RETRIED:
        fail(c, f"input and weight must have the same dtype, got {t.dtype.name} and {w.dtype.name}")
    if groups <= 0:
        fail(c, f"argument 'groups' must be positive, got {groups}")
    if w.sizes[0] < groups or w.sizes[0] % groups:
        fail(c, f"dimension 0 of a weight of shape {shape_str(w)} must be a multiple of groups={groups}")
    for i in range(2, w.ndim):
        if w.sizes[i] <= 0:
            fail(c, f"the kernel must not be empty, got a weight of shape {shape_str(w)}")
        if x.sizes[i] <= 0 and x.sizes[0] and x.sizes[1]:
            fail(c, f"only the batch or the channels may be empty, got an input of shape {shape_str(t)}")
    if transposed:
        out_channels = mul_dims(w.sizes[1], groups)
        if not out_channels:
            fail(c, f"a weight of shape {shape_str(w)} has no output channels")
        if x.sizes[1] != w.sizes[0]:
            fail(c, f"an input of shape {shape_str(t)} has {x.sizes[1]} channels, but a weight of shape "
                    f"{shape_str(w)} expects {w.sizes[0]}")
    else:
        out_channels = w.sizes[0]
        if x.sizes[1] != mul_dims(w.sizes[1], groups):
            fail(c, f"an input of shape {shape_str(t)} has {x.sizes[1]} channels, but a weight of shape "
                    f"{shape_str(w)} with groups={groups} expects {mul_dims(w.sizes[1], groups)}")
    if not is_none(c, 2):
        bias = tensor_arg(c, 2)
        if bias.ndim != 1 or bias.sizes[0] != out_channels:
            fail(c, f"the bias must have shape [{out_channels}] for a weight of shape {shape_str(w)}, "
                    f"got {shape_str(bias)}")
        if bias.dtype is not t.dtype and not c.flags & T_RETRIED:
            fail(c, f"input and bias must have the same dtype, got {t.dtype.name} and {bias.dtype.name}")
    return 0


cdef int read_steps(Call* c, int slot, int n, dim_t* to, dim_t least) except -1:
    """Read one value for each of `n` spatial dimensions, each at least `least`."""
    cdef int i
    spatial_arg(c, slot, n, to)
    for i in range(n):
        if to[i] < least:
            fail_slot(c, slot, f"must be {'positive' if least else 'non-negative'}, got {dims_str(n, to)}")
    return 0


cdef bint read_padding(Call* c, Slots* at, int n, dim_t* padding, const dim_t* stride) except -1:
    """Read the padding of each dimension. Return True for 'same', which leaves `padding` unset."""
    cdef object value = arg(c, at.padding)
    cdef int i
    if not isinstance(value, str):
        read_steps(c, at.padding, n, padding, 0)
        return False
    if value == "valid":
        for i in range(n):
            padding[i] = 0
        return False
    if value != "same":
        fail_slot(c, at.padding, f"must be 'same', 'valid' or ints, got {value!r}")
    for i in range(n):
        if stride[i] != 1:
            fail(c, f"padding='same' needs a stride of 1, got {dims_str(n, stride)}")
    return True


cdef dim_t padded(dim_t size, dim_t padding) except? -1:
    return add_dims(size, mul_dims(2, padding))


cdef dim_t reach(dim_t kernel, dim_t dilation) except? -1:
    """Return the number of elements that a dilated kernel spans."""
    return add_dims(mul_dims(dilation, kernel - 1), 1)


cdef int forward_sizes(Call* c, Image* x, Tensor w, Slots* at, dim_t* sizes) except -1:
    cdef dim_t stride[3]
    cdef dim_t padding[3]
    cdef dim_t dilation[3]
    cdef dim_t room
    cdef bint same
    cdef int i
    read_steps(c, at.stride, x.n, stride, 1)
    read_steps(c, at.dilation, x.n, dilation, 1)
    same = read_padding(c, at, x.n, padding, stride)
    for i in range(x.n):
        if same:
            sizes[i + 2] = x.sizes[i + 2]
            continue
        room = padded(x.sizes[i + 2], padding[i]) - reach(w.sizes[i + 2], dilation[i])
        if room < 0:
            fail(c, f"the kernel {dims_str(x.n, w.sizes + 2)} with dilation {dims_str(x.n, dilation)} is larger than "
                    f"the input {dims_str(x.n, x.sizes + 2)} with padding {dims_str(x.n, padding)}")
        sizes[i + 2] = room // stride[i] + 1
    return 0


cdef int transposed_sizes(Call* c, Image* x, Tensor w, Slots* at, dim_t* sizes) except -1:
    cdef dim_t stride[3]
    cdef dim_t padding[3]
    cdef dim_t dilation[3]
    cdef dim_t extra[3]
    cdef dim_t size
    cdef int i
    read_steps(c, at.stride, x.n, stride, 1)
    read_steps(c, at.padding, x.n, padding, 0)
    read_steps(c, at.dilation, x.n, dilation, 1)
    read_steps(c, at.output_padding, x.n, extra, 0)
    for i in range(x.n):
        if extra[i] >= stride[i] and extra[i] >= dilation[i] and x.sizes[0]:    # like PyTorch, skip this if N = 0
            fail_slot(c, at.output_padding, f"must be smaller than stride or dilation, got {dims_str(x.n, extra)} with "
                                            f"stride {dims_str(x.n, stride)} and dilation {dims_str(x.n, dilation)}")
        size = add_dims(mul_dims(x.sizes[i + 2] - 1, stride[i]), reach(w.sizes[i + 2], dilation[i]))
        size = add_dims(size, extra[i]) - mul_dims(2, padding[i])
        if size <= 0:
            fail(c, f"the output would have size {size} in spatial dimension {i}, for an input of "
                    f"{dims_str(x.n, x.sizes + 2)} and padding {dims_str(x.n, padding)}")
        sizes[i + 2] = size
    return 0


cdef object convolve(Call* c, int n, Slots* at, bint transposed):
    cdef Tensor t = tensor_arg(c, 0), w = tensor_arg(c, 1)
    cdef Image x
    cdef dim_t sizes[5]
    cdef dim_t groups = int_arg(c, at.groups)
    cdef int form = FORMAT_CONTIGUOUS
    if w.ndim != n + 2:
        fail(c, f"the weight must have {n + 2} dimensions, got shape {shape_str(w)}")
    read_image(c, t, n, &x)
    need_dtype(c, t, FLOATS | INTS | COMPLEXES)
    check_operands(c, &x, t, w, groups, transposed)
    sizes[0] = x.sizes[0]
    sizes[1] = mul_dims(w.sizes[1], groups) if transposed else w.sizes[0]
    if transposed:
        transposed_sizes(c, &x, w, at, sizes)
    else:
        forward_sizes(c, &x, w, at, sizes)
        if x.sizes[1] == 0:
            sizes[1] = 0
    if n > 1 and not (canonical(t) and canonical(w)):
        form = image_format(&x)
        if form == FORMAT_CONTIGUOUS:
            form = suggest_format(w.ndim, w.sizes, w.strides)
    return new_image(c, &x, sizes, t.dtype, form)


cdef object conv1d(Call* c):
    return convolve(c, 1, &FORWARD, False)

cdef object conv2d(Call* c):
    return convolve(c, 2, &FORWARD, False)

cdef object conv3d(Call* c):
    return convolve(c, 3, &FORWARD, False)

cdef object conv_transpose1d(Call* c):
    return convolve(c, 1, &TRANSPOSED, True)

cdef object conv_transpose2d(Call* c):
    return convolve(c, 2, &TRANSPOSED, True)

cdef object conv_transpose3d(Call* c):
    return convolve(c, 3, &TRANSPOSED, True)


cdef object convolution(Call* c):
    """Compute a convolution of 1 to 3 spatial dimensions, as many as the weight has."""
    cdef Slots at = Slots(3, 4, 5, 7, 8)
    cdef Tensor w = tensor_arg(c, 1)
    if w.ndim < 3 or w.ndim > 5:
        fail(c, f"the weight must have 3 to 5 dimensions, got shape {shape_str(w)}")
    if tensor_arg(c, 0).ndim != w.ndim:
        fail(c, f"the input must have {w.ndim} dimensions like the weight, got shape {shape_str(tensor_arg(c, 0))}")
    return convolve(c, w.ndim - 2, &at, bool_arg(c, 6))


cdef object conv_tbc(Call* c):
    """Convolve an input of shape (T, B, C) (time, batch, channels) with a weight of shape (kernel, C, out)."""
    cdef Tensor t = tensor_arg(c, 0), w = tensor_arg(c, 1), bias = tensor_arg(c, 2)
    cdef dim_t sizes[3]
    cdef dim_t pad = int_arg(c, 3)
    if t.ndim != 3 or w.ndim != 3 or bias.ndim != 1:
        fail(c, f"expected input, weight and bias of 3, 3 and 1 dimensions, got shapes {shape_str(t)}, "
                f"{shape_str(w)}, {shape_str(bias)}")
    if t.sizes[2] != w.sizes[1] or bias.sizes[0] != w.sizes[2]:
        fail(c, f"the numbers of channels do not match: input {shape_str(t)}, weight {shape_str(w)}, bias {shape_str(bias)}")
    if w.dtype is not t.dtype:
        fail(c, f"input and weight must have the same dtype, got {t.dtype.name} and {w.dtype.name}")
    need_dtype(c, t, FLOATS | INTS | COMPLEXES)
    sizes[0] = padded(t.sizes[0], pad) - w.sizes[0] + 1
    sizes[1] = t.sizes[1]
    sizes[2] = w.sizes[2]
    if pad < 0 or sizes[0] < 0:
        fail(c, f"a kernel of size {w.sizes[0]} is larger than a time dimension of size {t.sizes[0]} with padding "
                f"{pad}")
    return new_contiguous(3, sizes, t.dtype, result_device(c))


# Patches ------------------------------------------------------------------------------


cdef dim_t patches(Call* c, const dim_t* size, const dim_t* kernel, const dim_t* dilation, const dim_t* padding,
                   const dim_t* stride) except -1:
    """Return the number of positions of a sliding kernel on a 2-d image."""
    cdef dim_t n = 1, room
    cdef int i
    for i in range(2):
        room = padded(size[i], padding[i]) - reach(kernel[i], dilation[i])
        if room < 0:
            fail(c, f"a kernel of {dims_str(2, kernel)} with dilation {dims_str(2, dilation)} is larger than an image "
                    f"of {dims_str(2, size)} with padding {dims_str(2, padding)}")
        n = mul_dims(n, room // stride[i] + 1)
    return n


cdef object unfold(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t kernel[2]
    cdef dim_t dilation[2]
    cdef dim_t padding[2]
    cdef dim_t stride[2]
    cdef dim_t sizes[3]
    cdef Image x
    read_image(c, t, 2, &x)
    read_steps(c, 1, 2, kernel, 1)
    read_steps(c, 2, 2, dilation, 1)
    read_steps(c, 3, 2, padding, 0)
    read_steps(c, 4, 2, stride, 1)
    need_dtype(c, t, FLOATS | BOOLS | COMPLEXES)
    if x.sizes[1] == 0 or x.sizes[2] == 0 or x.sizes[3] == 0:
        fail(c, f"only the batch may be empty, got an input of shape {shape_str(t)}")
    sizes[0] = x.sizes[0]
    sizes[1] = mul_dims(x.sizes[1], mul_dims(kernel[0], kernel[1]))
    sizes[2] = patches(c, x.sizes + 2, kernel, dilation, padding, stride)
    return new_contiguous(t.ndim - 1, sizes + (4 - t.ndim), t.dtype, result_device(c))


cdef object fold(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef int lead = 0 if t.ndim == 3 else 1
    cdef dim_t sizes[4]
    cdef dim_t kernel[2]
    cdef dim_t dilation[2]
    cdef dim_t padding[2]
    cdef dim_t stride[2]
    cdef dim_t area, n
    if t.ndim != 2 and t.ndim != 3:
        fail(c, f"expected an input of 2 or 3 dimensions, got shape {shape_str(t)}")
    read_steps(c, 1, 2, sizes + 2, 1)
    read_steps(c, 2, 2, kernel, 1)
    read_steps(c, 3, 2, dilation, 1)
    read_steps(c, 4, 2, padding, 0)
    read_steps(c, 5, 2, stride, 1)
    need_dtype(c, t, FLOATS | BOOLS | COMPLEXES)
    area = mul_dims(kernel[0], kernel[1])
    if t.sizes[1 - lead] == 0 or t.sizes[2 - lead] == 0:
        fail(c, f"only the batch may be empty, got an input of shape {shape_str(t)}")
    if t.sizes[1 - lead] % area:
        fail(c, f"dimension {1 - lead} of shape {shape_str(t)} must be a multiple of the kernel's {area} elements")
    n = patches(c, sizes + 2, kernel, dilation, padding, stride)
    if t.sizes[2 - lead] != n:
        fail(c, f"output_size {dims_str(2, sizes + 2)} has {n} patches of kernel {dims_str(2, kernel)}, but an input "
                f"of shape {shape_str(t)} has {t.sizes[2 - lead]}")
    sizes[0] = t.sizes[0]
    sizes[1] = t.sizes[1 - lead] // area
    return new_contiguous(4 - lead, sizes + lead, t.dtype, result_device(c))


cdef str _steps = "int[{n}] stride=1, int[{n}] padding=0, int[{n}] dilation=1, int groups=1"
cdef str _same = "int[{n}] stride=1, str padding='valid', int[{n}] dilation=1, int groups=1"
cdef str _back = ("int[{n}] stride=1, int[{n}] padding=0, int[{n}] output_padding=0, int groups=1, "
                  "int[{n}] dilation=1")
cdef str _operands = "Tensor input, Tensor weight, Tensor? bias=None"

define(f"nn.functional.conv1d({_operands}, {_steps.format(n=1)}) -> Tensor", conv1d, FUNCTION_ONLY,
       "1-d convolution of `input` (N, C, L) with `weight` (C_out, C / groups, K) and `bias` (C_out,). The batch "
       "dimension is optional. `padding` is a size for each dimension, 'valid' (none) or 'same' (the output size is "
       "L).")
define(f"nn.functional.conv1d.padding({_operands}, {_same.format(n=1)}) -> Tensor", conv1d, FUNCTION_ONLY)
define(f"nn.functional.conv2d({_operands}, {_steps.format(n=2)}) -> Tensor", conv2d, FUNCTION_ONLY,
       "2-d convolution of `input` (N, C, H, W) with `weight` (C_out, C / groups, KH, KW) and `bias` (C_out,). The "
       "batch dimension is optional. `padding` is a size for each dimension, 'valid' (none) or 'same' (the output "
       "size is H x W).")
define(f"nn.functional.conv2d.padding({_operands}, {_same.format(n=2)}) -> Tensor", conv2d, FUNCTION_ONLY)
define(f"nn.functional.conv3d({_operands}, {_steps.format(n=3)}) -> Tensor", conv3d, FUNCTION_ONLY,
       "3-d convolution of `input` (N, C, D, H, W) with `weight` (C_out, C / groups, KD, KH, KW) and `bias` (C_out,). "
       "The batch dimension is optional. `padding` is a size for each dimension, 'valid' (none) or 'same' (the "
       "output size is D x H x W).")
define(f"nn.functional.conv3d.padding({_operands}, {_same.format(n=3)}) -> Tensor", conv3d, FUNCTION_ONLY)
sharding("nn.functional.conv3d.padding", "cut input -> cat where first=True, batch4=True")
define(f"nn.functional.conv_transpose1d({_operands}, {_back.format(n=1)}) -> Tensor", conv_transpose1d,
       FUNCTION_ONLY,
       "1-d transposed convolution, the adjoint of conv1d, of `input` (N, C, L) with `weight` (C, C_out / groups, K) "
       "and `bias` (C_out,). `output_padding` is added to the output size, on one side.")
define(f"nn.functional.conv_transpose2d({_operands}, {_back.format(n=2)}) -> Tensor", conv_transpose2d,
       FUNCTION_ONLY,
       "2-d transposed convolution, the adjoint of conv2d, of `input` (N, C, H, W) with `weight` (C, C_out / groups, "
       "KH, KW) and `bias` (C_out,). `output_padding` is added to the output sizes, on one side.")
define(f"nn.functional.conv_transpose3d({_operands}, {_back.format(n=3)}) -> Tensor", conv_transpose3d,
       FUNCTION_ONLY,
       "3-d transposed convolution, the adjoint of conv3d, of `input` (N, C, D, H, W) with `weight` (C, C_out / "
       "groups, KD, KH, KW) and `bias` (C_out,). `output_padding` is added to the output sizes, on one side.")
for _name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
    alias_op(_name, f"nn.functional.{_name}")
define("convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
       "bool transposed, int[] output_padding, int groups) -> Tensor", convolution, FUNCTION_ONLY,
       "Convolution, or transposed convolution if `transposed`, over as many spatial dimensions (1 to 3) as `weight` "
       "has.")
for _name in ("convolution", "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d"):
    sharding(_name, "cut input -> cat where first=True")        # the batch; the channels are dimensions of the weight, too
define("conv_tbc(Tensor input, Tensor weight, Tensor bias, int pad=0) -> Tensor", conv_tbc, FUNCTION_ONLY,
       "Convolution over time of `input` (T, B, C) with `weight` (K, C, C_out) and `bias` (C_out,). `pad` zeros are "
       "added at both ends of the time dimension.")
define("nn.functional.unfold(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, "
       "int[2] stride=1) -> Tensor", unfold, FUNCTION_ONLY,
       "Extract sliding patches of `input` (N, C, H, W) as columns: (N, C * KH * KW, number of positions). The batch "
       "dimension is optional.")
define("nn.functional.fold(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, "
       "int[2] padding=0, int[2] stride=1) -> Tensor", fold, FUNCTION_ONLY,
       "Sum columns of patches (N, C * KH * KW, number of positions) into images (N, C, *output_size), the adjoint of "
       "`unfold`. The batch dimension is optional.")
alias_op("nn.functional.conv_tbc", "conv_tbc")


# Gradients ------------------------------------------------------------------------------------

cdef Tensor in_form(Call* c, Tensor t, int form):
    cdef dim_t strides[5]
    if form == FORMAT_CONTIGUOUS or t.ndim < 4:
        return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))
    set_format(t.ndim, t.sizes, strides, form)
    return new_strided(t.ndim, t.sizes, strides, t.dtype, result_device(c))


cdef object convolution_backward(Call* c):
    """Arguments: grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask."""
    cdef Tensor g = tensor_arg(c, 0), t = tensor_arg(c, 1), w = tensor_arg(c, 2)
    cdef int form = FORMAT_CONTIGUOUS
    mask = arg(c, 9)
    if not 3 <= w.ndim <= 5 or t.ndim != w.ndim or g.ndim != w.ndim or len(mask) != 3:
        fail(c, f"gradient, input and weight must have the same 3 to 5 dimensions, got shapes {shape_str(g)}, {shape_str(t)} and "
                f"{shape_str(w)}, and output_mask three values")
    if w.ndim > 3 and not (canonical(t) and canonical(w)):
        form = suggest_format(t.ndim, t.sizes, t.strides)
        if form == FORMAT_CONTIGUOUS:
            form = suggest_format(w.ndim, w.sizes, w.strides)
    return (in_form(c, t, form) if mask[0] else None, in_form(c, w, form) if mask[1] else None,
            new_contiguous(1, g.sizes + 1, g.dtype, result_device(c)) if mask[2] else None)


for _name in ("conv1d", "conv2d", "conv3d"):
    recorded_as(f"nn.functional.{_name}", f"convolution.{_name}")
    recorded_as(f"nn.functional.{_name}.padding", f"convolution.{_name}_padding")
for _name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
    recorded_as(f"nn.functional.{_name}", f"convolution.{_name}")
gradient("convolution", linear="input+bias weight", joint="convolution.convolution", input=True, weight=True, bias=True)
define("convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[] stride, int[] padding, int[] dilation, "
       "bool transposed, int[] output_padding, int groups, bool[] output_mask) -> (Tensor, Tensor, Tensor)", convolution_backward,
       FUNCTION_ONLY, "Gradients of `convolution` for input, weight and bias. Those that `output_mask` does not select are None.")
recorded_as("convolution_backward", "convolution.convolution_backward")
recorded_as("conv_tbc", "convolution.conv_tbc")
gradient("nn.functional.unfold", linear="input", node="Im2ColBackward0", input="convolution.unfold")
gradient("nn.functional.fold", linear="input", node="Col2ImBackward0", input="convolution.fold")
