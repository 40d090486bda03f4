"""metatensor: tensors with PyTorch's API but without PyTorch, built around a meta device.

A tensor on the meta device has a shape, a dtype and strides, but no data. Devices that
hold data are plugins (`metatensor-cpu`, `metatensor-cuda`, ...).
"""

from importlib import import_module as _import_module
from math import e, inf, nan, pi

try:
    import metatensor._core.methods  # adds the methods to Tensor
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("metatensor."):
        raise
    raise ImportError(
        f"the compiled modules of metatensor are not in {__path__[0]}. If that folder is part of the source tree, "
        "install metatensor (pip install .) and start Python in another folder, or compile it in place (pip install -e .)"
    ) from _error
from metatensor import ops  # fills the registry
from metatensor._core import dtype as _dtype
from metatensor._core import formats as _formats
from metatensor._core.device import Device as device
from metatensor._core.device import get_default_device, set_default_device
from metatensor._core.dtype import (
    DType as dtype,
)
from metatensor._core.dtype import (
    can_cast,
    get_default_dtype,
    promote_types,
    set_default_dtype,
)
from metatensor._core.errors import DataDependentError
from metatensor._core.formats import (
    LayoutTag as layout,
)
from metatensor._core.formats import (
    MemoryFormatTag as memory_format,
)
from metatensor._core.late import provide as _provide
from metatensor._core.layout import broadcast_shapes as _broadcast_shapes
from metatensor._core.modes import DispatchMode
from metatensor._core.op import namespace as _namespace
from metatensor._core.op import registry as _registry
from metatensor._core.size import Size
from metatensor._core.spec import Spec
from metatensor._core.storage import Storage as UntypedStorage
from metatensor._core.tensor import Tensor
from metatensor._core.thread import is_grad_enabled, is_inference_mode_enabled
from metatensor._version import __version__

# Modules and functions of higher layers that the core and the operators look up at run time; see _core/late.py.
_provide("metatensor.library")
_provide("metatensor.plugins")
_provide("metatensor.array_api")
_provide("metatensor.library", "Namespace find_kernel kernel_owner")
_provide("metatensor.rules.decompositions", "decompositions")
_provide("metatensor.rules.parts", "formula_of parts_of")
_provide("metatensor.devices.basics", "drawn_on_host fill_new_memory")
_provide("metatensor.rules.cpu_indices", "only_indices_on_cpu")
_provide("metatensor.distributed", "is_initialized")
_provide("metatensor.distributed.tensor._planning", "check_mixed plan_distributed prepare_distributed")
_provide("metatensor.distributed.tensor._norms", "total_norm_of_parts")
_provide("metatensor.distributed.tensor._views", "replace_memory view_again write_through write_to_view zeros_around")
_provide("metatensor.utils.checkpoint", "checkpoint")
_provide("metatensor.torch_api.torch.amp.grad_scaler", "GradScaler")
_provide("metatensor.devices.pinning", "pin")
_provide("metatensor.overloads", "overload_call")
_provide("metatensor.overloads.parts", "PARTS")
_provide("metatensor.autograd._backward", "backward")
_provide("metatensor.func._batched")
_provide("metatensor.func._functions", "batched_apply")
_provide("metatensor._core.capture", "is_traced note_copy note_seed note_storage_read refuse_in_trace")
_provide("metatensor._core.duals", "copy_tangents")
_provide("metatensor._core.engine", "gradient_edge run_backward")
_provide("metatensor.autograd.anomaly_mode", "call_stack")
_provide("metatensor.autograd.function", "Function")
_provide("metatensor.nn.parameter", "Parameter")
_provide("metatensor.distributed._group", "get_world_size the_group")
_provide("metatensor.distributed.batch_norm", "synchronized_batch_norm")
_provide("metatensor._core.sharded", "alias_of data_of owns_part set_data")
_provide("metatensor.distributed.reducer")
_provide("metatensor.nn._hooks", "RemovableHandle")
_provide("metatensor.deferred.materializing", "bytes_of checksum copy_of filled has_values materialize value_of")
_provide("metatensor.func", "vmap")
_provide("metatensor.deferred.known", "compute_known known_bytes known_result")
_provide("metatensor.deferred.recipes", "reduce_storage")
_provide("metatensor.deferred.unresolved", "unresolved")
_provide("metatensor.interchange.arrays", "array_interface array_namespace array_wrap buffer_of cuda_array_interface deep_copy "
         "deep_copy_storage from_array frombuffer operand reduce_tensor to_array to_numpy")
