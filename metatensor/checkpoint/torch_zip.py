"""PyTorch's zip format: a pickle, ``data.pkl``, and a member ``data/KEY`` with the bytes of each storage.

`TensorMachine` runs the pickle and creates the tensors. Members are read only for tensors that go to a device with
data. TorchScript archives are zip files too. `torch_script` reads those.
"""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.checkpoint._tensors import TensorMachine
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.budget import current
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.filling import Filler, width_of
from metatensor.checkpoint.listing import listed
from metatensor.checkpoint.map_location import FakePlaces, Places
from metatensor.checkpoint.members import Members
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.source import Source, mapped_for_writing, native
from metatensor.checkpoint.torch_names import table
from metatensor.serialization import allowed_names, default_byte_order

__all__ = ["FORMAT", "MAX_PICKLE", "TorchZip"]

MAX_PICKLE = 1 << 30
"""Longest pickle in bytes."""
MAX_RATIO = 32
"""Ratio of decompressed to compressed size of a pickle above which the budget is charged."""


class TorchZip:
    """Reader of archives that torch.save wrote."""

    name: str = "PyTorch (zip)"
    suffixes: tuple[str, ...] = (".pt", ".pth")

    def has(self, directory: Directory) -> bool:
        """Return True if an archive is in this format."""
        return prefix_of(directory, "data.pkl") is not None

    def inspect(self, directory: Directory) -> Checkpoint:
        """Return what the pickle describes. The metadata lists unknown names."""
        archive = Archive.of(directory)
        machine, value = self._run(directory, archive, Places("meta"), tolerant=True)
        straight = archive.order == sys.byteorder

        def offset(ref: Any) -> int:
            member = f"{archive.prefix}data/{ref.key}"
            return directory.place_of(member)[0] if straight and directory.is_stored(member) else -1

        checkpoint = listed(self.name, directory.source, value, machine, offset)
        return replace(checkpoint, private=Members(directory))

    def load(self, directory: Directory, place: Places) -> Any:
        """Return the saved object, with its tensors on the devices that ``place`` returns."""
        archive = Archive.of(directory)
        machine, value = self._run(directory, archive, place)
        fill_all(machine, directory, f"{archive.prefix}data/", archive.order, place)
        return value

    def unpickle(self, directory: Directory, place: Places, pickle_module: Any = None, **options: Any) -> Any:
        """Return the object that Python's unpickler, or that of ``pickle_module``, loads from the file."""
        from metatensor.checkpoint.unpickling import Trusted, unpickler_for

        archive = Archive.of(directory)
        filler = Filler(archive.order, mapped_for_writing(directory.source) if place.mmap else None)

        def fill(ref: Any) -> None:
            member = f"{archive.prefix}data/{ref.key}"
            stored = member in directory and directory.is_stored(member)
            nbytes = directory.place_of(member)[1] if stored else len(directory.read(member)) if member in directory else -1
            if nbytes != ref.nbytes:
                raise CheckpointError(directory.file, f"there is no member {member[:60]!r} of {ref.nbytes:,} bytes")
            fill_one(ref, directory, f"{archive.prefix}data/", filler)

        with directory.source:
            data = io.BytesIO(directory.read(f"{archive.prefix}data.pkl", MAX_PICKLE))
            trusted = Trusted(directory.file, place, fill)
            value = unpickler_for(pickle_module)(data, trusted, **options).load()
        if isinstance(place, FakePlaces):
            place.note(trusted.storages.values())
        return value

    def fetch(self, directory: Directory, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the bytes of a tensor that is compressed or has the other byte order."""
        info, archive = checkpoint.tensors[tensor], Archive.of(directory)
        return part_of_member(checkpoint.private, f"{archive.prefix}data/{info.storage}", info, archive.order)

    def _run(self, directory: Directory, archive: Archive, place: Places, tolerant: bool = False) -> tuple[TensorMachine, Any]:
        machine = TensorMachine(
            directory.file, table(), place, directory, f"{archive.prefix}data/", allowed=allowed_names(), tolerant=tolerant, source={}
        )
        return machine, run_member(machine, directory, f"{archive.prefix}data.pkl")


FORMAT = TorchZip()


def run_member(machine: TensorMachine, directory: Directory, member: str) -> Any:
    """Return the value of a member that consists of one pickle."""
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
    """Fill the storages that a machine created with the bytes of the members ``prefix`` + key."""
    if isinstance(place, FakePlaces):
        place.note(machine.storages.values())
    if place.fixed is not None and place.fixed.type == "meta":
        return
    waiting = [ref for ref in machine.storages.values() if ref.storage.device.type != "meta"]
    if waiting:
        source: Source = directory.source
        filler = Filler(order, mapped_for_writing(source) if place.mmap else None)
        with source:
            for ref in waiting:
                fill_one(ref, directory, prefix, filler)
    for tensor, values in machine.fillings:
        fill_tensor(tensor, values, directory.file)


def fill_one(ref: Any, directory: Directory, prefix: str, filler: Filler) -> None:
    """Fill one storage with the bytes of the member ``prefix`` + key."""
    member = f"{prefix}{ref.key}"
    if not directory.is_stored(member):
        filler.fill(ref.storage, directory.read(member), ref.dtype)
        return
    filler.fill_from(directory.source, ref.storage, directory.place_of(member)[0], ref.dtype)


def part_of_member(members: Members, member: str, info: TensorInfo, order: str) -> Any:
    """Return a tensor's bytes, from its first to its last element in memory, out of the member with its storage."""
    from metatensor.checkpoint.opening import span_bytes

    directory = members.directory
    if member not in directory:
        raise CheckpointError(directory.file, f"the file does not contain its data: {member[:100]!r} is missing")
    dtype = getattr(mt, info.dtype)
    begin = info.storage_offset * dtype.itemsize
    return native(memoryview(members.content(member))[begin : begin + span_bytes(info)], width_of(dtype), order)


def fill_tensor(tensor: Any, values: Any, file: str = "the checkpoint") -> None:
    """Fill a tensor with the values of an array or another tensor, unless it is on meta."""
    if tensor.device.type == "meta":
        return
    try:
        with mt.no_grad():
            tensor.copy_(values if isinstance(values, mt.Tensor) else mt.from_numpy(values.astype(values.dtype.newbyteorder("="))))
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(file, f"a tensor of {tensor.dtype.name} cannot be filled with its stored values: {error}") from error


def prefix_of(directory: Directory, member: str) -> str | None:
    """Return the prefix of ``member`` in the archive: the common folder of all members, or "".

    Return None if there is no such member.
    """
    if member in directory:
        return ""
    folder = next(iter(directory), "").partition("/")[0] + "/"
    return folder if folder + member in directory else None


class Archive(NamedTuple):
    """Properties of an archive that every reader needs."""

    prefix: str
    """Prefix of all member names."""
    order: str
    """Byte order of its numbers: "little" or "big"."""

    @classmethod
    def of(cls, directory: Directory) -> Archive:
        """Return the properties of a zip file. Raise `CheckpointError` if PyTorch did not write it."""
        prefix = prefix_of(directory, "data.pkl")
        if prefix is None:
            raise CheckpointError(directory.file, "the zip file has no member data.pkl")
        member = f"{prefix}byteorder"
        if member not in directory:
            return cls(prefix, default_byte_order())
        order: bytes = directory.read(member, 16)
        if order not in (b"little", b"big"):
            raise CheckpointError(directory.file, f"the byte order {order!r} is neither b'little' nor b'big'")
        return cls(prefix, order.decode())
