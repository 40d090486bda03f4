"""Errors of dispatch. Their messages name the op, the argument and the shapes."""
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport T_BUFFER
from metatensor._core.late import later

_GIVE_DATA = "give the tensor data first (empty_like(device=...), a checkpoint, or a real device)"
_INSTEAD = {
    "item": f"metadata such as tensor.shape; for a value, {_GIVE_DATA}",
    "tolist": f"metadata such as tensor.shape; for values, {_GIVE_DATA}",
    "nonzero": "metatensor.where(condition, a, b), or nonzero_static(size=...)",
    "where": "metatensor.where(condition, a, b)",
    "masked_select": "metatensor.where(mask, tensor, 0), or tensor * mask",
    "unique": "tensor.numel() as an upper bound of the size",
    "equal": "a comparison of shapes and dtypes, or (a == b) as a tensor",
    "repeat_interleave": "the argument output_size",
}


class NotDifferentiableError(RuntimeError):
    """An argument requires grad, but its operator has no gradient for it."""

    def __init__(self, op, argument):
        super().__init__(f"{op}(): argument '{argument}' requires grad, but the operator has no gradient for it; pass {argument}.detach()")

    def __reduce__(self):
        return (RuntimeError, self.args)


class _OfTensor:
    """A mixin for exceptions about a tensor. `str()` appends the tensor's place in a module to the message."""

    def __init__(self, text="", tensor=None):
        super().__init__(text)
        self._tensor = None if tensor is None else _member(tensor)

    def __str__(self):
        text = super().__str__()
        tensor = None if self._tensor is None else self._tensor()
        if tensor is not None:
            from metatensor._core.source_locations import name_in_module
            place = name_in_module(tensor)
            if place is not None:
                return f"{text} (the tensor is {place})"
        return text

    def __reduce__(self):
        return (type(self), (str(self),))


cdef object _member(Tensor t):
    """Return a weak reference to the base of a view `t`, else to `t` itself. Return None unless that is a parameter or
    buffer."""
    import weakref      # takes longer to import than this module
    Parameter = later("Parameter")
    if t.base is not None:                          # the view may be freed before the message is read
        t = <Tensor>t.base
    return weakref.ref(t) if t.flags & T_BUFFER or isinstance(t, Parameter) else None


class DataDependentError(_OfTensor, NotImplementedError):
    """Raised if a result depends on values of a tensor that has no data."""

    declared = False    # True if a meta function raised it by requesting an unknown size


class NoDataError(_OfTensor, NotImplementedError):
    """Raised on an attempt to copy values out of a tensor without data."""


class DeviceMismatchError(_OfTensor, RuntimeError):
    """Raised if the tensors of a call are on different devices."""


def data_dependent(str name not None, device=None, shape=None, tensor=None):
    """Return the error for an op whose result depends on the values of a tensor that has no data."""
    stem = name.rpartition(".")[2].rstrip("_")
    text = f"{name}(): the result depends on the values of a tensor"
    if shape is not None:
        text += f" of shape {list(shape)}"
    text += f" on {device}, which holds no data" if device is not None else ", which holds no data"
    hint = _INSTEAD.get(stem)
    if hint:
        text += f"; use instead: {hint}"
    return DataDependentError(text, tensor)


def type_name(value):
    """Return the name of the type of an argument, for messages."""
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, (list, tuple)):
        kinds = sorted({type_name(v) for v in value})
        return f"{type(value).__name__} of {', '.join(kinds)}" if kinds else f"empty {type(value).__name__}"
    return type(value).__name__


def misfit(str name not None, list reasons not None, args, kwargs):
    """Return the TypeError for a call that fits no overload. `reasons` holds (schema, reason) for each overload."""
    if len(reasons) == 1:
        return TypeError(f"{name}(): {reasons[0][1]}")
    given = ", ".join([type_name(a) for a in args] + [f"{k}={type_name(v)}" for k, v in kwargs.items()])
    lines = "".join(f"\n  * {schema}\n      {reason}" for schema, reason in reasons)
    return TypeError(f"{name}(): no overload takes ({given}); the overloads are:{lines}")


def not_a_target(str name not None, str argument not None, value):
    """Return the error for an in-place op whose first argument is not a tensor."""
    return TypeError(f"{name}(): argument '{argument}' (position 1) must be Tensor, not {type_name(value)}")


def different_devices(str name not None, devices, tensors=()):
    """Return the error for tensors on several devices.

    If the first tensor without data is in a module, the message names its place there.
    """
    return DeviceMismatchError(f"{name}(): expected all tensors to be on the same device, but found "
                               + " and ".join(str(d) for d in devices), _without_data(tensors))


cdef object _without_data(tensors):
    cdef Tensor t
    for t in tensors:
        if t.storage.data is None:
            return t
    return None


def meta_copy(tensor):
    """Return the error for copying values from a tensor without data."""
    return NoDataError("Cannot copy out of meta tensor; no data!", tensor)


def no_data(str name not None, tensor):
    """Return the error for writing values of a tensor without data into one with data."""
    return RuntimeError(f"{name}(): an argument holds no data, so its values cannot be written to a tensor of shape "
                        f"{list(tensor.shape)} on {tensor.device}, which holds data")


