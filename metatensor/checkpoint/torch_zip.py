"""PyTorch's zip format: a pickle, ``data.pkl``, and a member ``data/KEY`` with the bytes of each storage.

The pickle is run by `TensorMachine`, which makes the tensors; members are read when they go onto a device with data.
TorchScript's archives are zip files too: `torch_script` reads those.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import metatensor as mt
from metatensor.checkpoint._tensors import TensorMachine
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.budget import current
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.filling import Filler, width_of
from metatensor.checkpoint.listing import listed
from metatensor.checkpoint.members import Members
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.places import Places
from metatensor.checkpoint.source import Source, mapped_for_writing, native
from metatensor.checkpoint.torch_names import table
from metatensor.serialization import allowed_names

__all__ = ["FORMAT", "MAX_PICKLE", "TorchZip"]

MAX_PICKLE = 1 << 30
"""Longest pickle in bytes."""
MAX_RATIO = 32
"""How many times its bytes in the file a compressed pickle may be long, beyond what the budget allows."""


class TorchZip:
    """Reads archives that torch.save wrote."""

    name: str = "PyTorch (zip)"
    suffixes: tuple[str, ...] = (".pt", ".pth")

    def has(self, directory: Directory) -> bool:
        """Whether an archive is of this format."""
        return prefix_of(directory, "data.pkl") is not None

    def inspect(self, directory: Directory) -> Checkpoint:
        """What the pickle says. Names that are not known are listed among the metadata."""
        machine, value = self._run(directory, Places("meta"), tolerant=True)
        straight = _byte_order(directory) == sys.byteorder

        def offset(ref: Any) -> int:
            member = f"{_prefix(directory)}data/{ref.key}"
            return directory.place_of(member)[0] if straight and directory.is_stored(member) else -1

        checkpoint = listed(self.name, directory.source, value, machine, offset)
        return replace(checkpoint, private=Members(directory))

    def load(self, directory: Directory, place: Places) -> Any:
        """What was saved, its tensors where ``place`` says."""
        machine, value = self._run(directory, place)
        order = _byte_order(directory)
        fill_all(machine, directory, f"{_prefix(directory)}data/", order, place)
        return value

    def fetch(self, directory: Directory, checkpoint: Checkpoint, tensor: str) -> Any:
        """The bytes of a tensor that are compressed, or of the other byte order."""
        info = checkpoint.tensors[tensor]
        return part_of_member(checkpoint.private, f"{_prefix(directory)}data/{info.storage}", info, _byte_order(directory))

    def unknown(self, directory: Directory) -> list[str]:
        """Names in the pickle that are not known."""
        return list(self._run(directory, Places("meta"), tolerant=True)[0].unknown)

    def _run(self, directory: Directory, place: Places, tolerant: bool = False) -> tuple[TensorMachine, Any]:
        prefix = _prefix(directory)
        member = f"{prefix}data.pkl"
        machine = TensorMachine(
            directory.file, table(), place, directory, f"{prefix}data/", allowed=allowed_names(), tolerant=tolerant, source={}
        )
        return machine, run_member(machine, directory, member)


FORMAT = TorchZip()


def run_member(machine: TensorMachine, directory: Directory, member: str) -> Any:
    """The value of the pickle that is all of a member."""
    begin, packed = directory.place_of(member)
    size = directory.size_of(member)
    if size > MAX_RATIO * packed:
        current().charge(directory.file, size - MAX_RATIO * packed, f"{member[:60]!r} is decompressed to {size:,} bytes, which is")
    data = directory.read(member, MAX_PICKLE)
    value, used = machine.load(data, begin, -1 if directory.is_stored(member) else packed)
    if used != len(data):
        raise CheckpointError(directory.file, f"at byte {begin + used:,}: {len(data) - used:,} bytes follow the end of {member!r}")
    return value


def fill_all(machine: TensorMachine, directory: Directory, prefix: str, order: str, place: Places) -> None:
    """Give the storages that a machine made their bytes, those of the members ``prefix`` + key."""
    if place.fixed is not None and place.fixed.type == "meta":
        return
    waiting = [ref for ref in machine.storages.values() if ref.storage.device.type != "meta"]
    if waiting:
        source: Source = directory.source
        filler = Filler(order, mapped_for_writing(source) if place.mmap else None)
        with source:
            for ref in waiting:
                member = f"{prefix}{ref.key}"
                if not directory.is_stored(member):
                    filler.fill(ref.storage, directory.read(member), ref.dtype)
                    continue
                filler.fill_from(source, ref.storage, directory.place_of(member)[0], ref.dtype)
    for tensor, values in machine.fillings:
        fill_tensor(tensor, values, directory.file)


def part_of_member(members: Members, member: str, info: TensorInfo, order: str) -> Any:
    """The bytes of a tensor, from its first to its last element, in the storage that is a member."""
    from metatensor.checkpoint.opening import span_bytes

    directory = members.directory
    if member not in directory:
        raise CheckpointError(directory.file, f"there are no bytes of it in the file: {member[:100]!r} is missing")
    dtype = getattr(mt, info.dtype)
    begin = info.storage_offset * dtype.itemsize
    return native(memoryview(members.content(member))[begin : begin + span_bytes(info)], width_of(dtype), order)


def fill_tensor(tensor: Any, values: Any, file: str = "the checkpoint") -> None:
    """Fill a tensor with the values of an array or another tensor, where it is on a device with data."""
    if tensor.device.type == "meta":
        return
    try:
        with mt.no_grad():
            tensor.copy_(values if isinstance(values, mt.Tensor) else mt.from_numpy(values.astype(values.dtype.newbyteorder("="))))
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(file, f"a tensor of {tensor.dtype.name} cannot be made of the values that it has: {error}") from error


def prefix_of(directory: Directory, member: str) -> str | None:
    """What comes before ``member`` in its full name: the one folder of all members, or nothing; None without it."""
    if member in directory:
        return ""
    folder = next(iter(directory), "").partition("/")[0] + "/"
    return folder if folder + member in directory else None


def _prefix(directory: Directory) -> str:
    prefix = prefix_of(directory, "data.pkl")
    if prefix is None:
        raise CheckpointError(directory.file, "the zip file has no member data.pkl")
    return prefix


def _byte_order(directory: Directory) -> str:
    member = f"{_prefix(directory)}byteorder"
    if member not in directory:
        return "little"
    order: bytes = directory.read(member, 16)
    if order not in (b"little", b"big"):
        raise CheckpointError(directory.file, f"the byte order {order!r} is neither b'little' nor b'big'")
    return order.decode()

