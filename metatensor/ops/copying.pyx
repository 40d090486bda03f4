"""Copies: clone, contiguous, copy_, fill, detach, and `to` with the conversions built on it."""
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device, as_device, cpu_device
from metatensor._core.dtype cimport DType, default_float
from metatensor._core.formats cimport MemoryFormatTag
from metatensor._core.history cimport forget
from metatensor._core.layout cimport can_broadcast, is_channels_last, suggest_format
from metatensor._core.op cimport (
    COMPOSITE, ELEMENTWISE, FUNCTION_ONLY, HOST, INPLACE, METHOD_ONLY, MIXED, NO_GRAD, ONE_VALUE, VIEW, Call, Op,
    arg, as_declared, bool_arg, call, define, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, detach_from, hooks, new_like, shape_str
from metatensor._core.thread cimport hints
from metatensor._core.types cimport (
    FORMAT_CHANNELS_LAST, FORMAT_CONTIGUOUS, FORMAT_PRESERVE, T_CONTIGUOUS, T_FIXED_VIEW, T_NONLEAF,
    T_REQUIRES_GRAD, T_VIEW,
)
from metatensor._core.versions cimport detached, own_versions, with_own_versions
from metatensor.ops.factory cimport check_fill, format_arg, make_like

from metatensor._core.dtype import dtype_by_name, spelling
from metatensor._core.errors import meta_copy
from metatensor._core.formats import contiguous_format, preserve_format
from metatensor._core.late import later
from metatensor._core.gradients import gradient
from metatensor._core.sharding import sharding


# Parts of gradients ---------------------------------------------------------------------------------

def _on(grad, device):
    return grad if grad.device == device else grad.to(device=device)


# Memory formats ---------------------------------------------------------------------------

cdef bint in_format(Call* c, Tensor t, int memory_format) except -1:
    """Return whether a tensor is dense in a memory format. FORMAT_PRESERVE counts as FORMAT_CONTIGUOUS."""
    if memory_format == FORMAT_CONTIGUOUS or memory_format == FORMAT_PRESERVE:
        return t.flags & T_CONTIGUOUS != 0
    if t.ndim != (4 if memory_format == FORMAT_CHANNELS_LAST else 5):
        return False
    return is_channels_last(t.ndim, t.sizes, t.strides)


cdef object is_contiguous_host(Call* c):
    return in_format(c, tensor_arg(c, 0), format_arg(c, 1, FORMAT_CONTIGUOUS))


cdef object contiguous_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if is_none(c, 1) and t.flags & T_CONTIGUOUS:
        return t
    if in_format(c, t, format_arg(c, 1, FORMAT_CONTIGUOUS)):
        return t
    if arg(c, 1) is preserve_format:
        raise RuntimeError(f"{op_name(c)}(): preserve_format cannot be used here, because it does not name a memory "
                           "format")
    return call("clone", (t,), {"memory_format": contiguous_format if is_none(c, 1) else arg(c, 1)})


cdef object clone_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef int memory_format = format_arg(c, 1, FORMAT_PRESERVE)
    if t.flags & T_CONTIGUOUS and memory_format == FORMAT_PRESERVE:
        return new_like(t, t.dtype, result_device(c))
    return make_like(c, t, t.dtype, result_device(c), memory_format)


define("is_contiguous(Tensor input, *, memory_format? memory_format=None) -> bool", is_contiguous_host,
       HOST | METHOD_ONLY,
       "Whether the elements are dense in the order of `memory_format`, which is row-major by default.")
define("contiguous(Tensor input, *, memory_format? memory_format=None) -> Tensor", contiguous_body,
       COMPOSITE | METHOD_ONLY,
       "The tensor itself if it is contiguous in `memory_format` (row-major by default), else a contiguous copy.")
define("clone(Tensor input, *, memory_format? memory_format=None) -> Tensor", clone_meta, 0,
       "Copy of a tensor. By default the copy is dense, with the dimensions in the same order in memory.")
gradient("clone", linear="input", input=lambda grad: grad)


# Writing values -----------------------------------------------------------------------------

cdef int _need_data(Tensor t, Device to) except -1:
    """Raise if `t` is a meta tensor, whose values cannot be copied to another device."""
    if t.storage.device is META:
        plugins = later("plugins")
        if not hints.recorders and to.type not in plugins.device_types():
            raise plugins.manager().unknown_type(to.type)
        raise meta_copy(t)
    return 0


cdef object copy_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), src = tensor_arg(c, 1)
    if not can_broadcast(src.ndim, src.sizes, t.ndim, t.sizes):
        raise RuntimeError(f"{op_name(c)}(): shape {shape_str(src)} does not broadcast to {shape_str(t)}")
    if t.storage.device is not META:
        _need_data(src, t.storage.device)
    return t


