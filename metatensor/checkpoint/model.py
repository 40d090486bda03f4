"""What is known of a checkpoint without its data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

__all__ = ["Checkpoint", "TensorInfo"]


class TensorInfo(NamedTuple):
    """One tensor of a checkpoint."""

    dtype: str
    """Its dtype as metatensor names it, or as the format does where there is no counterpart."""
    shape: tuple[int, ...]
    nbytes: int
    offset: int
    """Where its first element lies, in bytes from the beginning of the file; -1 where its bytes do not lie in a file as they are."""
    stride: tuple[int, ...] | None = None
    """Steps in elements; None for row-major."""
    storage: str | None = None
    """What names its storage within the checkpoint; tensors of one storage have the same. None where none is shared."""
    storage_offset: int = 0
    """Where it begins in its storage, in elements."""
    location: str = "cpu"
    """The device that it was saved from, where the format tells."""
    file: str | None = None
    """The name of the file its data are in, relative to the checkpoint's folder; None for the checkpoint file itself."""
    lazy: str = ""
    """"conj", "neg" or "conj neg" where the elements are the conjugates or negatives of the bytes, as PyTorch saves such views."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file: `tensors` by name, in the order of the file, and its `metadata`."""

    file: str
    format: str
    size: int
    """Bytes of the file."""
    tensors: dict[str, TensorInfo]
    metadata: dict[str, str] = field(default_factory=dict)
    private: Any = field(default=None, repr=False, compare=False)
    """What the format's reader keeps to find tensors again."""
    unsupported: dict[str, str] = field(default_factory=dict)
    """Names of tensors that cannot be loaded, such as sparse ones, each with the reason."""
    attributes: frozenset[str] = frozenset()
    """Those among `tensors` that belong to a module saved whole and that its state dict does not have."""

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(prod(info.shape) for info in self.tensors.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(info.nbytes for info in self.tensors.values())

    @property
    def dtypes(self) -> dict[str, int]:
        """How many elements there are of each dtype, most first."""
        counts: Counter[str] = Counter()
        for info in self.tensors.values():
            counts[info.dtype] += prod(info.shape)
        return dict(counts.most_common())

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
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
