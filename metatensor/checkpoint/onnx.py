"""Tensors of an ONNX model: initializers and constant nodes, including those of subgraphs.

The name of a tensor in a subgraph begins with the node and attribute that contain the subgraph:
``If_0.then_branch.weight``. The graph itself is not loaded. Elements smaller than a byte, whose dtypes metatensor
lacks, are loaded as packed bytes (uint8).

Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from metatensor.checkpoint._wire import BYTES, FIXED32, FIXED64, VARINT, Field, fields, signed, varints
from metatensor.checkpoint.budget import Claims, current
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.reading import Item, beside, counted, materialise, must_be_found, shown
from metatensor.checkpoint.source import Source, native, open_file

__all__ = ["FORMAT", "TYPES", "Onnx", "check_structure"]

MAX_FIELDS = 4_000_000
MAX_DEPTH = 32
MAX_TEXT = 1 << 16
MAX_SIZES = 2048
MAX_ATTRIBUTES = 1 << 12
"""Largest number of attributes of a node, and of graphs or tensors of an attribute."""
MAX_PARTS = 1 << 18
"""Largest number of typed data fields of all tensors together."""
PIECE = 1 << 16

# Type number: (name, bits per element, metatensor's dtype or None).
TYPES: dict[int, tuple[str, int, str | None]] = {
    1: ("FLOAT", 32, "float32"), 2: ("UINT8", 8, "uint8"), 3: ("INT8", 8, "int8"), 4: ("UINT16", 16, "uint16"),
    5: ("INT16", 16, "int16"), 6: ("INT32", 32, "int32"), 7: ("INT64", 64, "int64"), 9: ("BOOL", 8, "bool"),
    10: ("FLOAT16", 16, "float16"), 11: ("DOUBLE", 64, "float64"), 12: ("UINT32", 32, "uint32"), 13: ("UINT64", 64, "uint64"),
    14: ("COMPLEX64", 64, "complex64"), 15: ("COMPLEX128", 128, "complex128"), 16: ("BFLOAT16", 16, "bfloat16"),
    17: ("FLOAT8E4M3FN", 8, "float8_e4m3fn"), 18: ("FLOAT8E4M3FNUZ", 8, "float8_e4m3fnuz"), 19: ("FLOAT8E5M2", 8, "float8_e5m2"),
    20: ("FLOAT8E5M2FNUZ", 8, "float8_e5m2fnuz"), 21: ("UINT4", 4, None), 22: ("INT4", 4, None), 23: ("FLOAT4E2M1", 4, None),
    24: ("FLOAT8E8M0", 8, "float8_e8m0fnu"), 25: ("UINT2", 2, None), 26: ("INT2", 2, None),
}  # fmt: skip
STRING = 8

# Type number: the typed data field that holds its elements (float_data, int64_data, double_data, uint64_data).
# Other types use int32_data, with one number per element, or per byte for packed elements.
OWN_FIELD = {1: 4, 14: 4, 7: 7, 11: 10, 15: 10, 12: 11, 13: 11}


class _Tensor(NamedTuple):
    """A validated tensor of the model."""

    name: str
    kind: int
    shape: tuple[int, ...]
    nbytes: int
    raw: int
    """Offset of its little-endian bytes in the model's file or in `file`; -1 if typed fields hold the elements."""
    parts: tuple[Field, ...]
    """The typed fields that hold its elements."""
    file: str | None
    """Name of the external data file, or None."""