cdef object fill_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), value
    if isinstance(arg(c, 1), Tensor):
        value = tensor_arg(c, 1)
        if value.ndim:
            raise RuntimeError(f"{op_name(c)}(): the value must be a number or a 0-d tensor, got shape {shape_str(value)}")
    else:
        check_fill(c, t.dtype, arg(c, 1))
    return _another(c, t)


cdef object zero_meta(Call* c):
    return _another(c, tensor_arg(c, 0))


cdef Tensor _another(Call* c, Tensor t):
    """Return an uninitialized tensor like `t`."""
    if t.flags & T_CONTIGUOUS:
        return new_like(t, t.dtype, t.storage.device)
    return make_like(c, t, t.dtype, t.storage.device, FORMAT_PRESERVE)


define("copy_(Tensor(a!) input, Tensor src, bool non_blocking=False) -> Tensor", copy_meta, METHOD_ONLY | MIXED | ELEMENTWISE,
       "Copy the values of `src` into `input`, broadcast to its shape and converted to its dtype and device.")
gradient("copy_", node="torch::autograd::CopyBackwards", input=lambda grad: grad.new_zeros(grad.shape),
         src=lambda grad, src_meta: _on(grad, src_meta.device))
define("fill(Tensor input, Tensor|Scalar value) -> Tensor", fill_meta, INPLACE | MIXED | ONE_VALUE,
       "Set all elements to a number or to the value of a 0-d tensor.")
gradient("fill", node=lambda value: "FillBackward1" if isinstance(value, Tensor) else "FillBackward0",
         input=lambda grad: grad.new_zeros(grad.shape), value=lambda grad, value_meta: _on(grad.sum(), value_meta.device))
define("zero(Tensor input) -> Tensor", zero_meta, INPLACE | ONE_VALUE, "Set all elements to 0.")
gradient("zero", input=lambda grad: grad.new_zeros(grad.shape))


# to ---------------------------------------------------------------------------------------------

cdef Tensor _moved(Call* c, DType dtype, int fmt):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Device device = result_device(c)
    if device is not META and device is not t.storage.device:
        _need_data(t, device)
    return make_like(c, t, dtype, device, fmt)


cdef object to_copy_meta(Call* c):
    return _moved(c, <DType>arg(c, 1), format_arg(c, 4, FORMAT_PRESERVE))


cdef object to_copy_move_meta(Call* c):
    return _moved(c, tensor_arg(c, 0).dtype, format_arg(c, 3, FORMAT_PRESERVE))


# The overload `move` keeps the dtype, because devices copy bytes faster than they convert numbers.
cdef Op TO_COPY = define(
    "_to_copy(Tensor input, dtype dtype, device? device=None, bool non_blocking=False, "
    "memory_format? memory_format=None) -> Tensor", to_copy_meta, MIXED, "Copy with another dtype, device or memory format.")
gradient("_to_copy", linear="input", input=lambda grad, input_meta: _on(grad, input_meta.device))
define("_to_copy.move(Tensor input, device? device=None, bool non_blocking=False, "
       "memory_format? memory_format=None) -> Tensor", to_copy_move_meta, MIXED)
gradient("_to_copy.move", linear="input", input=lambda grad, input_meta: _on(grad, input_meta.device))


cdef inline bint _is_on(Tensor t, Device device) noexcept:
    """Return whether a tensor is on a device. A device without an index matches any device of its type."""
    return device is t.storage.device or (device.number < 0 and device.kind == t.storage.device.kind)


cdef object _to(Call* c, Tensor t, DType dtype, Device device, object non_blocking, bint copy, object fmt):
    cdef PyObject* args[5]
    if device is not None and _is_on(t, device):
        device = None
    if dtype is t.dtype:
        dtype = None
    if dtype is None and device is None and not copy:
        # Like PyTorch, compare with the format that suggest_format() returns. For a tensor with one channel, this is
        # not channels_last, even if the tensor is dense in channels_last order.
        if fmt is None or fmt is preserve_format or suggest_format(t.ndim, t.sizes, t.strides) == format_arg_of(fmt):
            return t
    if dtype is None:
        return call("_to_copy", (t,), {"device": device or t.storage.device, "non_blocking": non_blocking,
                                       "memory_format": fmt})
    args[0] = <PyObject*>t
    args[1] = <PyObject*>dtype
    args[2] = <PyObject*>device
    args[3] = <PyObject*>non_blocking
    args[4] = <PyObject*>fmt
    return as_declared(TO_COPY, hooks.invoke(<PyObject*>TO_COPY, args, 5))


