"""Pickling for PyTorch's formats: Python's own pickler, extended with PyTorch's names and storages.

Tensors become calls of PyTorch's rebuild functions, storages become persistent ids, and classes and functions of this
package get their names in PyTorch. Everything else is pickled as usual. The caller writes the bytes of the storages.
"""

from __future__ import annotations

import gc
import io
import pickle
from collections import OrderedDict
from types import FunctionType
from typing import Any

import metatensor as mt
from metatensor._core.op import Op
from metatensor._core.tensor import Tensor
from metatensor.checkpoint.torch_names import SKELETON_STATE
from metatensor.checkpoint.torch_naming import Name, name_in_torch
from metatensor.interchange.typed_storage import TypedStorage
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter
from metatensor.serialization import location_tag

__all__ = ["StoredTensors", "pickled", "pickler_for"]

STORAGES = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage",
    "bool": "BoolStorage", "complex128": "ComplexDoubleStorage", "complex64": "ComplexFloatStorage",
}  # fmt: skip
"""PyTorch's storage class for each dtype that has one. Tensors of other dtypes use an untyped storage."""

UNTYPED = "UntypedStorage"
QUANTIZED = ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")


class StorageRef:
    """A storage in a pickle, and the name of the storage class that tells PyTorch its dtype."""

    __slots__ = ("kind", "storage")

    def __init__(self, storage: Any, kind: str) -> None:
        self.storage = storage
        self.kind = kind


class StoredTensors:
    """The storages that one pickle refers to, and how its tensors are rebuilt from them.

    Parameters
    ----------
    meta_as_cpu : bool, default False
        Write tensors on meta as tensors on the cpu. By default they are written without data, as a skeleton.
    legacy : bool, default False
        Write persistent ids in the format before PyTorch 1.6.
    """

    def __init__(self, meta_as_cpu: bool = False, legacy: bool = False) -> None:
        self.meta_as_cpu = meta_as_cpu
        self.legacy = legacy
        self.storages: dict[str, Any] = {}
        """The storages whose bytes the file must contain, by key."""
        self.kinds: dict[str, str] = {}
        """Names of storage classes by key.

        The first tensor or typed storage that uses a storage determines its class.
        """
        self._keys: dict[Any, str] = {}

    # Storages -----------------------------------------------------------------

    def key(self, storage: Any) -> str:
        """Return the key of a storage in the file."""
        return self._keys.setdefault(storage, str(len(self._keys)))

    def itemsize(self, key: str) -> int:
        """Return the size in bytes of an element of a storage."""
        return _ITEMSIZES[self.kinds[key]]

    def _kind(self, storage: Any, dtype: Any) -> str:
        """Return the name of a storage's class. The first dtype with which it is used determines the class."""
        kind = STORAGES.get(dtype.name, UNTYPED) if dtype is not None else UNTYPED
        if kind != UNTYPED and storage.nbytes() % dtype.itemsize:
            kind = UNTYPED
        if self.legacy and kind == UNTYPED:  # PyTorch cannot read untyped storages in that format
            kind = STORAGES["uint8"]
        return self.kinds.setdefault(self.key(storage), kind)

    def persistent_id(self, obj: Any) -> Any:
        """Return the persistent id of a storage, or None for any other object."""
        kind = type(obj)
        if kind is mt.UntypedStorage:
            obj = StorageRef(obj, self._kind(obj, None))
        elif kind is TypedStorage:
            obj = StorageRef(obj.untyped(), self._kind(obj.untyped(), obj.dtype))
        elif kind is not StorageRef:
            return None
        storage, key = obj.storage, self.key(obj.storage)
        self.storages[key] = storage
        location = "cpu" if self.meta_as_cpu and storage.device.type == "meta" else location_tag(storage)
        named = Name.of("torch.storage" if obj.kind == UNTYPED else "torch", obj.kind)
        found = ("storage", named, key, location, storage.nbytes() // _ITEMSIZES[obj.kind])
        return (*found, None) if self.legacy else found

    # Tensors ------------------------------------------------------------------

    def tensor(self, tensor: Any) -> Any:
        """Return the function and arguments that rebuild a tensor, with PyTorch's names, as ``__reduce__`` does."""
        kind = type(tensor)
        if kind.__reduce_ex__ is not Tensor.__reduce_ex__:  # the class defines how it is saved
            return tensor.__reduce_ex__(2)
        attributes = {k: v for k, v in (getattr(tensor, "__dict__", None) or {}).items() if not k.startswith("_backward")}
        if issubclass(kind, Parameter):
            arguments: tuple[Any, ...] = (tensor.detach().as_subclass(Tensor), tensor.requires_grad, OrderedDict())
            if attributes:
                return Name.of("torch._utils", "_rebuild_parameter_with_state"), (*arguments, attributes)
            return Name.of("torch._utils", "_rebuild_parameter"), arguments
        skeleton = tensor.is_meta and not self.meta_as_cpu
        if skeleton:
            storage = tensor.untyped_storage()
            # PyTorch's function has no parameters for a shared storage, so an attribute records it.
            attributes[SKELETON_STATE] = (self.key(storage), storage.nbytes(), tensor.storage_offset())
        function, arguments = self._without_data(tensor) if skeleton else self._over_storage(tensor)
        if attributes or kind is not Tensor:
            return Name.of("torch._tensor", "_rebuild_from_type_v2"), (function, kind, arguments, attributes)
        return function, arguments

    def _without_data(self, tensor: Any) -> tuple[Name, tuple]:
        arguments = (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad)
        return Name.of("torch._utils", "_rebuild_meta_tensor_no_storage"), arguments

    def _over_storage(self, tensor: Any) -> tuple[Name, tuple]:
        name = tensor.dtype.name
        if name in QUANTIZED:
            raise TypeError(f"save: cannot save a tensor of {name} and shape {tuple(tensor.shape)}, because it is quantized")
        storage = tensor.untyped_storage()
        kind = self._kind(storage, tensor.dtype)
        arguments: tuple[Any, ...] = (StorageRef(storage, kind), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()),
                                      tensor.requires_grad, OrderedDict())  # fmt: skip
        function = "_rebuild_tensor_v2"
        if kind != STORAGES.get(name):
            function = "_rebuild_tensor_v3"
            arguments += (tensor.dtype,)
        if tensor.is_conj() or tensor.is_neg():
            arguments += ({key: True for key, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on},)
        return Name.of("torch._utils", function), arguments


