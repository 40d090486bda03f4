"""Loading and inspecting checkpoints of any format."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import metatensor as mt
from metatensor._core.recorder import current_recorder, suspended
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.formats import format_of
from metatensor.checkpoint.model import Checkpoint
from metatensor.checkpoint.opening import path_of
from metatensor.checkpoint.places import FakePlaces, NoDevice, Places
from metatensor.checkpoint.source import opened

__all__ = ["inspect", "load"]


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    pickle_module: Any = None,
    **pickle_load_args: Any,
) -> Any:
    """Load what a checkpoint holds, on the devices that ``map_location`` says: as a rule, a dict of tensors by name.

    By default nothing in a file is ever executed: pickles are read by an interpreter that knows what tensors need. It
    refuses a file that names anything else, unless `metatensor.serialization.add_safe_globals` allows it.

    Under `deferred_init` the tensors hold data all the same; under `FakeTensorMode` they are fake.

    Parameters
    ----------
    f
        A path, or a file opened for reading in binary that can seek; it is read from where it stands to its end. The path
        of a checkpoint in several files is that of its index, or of the folder.
    map_location
        A device or its name; a dict from the locations in the file ("cpu", "cuda:0") to devices; a callable as in PyTorch;
        or None for the device that each tensor was saved from, "cpu" being the default device. With "meta" the tensors'
        data are not read, so a checkpoint of any size loads at once and takes no memory.
    weights_only
        With False, and only with that, a pickle is run by Python's own unpickler, as PyTorch does: it imports and calls
        whatever the file says, so a file from somebody else can do anything. Names of PyTorch's stand for what has them here.
        No environment variable changes this.
    mmap
        Whether a device that can use the file's bytes where they lie (the cpu) does so, for PyTorch's zip format and
        safetensors. Writing to such a tensor does not change the file.
    pickle_module
        For ``weights_only=False``: the module whose ``Unpickler`` is used; `pickle` by default.
    **pickle_load_args
        For ``weights_only=False``: arguments of the ``Unpickler``, such as ``encoding``.

    Returns
    -------
    What was saved. A tensor of a kind that does not exist here (a sparse or a quantised one) is an `UnsupportedTensor`, which
    raises when it is used.

    Raises
    ------
    CheckpointError
        A `ValueError` that names the file and the reason: for a file that is damaged, hostile or of no known format.
    OSError
        For a file that cannot be read.
    """
    if weights_only and pickle_module is not None:
        raise RuntimeError("load: a pickle_module runs what the file says; it needs weights_only=False")
    if weights_only and pickle_load_args:
        raise TypeError(f"load: unexpected arguments {', '.join(pickle_load_args)}; only with weights_only=False they go to the unpickler")
    place = Places(map_location, bool(mmap))
    recorder = current_recorder()
    if recorder is not None and not recorder.everything:
        place = FakePlaces(place)
    with shared(), suspended(), opened(path_of(f)) as (file, name):
        form = format_of(file, name)
        try:
            if weights_only or not hasattr(form, "unpickle"):
                found = form.load(file, name, place)
            else:
                from metatensor.checkpoint.unpickling import alias_installed

                with alias_installed():
                    found = form.unpickle(file, name, place, pickle_module, **pickle_load_args)
        except NoDevice as error:
            error.file = name
            raise
    return _faked(found, recorder, place) if isinstance(place, FakePlaces) else found


def _faked(found: Any, mode: Any, place: FakePlaces) -> Any:
    """What was loaded onto meta, with fake tensors in its place, on the devices where it would have been loaded."""
    from metatensor.deferred.faithful import converted
    from metatensor.deferred.fake import FakeTensorMode

    mode = mode if isinstance(mode, FakeTensorMode) else FakeTensorMode()
    kept = []  # what fake tensors on one storage have in common

    def fake(leaf: Any) -> Any:
        if not isinstance(leaf, mt.Tensor) or not leaf.is_meta:
            return leaf
        device = place.device_of(leaf)
        if device.type == "meta":
            return leaf
        made, shared = mode._faked(leaf, device)
        kept.append(shared)
        return made

    return converted(found, fake)


def inspect(f: str | os.PathLike[str] | BinaryIO) -> Checkpoint:
    """Return names, shapes, dtypes and places of a checkpoint's tensors, and its metadata, from its header alone.

    Takes the file that `load` takes, and raises what it raises.
    """
    with shared(), opened(path_of(f)) as (file, name):
        return format_of(file, name).inspect(file, name)
