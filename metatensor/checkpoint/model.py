"""Descriptions of a checkpoint and its tensors, without their data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from metatensor.checkpoint.boxes import Box

__all__ = ["Checkpoint", "Piece", "TensorInfo"]


class TensorInfo(NamedTuple):
    """Description of one tensor of a checkpoint."""

    dtype: str
    """metatensor's name of the dtype, or the format's name if metatensor has no such dtype."""
    shape: tuple[int, ...]
    nbytes: int
    offset: int
    """File offset of the first element in bytes; -1 if the file does not hold the bytes in their final form."""
    stride: tuple[int, ...] | None = None
    """Strides in elements; None means contiguous."""
    storage: str | None = None
    """Key of the tensor's storage. Tensors with the same key share it. None if the format cannot share storages."""
    storage_offset: int = 0
    """Offset of the first element in its storage, in elements."""
    location: str = "cpu"
    """The device that the tensor was saved from; "cpu" if the format does not record it."""
    file: str | None = None
    """The file that holds the data, relative to the checkpoint's folder; None for the checkpoint file itself."""
    lazy: str = ""
    """"conj", "neg" or "conj neg" if the elements are the conjugated or negated stored values, else empty."""


class Piece(NamedTuple):
    """A stored array that holds a box of a tensor."""

    box: Box
    path: str | None
    """The file. None if the format's reader has to supply the bytes."""
    info: TensorInfo
    """Its shape, and the offset of its first element in the file."""


@dataclass(frozen=True)
class Checkpoint:
    """Contents of a checkpoint file: `tensors` by name, in file order, and its `metadata`."""

    file: str
    format: str
    size: int
    """Size of the file in bytes."""
    tensors: dict[str, TensorInfo]
    metadata: dict[str, str] = field(default_factory=dict)
    private: Any = field(default=None, repr=False, compare=False)
    """State that the format's reader keeps in order to read single tensors later."""
    unsupported: dict[str, str] = field(default_factory=dict)
    """Reasons by name for tensors that cannot be loaded, such as sparse ones."""
    attributes: frozenset[str] = frozenset()
    """Names in `tensors` of attributes of a whole saved module that its state dict does not contain."""

    @property
    def parameters(self) -> int:
        """Total number of elements of all tensors."""
        return sum(prod(info.shape) for info in self.tensors.values())

    @property
    def nbytes(self) -> int:
        """Total size of all tensors in bytes."""
        return sum(info.nbytes for info in self.tensors.values())

    @property
    def dtypes(self) -> dict[str, int]:
        """Number of elements per dtype, largest first."""
        counts: Counter[str] = Counter()
        for info in self.tensors.values():
            counts[info.dtype] += prod(info.shape)
        return dict(counts.most_common())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dict of JSON types."""
        return {
            "file": self.file,
            "format": self.format,
            "size": self.size,
            "parameters": self.parameters,
            "bytes": self.nbytes,
            "dtypes": self.dtypes,
            "metadata": self.metadata,
            "tensors": {
                name: {"dtype": info.dtype, "shape": list(info.shape), "bytes": info.nbytes, "offset": info.offset}
                for name, info in self.tensors.items()
            },
            "unsupported": self.unsupported,
        }