_provide("metatensor.interchange.dlpack", "dlpack_device from_dlpack to_dlpack")
_provide("metatensor.interchange.legacy_constructor", "legacy_tensor")
_provide("metatensor.interchange.storages", "as_bytes elements from_file item new_untyped on_cpu swap_bytes")
_provide("metatensor.interchange.typed_storage", "TypedStorage")

newaxis = None

globals().update(_dtype.names())
globals().update({n: v for n, v in vars(_formats).items()
                  if isinstance(v, (layout, memory_format)) and not n.isupper()})
globals().update(_namespace(""))


def broadcast_shapes(*shapes):
    """Return the shape that tensors of the given shapes broadcast to.

    Parameters
    ----------
    *shapes : sequence of int or int
        The shapes. An int stands for a shape of one dimension.

    Returns
    -------
    Size

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast together.

    Examples
    --------
    >>> import metatensor as mt
    >>> tuple(mt.broadcast_shapes((3, 1), (4,)))
    (3, 4)
    """
    return Size(_broadcast_shapes(*shapes))


def is_tensor(obj):
    """Return True if `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    """Return True if `obj` is a storage, an instance of `UntypedStorage`."""
    return isinstance(obj, UntypedStorage)


# Names that are imported on first access: name -> (module, attribute), where None stands for the module itself.
_LAZY = {
    name: (f"metatensor.{name}", None)
    for name in ("amp", "analysis", "array_api", "autograd", "checkpoint", "data", "deferred", "devices", "distributed",
                 "distributions", "fft", "func", "interchange", "library", "linalg", "masked", "nn", "optim", "plan", "plugins", "profiler",
                 "program", "rules", "serialization", "signal", "special", "testing", "utils")
} | {
    "load": ("metatensor.checkpoint", "load"),
    "load_into": ("metatensor.checkpoint", "load_into"),
    "save": ("metatensor.checkpoint", "save"),
    "autocast": ("metatensor.amp", "autocast"),
    "vmap": ("metatensor.func", "vmap"),
    "FakeTensorMode": ("metatensor.deferred.fake", "FakeTensorMode"),
    "to_meta": ("metatensor.deferred.meta_copies", "to_meta"),
} | {
    name: ("metatensor.deferred", name)
    for name in ("deferred_init", "dematerialize", "is_deferred", "materialize", "materialize_slice")
} | {
    name: ("metatensor.deferred.unresolved", name) for name in ("assert_materialized", "assert_no_materialization")
} | {
    name: ("metatensor.autograd.grad_mode", name) for name in ("enable_grad", "inference_mode", "no_grad", "set_grad_enabled")
} | {
    "op": ("metatensor.library", "op"),
    "finfo": ("metatensor._core.limits", "finfo"),
    "iinfo": ("metatensor._core.limits", "iinfo"),
    "set_printoptions": ("metatensor._core.tensor_str", "set_printoptions"),
    "from_dlpack": ("metatensor.interchange.dlpack", "from_dlpack"),
    "from_numpy": ("metatensor.interchange.arrays", "from_numpy"),
    "frombuffer": ("metatensor.interchange.arrays", "frombuffer"),
} | {
    name: ("metatensor._core.random", name)
    for name in ("Generator", "manual_seed", "seed", "initial_seed", "default_generator",
                 "get_rng_state", "set_rng_state")
}


def __getattr__(name):
    try:
        module, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'metatensor' has no attribute {name!r}") from None
    found = _import_module(module)
    if attribute is not None:
        found = getattr(found, attribute)
    globals()[name] = found
    return found


def __dir__():
    return sorted({*globals(), *_LAZY})