cdef int format_arg_of(object fmt) except -1:
    return (<MemoryFormatTag>fmt).code


cdef object to_device_body(Call* c):
    return _to(c, tensor_arg(c, 0), None if is_none(c, 2) else <DType>arg(c, 2),
               None if is_none(c, 1) else <Device>arg(c, 1), arg(c, 3), bool_arg(c, 4), arg(c, 5))


cdef object to_dtype_body(Call* c):
    return _to(c, tensor_arg(c, 0), <DType>arg(c, 1), None, arg(c, 2), bool_arg(c, 3), arg(c, 4))


cdef object to_other_body(Call* c):
    cdef Tensor other = tensor_arg(c, 1)
    return _to(c, tensor_arg(c, 0), other.dtype, other.storage.device, arg(c, 2), bool_arg(c, 3), arg(c, 4))


define("to(Tensor(a) input, device? device=None, dtype? dtype=None, bool non_blocking=False, bool copy=False, *, "
       "memory_format? memory_format=None) -> Tensor", to_device_body, COMPOSITE | METHOD_ONLY | MIXED,
       "Convert to another device, dtype or memory format. Return the tensor itself if nothing changes and `copy` is "
       "false.")
define("to.dtype(Tensor(a) input, dtype dtype, bool non_blocking=False, bool copy=False, *, "
       "memory_format? memory_format=None) -> Tensor", to_dtype_body, COMPOSITE | METHOD_ONLY | MIXED)
define("to.other(Tensor(a) input, Tensor other, bool non_blocking=False, bool copy=False, *, "
       "memory_format? memory_format=None) -> Tensor", to_other_body, COMPOSITE | METHOD_ONLY | MIXED)

cdef dict _CONVERSIONS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
    "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64",
    "cdouble": "complex128", "chalf": "complex32",
}
cdef dict _CONVERTED = {method: dtype_by_name(dtype) for method, dtype in _CONVERSIONS.items()}


cdef object convert_body(Call* c):
    return _to(c, tensor_arg(c, 0), <DType>_CONVERTED[op_name(c)], None, False, False, arg(c, 1))


for method, dtype in _CONVERSIONS.items():
    define(f"{method}(Tensor(a) input, *, memory_format? memory_format=None) -> Tensor", convert_body,
           COMPOSITE | METHOD_ONLY, f"Convert to {dtype}, like `to(metatensor.{dtype})`.")


cdef object cpu_body(Call* c):
    return _to(c, tensor_arg(c, 0), None, cpu_device(), False, False, arg(c, 1))


cdef object cuda_body(Call* c):
    return _to(c, tensor_arg(c, 0), None, as_device("cuda") if is_none(c, 1) else <Device>arg(c, 1), arg(c, 2), False,
               arg(c, 3))


cdef object type_as_body(Call* c):
    cdef Tensor other = tensor_arg(c, 1)
    return _to(c, tensor_arg(c, 0), other.dtype, other.storage.device, False, False, None)


# PyTorch's tensor type names by dtype, for type().
cdef dict _TYPE_NAMES = {
    "float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor", "bfloat16": "BFloat16Tensor",
    "int64": "LongTensor", "int32": "IntTensor", "int16": "ShortTensor", "int8": "CharTensor", "uint8": "ByteTensor",
    "bool": "BoolTensor", "complex64": "ComplexFloatTensor", "complex128": "ComplexDoubleTensor",
    "complex32": "ComplexHalfTensor", "uint16": "UInt16Tensor", "uint32": "UInt32Tensor", "uint64": "UInt64Tensor",
} | {
    name: f"Float8_{name[7:]}Tensor"
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
}