_ITEMSIZES = {UNTYPED: 1, **{kind: getattr(mt, name).itemsize for name, kind in STORAGES.items()}}


# Everything else ------------------------------------------------------------------


def _module(module: Any) -> Any:
    """Reduce a module, adding the hook tables that PyTorch's classes expect in its state.

    This package creates these tables only when they are used.
    """
    reduced = module.__reduce_ex__(2)
    state = reduced[2] if len(reduced) > 2 else None
    if not isinstance(state, dict) or "_modules" not in state:
        return reduced
    tables: dict[str, Any] = {name: OrderedDict() for name in _HOOK_TABLES if name not in state}
    kept = {name: getattr(module, name) for name in getattr(module, "_kept_in_torch", ())}
    state = {"training": True, "_non_persistent_buffers_set": set(), "_is_full_backward_hook": None, **tables, **state, **kept}
    return (*reduced[:2], state, *reduced[3:])


_HOOK_TABLES = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def _size(size: Any) -> Any:
    return Name.of("torch", "Size"), (tuple(size),)


def _device(device: Any) -> Any:
    return Name.of("torch", "device"), (device.type,) if device.index is None else (device.type, device.index)


def _layout(layout: Any) -> Any:
    return Name.of("torch.serialization", "_get_layout"), (f"torch.{layout.name}",)


_REDUCERS = {mt.Size: _size, mt.device: _device, mt.layout: _layout}
_BY_NAME = (Name, mt.dtype, mt.memory_format, Op)
"""Classes whose instances are pickled by their name in PyTorch."""


class _Reducers(dict):
    """A `dispatch_table` that also finds the reducers of subclasses.

    ``rest`` is the table of the extended pickler.
    """

    def __init__(self, stored: StoredTensors, rest: Any) -> None:
        super().__init__(_REDUCERS)
        self.stored = stored
        self.rest = rest

    def get(self, kind: type, default: Any = None) -> Any:
        found = super().get(kind)
        if found is None:
            if issubclass(kind, Tensor):
                found = self.stored.tensor
            elif issubclass(kind, Module):
                found = _module
            else:
                return self.rest.get(kind, default)
            self[kind] = found
        return found