def no_kernel(str name not None, device, arguments):
    """Return the error for an op without a kernel on a device. `arguments` holds the op's argument names."""
    return NotImplementedError(
        f"{name}: the device {device} has no kernel for this op and it has no decomposition; register a function of "
        f"({', '.join(['out', *arguments])}) with @metatensor.library.kernel({name!r}, \"{device.type}\")")


def inference_inplace(str name not None):
    """Return the error for a change of a tensor that was made in inference mode."""
    return RuntimeError(f"{name}(): a tensor made in inference mode cannot be changed in place outside it; clone() it first")


def inplace_shape(str name, Tensor target not None, Tensor result not None):
    """Return the error for an in-place op whose result and target have different shapes."""
    return RuntimeError(f"{name}(): the tensor of shape {shape_str(target)} cannot hold the result, "
                        f"which has the shape {shape_str(result)}")


def cannot_cast(str name not None, result, target):
    """Return the error for a result whose dtype cannot be cast to the target's."""
    return RuntimeError(f"{name}(): a result of dtype {result.name} cannot be cast to the "
                        f"{target.name} tensor that it is written to")


def written_overlap(str name, Tensor target not None, why):
    """Return the error for writing to memory that other elements or arguments share. `why` gives the reason."""
    return RuntimeError(f"{name}(): cannot write to a tensor of shape {shape_str(target)}: {why}; clone() it first")


def leaf_inplace(str name not None, str what=""):
    """Return the error for an in-place op on a leaf that requires grad, or on the part of it that `what` names."""
    return RuntimeError(f"{name}(): {what}a leaf tensor that requires grad cannot be changed in place; "
                        "use metatensor.no_grad()")


def fixed_view_inplace(str name not None):
    """Return the error for an in-place op on a view whose change cannot be recorded in the history of its base."""
    return RuntimeError(f"{name}(): a view that was made under no_grad() or inference_mode(), or that an autograd.Function returned, "
                        "cannot be changed in place while gradients are recorded; change it under no_grad(), or clone() it first")


def multi_view_inplace(str name not None):
    """Return the error for an in-place op, with gradients enabled, on one of several views that one op returned."""
    return RuntimeError(f"{name}(): one of the views that split(), chunk() or unbind() returned cannot be changed in place while "
                        "gradients are recorded; use index or narrow() for a view of a part")


def wrong_kernel(str name, device, Tensor want not None, got):
    """Return the error for a device kernel whose result differs in shape or dtype from the meta kernel's."""
    if isinstance(got, Tensor):
        what = f"shape {shape_str(<Tensor>got)} and dtype {(<Tensor>got).dtype.name}"
    else:
        what = _one(got)
    return RuntimeError(f"{name}: the kernel of the device {device} returned {what}, but shape {shape_str(want)} and dtype "
                        f"{want.dtype.name} are expected; the fault is in {_owner(name, device)}")


def wrong_data_kernel(str name, str schema, device, got):
    """Return the error for a data-dependent kernel whose results do not match the schema."""
    what = _one(got)
    if isinstance(got, Tensor):
        what += f" on {got.device}" + ("" if got.untyped_storage().data is not None else " without data")
    return RuntimeError(f"{name}: the kernel of the device {device} returned {what}, but tensors with data on {device.type} "
                        f"are expected, by the schema {schema}; the fault is in {_owner(name, device)}")


def _one(got):
    """Describe the return value of a function, for messages."""
    if got is None:
        return "nothing"
    kind = type_name(got)
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _owner(name, device):
    return later("kernel_owner")(name, device.type)


def note_kernel(error, str name, device):
    """Add a note to an exception raised by a kernel, naming the kernel and its provider. Add it only once."""
    from metatensor._core.source_locations import add_note
    owner = _owner(name, device)
    if owner not in str(error) and not any([n.startswith("(in the kernel of") for n in getattr(error, "__notes__", ())]):
        add_note(error, f"(in the kernel of {name} for {device}, from {owner})")


def no_meta(str name):
    """Return the error for an op that has no meta function."""
    return NotImplementedError(f"{name}: no meta function was registered; use @metatensor.library.meta({name!r})")


def wrong_meta(str name, str schema, got):
    """Return the error for a Python meta function whose results do not match the schema."""
    return TypeError(f"{name}: the meta function returned {_results(got)}, which is not what the schema says: {schema}")


def _results(got):
    if isinstance(got, (tuple, list)):
        return f"{len(got)} results ({', '.join(type_name(g) for g in got)})"
    return _one(got)


def wrong_device(str name, where, device):
    """Return the error for a meta function whose result is not on the device of the call."""
    return RuntimeError(f"{name}: the meta function puts a result on the device {where}, but the arguments are on {device}")


def undeclared_alias(str name, str schema):
    """Return the error for a Python meta function whose result aliases an argument, unlike the schema."""
    return RuntimeError(f"{name}: the meta function returned a tensor that shares memory with an argument, which the schema does "
                        f"not say: {schema}; return a Spec or new_empty(), or mark the argument and the result with (a)")
