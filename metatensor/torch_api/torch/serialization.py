"""Saving and loading of objects."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from tempfile import mkdtemp
from typing import IO, Any, TypeAlias

import metatensor as mt
from metatensor.checkpoint.rebuilding import _get_layout  # noqa: F401
from metatensor.checkpoint.saving import save_torch
from metatensor.interchange.storages import as_bytes
from metatensor.serialization import (
    LoadEndianness,
    add_safe_globals,
    clear_safe_globals,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    location_tag,
    register_package,
    restored,
    safe_globals,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)

__all__ = [
    "LoadEndianness", "SourceChangeWarning", "StorageType", "add_safe_globals", "check_module_version_greater_or_equal",
    "clear_safe_globals", "default_restore_location", "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
    "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "location_tag", "mkdtemp", "normalize_storage_type",
    "register_package", "safe_globals", "save", "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options",
    "skip_data", "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
]  # fmt: skip

# The header of PyTorch's legacy format, and the sizes of C integers in it.
DEFAULT_PROTOCOL, PROTOCOL_VERSION, MAGIC_NUMBER = 2, 1001, 0x1950A86A20F9469CFC6C
LONG_SIZE, INT_SIZE, SHORT_SIZE = 4, 4, 2
STORAGE_KEY_SEPARATOR = ","

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
FILE_LIKE = FileLike
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | mt.device | str | dict[str, str] | None


class SourceChangeWarning(Warning):
    """Warning of PyTorch that the source of a class changed after it was saved. metatensor never issues it."""


class StorageType:
    """A storage class named in a file: ``StorageType("FloatStorage").dtype`` is float32."""

    def __init__(self, name: str) -> None:
        self._dtype = dict(_storage_dtypes())[name]

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def _storage_dtypes() -> Any:
    from metatensor.torch_api.torch import _corners

    return ((name, kind.dtype) for name, kind in _corners._STORAGES.items())


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
         **pickle_load_args: Any) -> Any:  # fmt: skip
    """Load an object from a file. See `metatensor.load`.

    Nothing in a file is executed unless ``weights_only=False`` or a `pickle_module` is given. No environment variable
    changes that.

    Parameters
    ----------
    f : str, PathLike or binary file
    map_location : device, str, dict or callable, optional
        Where tensors are loaded to.
    pickle_module : module, optional
        Replacement for `pickle`. It implies ``weights_only=False``.
    weights_only : bool, optional
        Default: True, unless `pickle_module` is given.
    mmap : bool, optional
        Whether to map the file into memory. It needs the path of a file.
    **pickle_load_args
        Passed to the unpickler. Ignored, with a warning, if `weights_only` is true.

    Raises
    ------
    RuntimeError
        If `pickle_module` is given with ``weights_only=True``.
    ValueError
        If `mmap` is given for a file object.
    """
    if weights_only is None:
        weights_only = pickle_module is None
    elif weights_only and pickle_module is not None:
        raise RuntimeError("torch.load: pickle_module may run code from the file, so it cannot be used with weights_only=True")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError(f"torch.load: mmap needs the path of a file, got {type(f).__name__}")
    if weights_only:
        if pickle_load_args:
            warnings.warn("torch.load: pickle_load_args are ignored unless weights_only=False", stacklevel=2)
        return mt.load(f, map_location=map_location, mmap=mmap)
    return mt.load(f, map_location=map_location, mmap=mmap, weights_only=False, pickle_module=pickle_module,
                   **pickle_load_args)  # fmt: skip


def save(obj: Any, f: str | os.PathLike[str] | Any, pickle_module: Any = pickle, pickle_protocol: int = DEFAULT_PROTOCOL,
         _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False) -> None:  # fmt: skip
    """Save an object in PyTorch's zip format, or in its legacy format. See `metatensor.save`.

    `_use_new_zipfile_serialization` selects the zip format, which is the default.
    """
    save_torch(obj, f, pickle_module, pickle_protocol, not _use_new_zipfile_serialization, not _disable_byteorder_record)


def default_restore_location(storage: Any, location: str) -> Any:
    """Return a storage moved to the device that a file calls `location`.

    Raise RuntimeError if there is no such device.
    """
    found = restored(storage, location)
    if found is not None:
        return found
    try:
        device = mt.device(location)
        return storage if storage.device == device else as_bytes(storage).to(device).untyped_storage()
    except (RuntimeError, TypeError, ValueError) as error:
        raise RuntimeError(f"default_restore_location: {location!r} is not available: {error}") from None


def normalize_storage_type(storage_type: Any) -> Any:
    """Return `storage_type`."""
    return storage_type


def storage_to_tensor_type(storage: Any) -> Any:
    """Return the tensor class with the dtype of a typed storage, such as `torch.FloatTensor`."""
    from metatensor.torch_api.torch import _typed

    return next(kind for kind in vars(_typed).values() if isinstance(kind, type) and getattr(kind, "dtype", None) is storage.dtype)


def validate_cuda_device(location: str) -> int:
    """Return the index of a CUDA device given by name. Raise RuntimeError if there is no device with that index."""
    return _index(location, "cuda")


def validate_hpu_device(location: str) -> int:
    """Return the index of an HPU device given by name. Raise RuntimeError if there is no device with that index."""
    return _index(location, "hpu")


def _index(location: str, kind: str) -> int:
    index = mt.device(location).index or 0
    count = mt.plugins.backend(kind).device_count() if kind in mt.plugins.device_types() else 0
    if index >= count:
        raise RuntimeError(f"the file has a storage on {location!r}, but there are {count} {kind} devices; use "
                           "map_location to choose another device")
    return int(index)


def check_module_version_greater_or_equal(module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True) -> bool:
    """Return whether the version of a module is at least the given one.

    If the version cannot be parsed, raise RuntimeError, or warn and return True if `error_if_malformed` is false.
    """
    try:
        found = tuple(type(wanted)(part) for wanted, part in zip(req_version_tuple, module.__version__.partition("+")[0].split(".")))
    except (AttributeError, ValueError) as error:
        message = f"the version of {module.__name__} cannot be read: {getattr(module, '__version__', None)!r}"
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(message, stacklevel=2)
        return True
    return found >= tuple(req_version_tuple)
