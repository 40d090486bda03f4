"""Loading and inspecting checkpoints of any format."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import metatensor as mt
from metatensor._core.recorder import current_recorder, suspended
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.formats import format_of
from metatensor.checkpoint.map_location import FakePlaces, NoDevice, Places
from metatensor.checkpoint.model import Checkpoint
from metatensor.checkpoint.opening import path_of
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
    """Load a checkpoint: usually a dict of tensors by name.

    By default nothing in the file is executed. Pickles are read by an interpreter that knows only the constructors that
    tensors need. It refuses a file that names anything else, unless `metatensor.serialization.add_safe_globals` allows
    the name.

    Under `deferred_init` the loaded tensors hold data as usual. Under `FakeTensorMode` they are fake.

    Parameters
    ----------
    f : str, path or binary file
        The file to load. An open file must be readable in binary and seekable. It is read from its current position to
        its end. For a checkpoint in several files, pass the path of its index or of its folder.
    map_location : device, str, dict, callable or None
        Where to put the tensors. A dict maps locations in the file ("cpu", "cuda:0") to devices. A callable receives a
        placeholder storage and its location. It returns the placeholder moved to a device, a device, or None for the
        location itself. By default each tensor goes to the device it was saved from, where "cpu" means the default
        device. With "meta" no tensor data is read, so a checkpoint of any size loads quickly and takes no memory.
    weights_only : bool, default True
        If False, Python's own unpickler runs the pickle. It imports and calls whatever the file names, so use False
        only with files that you trust. PyTorch's names resolve to their counterparts in metatensor. No environment
        variable changes this.
    mmap : bool, optional
        If True, map the file's bytes instead of reading them, for PyTorch's zip format and safetensors, on devices that
        can use mapped memory (the cpu). By default, writing to such a tensor does not change the file.
    pickle_module : module, optional
        The module whose ``Unpickler`` runs the pickle if ``weights_only`` is False. Default: `pickle`.
    **pickle_load_args
        Arguments of that ``Unpickler``, such as ``encoding``.

    Returns
    -------
    object
        The saved object. A tensor of a kind that metatensor lacks, such as a sparse or quantized one, is replaced by an
        `UnsupportedTensor`, which raises when used.

    Raises
    ------
    CheckpointError
        If the file is damaged, hostile or of no known format. It is a `ValueError` that names the file and the reason.
    OSError
        If the file cannot be read.
    RuntimeError, TypeError
        If ``pickle_module`` or ``pickle_load_args`` are given although ``weights_only`` is True.

    Examples
    --------
    >>> import io
    >>> import metatensor as mt
    >>> file = io.BytesIO()
    >>> mt.save({"weight": mt.ones(2, 3, device="cpu")}, file)
    >>> _ = file.seek(0)
    >>> mt.load(file, map_location="meta")["weight"].shape
    metatensor.Size([2, 3])
    """
    if weights_only and pickle_module is not None:
        raise RuntimeError("load: a pickle_module runs code from the file, so it needs weights_only=False")
    if weights_only and pickle_load_args:
        raise TypeError(f"load: unexpected arguments {', '.join(pickle_load_args)}; they are for the unpickler and need weights_only=False")
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
    """Return a copy of an object loaded onto meta, with fake tensors on the devices where they would have been loaded.
    """
    from metatensor.deferred.fake import FakeTensorMode
    from metatensor.deferred.meta_copies import converted

    mode = mode if isinstance(mode, FakeTensorMode) else FakeTensorMode()
    kept = []  # keeps alive the fake storages that several tensors share

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
    """Return the names, shapes, dtypes, file offsets and metadata of a checkpoint without reading tensor data.

    Parameters
    ----------
    f : str, path or binary file
        As for `load`.

    Raises
    ------
    CheckpointError, OSError
        As `load` does.

    Examples
    --------
    >>> import io
    >>> import metatensor as mt
    >>> file = io.BytesIO()
    >>> mt.save({"weight": mt.ones(2, 3, device="cpu")}, file)
    >>> _ = file.seek(0)
    >>> listed = mt.checkpoint.inspect(file)
    >>> listed.tensors["weight"].shape, listed.parameters
    ((2, 3), 6)
    """
    with shared(), opened(path_of(f)) as (file, name):
        return format_of(file, name).inspect(file, name)