class _Names:
    """Mixin for picklers written in Python. It writes PyTorch's names, and storages as persistent ids."""

    def __init__(self, file: Any, protocol: int, stored: StoredTensors, **options: Any) -> None:
        super().__init__(file, protocol, **options)  # type: ignore[call-arg]
        self.stored = stored
        self.persistent_id = stored.persistent_id
        self.dispatch_table = _Reducers(stored, getattr(self, "dispatch_table", pickle.dispatch_table))  # type: ignore[attr-defined]

    def save_pers(self, pid: Any) -> None:
        """Write a persistent id as an object. Protocol 0 would write its text, which cannot be read back."""
        self.save(pid, save_persistent_id=False)  # type: ignore[attr-defined]
        self.write(pickle.BINPERSID)  # type: ignore[attr-defined]

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write the name of a class, a function, or a value that is pickled by name."""
        found = name_in_torch(obj, name)
        if found is None:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        module, name = found
        if self.proto >= 4:  # type: ignore[attr-defined]
            self.save(module)  # type: ignore[attr-defined]
            self.save(name)  # type: ignore[attr-defined]
            self.write(pickle.STACK_GLOBAL)  # type: ignore[attr-defined]
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]


def pickler_for(pickle_module: Any = None) -> Any:
    """Return the pickler class for a module such as `pickle`.

    Its instances take a file, a protocol and a `StoredTensors`.

    ``pickle_module`` still pickles the objects that it handles specially. A pickler written in Python does so through
    its methods. One that extends the compiled pickler does so through ``reducer_override`` and ``dispatch_table``.
    """
    theirs = pickle._Pickler if pickle_module in (None, pickle) else pickle_module.Pickler  # type: ignore[attr-defined]
    found = _picklers.get(theirs)
    if found is None:
        # The compiled pickler imports every name that it writes, but PyTorch must not be imported.
        base = theirs if issubclass(theirs, pickle._Pickler) else _following(theirs)  # type: ignore[attr-defined]
        saving = dict.fromkeys(_BY_NAME, _Names.save_global)
        dispatch = {**base.dispatch, **saving, **{kind: _named_first(base.dispatch[kind]) for kind in (type, FunctionType)}}
        own: dict[str, Any] = {"dispatch": dispatch}
        if base is pickle._Pickler:  # type: ignore[attr-defined]
            dispatch[Tensor] = _save_tensor
            own["save"] = _save_quickly
        found = type("Pickler", (_Names, base), own)
        _picklers[theirs] = found
    return found


_picklers: dict[Any, Any] = {}
_PLAIN = frozenset({str, int, bool, tuple, Name})


def _save_quickly(self: Any, obj: Any, save_persistent_id: bool = True) -> None:
    """Do the same as Python's own `save`, without looking for special methods of objects that have none."""
    kind = type(obj)
    if kind not in _PLAIN:
        pickle._Pickler.save(self, obj, save_persistent_id)  # type: ignore[attr-defined]
        return
    self.framer.commit_frame()
    known = self.memo.get(id(obj))
    if known is None:
        self.dispatch[kind](self, obj)
    else:
        self.write(self.get(known[0]))


def _save_tensor(self: Any, tensor: Any) -> None:
    """Write the call that rebuilds a tensor. A plain tensor in protocol 2 or 3 is written without the general functions."""
    function, arguments = self.stored.tensor(tensor)[:2]
    if self.proto not in (2, 3) or len(arguments) != 6 or type(arguments[0]) is not StorageRef:
        self.save_reduce(function, arguments, obj=tensor)
        return
    ref, offset, shape, strides, requires_grad, hooks = arguments
    save, write, memoize = self.save, self.write, self.memoize
    save(function)
    write(pickle.MARK)
    save(self.persistent_id(ref))
    write(pickle.BINPERSID)
    save(offset)
    for sizes in (shape, strides):
        if id(sizes) in self.memo:
            save(sizes)
            continue
        if len(sizes) > 3:
            write(pickle.MARK)
        for size in sizes:
            if 0 <= size < 256:
                write(pickle.BININT1 + bytes((size,)))
            else:
                save(size)
        write(_TUPLES[min(len(sizes), 4)])
        if sizes:
            memoize(sizes)
    write(pickle.NEWTRUE if requires_grad else pickle.NEWFALSE)
    save(OrderedDict)
    write(pickle.EMPTY_TUPLE + pickle.REDUCE)
    memoize(hooks)
    write(pickle.TUPLE)
    memoize(arguments)
    write(pickle.REDUCE)
    memoize(tensor)


_TUPLES = (pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.TUPLE)


def _named_first(save: Any) -> Any:
    """Return a method that writes an object by its name in PyTorch if it has one, else with ``save``."""

    def named_first(self: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
        if name_in_torch(obj) is None:
            save(self, obj, *args, **kwargs)
        else:
            self.save_global(obj)

    return named_first


def _following(theirs: Any) -> Any:
    """Return a pickler written in Python that reduces objects like the compiled pickler ``theirs``."""

    class Following(pickle._Pickler):  # type: ignore[name-defined, misc]
        def __init__(self, file: Any, protocol: int, **options: Any) -> None:
            super().__init__(file, protocol, **options)
            leader = theirs(io.BytesIO(), protocol)
            self.dispatch_table = getattr(leader, "dispatch_table", pickle.dispatch_table)  # type: ignore
            if hasattr(leader, "reducer_override"):
                self.reducer_override = leader.reducer_override  # type: ignore[method-assign]

    return Following


def pickled(
    obj: Any, meta_as_cpu: bool = False, *, protocol: int = 2, pickle_module: Any = None, legacy: bool = False
) -> tuple[bytes, StoredTensors]:
    """Return the pickle of ``obj`` and the storages that it refers to."""
    stored = StoredTensors(meta_as_cpu, legacy)
    out = io.BytesIO()
    # The pickler keeps every object until the end, so that garbage collections would only take time, up to half of all.
    paused = gc.isenabled()
    gc.disable()
    try:
        pickler_for(pickle_module)(out, protocol, stored).dump(obj)
    finally:
        if paused:
            gc.enable()
    return out.getvalue(), stored
