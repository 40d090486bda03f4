"""Objects as a pickle of the few constructors that PyTorch's safe loader knows.

Plain Python values, containers, tensors, parameters, sizes, dtypes and devices; all else is refused with the place
where it stands. Tensors name their storages by persistent ids, as PyTorch's zip format has it; the bytes of storages
are the caller's business.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from typing import Any

import metatensor as mt
from metatensor.checkpoint.torch_names import SKELETON_STATE
from metatensor.nn.parameter import Parameter, is_lazy

__all__ = ["KNOWN_LOCATIONS", "PickleWriter", "pickled"]

STORAGES = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage",
    "bool": "BoolStorage", "complex128": "ComplexDoubleStorage", "complex64": "ComplexFloatStorage",
}  # fmt: skip
"""Dtypes that have a class of storages in PyTorch; a tensor of another names its dtype beside an untyped storage."""

QUANTIZED = ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")
KNOWN_LOCATIONS = ("cpu", "cuda", "mps", "xpu", "hpu", "xla")
"""Device types that PyTorch finds its way with; a storage of another is written as one of the cpu."""

MAX_DEPTH = 200


class PickleWriter:
    """Writes one object. Afterwards `storages` are those with data that it named, each by its key.

    With ``meta_as_cpu`` tensors on meta stand for such on the cpu, and their storages have data.
    """

    def __init__(self, meta_as_cpu: bool = False) -> None:
        self.meta_as_cpu = meta_as_cpu
        self.out = bytearray(b"\x80\x02")
        self.storages: dict[str, Any] = {}
        self._types: dict[str, str] = {}
        self._keys: dict[Any, str] = {}
        self._memo: dict[Any, int] = {}
        self._alive: list[Any] = []
        self._path: list[str] = []
        self._open: set[int] = set()

    def dump(self, obj: Any) -> bytes:
        """The pickle of ``obj``. Raises TypeError for what PyTorch's safe loader would not take."""
        self._save(obj)
        self.out += b"."
        return bytes(self.out)

    # Values -------------------------------------------------------------------

    def _save(self, obj: Any) -> None:
        kind = type(obj)
        simple = _SIMPLE.get(kind)
        if simple is not None:
            simple(self, obj)
            return
        memo = self._memo.get(id(obj))
        if id(obj) in self._open:
            raise self._refused(f"a {kind.__name__} that contains itself")
        if memo is not None:
            self._get(memo)
            return
        if len(self._path) > MAX_DEPTH:
            raise self._refused(f"nested more than {MAX_DEPTH} deep")
        if isinstance(obj, mt.Tensor):
            self._tensor(obj)
            return
        container = _CONTAINERS.get(kind)
        if container is None:
            raise self._refused(_advice(obj))
        self._open.add(id(obj))
        container(self, obj)
        self._open.discard(id(obj))

    def _int(self, value: int) -> None:
        if 0 <= value < 256:
            self.out += b"K" + bytes((value,))
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(data) > 255:
                raise self._refused(f"an integer of {len(data)} bytes")
            self.out += b"\x8a" + bytes((len(data),)) + data

    def _text(self, value: str) -> None:
        memo = self._memo.get(value)
        if memo is not None:
            self._get(memo)
            return
        data = value.encode("utf-8", "surrogatepass")
        if len(data) >= 2**32:
            raise self._refused(f"a text of {len(data):,} bytes")
        self.out += b"X" + struct.pack("<I", len(data)) + data
        self._put(value)

    def _complex(self, value: complex) -> None:
        self._global("__builtin__", "complex")
        self.out += b"G" + struct.pack(">d", value.real) + b"G" + struct.pack(">d", value.imag) + b"\x86R"

    def _bytes(self, value: bytes) -> None:
        # Protocol 2 has no bytes: a text of which each character is a byte.
        self._global("_codecs", "encode")
        self._text(value.decode("latin-1"))
        self._text("latin1")
        self.out += b"\x86R"

    def _bytearray(self, value: bytearray) -> None:
        self._global("__builtin__", "bytearray")
        self._bytes(bytes(value))
        self.out += b"\x85R"
        self._remember(value)

    def _dtype(self, value: Any) -> None:
        self._global("torch", value.name)

    def _device(self, value: Any) -> None:
        self._global("torch", "device")
        self._text(value.type)
        if value.index is None:
            self.out += b"\x85R"
        else:
            self._int(value.index)
            self.out += b"\x86R"

    def _layout(self, value: Any) -> None:
        self._global("torch.serialization", "_get_layout")
        self._text(str(value).replace("metatensor.", "torch."))
        self.out += b"\x85R"

    # Containers ---------------------------------------------------------------

    def _list(self, value: list) -> None:
        self.out += b"]"
        self._remember(value)
        self._items(value)

    def _items(self, value: Any) -> None:
        if value:
            self.out += b"("
            for i, item in enumerate(value):
                self._at(f"[{i}]", item)
            self.out += b"e"

    def _tuple(self, value: tuple) -> None:
        if not value:
            self.out += b")"
            return
        if len(value) > 3:
            self.out += b"("
        for i, item in enumerate(value):
            self._at(f"[{i}]", item)
        self.out += b"t" if len(value) > 3 else (b"\x85", b"\x86", b"\x87")[len(value) - 1]
        self._remember(value)

    def _size(self, value: Any) -> None:
        self._global("torch", "Size")
        self._tuple(tuple(value))
        self.out += b"\x85R"
        self._remember(value)

    def _dict(self, value: dict) -> None:
        self.out += b"}"
        self._remember(value)
        self._pairs(value)

    def _pairs(self, value: Any) -> None:
        if value:
            self.out += b"("
            for key, item in value.items():
                self._at("'s key", key)
                self._at(f"[{key!r}]" if isinstance(key, (str, int)) else "[...]", item)
            self.out += b"u"

    def _ordered(self, value: OrderedDict) -> None:
        self._global("collections", "OrderedDict")
        self.out += b")R"
        self._remember(value)
        self._pairs(value)
        attributes = getattr(value, "__dict__", None)
        if attributes:  # such as the `_metadata` of a state_dict
            self._at("'s attributes", dict(attributes))
            self.out += b"b"

    def _counter(self, value: Counter) -> None:
        self._global("collections", "Counter")
        self._dict(dict(value))
        self.out += b"\x85R"
        self._remember(value)

    def _set(self, value: set) -> None:
        self._global("__builtin__", "set")
        self._list(list(value))
        self.out += b"\x85R"
        self._remember(value)

    # Tensors ------------------------------------------------------------------

    def _tensor(self, tensor: Any) -> None:
        kind = type(tensor)
        if is_lazy(tensor):
            raise self._refused("a parameter or buffer whose shape is not known yet: run the model once, then save")
        attributes = dict(getattr(tensor, "__dict__", None) or {})
        if issubclass(kind, Parameter):
            state = {k: v for k, v in attributes.items() if not k.startswith("_backward")}
            self._global("torch._utils", "_rebuild_parameter_with_state" if state else "_rebuild_parameter")
            self.out += b"("
            self._plain_tensor(tensor.detach(), tensor.requires_grad)
            self.out += b"\x88" if tensor.requires_grad else b"\x89"
            self._no_hooks()
            if state:
                self._at("'s attributes", state)
        elif kind is mt.Tensor and attributes:
            self._global("torch._tensor", "_rebuild_from_type_v2")
            self.out += b"("
            self._rebuild(tensor, tensor.requires_grad, attributes)
        elif kind is mt.Tensor or getattr(tensor, "_is_buffer", False):
            self._plain_tensor(tensor, tensor.requires_grad)
            self._remember(tensor)
            return
        else:
            raise self._refused(f"a tensor of class {kind.__name__}, which PyTorch's safe loader does not take; save tensor.detach()")
        self.out += b"tR"
        self._remember(tensor)

    def _plain_tensor(self, tensor: Any, requires_grad: bool) -> None:
        """The call that makes a tensor over its storage."""
        if self._is_skeleton(tensor):
            self._global("torch._tensor", "_rebuild_from_type_v2")
            self.out += b"("
            self._rebuild(tensor, requires_grad, {})
            self.out += b"tR"
            return
        function, arguments = self._call(tensor, requires_grad)
        self._global("torch._utils", function)
        arguments()
        self.out += b"R"

    def _rebuild(self, tensor: Any, requires_grad: bool, state: dict) -> None:
        """The four arguments of the call that makes a tensor and gives it attributes."""
        if self._is_skeleton(tensor):
            storage = tensor.untyped_storage()
            # Key and size of its storage, and its offset there, for which PyTorch's own call has no place.
            state = {**state, SKELETON_STATE: (self._key(storage), storage.nbytes(), tensor.storage_offset())}
        function, arguments = self._call(tensor, requires_grad)
        self._global("torch._utils", function)
        self._global("torch", "Tensor")
        arguments()
        self._at("'s attributes", state)

    def _is_skeleton(self, tensor: Any) -> bool:
        return bool(tensor.is_meta and not self.meta_as_cpu)

    def _call(self, tensor: Any, requires_grad: bool) -> tuple[str, Any]:
        """What makes a tensor in PyTorch: the name of a function, and a callable that writes its arguments."""
        name = tensor.dtype.name
        if name in QUANTIZED:
            raise self._refused(f"a tensor of {name}: quantised tensors are not saved")
        size, stride = tuple(tensor.shape), tuple(tensor.stride())

        def skeleton() -> None:
            self.out += b"("
            for part in (tensor.dtype, size, stride, bool(requires_grad)):
                self._save(part)
            self.out += b"t"

        def over_storage() -> None:
            self.out += b"("
            self._storage(tensor)
            for part in (tensor.storage_offset(), size, stride, bool(requires_grad)):
                self._save(part)
            self._no_hooks()
            if function.endswith("v3"):
                self._dtype(tensor.dtype)
            if bits:
                self._save(bits)
            self.out += b"t"

        if self._is_skeleton(tensor):
            return "_rebuild_meta_tensor_no_storage", skeleton
        bits = {key: True for key, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on}
        function = "_rebuild_tensor_v2" if self._storage_type(tensor) == STORAGES.get(name) else "_rebuild_tensor_v3"
        return function, over_storage

    def _storage_type(self, tensor: Any) -> str:
        """The class that a tensor's storage has in the file: that of the first tensor over it that was met."""
        storage = tensor.untyped_storage()
        key = self._key(storage)
        kind = STORAGES.get(tensor.dtype.name)
        if kind is None or storage.nbytes() % tensor.dtype.itemsize:
            kind = "UntypedStorage"
        return self._types.setdefault(key, kind)

    def _storage(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key, kind = self._key(storage), self._storage_type(tensor)
        self.storages[key] = storage
        if kind == "UntypedStorage":
            module, count = "torch.storage", storage.nbytes()
        else:
            module, count = "torch", storage.nbytes() // _ITEMSIZES[kind]
        device = storage.device
        location = str(device) if device.type in KNOWN_LOCATIONS else "cpu"
        self.out += b"("
        self._text("storage")
        self._global(module, kind)
        self._text(key)
        self._text(location)
        self._int(count)
        self.out += b"tQ"

    def _key(self, storage: Any) -> str:
        key = self._keys.get(storage)
        if key is None:
            key = self._keys[storage] = str(len(self._keys))
            self._alive.append(storage)
        return key

    def _no_hooks(self) -> None:
        self._global("collections", "OrderedDict")
        self.out += b")R"

    # The memo -----------------------------------------------------------------

    def _global(self, module: str, name: str) -> None:
        key = (module, name)
        memo = self._memo.get(key)
        if memo is not None:
            self._get(memo)
            return
        self.out += f"c{module}\n{name}\n".encode()
        self._put(key)

    def _remember(self, obj: Any) -> None:
        self._alive.append(obj)
        self._put(id(obj))

    def _put(self, key: Any) -> None:
        index = self._memo[key] = len(self._memo)
        self.out += b"q" + bytes((index,)) if index < 256 else b"r" + struct.pack("<I", index)

    def _get(self, index: int) -> None:
        self.out += b"h" + bytes((index,)) if index < 256 else b"j" + struct.pack("<I", index)

    def _at(self, step: str, obj: Any) -> None:
        self._path.append(step)
        self._save(obj)
        self._path.pop()

    def _refused(self, what: str) -> TypeError:
        place = "".join(self._path)
        return TypeError(f"save: cannot save {what}" + (f", at obj{place[:200]}" if place else ""))


def pickled(obj: Any, meta_as_cpu: bool = False) -> tuple[bytes, dict[str, Any]]:
    """The pickle of ``obj`` and the storages with data that it names, by key."""
    writer = PickleWriter(meta_as_cpu)
    return writer.dump(obj), writer.storages


def _advice(obj: Any) -> str:
    kind = type(obj)
    name = f"an object of {kind.__module__}.{kind.__qualname__}"
    if isinstance(obj, mt.nn.Module):
        return f"{name}: save module.state_dict()"
    if isinstance(obj, mt.UntypedStorage):
        return f"{name}: save a tensor over it"
    if isinstance(obj, (dict, list, tuple, set, int, float, str)):
        base = next(base for base in kind.__mro__ if base in _CONTAINERS or base in _SIMPLE)
        return f"{name}: PyTorch's safe loader would not take it; save {base.__name__}(...) of it"
    return f"{name}: only tensors, plain values and their containers are saved"


_ITEMSIZES = {kind: getattr(mt, name).itemsize for name, kind in STORAGES.items()}


def _writes(data: bytes) -> Any:
    def write(writer: PickleWriter, value: Any) -> None:
        writer.out += data

    return write


def _bool(writer: PickleWriter, value: bool) -> None:
    writer.out += b"\x88" if value else b"\x89"


def _float(writer: PickleWriter, value: float) -> None:
    writer.out += b"G" + struct.pack(">d", value)


_SIMPLE: dict[type, Any] = {
    type(None): _writes(b"N"),
    bool: _bool,
    float: _float,
    int: PickleWriter._int,
    str: PickleWriter._text,
    complex: PickleWriter._complex,
    bytes: PickleWriter._bytes,
    mt.dtype: PickleWriter._dtype,
    mt.device: PickleWriter._device,
    mt.layout: PickleWriter._layout,
}
_CONTAINERS: dict[type, Any] = {
    list: PickleWriter._list,
    tuple: PickleWriter._tuple,
    dict: PickleWriter._dict,
    OrderedDict: PickleWriter._ordered,
    Counter: PickleWriter._counter,
    set: PickleWriter._set,
    bytearray: PickleWriter._bytearray,
    mt.Size: PickleWriter._size,
}
