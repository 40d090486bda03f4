"""What `inspect` tells of a checkpoint that is a tree of values: its tensors, by their paths in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from metatensor.checkpoint._values import Record
from metatensor.checkpoint.model import Checkpoint, TensorInfo

__all__ = ["listed", "tensors_of"]


def tensors_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in a value, each with its path: keys, indices and attributes, joined by dots."""
    from metatensor import Tensor

    if isinstance(value, Tensor):
        yield path, value
        return
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif type(value) is Record:
        yield from tensors_of(value.state, path)
        return
    else:
        return
    for key, item in items:
        yield from tensors_of(item, f"{path}.{key}" if path else str(key))


def listed(format: str, source: Any, value: Any, machine: Any, offset_of: Callable[[Any], int]) -> Checkpoint:
    """The listing of a machine's result.

    ``offset_of(ref)`` is where a storage's bytes begin, -1 where they do not lie in the file as this machine has them.
    """
    refs = {id(ref.storage): ref for ref in machine.storages.values()}
    filled = {id(tensor) for tensor, _ in machine.fillings}
    bare: dict[int, str] = {}
    begins: dict[str, int] = {}
    tensors: dict[str, TensorInfo] = {}
    for path, tensor in tensors_of(value):
        storage = tensor.untyped_storage()
        ref = refs.get(id(storage))
        begin, location = -1, "cpu"
        if ref is not None:
            key = ref.key
            if key not in begins:
                begins[key] = offset_of(ref)
            begin = begins[key]
        else:
            key = bare.setdefault(id(storage), f"meta {len(bare)}")
            if id(tensor) not in filled:  # a tensor of a skeleton, or one that PyTorch saved from meta
                location = "meta"
        name = path or "(the tensor)"
        while name in tensors:
            name += "'"
        tensors[name] = TensorInfo(
            str(tensor.dtype).rpartition(".")[2],
            tuple(tensor.shape),
            tensor.numel() * tensor.dtype.itemsize,
            begin if begin < 0 else begin + tensor.storage_offset() * tensor.dtype.itemsize,
            None if tensor.is_contiguous() else tuple(tensor.stride()),
            key,
            tensor.storage_offset(),
            location,
        )
    metadata = {"unknown names": ", ".join(machine.unknown)} if machine.unknown else {}
    return Checkpoint(source.name, format, source.size, tensors, metadata)
