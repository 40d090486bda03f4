"""TorchScript archives: the tensors and attributes of a scripted module by attribute path. Its code is not read.

``data.pkl`` holds the module as objects of classes that the archive itself defines. They become `Record` objects, with
a name and a state. ``constants.pkl`` holds the tensors that the code refers to.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from metatensor.checkpoint._tensors import TensorMachine
from metatensor.checkpoint._values import Known, Record
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.listing import free_for, listed, tensors_of, unique
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.members import Members
from metatensor.checkpoint.model import Checkpoint
from metatensor.checkpoint.torch_names import table
from metatensor.checkpoint.torch_zip import fill_all, part_of_member, prefix_of, run_member

__all__ = ["FORMAT", "TorchScript", "read_objects"]


SMALL = 1 << 20
"""If a module is loaded onto meta, its constants are read all the same if they have at most this many bytes."""


class TorchScript:
    """Reader of archives that torch.jit.save wrote."""

    name: str = "TorchScript"

    def has(self, directory: Directory) -> bool:
        """Return True if an archive is in this format."""
        return prefix_of(directory, "constants.pkl") is not None and prefix_of(directory, "data.pkl") is not None

    def inspect(self, directory: Directory) -> Checkpoint:
        """Return the module's tensors, as `load` does. The metadata gives the number of constants."""
        prefix = prefix_of(directory, "data.pkl") or ""
        machine, value = _run(directory, prefix, "data", Places("meta"), tolerant=True)
        _, constants = _run(directory, prefix, "constants", Places("meta"), tolerant=True)
        whole = listed(self.name, directory.source, value, machine, _offset(directory, f"{prefix}data/"))
        rest = listed(self.name, directory.source, constants, _, _offset(directory, f"{prefix}constants/"))
        whole.metadata.update({**rest.metadata, **whole.metadata})
        if rest.tensors:
            whole.metadata["constants"] = f"{len(rest.tensors)} tensors of {rest.nbytes:,} bytes"
        if type(value) is Record:
            whole.metadata["class"] = value.name
        return replace(whole, private=Members(directory))

    def load(self, directory: Directory, place: Places) -> dict[str, Any]:
        """Return the module's tensors by attribute path, as in its state_dict."""
        machine, value = _filled(directory, "data", place)
        return dict(unique(tensors_of(value, directory.file, free_for(machine, directory.source))))

    def fetch(self, directory: Directory, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the bytes of a compressed tensor."""
        info = checkpoint.tensors[tensor]
        return part_of_member(checkpoint.private, f"{prefix_of(directory, 'data.pkl') or ''}data/{info.storage}", info, "little")


FORMAT = TorchScript()


def read_objects(directory: Directory, place: Places) -> tuple[Any, Any]:
    """Return the module as `Record` objects with their states, and the constants of the code, with the data of all tensors.

    Even if `place` is meta, small constants are loaded onto cpu with their data, because sizes may depend on them.
    """
    start = f"{prefix_of(directory, 'data.pkl') or ''}constants/"
    small = sum(directory.size_of(member) for member in directory if member.startswith(start)) <= SMALL
    there = Places("cpu") if small and place.fixed is not None and place.fixed.type == "meta" else place
    return _filled(directory, "data", place)[1], _filled(directory, "constants", there)[1]


def _filled(directory: Directory, what: str, place: Places) -> tuple[TensorMachine, Any]:
    prefix = prefix_of(directory, "data.pkl") or ""
    machine, value = _run(directory, prefix, what, place)
    fill_all(machine, directory, f"{prefix}{what}/", "little", place)
    return machine, value


class _Machine(TensorMachine):
    """A machine that turns classes of the archive into `Record` objects."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.classes: dict[str, Known] = {}

    def name_of(self, module: str, name: str) -> Any:
        if module != "__torch__" and not module.startswith("__torch__."):
            return None
        full = f"{module}.{name}"
        if full not in self.classes:

            def new(machine: Any, args: tuple[Any, ...]) -> Record:
                machine.charge(120)
                made = Record(full)
                if args:  # a member of an enumeration, or a named tuple
                    made.state = args[0] if len(args) == 1 else args
                return made

            self.charge(600 + 4 * len(full))
            self.classes[full] = Known(full, new, new=True)
        return self.classes[full]


def _run(directory: Directory, prefix: str, what: str, place: Places, tolerant: bool = False) -> tuple[TensorMachine, Any]:
    """Return the machine and the value of ``data.pkl`` or ``constants.pkl``."""
    names = {**table(), **_NAMES}
    machine = _Machine(directory.file, names, place, directory, f"{prefix}{what}/", builders={Record: _set_state}, tolerant=tolerant)
    return machine, run_member(machine, directory, f"{prefix}{what}.pkl")


def _offset(directory: Directory, prefix: str) -> Any:
    def offset(ref: Any) -> int:
        member = f"{prefix}{ref.key}"
        return directory.place_of(member)[0] if sys.byteorder == "little" and directory.is_stored(member) else -1

    return offset


def _set_state(machine: Any, record: Record, state: Any) -> None:
    if record.state is not None:
        raise machine.error(f"the state of an object of class {record.name[:60]} is set twice")
    record.state = state


def _list(machine: Any, args: tuple[Any, ...]) -> list[Any]:
    """Handle a typed list."""
    if len(args) != 1 or type(args[0]) not in (list, tuple):
        raise machine.error("a typed list of TorchScript must be built from one list or tuple")
    machine.charge(72 + 8 * len(args[0]))
    return list(args[0])


def _tagged(machine: Any, args: tuple[Any, ...]) -> Any:
    """Handle (value, name of its type)."""
    if len(args) != 2 or type(args[1]) is not str:
        raise machine.error("a TorchScript value needs the name of its type")
    return args[0]


def _names() -> dict[bytes, Any]:
    found = {}
    for name in ("build_intlist", "build_doublelist", "build_boollist", "build_tensorlist", "build_complexlist"):
        found[f"torch.jit._pickle\n{name}".encode()] = Known(f"torch.jit._pickle.{name}", _list)
    found[b"torch.jit._pickle\nrestore_type_tag"] = Known("torch.jit._pickle.restore_type_tag", _tagged)
    return found


_NAMES = _names()
