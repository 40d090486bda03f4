"""Load with Python's own unpickler, which calls whatever the file names. Used only for ``weights_only=False``.

PyTorch's names resolve to their counterparts in this package. Everything else is imported and called as by `pickle`.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from metatensor._core.storage import make_storage
from metatensor.checkpoint._tensors import StorageType
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.torch_names import QUANTISATION, table
from metatensor.checkpoint.torch_naming import find
from metatensor.interchange.torch_modules import ALIAS
from metatensor.interchange.typed_storage import TypedStorage

__all__ = ["Trusted", "alias_installed", "unpickler_for"]


class Stored(NamedTuple):
    """A storage named by a pickle."""

    storage: Any
    key: str
    location: str
    dtype: Any
    nbytes: int


class Trusted:
    """Creates the storages that the persistent ids of one pickle name.

    Parameters
    ----------
    file : str
        Name of the file in messages.
    place : Places
        Devices of the storages.
    fill : callable, optional
        Called with each new `Stored` to fill it immediately. By default the caller fills it later.
    """

    def __init__(self, file: str, place: Places, fill: Any = None) -> None:
        self.file = file
        self.place = place
        self.fill = fill
        self.storages: dict[str, Stored] = {}
        self.fillings: list[Any] = []
        self._views: dict[tuple[str, str], Any] = {}

    def persistent_load(self, id: Any) -> Any:
        """Return the storage that a persistent id describes.

        It is a `TypedStorage` if the storage class in the id has a dtype. For a module's id, return the module's class.
        """
        if type(id) is tuple and len(id) == 4 and id[0] == "module":  # (_, class, file, source)
            return id[1]
        if type(id) is not tuple or not 5 <= len(id) <= 6 or id[0] != "storage" or not isinstance(id[1], StorageType):
            raise CheckpointError(self.file, f"the persistent id {str(id)[:100]!r} does not describe a storage")
        _, kind, key, location, numel, *view = id
        dtype = kind.dtype
        if not isinstance(numel, int) or numel < 0:
            raise CheckpointError(self.file, f"storage {str(key)[:40]!r} cannot have {str(numel)[:40]} elements")
        nbytes = numel * (1 if dtype is None else dtype.itemsize)
        found = self.storages.get(key)
        if found is None:
            storage = make_storage(self.place(location, nbytes), nbytes)
            found = self.storages[key] = Stored(storage, key, location, dtype, nbytes)
            if self.fill is not None and storage.device.type != "meta":
                self.fill(found)
        elif found.nbytes != nbytes:
            raise CheckpointError(self.file, f"storage {str(key)[:40]!r} has {nbytes:,} bytes here, but had {found.nbytes:,} before")
        if view and view[0] is not None:
            raise CheckpointError(self.file, "it has views of storages, which PyTorch wrote before 0.4; load it with weights_only=True")
        return found.storage if dtype is None else TypedStorage(wrap_storage=found.storage, dtype=dtype)


def unpickler_for(pickle_module: Any = None) -> Any:
    """Return an unpickler class. Its instances take a file and a `Trusted`, and have `load`."""
    base = getattr(pickle_module, "Unpickler", pickle.Unpickler)  # cloudpickle defines no Unpickler

    class Unpickler(base):  # type: ignore[misc, valid-type]
        def __init__(self, file: Any, trusted: Trusted, **options: Any) -> None:
            super().__init__(file, **options)
            self.trusted = trusted

        def persistent_load(self, pid: Any) -> Any:
            return self.trusted.persistent_load(pid)

        def find_class(self, module: str, name: str) -> Any:
            if module != "torch" and not module.startswith("torch."):
                return super().find_class(module, name)
            known = table().get(f"{module}\n{name}".encode())
            # Storage classes and quantization schemes are only named, never called.
            return known if isinstance(known, StorageType) or name in QUANTISATION else find(module, name)

    return Unpickler


@contextmanager
def alias_installed() -> Iterator[None]:
    """Make ``import torch`` find this package inside the block, for modules that a file names.

    If PyTorch is already imported, nothing changes.
    """
    torch_api = import_module(ALIAS)
    if torch_api.is_installed() or "torch" in sys.modules:
        yield
        return
    with torch_api.install():
        yield