class Onnx:
    """Reader of ONNX models."""

    name: str = "onnx"
    suffixes: tuple[str, ...] = (".onnx",)

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file could be a model: a small version number, followed by another field that models have.

        The format has no signature.
        """
        return len(head) > 3 and head[0] == 0x08 and 0 < head[1] < 0x40 and head[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the tensors and the model's metadata."""
        source = Source(file, name)
        model = _Model(source)
        tensors = {}
        for tensor in model.tensors:
            label, _, dtype = TYPES[tensor.kind]
            raw = tensor.raw if sys.byteorder == "little" else -1
            tensors[tensor.name] = TensorInfo(dtype or label, tensor.shape, tensor.nbytes, raw, file=tensor.file)
        return Checkpoint(name, self.name, source.size, tensors, model.metadata, {tensor.name: tensor for tensor in model.tensors})

    def load(self, file: BinaryIO, name: str, place: Places) -> dict[str, Any]:
        """Return the tensors by name."""
        with Source(file, name) as source:
            return materialise((self._item(source, tensor) for tensor in _Model(source).tensors), place)

    def fetch(self, file: BinaryIO, name: str, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the bytes of a tensor."""
        return self._item(Source(file, name), checkpoint.private[tensor]).fetch()

    def _item(self, source: Source, tensor: _Tensor) -> Item:
        _, bits, dtype = TYPES[tensor.kind]
        width = bits // 8 // (2 if tensor.kind in (14, 15) else 1)

        def fetch() -> Any:
            if tensor.file is not None:
                with open_file(beside(source.name, tensor.file, "the file of external data")) as other:
                    return native(Source(other, tensor.file).read(tensor.raw, tensor.nbytes, f"tensor {shown(tensor.name)}"), width)
            if tensor.raw >= 0:
                return native(source.at(tensor.raw, tensor.raw + tensor.nbytes), width)
            return native(_typed(source, tensor), width)

        shape = tensor.shape if dtype is not None else (tensor.nbytes,)
        straight = tensor.file is None and tensor.raw >= 0 and (sys.byteorder == "little" or width <= 1)
        return Item(tensor.name, dtype or "uint8", shape, None, fetch, (source, tensor.raw) if straight else None)


FORMAT = Onnx()


def check_structure(file: BinaryIO, name: str) -> None:
    """Walk a model field by field, within the bounds for a file of its size. Files of external data are not looked for.

    Raises
    ------
    CheckpointError
        If the model is damaged, or out of proportion to its size.
    """
    _Model(Source(file, name), external=False)


def _typed(source: Source, tensor: _Tensor) -> bytes:
    """Return the little-endian bytes of a tensor whose elements are in typed fields."""
    own = OWN_FIELD.get(tensor.kind)
    out = bytearray()
    width = TYPES[tensor.kind][1] // 8 or 1
    code, mask = {1: "B", 2: "H", 4: "I", 8: "Q"}.get(width, "Q"), (1 << (8 * width)) - 1
    for part in tensor.parts:
        if own in (4, 10):
            out += source.read(part.value, part.size) if part.kind == BYTES else part.value.to_bytes(part.size, "little")
            continue
        pieces = _pieces(source, part) if part.kind == BYTES else iter([[part.value]])
        for numbers in pieces:
            out += struct.pack(f"<{len(numbers)}{code}", *[number & mask for number in numbers])
            if len(out) > tensor.nbytes:
                break
    if len(out) != tensor.nbytes:
        raise CheckpointError(
            source.name, f"tensor {shown(tensor.name)} needs {tensor.nbytes:,} bytes, but its typed fields hold {len(out):,}"
        )
    return bytes(out)


def _pieces(source: Source, part: Field) -> Iterator[list[int]]:
    """Yield the numbers of a packed field in batches."""
    at, end = part.value, part.value + part.size
    while at < end:
        data = source.read(at, min(PIECE, end - at))
        if at + len(data) < end:
            while data and data[-1] & 0x80:  # the last number continues in the next piece
                data = data[:-1]
            if not data:
                raise CheckpointError(source.name, "a packed number has more than 10 bytes")
        yield varints(data, source.name)
        at += len(data)


class _Model:
    """The tensors and metadata of a model."""

    def __init__(self, source: Source, external: bool = True) -> None:
        self.source = source
        self._look = external
        self.budget = [MAX_FIELDS]
        self.tensors: list[_Tensor] = []
        self.metadata: dict[str, str] = {}
        self._names: set[str] = set()
        self._claims: dict[str, Claims] = {}
        self._parts = MAX_PARTS
        self._budget = current()
        graphs = 0
        for field in fields(source, 0, source.size, self.budget):
            if field.number == 7 and field.kind == BYTES:
                graphs += 1
                if graphs > 1:
                    raise CheckpointError(source.name, "the model has two graphs")
                self._graph(field, "", 0)
            elif field.number == 14 and field.kind == BYTES:
                key, value = self._pair(field)
                self.metadata[key] = value
            elif field.number in _ABOUT:
                label, kind = _ABOUT[field.number]
                if field.kind == kind:
                    self.metadata[label] = self._text(field) if kind == BYTES else str(signed(field.value))
        if not graphs:
            raise CheckpointError(source.name, "there is no graph: it is not an ONNX model")

    # Graphs -------------------------------------------------------------------

    def _graph(self, graph: Field, prefix: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise CheckpointError(self.source.name, "its graphs are nested too deeply")
        self._budget.charge(self.source.name, len(prefix), "the names of graphs within graphs are")
        for field in self._fields(graph):
            if field.kind == BYTES and field.number == 5:
                self._tensor(field, prefix, None)
            elif field.kind == BYTES and field.number == 1:
                self._node(field, prefix, depth)

    def _node(self, node: Field, prefix: str, depth: int) -> None:
        """Collect the node's tensors if it is a constant, and those of its subgraphs."""
        name = kind = output = ""
        attributes = []
        for field in self._fields(node):
            if field.kind != BYTES:
                continue
            if field.number == 2 and not output:
                output = self._text(field)
            elif field.number == 3:
                name = self._text(field)
            elif field.number == 4:
                kind = self._text(field)
            elif field.number == 5:
                attributes.append(field)
                self._few(attributes)
        for attribute in attributes:
            label, inner = "", []
            for field in self._fields(attribute):
                if field.kind == BYTES and field.number == 1:
                    label = self._text(field)
                elif field.kind == BYTES and field.number in (5, 6, 11):
                    inner.append(field)
                    self._few(inner)
            for field in inner:
                if field.number == 5:
                    if kind == "Constant":
                        self._tensor(field, prefix, output)
                else:
                    self._graph(field, f"{prefix}{name or output}.{label}.", depth + 1)

    def _few(self, found: list[Field]) -> None:
        if len(found) > MAX_ATTRIBUTES:
            raise CheckpointError(self.source.name, f"a node has more than {MAX_ATTRIBUTES:,} attributes, or values of one")

    # Tensors ------------------------------------------------------------------

    def _tensor(self, message: Field, prefix: str, name: str | None) -> None:
        """Read and check a tensor. ``name`` is the name of a constant, whose message contains none."""
        file = self.source.name
        dims: list[int] = []
        kind, location = 0, 0
        own, raw = "", None
        parts: list[Field] = []
        external: dict[str, str] = {}
        for field in self._fields(message):
            number = field.number
            if number == 1:
                values = [field.value] if field.kind == VARINT else varints(self.source.read(field.value, min(field.size, 1024)), file)
                dims += map(signed, values)
                if len(dims) > MAX_SIZES:
                    raise CheckpointError(file, f"a tensor has more than {MAX_SIZES} dimensions")
            elif number == 2 and field.kind == VARINT:
                kind = field.value
            elif number == 8 and field.kind == BYTES:
                own = self._text(field)
            elif number == 9 and field.kind == BYTES:
                raw = field
            elif number == 13 and field.kind == BYTES:
                key, value = self._pair(field)
                external[key] = value
            elif number == 14 and field.kind == VARINT:
                location = field.value
            elif number in (4, 5, 7, 10, 11):
                parts.append(field)
                self._parts -= 1
                if self._parts < 0:
                    raise CheckpointError(file, f"its tensors have more than {MAX_PARTS:,} fields of elements")
        if prefix:
            self._budget.charge(file, len(prefix), "the names of tensors of graphs within graphs are")
        full = prefix + (own if name is None else name)
        if kind == STRING:
            return  # an array of strings is not a tensor
        if kind not in TYPES:
            raise CheckpointError(file, f"tensor {shown(full)} has the type {kind}, which is not known")
        label, bits, _ = TYPES[kind]
        nbytes = counted(file, full, dims, bits)
        if full in self._names and (self._look or not prefix):  # nodes that contain graphs may have equal names
            raise CheckpointError(file, f"the tensor {shown(full)} occurs twice")
        self._names.add(full)
        at, beside_model = -1, None
        if location == 1 and self._look:
            at, beside_model = self._external(full, external, nbytes)
        elif location == 1:
            beside_model = external.get("location", "")
        elif raw is not None:
            if raw.size != nbytes:
                raise CheckpointError(
                    file, f"tensor {shown(full)}: {label} of shape {shown(dims)} needs {nbytes:,} bytes, but has {raw.size:,}"
                )
            at = raw.value
        else:
            parts = [part for part in parts if part.number == OWN_FIELD.get(kind, 5)]
            self._enough(full, kind, bits, nbytes, parts)
        self.tensors.append(_Tensor(full, kind, tuple(dims), nbytes, at, tuple(parts), beside_model))

    def _enough(self, name: str, kind: int, bits: int, nbytes: int, parts: list[Field]) -> None:
        """Raise `CheckpointError` if the typed fields are too small or too large for the elements.

        A packed number takes 1 to 10 bytes, so for most types only a lower bound is known here.
        """
        held = sum(part.size if part.kind != VARINT else 1 for part in parts)
        wrong = any(part.kind not in (BYTES, FIXED32, FIXED64, VARINT) for part in parts)
        if OWN_FIELD.get(kind) in (4, 10):
            wrong = wrong or held != nbytes
        else:
            wrong = wrong or nbytes // max(bits // 8, 1) > held
        if wrong:
            raise CheckpointError(self.source.name, f"tensor {shown(name)} needs {nbytes:,} bytes, which its typed fields do not hold")

    def _external(self, name: str, entries: dict[str, str], nbytes: int) -> tuple[int, str]:
        """Return the offset and name of a tensor's external data file, which must be in the model's folder."""
        file = self.source.name
        must_be_found(self.source.file, file, "a file of external data")
        location = entries.get("location", "")
        if location.startswith("./"):
            location = location[2:]
        path = beside(file, location, f"tensor {shown(name)}: the file of external data")
        try:
            offset, length = int(entries.get("offset", "0")[:20] or 0), int(entries.get("length", str(nbytes))[:20])
        except ValueError:
            raise CheckpointError(file, f"tensor {shown(name)}: offset or length of its external data is not a number") from None
        size = os.path.getsize(path)
        if length != nbytes or offset < 0 or offset + nbytes > size:
            raise CheckpointError(
                file, f"tensor {shown(name)} needs {nbytes:,} bytes, but its external data are {length:,} at {offset:,} of {location!r}"
            )
        if location not in self._claims:
            self._claims[location] = Claims(path, size, "tensors claim the same bytes again and again, which takes memory")
        self._claims[location].add(nbytes)
        return offset, location

    # Parts --------------------------------------------------------------------

    def _fields(self, message: Field) -> Any:
        return fields(self.source, message.value, message.value + message.size, self.budget)

    def _text(self, field: Field) -> str:
        if not field.size:
            return ""
        return str(self.source.at(field.value, field.value + min(field.size, MAX_TEXT)), "utf-8", "replace")

    def _pair(self, message: Field) -> tuple[str, str]:
        """Return a key and its value."""
        found = {1: "", 2: ""}
        for field in self._fields(message):
            if field.number in found and field.kind == BYTES:
                found[field.number] = self._text(field)
        return found[1], found[2]


_ABOUT: dict[int, tuple[str, int]] = {
    1: ("ir_version", VARINT), 2: ("producer_name", BYTES), 3: ("producer_version", BYTES), 4: ("domain", BYTES),
    5: ("model_version", VARINT), 6: ("doc_string", BYTES),
}  # fmt: skip
"""Fields of a model that become its metadata."""