cdef object type_body(Call* c):
    """Return the type name of the tensor, or convert the tensor if `dtype` is given."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object wanted = arg(c, 1)
    cdef Device device = None
    if wanted is None:
        place = "" if t.storage.device is cpu_device() else f"{t.storage.device.type}."
        return f"{spelling()}.{place}{_TYPE_NAMES.get(t.dtype.name, t.dtype.name)}"
    if hasattr(wanted, "device_type"):      # a class such as torch.FloatTensor
        return _to(c, t, <DType?>wanted.dtype, as_device(wanted.device_type), bool_arg(c, 2), False, None)
    if isinstance(wanted, str):
        parts = wanted.split(".")
        names = [dtype for dtype, text in _TYPE_NAMES.items() if text == parts[len(parts) - 1]]
        if not names or len(parts) < 2:
            raise ValueError(f"type(): unknown type {wanted!r}")
        device = as_device(parts[1]) if len(parts) == 3 else cpu_device()
        wanted = dtype_by_name(names[0])
    if wanted is Tensor:
        wanted, device = default_float(), cpu_device()
    if not isinstance(wanted, DType):
        raise (ValueError if isinstance(wanted, type) else TypeError)(
            f"type(): argument 'dtype' must be dtype or str, not {wanted!r}")
    return _to(c, t, <DType>wanted, device, arg(c, 2), False, None)


define("cpu(Tensor(a) input, *, memory_format? memory_format=None) -> Tensor", cpu_body, COMPOSITE | METHOD_ONLY,
       "Copy to the CPU. Return the tensor itself if it is already there and `memory_format` does not require a copy.")
define("cuda(Tensor(a) input, device? device=None, bool non_blocking=False, *, memory_format? memory_format=None)"
       " -> Tensor", cuda_body, COMPOSITE | METHOD_ONLY,
       "Copy to a CUDA device. Return the tensor itself if it is already there and `memory_format` does not require a "
       "copy.")
define("type_as(Tensor(a) input, Tensor other) -> Tensor", type_as_body, COMPOSITE | METHOD_ONLY | MIXED,
       "Convert to the dtype and device of `other`.")
define("type(Tensor(a) input, any dtype=None, bool non_blocking=False) -> any", type_body, COMPOSITE | METHOD_ONLY,
       "Without `dtype`, return the type name of the tensor as a str, such as 'metatensor.FloatTensor'. Otherwise "
       "convert the tensor to `dtype`, which is a dtype or a type name.")


# detach -------------------------------------------------------------------------------------------

cdef object detach_meta(Call* c):
    return detached(tensor_arg(c, 0))


cdef object detach_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.flags & T_VIEW and t.flags & T_NONLEAF:
        raise RuntimeError(f"{op_name(c)}(): a view cannot be detached in place; use detach()")
    forget(t)
    t.flags &= ~T_REQUIRES_GRAD
    return t


define("detach(Tensor(a) input) -> Tensor", detach_meta, VIEW | NO_GRAD,
       "View of the same elements that does not require gradients.")
define("detach_(Tensor(a!) input) -> Tensor", detach_host, HOST,
       "Remove the tensor from the autograd graph and set its `requires_grad` to False. Views inside the graph are not "
       "supported.")


# Results of custom functions, in programs ---------------------------------------------------------------

cdef object without_backward_meta(Call* c):
    """For autograd the result is a tensor of its own, as that of the function was."""
    cdef Tensor t = tensor_arg(c, 0), made = detached(t)
    if t.base is not None and (<Tensor>t.base).flags & T_REQUIRES_GRAD:
        made.flags |= T_FIXED_VIEW          # the history of its base does not include the function
    return made


def no_gradient(function):
    """Raise the error of a gradient that a program does not contain."""
    raise RuntimeError(f"backward: no gradient leads through {function}, because a program consists of operators and has neither the "
                       "backward of an autograd.Function nor the backward hooks of a module; trace the step with its backward pass, or run "
                       "the program under no_grad()")


define("_without_backward(Tensor(a) input, Tensor[] inputs, str function) -> Tensor", without_backward_meta,
       VIEW | MIXED | FUNCTION_ONLY,
       "View of the same elements, the result of an `autograd.Function` in a program. Its gradient with respect to `inputs`, the "
       "arguments of the function, is not known, so a backward pass that needs it raises RuntimeError. `function` is for the message.")
sharding("_without_backward", "cut input -> cat", "pass avg, max, min, product, sum of input", "keep inputs")
gradient("_without_backward", input=lambda grad, function: no_gradient(function), inputs=lambda grad, function: no_gradient(function),
         tangent=lambda function: no_gradient(function))


# data: a trace records what the attribute does as calls of these ---------------------------------------

cdef object data_meta(Call* c):
    return with_own_versions(tensor_arg(c, 0))


cdef object set_data_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    own_versions(t)
    detach_from(t, tensor_arg(c, 1))
    return t


define("_data(Tensor(a) input) -> Tensor(a)", data_meta, VIEW | NO_GRAD | FUNCTION_ONLY,
       "View of the same elements that does not require gradients. Changes of it in place are not counted as changes of `input`.")
define("_set_data(Tensor(a!) input, Tensor source) -> Tensor", set_data_host, HOST | MIXED | FUNCTION_ONLY,
       "Make `input` refer to the memory of `source`, with its shape, strides, dtype and device. Gradients do not see it.")
