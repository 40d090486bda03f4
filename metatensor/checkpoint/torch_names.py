"""The names that PyTorch's checkpoints may use, and their handlers. Safely loaded pickles can call nothing else.

A handler receives the machine and the arguments of a call. It charges for copies before it makes them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import metatensor as mt
from metatensor.checkpoint._tensors import ORDERED, PARAMETER, TENSOR, TENSOR_V2, TENSOR_V3, StorageType
from metatensor.checkpoint._values import Known
from metatensor.checkpoint.map_location import is_device

__all__ = ["class_value", "storage_value", "table"]

STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "QInt8": "qint8", "QInt32": "qint32", "QUInt8": "quint8", "QUInt4x2": "quint4x2",
    "QUInt2x4": "quint2x4",
}  # fmt: skip
NUMBERS = frozenset(("b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"))
"""NumPy codes (kind and size) of the dtypes that arrays and tensors share."""
MAX_BITS = 256
"""Largest size, in bits, of the integers in a range or slice. Computing its length takes quadratic time."""
QUANTISATION = ("per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric")
# Modules of built-in classes in Python 3 and Python 2.
BUILTINS = ("builtins", "__builtin__")
PLAIN_CLASSES = {cls.__name__: cls for cls in (bool, bytes, complex, dict, float, frozenset, int, list, object, set, slice, str, tuple)}


@lru_cache(1)
def table() -> dict[bytes, Any]:
    """Return the values and `Known` handlers for all names that PyTorch's formats need, keyed by ``b"module\\nname"``.
    """
    from metatensor.checkpoint.numpy_names import names as numpy_names

    found: dict[bytes, Any] = {}

    def add(module: str, name: str, call: Callable[..., Any] | None = None, **options: Any) -> None:
        found[f"{module}\n{name}".encode()] = Known(f"{module}.{name}", call, **options)

    for name in dir(mt):
        value = getattr(mt, name)
        if isinstance(value, mt.dtype):
            found[f"torch\n{name}".encode()] = value
    for prefix, dtype in STORAGES.items():
        for module in ("torch", "torch.cuda"):
            found[f"{module}\n{prefix}Storage".encode()] = StorageType(f"{module}.{prefix}Storage", getattr(mt, dtype))
    for name in ("torch.UntypedStorage", "torch.storage.UntypedStorage", "torch.storage._UntypedStorage"):
        found[name[::-1].replace(".", "\n", 1)[::-1].encode()] = StorageType(name, None)

    add("torch._utils", "_rebuild_tensor", code=TENSOR, call=_never)
    add("torch._utils", "_rebuild_tensor_v2", code=TENSOR_V2, call=_never)
    add("torch._utils", "_rebuild_tensor_v3", code=TENSOR_V3, call=_never)
    add("torch._utils", "_rebuild_parameter", code=PARAMETER, call=_never)
    add("torch._utils", "_rebuild_parameter_with_state", _parameter_with_state)
    add("torch._utils", "_rebuild_meta_tensor_no_storage", _meta_tensor)
    add("torch._utils", "_rebuild_device_tensor_from_numpy", _device_tensor)
    add("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", _device_tensor)
    for name in ("_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor", "_rebuild_qtensor", "_rebuild_nested_tensor",
                 "_rebuild_wrapper_subclass"):  # fmt: skip
        add("torch._utils", name, _unsupported(name))
    for module in ("torch._tensor", "torch.tensor"):
        add(module, "_rebuild_from_type_v2", _from_type)
        add(module, "_rebuild_from_type", _from_type)
    add("torch", "Size", lambda machine, args: mt.Size(_one(machine, args, tuple)), value=mt.Size)
    add("torch", "device", _device, value=mt.device)
    add("torch.serialization", "_get_layout", _layout)
    for module, name in (("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("torch.nn.parameter", "Buffer")):
        add(module, name)
    for name in QUANTISATION:
        add("torch", name)

    add("collections", "OrderedDict", _ordered, code=ORDERED, value=OrderedDict, empty=True)
    add("collections", "Counter", _counter, value=Counter)
    add("collections", "defaultdict", _defaultdict, value=defaultdict)
    add("_codecs", "encode", _encode)
    for module in BUILTINS:
        for name, cls in PLAIN_CLASSES.items():
            add(module, name, value=cls)
        add(module, "set", _set(set), value=set)
        add(module, "frozenset", _set(frozenset), value=frozenset)
        add(module, "bytearray", lambda machine, args: bytearray(_bytes(machine, args)), value=bytearray)
        add(module, "bytes", _bytes, value=bytes)
        add(module, "complex", _complex, value=complex)
        add(module, "slice", _numbers(slice), value=slice)
        add(module, "range", _numbers(range), value=range)
        add(module, "long", value=int)
        add(module, "unicode", value=str)
        add(module, "xrange", _numbers(range), value=range)
    found.update(numpy_names())
    return found


def class_value(known: Any) -> Any:
    """Return the class for a name whose class is imported lazily, or None for other names."""
    if known.name == "torch.Tensor":
        return mt.Tensor
    if known.name == "torch.nn.parameter.Parameter":
        return mt.nn.Parameter
    if known.name == "torch.nn.parameter.Buffer":
        from metatensor.nn.parameter import Buffer

        return Buffer
    return None


def storage_value(machine: Any, ref: Any) -> Any:
    """Return the storage for a reference that the pickle saves by itself, not as part of a tensor."""
    if ref.begin or ref.nbytes != ref.storage.nbytes():
        raise machine.error("a view of a storage is part of the result: only tensors may use views")
    if ref.dtype is None:
        return ref.storage
    from metatensor.interchange.typed_storage import TypedStorage

    return TypedStorage(wrap_storage=ref.storage, dtype=ref.dtype)


SKELETON_STATE = "_metatensor_storage"
"""Attribute in which a tensor of a skeleton records its storage; see `_pickle_writer`."""


# Tensors --------------------------------------------------------------------------

def _never(machine: Any, args: Any) -> Any:
    raise machine.error("only files with tensors may use this name")


def _parameter_with_state(machine: Any, args: tuple[Any, ...]) -> Any:
    """Handle (data, requires_grad, backward_hooks, state)."""
    if len(args) != 4:
        raise machine.error(f"_rebuild_parameter_with_state takes 4 arguments, got {len(args)}")
    made = machine.apply(table()[b"torch._utils\n_rebuild_parameter"], args[:3])
    return _with_state(machine, made, args[3])


def _from_type(machine: Any, args: tuple[Any, ...]) -> Any:
    """Handle (function, class, arguments, state)."""
    if len(args) != 4:
        raise machine.error(f"_rebuild_from_type takes 4 arguments, got {len(args)}")
    function, cls, arguments, state = args
    made = machine.apply(function, arguments)
    if not isinstance(made, mt.Tensor):
        return made  # a placeholder
    wanted = class_value(cls) if isinstance(cls, Known) else cls
    if not (isinstance(wanted, type) and issubclass(wanted, mt.Tensor)) or not (isinstance(cls, Known) or machine.may_call(cls)):
        raise machine.error("_rebuild_from_type: not a tensor class that checkpoints may use")
    if type(state) is dict and made.is_meta and SKELETON_STATE in state:
        state = dict(state)
        _share(machine, made, state.pop(SKELETON_STATE))
    if wanted is not type(made) and wanted is not mt.Tensor:
        made = made.as_subclass(wanted)
    return _with_state(machine, made, state)


def _share(machine: Any, tensor: Any, place: Any) -> None:
    """Move a skeleton's tensor to the storage that it shares.

    ``place`` is the storage's key and size, and the offset in it.
    """
    if type(place) is not tuple or [type(part) for part in place] != [str, int, int] or not isinstance(machine.source, dict):
        raise machine.error("the storage of a skeleton's tensor must be given by a key, a size and an offset")
    key, nbytes, offset = place
    if len(key) > 1000 or not 0 <= nbytes < 2**63 or not 0 <= offset < 2**63:
        raise machine.error("the storage of a skeleton's tensor has a key, size or offset that is too large")
    storage = machine.source.get((key, nbytes))
    if storage is None:
        machine.charge(200)
        storage = machine.source[key, nbytes] = mt.empty(nbytes, dtype=mt.uint8, device="meta").untyped_storage()
    with mt.no_grad():
        tensor.set_(storage, offset, tuple(tensor.shape), tuple(tensor.stride()))


def _with_state(machine: Any, tensor: Any, state: Any) -> Any:
    """Set the attributes that a tensor was saved with. Refuse names that would shadow an attribute of tensors."""
    parts = state if type(state) is tuple and len(state) == 2 else (state, None)
    for part in parts:
        if part is None:
            continue
        if type(part) is not dict:
            raise machine.error("the attributes of a tensor must be a dict")
        machine.charge(100 * len(part))
        for name, value in part.items():
            machine.check_attribute(type(tensor), name)
            setattr(tensor, name, value)
    return tensor


def _meta_tensor(machine: Any, args: tuple[Any, ...]) -> Any:
    """Handle (dtype, size, stride, requires_grad)."""
    dtype, size, stride, grad = args
    machine.charge(400)
    if not isinstance(dtype, mt.dtype) or not isinstance(size, tuple) or not isinstance(stride, tuple) or type(grad) is not bool:
        raise machine.error("_rebuild_meta_tensor_no_storage takes a dtype, a size, a stride and a bool")
    return mt.empty_strided(size, stride, dtype=dtype, device="meta").requires_grad_(grad)


def _device(machine: Any, args: tuple[Any, ...]) -> Any:
    """Handle (type or name, index)."""
    if not args or len(args) > 2 or type(args[0]) is not str or any(type(index) is not int for index in args[1:]):
        raise machine.error("torch.device takes the name of a device and optionally an index")
    if not is_device(args[0]):
        raise machine.error(f"torch.device: {args[0][:40]!r} is not a known device")
    return mt.device(*args)


def _device_tensor(machine: Any, args: tuple[Any, ...]) -> Any:
    """Handle (array or cpu tensor, dtype, device, requires_grad)."""
    data, dtype, location, grad = args
    if not isinstance(dtype, mt.dtype) or type(location) is not str or type(grad) is not bool:
        raise machine.error("a device tensor takes data, a dtype, a device and a bool")
    if not isinstance(data, mt.Tensor):
        import numpy

        if type(data) is not numpy.ndarray:
            raise machine.error("a device tensor takes an array or a tensor")
        if f"{data.dtype.kind}{data.dtype.itemsize}" not in NUMBERS:
            raise machine.error(f"a device tensor takes an array of numbers, not of {data.dtype}")
        owner, available = data, data.nbytes
    else:
        owner = data.untyped_storage()
        available = owner.nbytes()
    device = machine.device_of(location)
    if device.type != "meta" and isinstance(data, mt.Tensor) and data.is_meta:
        raise machine.error("a device tensor takes values, but a tensor on meta has none")
    machine.charge_values(prod(data.shape) * dtype.itemsize, owner, available)
    machine.later(made := mt.empty(tuple(data.shape), dtype=dtype, device=device), data)
    return made.requires_grad_(grad)


def _unsupported(name: str) -> Callable[..., Any]:
    def handler(machine: Any, args: tuple[Any, ...]) -> Any:
        from metatensor.checkpoint import rebuilding

        machine.charge(200)
        return getattr(rebuilding, name)(*args)

    return handler


def _layout(machine: Any, args: tuple[Any, ...]) -> Any:
    name = _one(machine, args, str)
    found = vars(mt).get(name.removeprefix("torch.")) if name.startswith("torch.") else None
    if not isinstance(found, type(mt.strided)):
        raise machine.error(f"unknown layout {name[:40]!r}")
    return found


# Values ---------------------------------------------------------------------------

def _one(machine: Any, args: tuple[Any, ...], *classes: type) -> Any:
    """Return the only argument, whose type must be exactly one of ``classes``."""
    if len(args) != 1 or (type(args[0]) not in classes):
        raise machine.error(f"one argument is needed, of {' or '.join(cls.__name__ for cls in classes)}")
    if hasattr(args[0], "__len__"):
        machine.charge(64 + 64 * len(args[0]))
    return args[0]


def _pairs(machine: Any, made: Any, args: tuple[Any, ...]) -> Any:
    if not args:
        return made
    given = _one(machine, args, list, tuple, dict)
    pairs = given.items() if type(given) is dict else given
    for pair in pairs:
        if type(pair) not in (tuple, list) or len(pair) != 2:
            raise machine.error("a mapping takes pairs")
        machine.set_item(made, *pair)
    return made


def _ordered(machine: Any, args: tuple[Any, ...]) -> Any:
    return _pairs(machine, OrderedDict(), args)


def _counter(machine: Any, args: tuple[Any, ...]) -> Any:
    if args and type(args[0]) is not dict:
        raise machine.error("Counter takes a dict")
    return _pairs(machine, Counter(), args)


def _defaultdict(machine: Any, args: tuple[Any, ...]) -> Any:
    factory = args[0] if args else None
    if factory is not None:
        factory = factory.value if isinstance(factory, Known) else None
        if factory not in (OrderedDict, Counter, bool, dict, float, frozenset, int, list, set, str, tuple):
            raise machine.error("defaultdict takes a class of plain values, or None")
    return _pairs(machine, defaultdict(factory), args[1:])


def _set(cls: type) -> Callable[..., Any]:
    def handler(machine: Any, args: tuple[Any, ...]) -> Any:
        if not args:
            return cls()
        made: set[Any] = set()
        for item in _one(machine, args, list, tuple, set, frozenset):
            machine.add_item(made, item)
        return made if cls is set else cls(made)

    return handler


def _encode(machine: Any, args: tuple[Any, ...]) -> bytes:
    """Return a bytes object, which pickle protocol 2 writes as (text, "latin1")."""
    if len(args) != 2 or type(args[0]) is not str or args[1] not in ("latin1", "latin-1"):
        raise machine.error("_codecs.encode takes a text and 'latin1' here")
    machine.charge(64 + len(args[0]))
    return args[0].encode("latin-1")


def _bytes(machine: Any, args: tuple[Any, ...]) -> bytes:
    if not args:
        return b""
    if len(args) == 2:
        return _encode(machine, args)
    given = _one(machine, args, bytes, bytearray, list)
    return bytes(given)


def _complex(machine: Any, args: tuple[Any, ...]) -> complex:
    if len(args) != 2 or any(type(item) not in (float, int) for item in args):
        raise machine.error("complex takes two numbers")
    return complex(*args)


def _numbers(cls: type) -> Callable[..., Any]:
    def handler(machine: Any, args: tuple[Any, ...]) -> Any:
        if any(item is not None and type(item) is not int for item in args):
            raise machine.error(f"{cls.__name__} takes integers here")
        if any(item is not None and item.bit_length() > MAX_BITS for item in args):
            raise machine.error(f"{cls.__name__} takes integers of at most {MAX_BITS} bits here")
        return cls(*args)

    return handler
