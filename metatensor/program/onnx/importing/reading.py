"""Read an ONNX file into a message, within bounds, and the declared types of its inputs and outputs."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.onnx import check_structure
from metatensor.checkpoint.reading import shown
from metatensor.checkpoint.source import opened
from metatensor.program.onnx.dtypes import onnx_package, type_name

__all__ = ["Declared", "Read", "declared", "read_model", "size_names_of"]


class Declared(NamedTuple):
    """What a model says about an input or an output."""

    name: str
    kind: int
    """Number of the element type, 0 if it is not declared."""
    shape: tuple[int | str | None, ...] | None
    """Each a number, a name, or None if it is not declared. None if the number of dimensions is not known."""
    form: str
    """``"tensor"``, ``"sequence"``, ``"optional"``, or another form of value."""

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.name}: {'' if self.form == 'tensor' else self.form + ' of '}{type_name(self.kind)}[{sizes}]"


class Read(NamedTuple):
    """The message of a model, and the name of its file, which is empty if it came from memory."""

    proto: Any
    file: str


def read_model(model: Any) -> Read:
    """Return the message of a model and the name of its file. What this has returned is returned again.

    A file is first walked field by field, which bounds the time and the memory that parsing it takes.
    """
    onnx = onnx_package()
    if isinstance(model, Read):
        return model
    if isinstance(model, onnx.ModelProto):
        return Read(model, "")
    with opened(model) as (file, name), shared():
        start = file.tell() if hasattr(model, "read") else 0
        check_structure(file, name)
        file.seek(start)
        data = file.read()
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:
        if type(error).__name__ != "DecodeError":
            raise
        raise CheckpointError(name, "it is damaged, or no ONNX model") from None
    return Read(proto, name if isinstance(model, (str, bytes, os.PathLike)) else "")


def declared(message: Any, file: str) -> Declared:
    """Return the declaration in a ``ValueInfoProto``."""
    form, kind = "tensor", message.type
    for _ in range(8):
        what = kind.WhichOneof("value")
        if what == "tensor_type":
            shape = None
            if kind.tensor_type.HasField("shape"):
                shape = tuple(_size(dim, message.name, file) for dim in kind.tensor_type.shape.dim)
            return Declared(message.name, kind.tensor_type.elem_type, shape, form)
        if what not in ("sequence_type", "optional_type"):
            return Declared(message.name, 0, None, "tensor" if what is None else what.removesuffix("_type"))
        if form == "tensor":
            form = what.removesuffix("_type")
        kind = getattr(kind, what).elem_type
    raise CheckpointError(file, f"the type of {shown(message.name)} is nested too deeply")


def size_names_of(one: Declared) -> list[int | str]:
    """Return the shape of an input, with names also for sizes that are not declared."""
    return [f"{one.name}[{i}]" if n is None else n for i, n in enumerate(one.shape or ())]


def _size(dim: Any, name: str, file: str) -> int | str | None:
    what = dim.WhichOneof("value")
    if what == "dim_value":
        if dim.dim_value < 0:
            return None  # some exporters write -1 for a size that varies
        return int(dim.dim_value)
    return dim.dim_param or None if what == "dim_param" else None
